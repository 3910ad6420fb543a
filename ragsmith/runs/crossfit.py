"""Crossfit: cross-validation of a search, in which every question is a test question of one fold.

A test of 30 questions has little power, and holding out more leaves too few to search on. So the questions are divided
into folds, by the groups that share gold; for each fold a search runs on the others, and its winner is tested on the
fold (Stone 1974, *Cross-validatory choice and assessment of statistical predictions*). The folds together estimate the
performance of the search procedure.

The winner is that of one more search, on all questions. It saw more of them than the search of any fold, so the folds
tend to underestimate it; choosing among the winners of the folds by their test scores would bias the estimate upwards.

Answers that several searches need are computed, and paid for, once.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add

from ragsmith.comparison.ledger import count_look, identify_comparison, identify_pipeline, peek_look
from ragsmith.comparison.ledger_location import describe_ledger
from ragsmith.comparison.questions import HoldoutUse, digest_questions, format_times
from ragsmith.datasets.splits import Split, search_only_split
from ragsmith.datasets.splits import crossfit as splits_of
from ragsmith.digest import digest
from ragsmith.errors import BudgetExhausted, UsageError, WrongOption
from ragsmith.evaluation.evaluation import read_candidate
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.space import Space
from ragsmith.records.record import WINNER_SOURCES, Fold, RunRecord, RunSettings, RunStatistics, load_record
from ragsmith.runs.run import Allowance, Execution, Run, RunOutcome
from ragsmith.runs.run_context import TIME_LIMIT_REACHED, Callbacks, Step, timestamp
from ragsmith.store.rows import RunState
from ragsmith.store.store import Store


@dataclass(frozen=True)
class _FoldOutcome:
    """The search of a fold, and its record."""

    outcome: RunOutcome
    fold: Fold


class Crossfit:
    """A search on all questions and one for each fold, run and resumed as one."""

    def __init__(
        self,
        setup: Experiment,
        space: Space,
        store: Store,
        settings: RunSettings,
        *,
        execution: Execution | None = None,
        allowance: Allowance | None = None,
        callbacks: Callbacks | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Prepare the searches; the arguments are those of `Run`.

        Raises:
            UsageError: as for `Run`, or the questions cannot be divided into folds, or were looked at before, by other
                comparisons, and no test is asked for.
        """
        setup = setup.with_searched_settings(space.settings).for_fitness(settings.fitness)
        self._splits = splits_of(setup.dataset, settings.folds, gap=setup.gap)
        if not self._splits:
            raise WrongOption(
                "verdict",
                f"is crossfit, and {setup.dataset.name!r} has too few questions, or such that share too much gold, to "
                "be divided into folds: leave it out",
            )
        self._setup = setup
        self._store = store
        self._settings = settings
        self._callbacks = callbacks or Callbacks()
        self._now = now
        self._run_on = partial(Run, space=space, store=store, execution=execution, allowance=allowance, now=now)
        self._started = now()
        self._run = self._search(search_only_split(setup.dataset), self._callbacks)
        self.key = self._run.key
        self._check_looks()

    @property
    def has_results(self) -> bool:
        """Whether there is any answer to report."""
        return self._run.has_results

    def go(self) -> RunOutcome:
        """Search, then test fold by fold, to the end or to a limit, from the stored results on.

        Raises:
            BudgetExhausted: as for `Run`.
            RagsmithError: as for `Run`.
        """
        outcome = self._run.go()
        if outcome.state == "interrupted" or outcome.winner is None:
            return outcome
        folds: list[_FoldOutcome] = []
        state: RunState = "failed"
        why = ""
        try:
            for number, split in enumerate(self._splits, 1):
                if self._is_late(outcome, folds):
                    why = TIME_LIMIT_REACHED
                    break
                folds.append(self._test_fold(number, split))
                if folds[-1].outcome.state == "interrupted":
                    why = folds[-1].outcome.why
                    break
            state = "interrupted" if why or len(folds) < len(self._splits) else "finished"
        except KeyboardInterrupt:
            state = "interrupted"
            raise
        except BudgetExhausted as stop:  # the winner is known, and so are some folds
            state, why = "interrupted", str(stop)
        finally:
            self._store_end(state, outcome, folds)
        return self._total(replace(outcome, state=state, why=why), folds)

    def _check_looks(self) -> None:
        """Raise UsageError if the questions of the folds were looked at, unless by this run or with ``test``."""
        record = load_record(self._store, self.key)
        if self._settings.test or (record and record.look):
            return
        tested = [example for split in self._splits for example in split.test]
        look, _ = peek_look(self._store, "", digest_questions(self._setup.dataset, tested).values())
        if look.earlier:
            raise UsageError(
                f"a crossfit tests every question, and some were looked at {format_times(look.earlier)} before "
                f"({describe_ledger()}): add --test to test at level {look.level:.4g}, or search without --verdict "
                "crossfit, which ends with estimates on search questions"
            )

    def _search(self, split: Split, callbacks: Callbacks, within: str = "") -> Run:
        """Return a search on one split of the questions, with the remaining time as its limit."""
        settings = self._settings
        if settings.time_limit is not None:
            left = settings.time_limit - (self._now() - self._started)
            settings = replace(settings, time_limit=max(left, 1e-9))
        parts = replace(self._setup, fixed_split=split)
        respects_checks = self._run.respects_checks if within else None
        return self._run_on(
            parts, settings=settings, callbacks=callbacks, within=within, respects_checks=respects_checks
        )

    def _test_fold(self, number: int, split: Split) -> _FoldOutcome:
        """Search on the questions of the other folds, and test on those of this one."""

        def report(step: Step) -> None:
            if self._callbacks.on_step:
                self._callbacks.on_step(replace(step, phase=f"fold {number} of {len(self._splits)}, {step.phase}"))

        callbacks = replace(self._callbacks, on_start=None, on_step=report)
        run = self._search(split, callbacks, within=self.key)
        outcome = run.go()
        record = load_record(self._store, run.key)
        assert record is not None
        entrants = {role: record.key_on_test(key) for role, key in record.test.items()}
        for role in ("recommended", "cheapest"):  # a pipeline with two roles was evaluated once, as the winner
            if entrants and role not in entrants:
                entrants[role] = entrants["winner"]
        entrants.pop("single", None)  # in some folds it is a baseline, or recommended, and has no role of its own
        parts = record.split
        return _FoldOutcome(outcome, Fold(run.key, len(parts.search), len(parts.unused), parts.test, entrants))

    def _is_late(self, outcome: RunOutcome, folds: Sequence[_FoldOutcome]) -> bool:
        """Whether the time limit is reached; replaying stored results does not count."""
        limit = self._settings.time_limit
        has_computed = outcome.computed + sum(one.outcome.computed for one in folds) > 0
        return limit is not None and self._now() - self._started >= limit and has_computed

    def _store_end(self, state: RunState, outcome: RunOutcome, folds: Sequence[_FoldOutcome]) -> None:
        """Store how the crossfit ended, unless it had ended the same before."""
        row = self._store.run(self.key)
        if row is None:
            return
        record = RunRecord.from_dict(row.value, row.key)
        tested = tuple(one.fold for one in folds) if state == "finished" else ()
        if row.state == "finished" and (state != "finished" or record.folds == tested):
            return
        total = self._total(outcome, folds)
        account = RunStatistics.from_work(total.computed, total.reused, total.work, total.spent)
        ended = replace(record, folds=tested, account=account)
        if any(fold.entrants for fold in tested):
            ended = replace(ended, look=self._count_test_use(ended))
        self._store.update_run(self.key, state, ended.to_dict(), finished=timestamp(self._now()))

    def _count_test_use(self, record: RunRecord) -> HoldoutUse:
        """Count one use of the test questions of all folds."""
        setup, compared = self._setup, []
        for fold in record.folds:
            rows = {role: self._store.evaluation(key) for role, key in fold.entrants.items()}
            found = {
                role: identify_pipeline(setup, read_candidate(row))
                for role, row in rows.items()
                if row and role not in WINNER_SOURCES
            }
            compared.append(identify_comparison(self._settings.fitness, found.pop("winner", ""), found.values()))
        contents = digest_questions(setup.dataset, [setup.examples[question] for question in record.tested])
        return count_look(self._store, digest(compared), contents.values(), timestamp(self._now())[:10])

    @staticmethod
    def _total(outcome: RunOutcome, folds: Sequence[_FoldOutcome]) -> RunOutcome:
        """Return the outcome of all searches together."""
        each = [outcome, *(one.outcome for one in folds)]
        work = [one.work for one in each if one.work]
        return replace(
            outcome,
            computed=sum(one.computed for one in each),
            reused=sum(one.reused for one in each),
            work=reduce(add, work) if work else None,
            spent=each[-1].spent,
            ended_before=all(one.ended_before for one in each),
        )
