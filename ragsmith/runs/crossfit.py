"""A crossfit: all questions are tested, each by a search that saw neither it nor gold near it.

A test of 30 questions shows little, and to hold out more leaves too few to search on. So the questions are dealt out to
folds, by the groups that keep gold together; for each fold one search runs on the others, and its winner is tested on
the fold (Stone 1974, *Cross-validatory choice and assessment of statistical predictions*). What the folds show together
is about the procedure: what a search like this one finds on documents like these, against what it has to beat.

The pipeline that is handed over is that of one more search, on all questions. It saw more of them than any search of a
fold, so what the folds show is rather too little for it; the most frequent winner of the folds, or the one with the
highest mean out of its fold, would be chosen on the test questions, and be flattered by them.

Searches share what they have in common: a pipeline's answer to a question is computed, and paid for, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

from ragsmith.comparison.looks import HoldoutUse
from ragsmith.datasets.splits import Split, undivided
from ragsmith.datasets.splits import crossfit as splits_of
from ragsmith.errors import BudgetExhausted, WrongOption
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.space import Space
from ragsmith.records.record import Fold, RunRecord, RunSettings, RunStatistics
from ragsmith.runs.final_comparison import count_test_use
from ragsmith.runs.run import Allowance, Callbacks, Execution, Run, RunOutcome, Step, stamp
from ragsmith.store.rows import RunState
from ragsmith.store.store import Store


@dataclass(frozen=True)
class _Part:
    """A fold that has been gone through."""

    outcome: RunOutcome
    fold: Fold


class Crossfit:
    """A search on all questions, and one for each fold that tests it; it is run, and resumed, as one."""

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
        """Prepare it; the arguments are those of `Run`.

        Raises:
            UsageError: as for `Run`, or the questions cannot be dealt out.
        """
        setup = setup.searching(space.settings).scoring(settings.fitness)
        self._splits = splits_of(setup.dataset, settings.folds, gap=setup.gap)
        if not self._splits:
            raise WrongOption(
                "verdict",
                f"is crossfit, and {setup.dataset.name!r} has too few questions, or such that share too much gold, to "
                "be dealt out: leave it out",
            )
        self._setup = setup
        self._space = space
        self._store = store
        self._settings = settings
        self._execution, self._allowance, self._callbacks = execution, allowance, callbacks or Callbacks()
        self._now = now
        self._started = now()
        self._run = self._search(replace(setup, divided=undivided(setup.dataset)), self._callbacks)
        self.key = self._run.key

    @property
    def has_results(self) -> bool:
        """Whether there is any answer to report."""
        return self._run.has_results

    def go(self) -> RunOutcome:
        """Search, then test fold by fold, to the end or to a limit, going on from whatever the store holds.

        Raises:
            BudgetExhausted: as for `Run`.
            RagsmithError: as for `Run`.
        """
        outcome = self._run.go()
        if outcome.state == "interrupted" or outcome.winner is None:
            return outcome
        parts: list[_Part] = []
        state: RunState = "failed"
        try:
            for number, split in enumerate(self._splits, 1):
                if self._late(outcome, parts):
                    break
                found = self._tested(number, split)
                parts.append(found)
                if found.outcome.state == "interrupted":
                    break
            through = len(parts) == len(self._splits) and parts[-1].outcome.state != "interrupted"
            state = "finished" if through else "interrupted"
        except KeyboardInterrupt:
            state = "interrupted"
            raise
        except BudgetExhausted as stop:  # the winner is known, and so are some folds
            state = "interrupted"
            return self._sum(replace(outcome, state="interrupted", why=str(stop)), parts)
        finally:
            self._leave(state, outcome, parts)
        why = (parts[-1].outcome.why if parts else "") or self._run.why if state == "interrupted" else ""
        return self._sum(replace(outcome, state=state, why=why), parts)

    def _search(self, setup: Experiment, callbacks: Callbacks, within: str = "") -> Run:
        """A search on a setup with a split of its own, in the time that is left."""
        settings = self._settings
        if settings.time_limit is not None:
            left = settings.time_limit - (self._now() - self._started)
            settings = replace(settings, time_limit=max(left, 1e-9))
        return Run(
            setup,
            self._space,
            self._store,
            settings,
            execution=self._execution,
            allowance=self._allowance,
            callbacks=callbacks,
            now=self._now,
            within=within,
        )

    def _tested(self, number: int, split: Split) -> _Part:
        """Search on the questions of the other folds, and test on those of this one."""

        def say(step: Step) -> None:
            if self._callbacks.on_step:
                self._callbacks.on_step(replace(step, phase=f"fold {number} of {len(self._splits)}, {step.phase}"))

        callbacks = replace(self._callbacks, on_start=None, on_step=say)
        run = self._search(replace(self._setup, divided=split), callbacks, within=self.key)
        outcome = run.go()
        stored = self._store.run(run.key)
        record = RunRecord.read(stored.value) if stored else None
        entrants = dict(record.test) if record else {}
        for role in ("recommended", "cheapest"):  # a pipeline with two roles is met once, as the winner
            if record and entrants and role not in entrants:
                entrants[role] = entrants["winner"]
        entrants.pop("single", None)  # in some folds it is a baseline, or recommended, and has no place of its own
        divided = record.split if record else None
        searched, unused, test = (divided.search, divided.unused, divided.test) if divided else ((), (), ())
        return _Part(outcome, Fold(run.key, len(searched), len(unused), tuple(test), entrants))

    def _late(self, outcome: RunOutcome, parts: Sequence[_Part]) -> bool:
        """Whether the time limit is reached; replaying what is stored does not count."""
        limit = self._settings.time_limit
        has_done = outcome.computed + sum(part.outcome.computed for part in parts) > 0
        return limit is not None and self._now() - self._started >= limit and has_done

    def _leave(self, state: RunState, outcome: RunOutcome, parts: Sequence[_Part]) -> None:
        """Put down how it ended; nothing where it had ended so before."""
        row = self._store.run(self.key)
        if row is None:
            return
        record = RunRecord.read(row.value)
        folds = tuple(part.fold for part in parts) if state == "finished" else ()
        if row.state == "finished" and (state != "finished" or record.folds == folds):
            return
        total = self._sum(outcome, parts)
        work = total.work
        stages = (work.stages_requested, work.stages_computed, work.calls) if work else ()
        account = replace(RunStatistics(total.computed, total.reused, *stages), spent=total.spent)
        ended = replace(record, folds=folds, account=account)
        if any(fold.entrants for fold in folds):
            ended = replace(ended, look=self._looked(ended))
        self._store.update_run(self.key, state, ended.plain(), finished=stamp(self._now()))

    def _looked(self, record: RunRecord) -> HoldoutUse:
        """Count the one look at the questions of all folds."""
        described = {
            key: store_row.configuration["pipeline"]
            for fold in record.folds
            for key in fold.entrants.values()
            if (store_row := self._store.evaluation(key))
        }
        roles = sorted({role for fold in record.folds for role in fold.entrants})
        compared = {role: [described.get(fold.entrants.get(role, "")) for fold in record.folds] for role in roles}
        day = stamp(self._now())[:10]
        fitness = self._settings.fitness
        return count_test_use(self._store, self._setup, fitness, compared, record.tested, day)

    @staticmethod
    def _sum(outcome: RunOutcome, parts: Sequence[_Part]) -> RunOutcome:
        """What all searches did together."""
        each = [outcome, *(part.outcome for part in parts)]
        done = [one.work for one in each if one.work]
        return replace(
            outcome,
            computed=sum(one.computed for one in each),
            reused=sum(one.reused for one in each),
            work=reduce(add, done) if done else None,
            spent=each[-1].spent,
            ended_before=all(one.ended_before for one in each),
        )
