"""One run: from a data set and a space to a winner, with everything the report compares it to.

The run draws no random numbers of its own and decides only on stored results, so the same command goes the same way
whatever was computed before: resuming is replaying.

The strategy sees the search questions only. The test questions are used once, at the end, for the winner and for what
it has to beat: naive RAG, BM25, the best single option and, on demand, the best of as many random candidates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

from threadpoolctl import threadpool_limits

from ragsmith.comparison.clusters import Clusters
from ragsmith.datasets.splits import Split
from ragsmith.diagnosis.ablation import ablation_of, lacking
from ragsmith.digest import digest, fingerprint
from ragsmith.effects import Prior
from ragsmith.errors import BudgetExhausted
from ragsmith.evaluation.cluster import Cluster
from ragsmith.evaluation.evaluation import Evaluation, Evaluations
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.latency import Clock
from ragsmith.evaluation.racing import RaceResult, Races
from ragsmith.evaluation.ranking import best
from ragsmith.evaluation.threads import ComputedWork
from ragsmith.exported.requirements import searchable
from ragsmith.gateway.budget import NOTHING_SPENT, Budget, Limits, Prices, Spent
from ragsmith.gateway.leases import this_process
from ragsmith.models.roles import Models
from ragsmith.models.served.provider import ProviderActivity
from ragsmith.pipelines.genes import Candidate, configuration, read_configuration
from ragsmith.pipelines.space import Space
from ragsmith.records.front import cheapest, points, single
from ragsmith.records.objectives import LatencyOf, costs_of, on_this_machine
from ragsmith.records.record import (
    CROSSFIT,
    HELD_OUT,
    DatasetRecord,
    ExcludedQuestion,
    RunRecord,
    RunSettings,
    RunStatistics,
)
from ragsmith.records.stored_run import StoredRun
from ragsmith.runs.choice import choose, simplified
from ragsmith.runs.diagnosing import diagnose
from ragsmith.runs.final_comparison import FinalComparison, count_test_use
from ragsmith.runs.latency import Latencies
from ragsmith.runs.recommended import prior_of, recommended_for, what_is_known
from ragsmith.runs.search_loop import ProposalBatch, SeenCandidates, batches, finishers, warm_start
from ragsmith.store.store import ProposalRow, RunRow, RunState, Store
from ragsmith.strategies import STRATEGIES, make_strategy
from ragsmith.strategies.strategy import Genome, Pruned, Strategy
from ragsmith.types import Example


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a run, as its callback gets it."""

    phase: str
    number: int
    evaluated: int
    best: float | None
    best_candidate: Candidate | None


Pulse = Callable[[], tuple[ProviderActivity, Spent]]
"""What providers do at the moment, and what was spent so far."""


@dataclass(frozen=True, slots=True)
class Start:
    """What the callback gets before a run begins; ``steps`` is how many there are at most, where known."""

    setup: Experiment
    space: Space
    steps: int | None
    pulse: Pulse


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: ``state`` is ``finished``, or ``interrupted`` at a limit, and ``why`` says at which.

    Where there is no ``winner``, ``no_winner`` says why. Counts are answers; ``evaluations`` are all that were looked
    at. ``spent`` is cumulative over resumes. Where the run ``ended_before`` and nothing has changed since,
    ``evaluations`` are all that it met, as it left them.
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
        """Calls of all models that were really made."""
        return sum(counts.made for counts in self.work.calls.values()) if self.work else 0


DECIDES = (
    ("ragsmith.strategies.strategy", "SteppedSearch"),
    ("ragsmith.strategies.strategy", "has_at_most"),
    ("ragsmith.evaluation.racing", "Races"),
    ("ragsmith.evaluation.ranking", "Terms"),
    ("ragsmith.evaluation.ranking", "ranked"),
    ("ragsmith.evaluation.ranking", "shown_better"),
    ("ragsmith.evaluation.baselines", "probes_of"),
    ("ragsmith.runs.search_loop", "batches"),
    ("ragsmith.runs.search_loop", "warm_start"),
    ("ragsmith.runs.choice", "choose"),
    ("ragsmith.runs.choice", "simplified"),
    ("ragsmith.records.objectives", "costs_of"),
    ("ragsmith.records.front", "cheapest"),
    ("ragsmith.effects.recommending", "recommended"),
    ("ragsmith.effects.recommending", "prior_for"),
    ("ragsmith.effects.corpus", "corpus_of"),
    ("ragsmith.datasets.splits", "split"),
    ("ragsmith.datasets.splits", "stratified"),
)
"""The code that decides where a run goes; how answers are come by is in the keys of the evaluations."""


