"""A run: search a space on a data set, choose the winner, and compare it with its rivals.

A run is deterministic given its seed and the stored results, so it is resumed by repeating it on the stored results.
The strategy sees the search questions only; the test questions are used once, at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from threadpoolctl import threadpool_limits

from ragsmith.comparison.ledger import peek_look
from ragsmith.comparison.questions import HoldoutUse, digest_questions
from ragsmith.errors import BudgetExhausted, UsageError, warn_caller
from ragsmith.evaluation.cluster import Cluster
from ragsmith.evaluation.evaluation import Evaluation, Evaluations
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.latency import Clock
from ragsmith.evaluation.threads import ComputedWork
from ragsmith.exported.requirements import leave_out_unable, searchable_space
from ragsmith.gateway.budget import NOTHING_SPENT, Budget, Limits, Prices, Spent
from ragsmith.gateway.leases import this_process
from ragsmith.measures.planted_answers import check_planted, plant_answers
from ragsmith.models.calls import is_chat_model
from ragsmith.models.served.provider import ProviderActivity
from ragsmith.pipelines.space import Space
from ragsmith.records.objectives import LatencyOf, with_machine
from ragsmith.records.record import (
    CROSSFIT,
    DatasetRecord,
    ExcludedQuestion,
    RunRecord,
    RunSettings,
    RunStatistics,
)
from ragsmith.records.stored_run import StoredRun
from ragsmith.runs.choice import choose
from ragsmith.runs.final_comparison import diagnose, find_repeated, run_final_comparison
from ragsmith.runs.forecast import Forecast
from ragsmith.runs.rankings import resolve_rankings_first
from ragsmith.runs.run_context import (
    TIME_LIMIT_REACHED,
    Callbacks,
    Latencies,
    RunContext,
    Start,
    Step,
    run_key,
    timestamp,
)
from ragsmith.runs.search import run_search
from ragsmith.runs.search_loop import finished_evaluations
from ragsmith.store.store import RunRow, RunState, Store


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: ``state`` is ``finished``, or ``interrupted`` at the limit that ``why`` names.

    Without a ``winner``, ``no_winner`` says why. ``computed`` and ``reused`` count answers, ``evaluations`` are all of
    the run, and ``spent`` is cumulative over resumes. ``ended_before`` is whether a finished run was only read.
    """

    key: str
    state: str
    winner: Evaluation | None
    computed: int
    reused: int
    work: ComputedWork | None
    evaluations: Evaluations
    spent: Spent = NOTHING_SPENT
    why: str = ""
    no_winner: str = ""
    ended_before: bool = False

    @property
    def calls_made(self) -> int:
        """The number of model calls that were made, without those read from the cache."""
        return sum(counts.made for counts in self.work.calls.values()) if self.work else 0


@dataclass(frozen=True)
class Execution:
    """How a run computes what is missing; results do not depend on it.

    ``memory`` is the limit of all processes together in bytes, by default that of the machine. ``cluster`` computes
    instead of this machine. ``retry_failed`` repeats requests that failed in earlier runs. ``latency_of`` replaces
    the measurement of latency by ``clock``. ``command`` is the command line that the report shows to repeat the run.
    """

    workers: int = 1
    memory: int | None = None
    cluster: Cluster | None = None
    retry_failed: bool = False
    clock: Clock = time.perf_counter
    latency_of: LatencyOf | None = None
    command: str = ""


@dataclass(frozen=True)
class Allowance:
    """What a run may spend on requests: ``limits`` over all resumes, with cost by ``prices``.

    ``accept_spent`` is what was spent if a damaged cache has lost it. ``plan_rest`` returns the spending that is still
    expected (`ragsmith.runs.plan`).
    """

    limits: Limits | None = None
    prices: Prices | None = None
    accept_spent: Spent | None = None
    plan_rest: Callable[[], Spent] | None = None


