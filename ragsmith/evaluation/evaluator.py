"""Candidates × questions to scores, through the store.

What is stored is not computed again; what is computed is stored at once. A score is a number with a denominator: a
candidate that lacks a record for one question has no mean over all of them, and `ranking` says what it may be compared
with.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from types import TracebackType
from typing import Any

from ragsmith.errors import Notice
from ragsmith.evaluation.cluster import Cluster
from ragsmith.evaluation.evaluation import Evaluation, Evaluations, Record, Records, evaluation_of
from ragsmith.evaluation.experiment import Experiment, ordered
from ragsmith.evaluation.fitting import Fitter
from ragsmith.evaluation.keys import evaluation_key, ranking_key, retrieval_key
from ragsmith.evaluation.latency import Clock, timed_seconds
from ragsmith.evaluation.processes import ProcessRunner
from ragsmith.evaluation.threads import (
    ANSWER,
    RANKING,
    REPORT_SECONDS,
    ComputedWork,
    Job,
    Runner,
    ThreadRunner,
    TraceObserver,
    state_of,
)
from ragsmith.gateway.budget import Budget
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.memory import MIB, Memory, memory_per_process
from ragsmith.models.served.provider import ProviderActivity
from ragsmith.models.vector_stores import serves_one_process
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, configuration
from ragsmith.store.store import EvaluationRow, ResultRow, Store
from ragsmith.types import Example

Progress = Callable[[int, int], None]
"""Called with questions finished and questions to do, of the current batch."""


class Evaluator:
    """Evaluates candidates on one data set. Nothing is started, and no model loaded, before something is missing.

    With ``ranks`` an evaluation is of the rankings alone: nothing is generated. By ``clock`` pipelines are timed, and
    what has ended is stored every so often.
    """

    def __init__(
        self,
        setup: Experiment,
        store: Store,
        workers: int,
        progress: Progress | None = None,
        budget: Budget | None = None,
        *,
        retry_failed: bool = False,
        ranks: bool = False,
        clock: Clock = perf_counter,
        memory: int | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """``memory`` is how many bytes all processes may have together; by default what the machine lets them have.

        Missing results are computed by the actors of ``cluster``, if there is one, instead of ``workers``.
        """
        self._setup = setup
        self._cluster = cluster
        self._ranks = ranks
        self._budget = budget
        self._failures = Failures(store, ask_again=retry_failed)
        self._store = store
        self._clock = clock
        self._workers = workers
        self._memory = Memory(memory_per_process(memory, self._processes))
        self._progress = progress or (lambda done, total: None)
        self._runner: Runner | None = None
        self._engine: Engine | None = None
        self._stack = ExitStack()
        self._fitter = Fitter(setup, store, self._started)
        self._known: dict[str, dict[str, ResultRow]] = {}
        self._records = Records(self._memory, store.results_again)
        self._met: dict[str, set[str]] = {}
        self._parts: dict[str, tuple[tuple[str, ...], ...]] = {}  # the questions of each evaluation, by its key
        self._evaluations: dict[tuple[str, tuple[str, ...]], Evaluation] = {}
        self.computed = 0
        self.reused = 0
        self.timings = 0

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        memory = self._memory
        if kind is None and memory.limit and memory.needed:
            warnings.warn(
                f"memory: a process had {memory.needed / MIB:,.0f} MiB with next to nothing remembered, and its share"
                f" is {memory.limit / MIB:,.0f} MiB: what came out is the same, and comes sooner with more",
                Notice,
                stacklevel=2,
            )

    def work(self) -> ComputedWork | None:
        """What was really done by models and stages; None if nothing had to be."""
        return self._runner.work() if self._runner else None

    def activity(self) -> ProviderActivity:
        """What providers have done so far, and do now."""
        return self._engine.gateway.activity() if self._engine else ProviderActivity()

    @property
    def evaluations(self) -> Evaluations:
        """Every evaluation so far."""
        return self._evaluations

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The keys of what was begun and not brought to an end."""
        ended = {key for key, _ in self._evaluations}
        return tuple(key for key in self._met if key not in ended)

    def key(self, candidate: Candidate) -> str:
        """Under what the evaluation of a candidate is stored, which is fitted if it learns."""
        return retrieval_key(self._setup, candidate) if self._ranks else evaluation_key(self._setup, candidate)

    def evaluate(self, candidates: Sequence[Candidate], examples: Sequence[Example]) -> list[Evaluation]:
        """Evaluations of ``candidates`` on ``examples``, in their order; what learns is fitted first."""
        questions = tuple(example.id for example in ordered(examples))
        part, key_of = (RANKING, retrieval_key) if self._ranks else (ANSWER, evaluation_key)
        return self._evaluated(candidates, questions, part, key_of, counts=True)

    def rank(self, candidates: Sequence[Candidate], examples: Sequence[Example]) -> list[Evaluation]:
        """The same of their rankings alone: their records have no answer, and the measures of rankings only.

        Candidates whose genes are equal up to the filter share theirs.
        """
        questions = tuple(example.id for example in ordered(examples))
        return self._evaluated(candidates, questions, RANKING, ranking_key, counts=False)

    def seen(
        self, wanted: Sequence[tuple[Candidate, Sequence[str]]], look: TraceObserver
    ) -> Iterator[tuple[int, str, Any]]:
        """What ``look`` sees in the traces of candidates on questions, by their ids, in any order: candidate by place.

        Nothing of it is kept here, nor counted as an answer. Candidates that learn are fitted; a question that fails
        now is left out.
        """
        jobs = [(place, question) for place, (_, questions) in enumerate(wanted) for question in questions]
        if not jobs:
            return
        for batch in self._started().run([candidate for candidate, _ in wanted], jobs, look):
            for finished in batch:
                if finished.ok:
                    yield (*finished.job, finished.value)

    def timed(self, candidate: Candidate, question: str) -> float | Record:
        """Seconds that a user waits for the answer to a question, or what failed.

        It is asked here, alone, while no worker has anything to do.
        """
        runner = self._started()
        runner.settle()  # processes that are just beginning would be in the way
        try:
            seconds = timed_seconds(
                Gateway(self._store, self._budget, self._failures),
                self._budget,
                self._clock,
                *runner.engines.of(candidate),
                candidate,
                question,
                ranks=self._ranks,
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001  a state, like that of an answer
            return state_of(error, "timing")
        self.timings += 1
        return seconds

    def _evaluated(
        self,
        candidates: Sequence[Candidate],
        questions: tuple[str, ...],
        part: str,
        key_of: Callable[[Experiment, Candidate], str],
        *,
        counts: bool,
    ) -> list[Evaluation]:
        """Evaluations of a ``part`` of candidates, by ``key_of``; one that ``counts`` is an evaluation of the run."""
        fitted = self._fitter.fit(candidates)
        keyed = [(key_of(self._setup, candidate), candidate) for candidate, _ in fitted]
        unfit = {key: failure for (key, _), (_, failure) in zip(keyed, fitted, strict=True) if failure}
        self._recall([key for key, _ in keyed])
        distinct = list(dict(keyed).items())
        jobs = [
            (position, question)
            for position, (key, _) in enumerate(distinct)
            for question in questions
            if question not in self._known[key]
        ]
        if counts:
            self.reused += sum(self._newly_met(key, questions) for key, _ in distinct)
        self._describe_new(distinct)
        for key, failure in unfit.items():
            new = [question for question in questions if question not in self._known[key]]
            self._put([ResultRow(key, question, "failed", failure) for question in new])
        able = [job for job in jobs if distinct[job[0]][0] not in unfit]
        if able:
            self._compute(distinct, able, part, counts=counts)
        found = {key: self._gathered(key, candidate, questions) for key, candidate in distinct}
        if counts:
            self._register(found)
        return [found[key] for key, _ in keyed]

    def _newly_met(self, key: str, questions: Sequence[str]) -> int:
        """How many of ``questions`` are met for the first time, and known already."""
        met = self._met.setdefault(key, set())
        new = [question for question in questions if question not in met]
        met.update(new)
        return sum(question in self._known[key] for question in new)

    def _gathered(self, key: str, candidate: Candidate, questions: tuple[str, ...]) -> Evaluation:
        before = self._evaluations.get((key, questions))
        if before is not None and before.complete:
            return before
        return evaluation_of(key, candidate, questions, self._known[key])

    def _register(self, found: Mapping[str, Evaluation]) -> None:
        """Keep evaluations; one on more questions takes the place of the one on some of them."""
        for key, evaluation in found.items():
            if any(set(evaluation.questions) < set(other) for other in self._parts.get(key, ())):
                continue
            for other in self._parts.get(key, ()):
                if set(other) < set(evaluation.questions):
                    del self._evaluations[key, other]
            parts = [other for other in self._parts.get(key, ()) if (key, other) in self._evaluations]
            self._parts[key] = tuple(dict.fromkeys((*parts, evaluation.questions)))
            self._evaluations[key, evaluation.questions] = evaluation

    def _recall(self, keys: Sequence[str]) -> None:
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        stored = self._store.results_many(new)
        for key in new:
            # a failure of an earlier run is tried again; one of this run is not
            self._known[key] = {q: self._kept(row) for q, row in stored.get(key, {}).items() if row.state == "ok"}

    def _describe_new(self, distinct: Sequence[tuple[str, Candidate]]) -> None:
        """See to it that the store says what each evaluation is; a row that was damaged is written again."""
        digest = self._setup.dataset.digest
        new = [
            EvaluationRow(
                key,
                digest,
                {
                    "pipeline": configuration(candidate),
                    "chunk_size": self._setup.of(candidate).chunk_size,
                    "models": self._setup.of(candidate).model_ids,
                },
            )
            for key, candidate in distinct
            if key not in self._described
        ]
        if new:
            self._store.put_evaluations(new)
            self._described.update(row.key for row in new)

    @cached_property
    def _described(self) -> set[str]:
        return {row.key for row in self._store.evaluations(self._setup.dataset.digest)}

    def _compute(
        self, distinct: Sequence[tuple[str, Candidate]], jobs: Sequence[Job], part: str, *, counts: bool
    ) -> None:
        """Run ``jobs`` and store what comes of them: together, and what has ended for `REPORT_SECONDS` at once.

        A commit takes longer than many an answer; of a process that is killed, so much has to be done again.
        """
        done = 0
        ended: list[ResultRow] = []
        stored = self._clock()
        try:
            for batch in self._started().run([candidate for _, candidate in distinct], jobs, part):
                ended += [
                    ResultRow(distinct[one.job[0]][0], one.job[1], "ok" if one.ok else "failed", one.value)
                    for one in batch
                ]
                done += len(batch)
                if counts:
                    self.computed += len(batch)
                    self._progress(done, len(jobs))
                if self._clock() - stored >= REPORT_SECONDS:
                    rows, ended = ended, []
                    self._put(rows)
                    stored = self._clock()
        finally:
            self._put(ended)

    def _put(self, rows: Sequence[ResultRow]) -> None:
        for row in self._store.put_results(rows) if rows else ():
            self._known[row.evaluation][row.question] = self._kept(row)

    def _kept(self, row: ResultRow) -> ResultRow:
        """A row as it is known to the end of the run."""
        return replace(row, value=self._records.keep(row)) if row.state == "ok" else row

    def _started(self) -> Runner:
        if self._runner is None:
            self._runner = self._stack.enter_context(self._start())
        return self._runner

    def _start(self) -> Runner:
        engine = self._setup.engine(self._store, self._budget, self._failures, room=self._memory)
        self._engine = engine
        if self._cluster is not None:
            from ragsmith.evaluation.actor_runner import ActorRunner  # noqa: PLC0415  rarely needed

            return ActorRunner(self._setup, engine, self._cluster, self._memory.limit)
        if self._setup.waits:
            return ThreadRunner(self._setup, engine, max(1, self._workers))
        if self._processes > 1:
            return ProcessRunner(self._setup, engine, self._workers, self._memory.limit)
        return Runner(self._setup, engine)

    @property
    def _processes(self) -> int:
        """How many processes there are when something is computed: this one, and the workers if they are processes."""
        if self._cluster is not None:
            return 1 + self._cluster.actors
        alone = self._workers <= 1 or self._setup.waits
        return 1 if alone or serves_one_process(self._setup.loaded_models.vectors_at) else 1 + self._workers