def run_key(setup: Experiment, space: Space, settings: RunSettings) -> str:
    """Identifies a run: the same command on the same data, models, space and code is the same run."""
    # the time limit decides when a run pauses, not where it goes
    plain = {**asdict(replace(settings, time_limit=None)), "fitness": settings.fitness.identity}
    if settings.verdict == HELD_OUT:  # what was not there once leaves keys as they were
        del plain["verdict"], plain["folds"]
    divided = setup.divided
    parts = [sorted(e.id for e in part) for part in (divided.search, divided.test)] if divided else []
    chosen = [settings.strategy, "exhaustive", *(["random"] if settings.control == "random" else [])]
    code = [*(fingerprint(*part) for part in DECIDES), *(STRATEGIES.parse(name).code for name in chosen)]
    code.append(str(settings.genetic.evaluations))  # the budget, which is worked out
    known = what_is_known() if settings.warm_start or settings.choose == "estimate" else ""
    models = [(variant.cut, variant.loaded_models.ids()) for variant in setup.variants]
    asked = models, [measure.identity for measure in setup.measures]
    signals = {gene.technique.identity: gene for genes in space.options for gene in genes if gene.technique.signals}
    weights = {name: setup.general(gene).plain() for name, gene in sorted(signals.items()) if not setup.lacks(gene)}
    return digest(
        "run", setup.dataset.digest, *asked, space.digest, plain, code, known, *([weights] if weights else []), *parts
    )


@dataclass(frozen=True)
class Execution:
    """How a run computes what is missing; results do not depend on it.

    ``memory`` is how many bytes all processes may have together; by default the machine says. What is missing is
    computed on ``cluster``, if there is one. ``retry_failed`` asks again what earlier runs found hopeless to ask. By
    ``clock`` what has ended is stored every so often, and latency is measured where it is an objective, unless
    ``latency_of`` says what it is.
    """

    workers: int = 1
    memory: int | None = None
    cluster: Cluster | None = None
    retry_failed: bool = False
    clock: Clock = time.perf_counter
    latency_of: LatencyOf | None = None


@dataclass(frozen=True)
class Allowance:
    """What a run may spend on requests: ``limits``, over all resumes, and ``prices`` to count cost by.

    ``accept_spent`` says what was spent where the cache was damaged and does not know any more.
    """

    limits: Limits | None = None
    prices: Prices | None = None
    accept_spent: Spent | None = None


@dataclass(frozen=True)
class Callbacks:
    """What a run reports on the way: how it begins, each step, and how many answers of how many in the step."""

    on_start: Callable[[Start], None] | None = None
    on_step: Callable[[Step], None] | None = None
    on_progress: Callable[[int, int], None] | None = None