class Run:
    """One run on loaded data and models; `ragsmith.search` loads them and writes the reports."""

    def __init__(
        self,
        setup: Experiment,
        space: Space,
        store: Store,
        settings: RunSettings | None = None,
        *,
        execution: Execution | None = None,
        allowance: Allowance | None = None,
        callbacks: Callbacks | None = None,
        now: Callable[[], float] = time.time,
        within: str = "",
        respects_checks: bool | None = None,
    ) -> None:
        """Prepare a search of ``space`` for the best pipeline on the data set of ``setup``; nothing is computed yet.

        A run ``within`` the one of that key shares its budget and its report. ``respects_checks`` is whether options
        are left out that the checked models cannot perform; by default, unless a run with all of them has begun.

        Raises:
            UsageError: an option of the space needs a model that this run lacks, or answers are to be scored and a
                question has no reference answer.
            SpendingDamaged: there are limits, the record of the spending is damaged, and ``accept_spent`` is None.
        """
        settings = settings or RunSettings()
        execution, allowance, callbacks = execution or Execution(), allowance or Allowance(), callbacks or Callbacks()
        setup = setup.with_searched_settings(space.settings).for_fitness(settings.fitness)
        settings = resolve_rankings_first(with_machine(settings, setup.variants), setup)
        space, remarks, whole, self.respects_checks = select_space(setup, space, store, settings, respects_checks)
        for remark in () if within else remarks:
            warn_caller(remark)
        self.key = run_key(setup, space, settings)
        self._store = store
        self._budget = Budget(store, within or self.key, allowance.limits, allowance.prices, allowance.accept_spent)
        self._forecast = Forecast(
            self._budget.limits,
            # a plan bounds the searches of a crossfit as long as the first of them has no replies
            None if within or (settings.verdict == CROSSFIT and self._budget.spent.calls) else allowance.plan_rest,
            is_bound=settings.verdict == CROSSFIT,
        )
        self._evaluator = Evaluator(
            setup,
            store,
            execution.workers,
            callbacks.on_progress,
            self._budget,
            retry_failed=execution.retry_failed,
            ranking_only=settings.fitness.ranking_only,
            clock=execution.clock,
            memory=execution.memory,
            cluster=execution.cluster,
            on_results=self._check_limits,
        )
        self._context = RunContext(
            self.key,
            setup,
            space,
            store,
            settings,
            self._evaluator,
            replace(
                RunRecord.create(setup, space, settings, setup.split),
                within=within,
                remarks=remarks,
                whole=whole,
                command=execution.command,
            ),
            execution.latency_of or Latencies(self._evaluator, store, settings.measured_on, setup.order).get_median,
            callbacks,
            now,
            within,
        )

    @property
    def has_results(self) -> bool:
        """Whether there is any answer to report."""
        return self._evaluator.computed + self._evaluator.reused > 0

    def _check_limits(self) -> None:
        self._context.update(expected=self._forecast.update(self._budget.spent))
        if self._context.callbacks.stop():
            raise BudgetExhausted("the search was stopped: the same command resumes it")
        if self._context.is_late():
            raise BudgetExhausted(TIME_LIMIT_REACHED)

    def go(self) -> RunOutcome:
        """Run to the end or to a limit, from the stored results on.

        Raises:
            BudgetExhausted: the budget was spent, or the time limit reached, before any pipeline of the search was
                evaluated; another call resumes.
            RagsmithError: a provider or the cache cannot be used any more; computed results stay stored.
        """
        setup = self._context.setup
        # with several threads, sums differ in their last digits, and matrices of a hundred rows gain nothing
        with threadpool_limits(1, user_api="blas"), closing(self._budget), self._evaluator:
            if on_start := self._context.callbacks.on_start:
                settings = self._context.settings
                look = self._peek_any_use() if settings.test else None
                on_start(Start(setup, self._context.space, settings.steps, self._read_status, look))
            data = setup.dataset  # its name may have changed since the last search
            for row in self._store.runs():  # the report needs them: a record that cannot be read ends the search now
                if row.dataset == data.digest and row.key != self.key:
                    RunRecord.from_dict(row.value, row.key)
            self._store.put_dataset(data.digest, data.name, DatasetRecord.from_experiment(setup).to_dict())
            return self._stored_outcome() or self._compute()

    def _read_status(self) -> tuple[ProviderActivity, Spent]:
        return self._evaluator.activity(), self._budget.spent

    def _stored_outcome(self) -> RunOutcome | None:
        """The outcome of the finished run, from the store alone; None if computing it again might change it.

        It might if the program or the questions changed, an answer failed, is missing or stale, pipelines are timed, as
        failed timings are repeated, the run was not tested, and now a test is asked for or there were more looks, or
        fewer test questions were answered again than are wanted.
        """
        context, before = self._context, self._store.run(self.key)
        if before is None or before.state != "finished" or context.settings.timed:
            return None
        record = RunRecord.from_dict(before.value, before.key)
        if (record.program, record.split) != (context.record.program, context.record.split):
            return None
        if record.untested and (context.settings.test or record.untested != self._peek_any_use()):
            return None
        stored = StoredRun(self._store, self.key, context.setup.dataset.digest, record)
        found = stored.read_all()
        if found is None or any(self._evaluator.key(one.candidate) != key for (key, _), one in found.items()):
            return None
        tested = [found[record.winner, stored.tested]] if record.winner and record.test and not record.within else []
        if len(record.noise) < len(find_repeated(context.setup, context.settings, tested)):
            return None
        context.report(Step("as it ended before", 0, len(stored.keys)))
        return RunOutcome(
            self.key,
            before.state,
            found[record.winner, stored.searched] if record.winner else None,
            computed=0,
            reused=record.account.computed + record.account.reused,
            work=None,
            evaluations=found,
            spent=self._budget.spent,
            no_winner=record.no_winner,
            ended_before=True,
        )

    def _peek_any_use(self) -> HoldoutUse:
        """Return the use of the test questions by a comparison that was never made."""
        setup, settings = self._context.setup, self._context.settings
        tested = setup.split.search if settings.verdict == CROSSFIT else setup.split.test  # a crossfit tests all
        return peek_look(self._store, "", digest_questions(setup.dataset, tested).values())[0]

    def _compute(self) -> RunOutcome:
        """Run to the end or to a limit, and store the state of the run even if it fails."""
        context, before = self._context, self._store.run(self.key)
        finished_before = before is not None and before.state == "finished"
        context.stores_proposals = not finished_before
        if not finished_before:  # the record of a finished run is replaced only at the end
            begun = replace(context.record, process=this_process())
            started = timestamp(context.started)
            self._store.put_run(self.key, context.setup.dataset.digest, begun.to_dict(), started=started)
        state: RunState = "failed"
        work = None
        try:
            self._check_judge()
            winner = self._search()
            work = self._evaluator.work()
            if not context.stopped and not context.within:
                self._diagnose()
            has_folds_left = context.settings.verdict == CROSSFIT and not context.within and winner is not None
            state = "interrupted" if context.stopped else "running" if has_folds_left else "finished"
        except (KeyboardInterrupt, BudgetExhausted):
            state = "interrupted"
            raise
        finally:
            self._update_statistics(work)
            ended = state in ("finished", "running")
            if not finished_before or (ended and self._differs_from(before)):
                if ended:
                    self._store.put_proposals(self.key, context.proposals, replace_all=True)
                finished = timestamp(context.now())
                self._store.update_run(self.key, state, context.record.to_dict(), finished=finished)
        return RunOutcome(
            self.key,
            state,
            winner,
            self._evaluator.computed,
            self._evaluator.reused,
            work,
            self._evaluator.evaluations,
            self._budget.spent,
            context.stopped,
            context.record.no_winner,
        )

    def _check_judge(self) -> None:
        """Check a chat model that scores answers on planted answers to search questions.

        Raises:
            UsageError: it fails, and the settings do not trust it nevertheless.
        """
        context = self._context
        settings, setup = context.settings, context.setup
        judge = setup.loaded_models.judge
        judges = any("judge" in known.tools.values() for known in setup.measures) and not settings.fitness.ranking_only
        if context.within or not judges or not is_chat_model(judge):
            return
        check = check_planted(plant_answers(setup.split.search), partial(self._evaluator.score_answers, judge))
        self._check_limits()
        context.update(planted=check)
        if not (check.is_trusted or settings.trust_judge):
            raise UsageError(
                f"the judge {judge.id} {check}: name another with --judge, or search nevertheless with --trust-judge"
            )

    def _search(self) -> Evaluation | None:
        """Search, choose the winner, and compare it with its rivals."""
        context = self._context
        raced, random_control, prior = run_search(context)
        if not context.stopped and self._evaluator.forget_trouble():  # providers in trouble are asked once more
            context.forget_seen()
            raced, random_control, prior = run_search(context)
        eligible = finished_evaluations(raced)
        pruned = [one.evaluation for one in raced if one.dropped]
        choice, no_winner = choose(eligible, context.seen.terms, prior, by=context.settings.choose, pruned=pruned)
        if choice is None:
            context.update(winner=None, no_winner=no_winner)
            return None
        context.update(winner=choice.chosen.key)
        if context.stopped:
            return choice.chosen
        context.update(leader=choice.highest.key, estimated=choice.estimated.key if choice.estimated else None)
        return run_final_comparison(context, choice, eligible, finished_evaluations(random_control))

    def _diagnose(self) -> None:
        """Diagnose the questions for the report; this does not count as work of the run."""
        context, record = self._context, self._context.record
        searched = set(record.split.search)
        each = sorted(self._evaluator.evaluations.values(), key=lambda one: len(one.records))
        seen = {one.key: one for one in each if searched.issuperset(one.questions)}
        tested = {one.key: one for one in context.tested}
        stored = {**record.test, **record.baselines, "recommended": record.recommended, "winner": record.winner}
        roles = {name: [part[key] for part in (seen, tested) if key in part] for name, key in stored.items() if key}
        diagnose(
            self._evaluator,
            context.setup,
            self._store,
            context.settings.fitness,
            roles,
            list(seen.values()),
        )

    def _differs_from(self, before: RunRow | None) -> bool:
        """Whether the outcome differs from ``before``: by new answers, another program, or repaired failures."""
        if before is None or self._evaluator.computed or self._evaluator.timings:
            return True
        record, now = RunRecord.from_dict(before.value, before.key), self._context.record
        if not StoredRun(self._store, self.key, self._context.setup.dataset.digest, record).lists_all:
            return True
        ends = [(end.winner, end.no_winner, end.failed, end.program, end.untested) for end in (record, now)]
        return ends[0] != ends[1] or len(now.noise) > len(record.noise)

    def _update_statistics(self, work: ComputedWork | None) -> None:
        """Record the work, the pruned candidates and the failures."""
        context, evaluator = self._context, self._evaluator
        excluded = context.seen.terms.excluded | context.seen.terms_of(context.tested).excluded
        context.update(
            dropped=context.seen.dropped,
            account=RunStatistics.from_work(evaluator.computed, evaluator.reused, work, self._budget.spent),
            excluded={question: ExcludedQuestion.from_failure(failure) for question, failure in excluded.items()},
            failed=sum(len(evaluation.failures) for evaluation in evaluator.evaluations.values()),
            unfinished=evaluator.unfinished,
        )


def select_space(
    setup: Experiment, space: Space, store: Store, settings: RunSettings, respects_checks: bool | None = None
) -> tuple[Space, tuple[str, ...], str, bool]:
    """Return the space that a run searches, remarks, the key with all options, and whether checks are respected.

    The arguments are those of `Run`, with the settings and the experiment of the search. A search that has begun goes
    on with its options, whatever a check has found since.
    """
    space = searchable_space(setup, space, ranks=(ranks := settings.fitness.ranking_only))
    reduced, remarks = leave_out_unable(setup, space, store, ranks=ranks)
    whole = run_key(setup, space, settings)
    respects = store.run(whole) is None if respects_checks is None else respects_checks
    if respects and (unfinished := _find_unfinished(store, whole)):
        kept, remarks = unfinished.space.options, unfinished.remarks
        reduced = space.without(lambda gene: str(gene) not in kept.get(gene.technique.family, [str(gene)]))
    return reduced if respects else space, remarks, whole, respects


def _find_unfinished(store: Store, whole: str) -> RunRecord | None:
    """Return the record of a begun run of the search ``whole`` that has not ended, or None."""
    return next(
        (
            RunRecord.from_dict(row.value, row.key)
            for row in store.runs()
            if row.state != "finished" and isinstance(row.value, dict) and row.value.get("whole") == whole
        ),
        None,
    )