class Run:
    """One run, on what is loaded already: `ragsmith.search` loads it, and hands out what was found."""

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
    ) -> None:
        """Prepare a search of ``space`` for the best pipeline on the data set of ``setup``; nothing is computed yet.

        A run ``within`` another, of that key, spends what that one may, and is reported by it.

        Raises:
            UsageError: an option of the space needs a model that this run has not, or answers are to be scored and a
                question has none to compare with.
            SpendingDamaged: there are limits, what was spent is not known, and no ``accept_spent`` says it.
        """
        setup = setup.searching(space.settings).scoring((settings or RunSettings()).fitness)
        self._settings = on_this_machine(settings or RunSettings(), setup.variants)
        ranks = self._settings.fitness.ranks
        space = searchable(setup, space, ranks=ranks)
        self._setup = setup
        self._space = space
        self._store = store
        self.key = run_key(setup, space, self._settings)
        self._within = within
        execution, allowance = execution or Execution(), allowance or Allowance()
        self._callbacks = callbacks or Callbacks()
        self._budget = Budget(store, within or self.key, allowance.limits, allowance.prices, allowance.accept_spent)
        self._evaluator = Evaluator(
            setup,
            store,
            execution.workers,
            self._callbacks.on_progress,
            self._budget,
            retry_failed=execution.retry_failed,
            ranks=ranks,
            clock=execution.clock,
            memory=execution.memory,
            cluster=execution.cluster,
        )
        self._now = now
        self._started = now()
        self._split: Split = setup.split
        self._record = replace(RunRecord.begun(setup, space, self._settings, self._split), within=within)
        self._stopped = False
        self.why = "the time limit is reached: the same command goes on"
        self._incremental = True
        self._proposals: list[ProposalRow] = []
        self._latency_of = (
            execution.latency_of or Latencies(self._evaluator, store, self._settings.measured_on, setup.order).of
        )
        self._seen = SeenCandidates(self._settings.fitness, self._settings.may_miss)
        self._tested: list[Evaluation] = []  # on the test questions

    @property
    def has_results(self) -> bool:
        """Whether there is any answer to report."""
        return self._evaluator.computed + self._evaluator.reused > 0

    def go(self) -> RunOutcome:
        """Run to the end or to a limit, going on from whatever the store holds.

        Raises:
            BudgetExhausted: the budget was spent before any pipeline of the search was evaluated; another call goes on.
            RagsmithError: a provider or the cache cannot be used any more; what was computed is kept.
        """
        # of several threads the sums differ in their last digits, and on matrices of a hundred rows they only wait
        with threadpool_limits(1, user_api="blas"), closing(self._budget), self._evaluator:
            steps = self._settings.steps
            if on_start := self._callbacks.on_start:
                on_start(Start(self._setup, self._space, steps, self._pulse))
            data = self._setup.dataset  # what it is called may have changed since it was last searched
            self._store.put_dataset(data.digest, data.name, DatasetRecord.of(self._setup).plain())
            return self._ended() or self._finished()

    def _pulse(self) -> tuple[ProviderActivity, Spent]:
        return self._evaluator.activity(), self._budget.spent

    def _ended(self) -> RunOutcome | None:
        """How the run ended before; None where it has not, or where going through it again may end otherwise.

        It may where the program or the questions are others, anything failed, or an answer is not stored any more, or
        is stale; and where pipelines are timed, as what could not be may be now.
        """
        before = self._store.run(self.key)
        if before is None or before.state != "finished" or self._settings.timed:
            return None
        record = RunRecord.read(before.value)
        if (record.program, record.split) != (self._record.program, self._record.split):
            return None
        kept = StoredRun(self._store, self.key, self._setup.dataset.digest, record)
        found = kept.whole()
        if found is None or any(self._evaluator.key(one.candidate) != key for (key, _), one in found.items()):
            return None
        self._on_step(Step("as it ended before", 0, len(kept.keys), None, None))
        winner = found[record.winner, kept.searched] if record.winner else None
        reused = record.account.computed + record.account.reused
        spent, none = self._budget.spent, record.no_winner
        return RunOutcome(
            self.key, before.state, winner, 0, reused, None, found, spent, no_winner=none, ended_before=True
        )

    def _finished(self) -> RunOutcome:
        """Run to the end or to a limit; leave the state of the run in the store whatever happens."""
        before = self._store.run(self.key)
        finished_before = before is not None and before.state == "finished"
        self._incremental = not finished_before
        if not finished_before:  # else it stays as it is until there is another end to put in its place
            begun = replace(self._record, process=this_process())
            self._store.put_run(self.key, self._setup.dataset.digest, begun.plain(), started=stamp(self._started))
        state: RunState = "failed"
        work = None
        try:
            winner = self._search()
            work = self._evaluator.work()
            if not self._stopped and not self._within:
                self._diagnose()
            # what is tested in folds goes on with them, unless there is nobody to test
            ends: RunState = (
                "running" if self._settings.verdict == CROSSFIT and not self._within and winner else "finished"
            )
            state = "interrupted" if self._stopped else ends
        except (KeyboardInterrupt, BudgetExhausted):
            state = "interrupted"
            raise
        finally:
            self._update_statistics(work)
            ended = state in ("finished", "running")
            if not finished_before or (ended and self._ends_otherwise(before)):
                if ended:
                    self._store.put_proposals(self.key, self._proposals, whole=True)
                self._store.update_run(self.key, state, self._record.plain(), finished=stamp(self._now()))
        evaluator = self._evaluator
        why = self.why if state == "interrupted" else ""
        counts = evaluator.computed, evaluator.reused
        spent, none = self._budget.spent, self._record.no_winner
        return RunOutcome(self.key, state, winner, *counts, work, evaluator.evaluations, spent, why, none)

    def _diagnose(self) -> None:
        """Keep why questions went as they did, for the report; none of it counts as work of the run."""
        record, searched = self._record, {example.id for example in self._split.search}
        each = sorted(self._evaluator.evaluations.values(), key=lambda one: len(one.records))
        met = {one.key: one for one in each if searched.issuperset(one.questions)}
        tested = {one.key: one for one in self._tested}
        stored = {**record.baselines, "recommended": record.recommended, "winner": record.winner}
        roles = {name: [part[key] for part in (met, tested) if key in part] for name, key in stored.items() if key}
        diagnose(self._evaluator, self._setup, self._store, self._settings.fitness, roles, list(met.values()))

    def _ends_otherwise(self, before: RunRow | None) -> bool:
        """Whether anything has changed since ``before``: here, the program, or what had failed and others made good."""
        if before is None or self._evaluator.computed or self._evaluator.timings:
            return True
        kept, now = RunRecord.read(before.value), self._record
        if not StoredRun(self._store, self.key, self._setup.dataset.digest, kept).lists_all:
            return True
        ends = [(end.winner, end.no_winner, end.failed, end.program) for end in (kept, now)]
        return ends[0] != ends[1]

    def _update_statistics(self, work: ComputedWork | None) -> None:
        """Update the run statistics, and what failed."""
        aside = self._seen.terms.aside | self._seen.terms_of(self._tested).aside
        self._record = replace(
            self._record,
            account=RunStatistics.of(self._evaluator, work, self._budget.spent),
            aside={question: ExcludedQuestion.of(failure) for question, failure in aside.items()},
            failed=sum(len(evaluation.failures) for evaluation in self._evaluator.evaluations.values()),
            unfinished=self._evaluator.unfinished,
        )

    def _search(self) -> Evaluation | None:
        known = self._known()
        expected = self._prior if self._settings.warm_start else None
        proposed = self._search_loop(
            self._strategy(self._settings.strategy, self._settings.max_evaluations, expected), known
        )
        drawn = self._control(len({one.behaviour for one in proposed}))
        terms = self._seen.terms
        self._proposals = [  # the strategy was told on the terms of each step: what is reported is on those of the end
            replace(row, value={**row.value, "fitness": None if raced.dropped else terms.score(raced.evaluation)})
            for row, raced in zip(self._proposals, proposed, strict=True)
        ]
        able = finishers([*known.values(), *proposed])
        choice, why_none = choose(able, terms, self._prior, by=self._settings.choose)
        self._record = replace(self._record, winner=choice.chosen.key if choice else None, no_winner=why_none)
        if choice is None or self._stopped:
            return choice.chosen if choice else None
        winner = choice.chosen
        estimated = choice.estimated.key if choice.estimated else None
        self._record = replace(self._record, leader=choice.highest.key, estimated=estimated)
        try:
            winner = self._simplified(choice.chosen)
            by_key = {one.key: one for one in self._seen.evaluations}
            baselines = {name: by_key[key] for name, key in self._record.baselines.items()}
            finals = FinalComparison(
                winner,
                leader=choice.highest,
                estimated=choice.estimated,
                recommended=by_key.get(self._record.recommended or ""),
                single=best(single(able, baselines["naive"]), terms),
                cheapest=self._cheapest(winner, able),
                random=best(finishers(drawn), terms),
                baselines=baselines,
            )
            self._test(finals)
            if not self._within:
                self._take_apart(winner)
        except BudgetExhausted as stop:
            self._stopped, self.why = True, str(stop)
        return winner

    def _simplified(self, chosen: Evaluation) -> Evaluation:
        """What was chosen without what does not pay."""
        if not self._settings.simplify:
            return chosen

        def evaluate(candidates: Sequence[Candidate]) -> list[Evaluation]:
            found = self._evaluator.evaluate(candidates, self._split.search)
            self._record_results([RaceResult.of_finished(evaluation) for evaluation in found])
            return found

        winner, removals = simplified(chosen, self._space, evaluate, self._alike, lambda: self._seen.terms)
        self._record = replace(self._record, winner=winner.key, removals=removals)
        if self._settings.timed:  # they are on the front, too
            tried = {removal.key for removal in removals}
            for one in {one.key: one for one in self._seen.evaluations if one.key in tried}.values():
                self._latency_of(one)
        self._on_step(Step("each option left out", 0, len(removals), None, None))
        return winner

    def _take_apart(self, winner: Evaluation) -> None:
        """Keep what each part of the winner is worth.

        Nearly all of that is known once options were left out: what is not, the winner with naive RAG's retrieval as a
        rule, is evaluated, and what left a race is completed. Where nothing was to be left out, or the time is over,
        nothing is. It decides nothing, and is met by nobody: what it shows came too late to win.
        """
        met = {one.key: one for one in self._seen.evaluations if one.questions == winner.questions}
        if self._settings.simplify and not self._late():
            missing = lacking(winner.candidate, self._space, met.values())
            met |= {one.key: one for one in self._evaluator.evaluate(missing, self._split.search)}
        seconds_of = self._latency_of if self._settings.timed else None
        data, terms = self._setup.dataset, self._seen.terms
        clusters = self._record.split.search_groups or Clusters.alone(winner.questions)
        found = ablation_of(
            winner, met.values(), self._space, terms, dataset=data.name, clusters=clusters, seconds_of=seconds_of
        )
        found.keep(self._store, data.digest)

    def _alike(self, candidate: Candidate, other: Evaluation) -> Evaluation | None:
        """The evaluation of ``candidate`` if it does the same as ``other``; None where that shows to be otherwise.

        It is looked at after 1, 2, 4 and so on questions: what does the same costs next to nothing, and what does not
        shows that soon.
        """
        order, asked = self._search_order, 1
        while True:
            [found] = self._evaluator.evaluate([candidate], order[:asked])
            if found.phenotype != other.on(found.questions).phenotype:
                return None
            if asked >= len(order):
                self._record_results([RaceResult.of_finished(found)])
                return found
            asked *= 2

    def _cheapest(self, winner: Evaluation, able: Sequence[Evaluation]) -> Evaluation:
        """The cheapest shown to be less than the margin behind, of who was able to win and what was tried with it."""
        tried = {removal.key for removal in self._record.removals}
        everyone = {one.key: one for one in [*able, *(one for one in self._seen.evaluations if one.key in tried)]}
        terms = self._seen.terms_of(list(everyone.values()))
        return cheapest(points(list(everyone.values()), terms), winner, terms, self._settings.margin)

    @cached_property
    def _prior(self) -> Prior | None:
        """The prior over pipelines before any is evaluated; None where none is used, or too little is known."""
        settings = self._settings
        if not settings.warm_start and settings.choose == "mean":
            return None
        return prior_of(self._setup, self._space, settings.fitness, learned=settings.warm_start)

    def _strategy(self, name: str, most: int | None, prior: Prior | None = None) -> Strategy:
        settings, space = self._settings, self._space
        return make_strategy(
            name,
            space.sizes,
            settings.genetic,
            seed=settings.seed,
            feasible=space.is_feasible,
            max_evaluations=most,
            prior=prior.of_genomes if prior else None,
        )

    def _races(self) -> Races:
        settings = self._settings

        def models_of(candidate: Candidate) -> Models:
            return self._setup.of(candidate).loaded_models

        race = settings.racing, settings.fitness, settings.may_miss
        return Races(self._evaluator, self._search_order, *race, models_of)

    @cached_property
    def _search_order(self) -> list[Example]:
        """The search questions as candidates meet them."""
        searched = {example.id for example in self._split.search}
        return [self._setup.examples[question] for question in self._setup.order if question in searched]

    def _known(self) -> dict[Genome, RaceResult]:
        """Evaluate what is known before the search; a strategy is told of what is in the space, and it may win."""
        settings, space = self._settings, self._space
        found = warm_start(
            self._evaluator, self._races(), self._split.search, space, self._recommended(), probes=settings.probes
        )
        self._record_results([raced for _, raced in found.raced])
        known = found.within(space)
        self._record = replace(
            self._record,
            baselines=found.baselines,
            recommended=found.recommended,
            probes=found.probes,
            told=tuple(one.evaluation.key for one in known.values()),
        )
        met = {raced.evaluation.key for _, raced in found.raced}
        self._on_step(Step("what is known, each option alone", 0, len(met), None, None))
        return known

    def _recommended(self) -> Candidate | None:
        """The pipeline that other data sets name for these documents; None where they name none of this space."""
        if not self._settings.warm_start:
            return None
        before = self._store.run(self.key)
        if before and (key := RunRecord.read(before.value).recommended) and (stored := self._store.evaluation(key)):
            found = read_configuration(stored.configuration["pipeline"])  # working it out takes seconds
            return tuple(replace(gene, fit=None) for gene in found)  # a space has options without what they learned
        return recommended_for(self._setup, self._space, self._settings.fitness)

    def _search_loop(
        self, strategy: Strategy, known: Mapping[Genome, RaceResult], *, control: bool = False
    ) -> list[RaceResult]:
        """Race what ``strategy`` proposes until it is done, or at a limit."""
        proposed: list[RaceResult] = []
        weighs = self._settings.weighs and not control
        costs = partial(costs_of, self._settings, self._latency_of) if weighs else None
        try:
            for batch in batches(strategy, self._races(), self._space.candidate, known, self._seen, costs):
                if not control:
                    self._keep(len(proposed), batch)
                proposed += batch.raced
                self._say(strategy, batch.step, len(proposed), control=control)
                if self._late():
                    self._stopped = True
                    break
        except BudgetExhausted as stop:
            if not proposed and not control:
                raise
            self._stopped, self.why = True, str(stop)
        self._record = replace(self._record, dropped=self._seen.dropped)
        if not control:
            self._record = replace(self._record, history=tuple(strategy.history))
        return proposed

    def _late(self) -> bool:
        """Whether the time limit is reached.

        Replaying what is stored does not count: a limit shorter than the replay would never let a run end.
        """
        limit = self._settings.time_limit
        has_done = self._evaluator.computed + self._evaluator.timings > 0
        return limit is not None and self._now() - self._started >= limit and has_done

    def _control(self, budget: int) -> list[RaceResult]:
        """If asked for: as many random candidates that do different things as the search found, raced alike."""
        settings = self._settings
        if settings.control != "random" or settings.strategy_name == "random" or self._stopped or not budget:
            return []
        drawn = self._search_loop(self._strategy("random", budget), {}, control=True)
        self._record = replace(self._record, random=tuple(raced.evaluation.key for raced in drawn))
        return drawn

    def _record_results(self, raced: Sequence[RaceResult]) -> None:
        """Record race results."""
        self._seen.add(raced)
        self._record = replace(self._record, dropped=self._seen.dropped)

    def _say(self, strategy: Strategy, step: int, evaluated: int, *, control: bool) -> None:
        score, candidate = None, None
        if best := strategy.best():
            score, candidate = best[1], self._space.candidate(best[0])
        self._on_step(Step("random control" if control else "search", step, evaluated, score, candidate))

    def _on_step(self, step: Step) -> None:
        if self._callbacks.on_step:
            self._callbacks.on_step(step)

    def _keep(self, position: int, batch: ProposalBatch) -> None:
        """Store what was proposed, from ``position`` on, as the rows of the run."""
        rows = []
        for i, (genome, one, score) in enumerate(zip(batch.genomes, batch.raced, batch.told, strict=True)):
            value: dict[str, Any] = {"fitness": score, "dropped": None}
            if isinstance(score, Pruned):
                value = {"fitness": None, "dropped": score.questions}
            rows.append(ProposalRow(position + i, batch.step, list(genome), one.evaluation.key, value))
        self._proposals += rows
        if self._incremental:
            self._store.put_proposals(self.key, rows)

    def _test(self, finals: FinalComparison) -> None:
        """Evaluate the winner, and what it has to beat, on the test questions."""
        if not self._split.test:
            return
        entrants = finals.candidates()
        self._tested = self._evaluator.evaluate(list(entrants.values()), self._split.test)
        tested = {name: one.key for name, one in zip(entrants, self._tested, strict=True)}
        self._record = replace(self._record, test=tested)
        if not self._within:  # what it is part of looks at the questions of all its parts together
            setup, ids = self._setup, [example.id for example in self._split.test]
            compared = {name: configuration(one) for name, one in entrants.items()}
            day = stamp(self._now())[:10]
            look = count_test_use(self._store, setup, self._settings.fitness, compared, ids, day)
            self._record = replace(self._record, look=look)
        self._on_step(Step("test questions", 0, len(entrants), None, None))


def stamp(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
