"""Evaluation of candidates on questions, with results cached in the store.

Stored results are reused, and computed ones are stored within `REPORT_SECONDS`. A candidate without a record for every
question has no mean; `ranking` defines how it is compared.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from ragsmith.errors import ModelUnavailable, ProviderTrouble, StageFailed, warn_caller
from ragsmith.evaluation.cluster import Cluster
from ragsmith.evaluation.evaluation import (
    Evaluation,
    Evaluations,
    Record,
    RecordCache,
    build_evaluation,
    is_trouble,
)
from ragsmith.evaluation.experiment import Experiment, sort_examples
from ragsmith.evaluation.fitting import Fitter
from ragsmith.evaluation.keys import evaluation_key, ranking_key, retrieval_key, scoring_model_ids
from ragsmith.evaluation.latency import Clock, measure_seconds
from ragsmith.evaluation.processes import LARGE_ENTRIES, ProcessRunner
from ragsmith.evaluation.threads import (
    ANSWER,
    RANKING,
    REPORT_SECONDS,
    ComputedWork,
    Job,
    Runner,
    ThreadRunner,
    TraceObserver,
    failure_record,
)
from ragsmith.gateway.budget import Budget
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.memory import (
    BUILDING_BYTES,
    CHUNK_BYTES,
    MIB,
    Memory,
    memory_per_process,
    process_bytes,
    share_memory,
)
from ragsmith.measures.judge import CONCURRENT_CALLS, collect_scores
from ragsmith.models.calls import ChatModel
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.served.provider import ProviderActivity
from ragsmith.models.tasks import Input
from ragsmith.models.usage import Meter
from ragsmith.models.vector_stores import serves_one_process
from ragsmith.pipelines.engine import Engine, stage_errors
from ragsmith.pipelines.genes import Candidate, configuration
from ragsmith.store.store import EvaluationRow, ResultRow, Store
from ragsmith.types import Example

Progress = Callable[[int, int], None]
"""Callback with the number of finished questions and of all questions of the current batch."""


class Evaluator:
    """Evaluates candidates on one data set. Workers start, and models are loaded, at the first missing result.

    With ``ranking_only`` no answer is generated, and rankings alone are evaluated. ``clock`` measures latency and the
    interval at which results are stored.
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
        ranking_only: bool = False,
        clock: Clock = perf_counter,
        memory: int | None = None,
        cluster: Cluster | None = None,
        on_results: Callable[[], None] | None = None,
    ) -> None:
        """``memory`` limits the bytes of all processes together; by default it is the available memory of the machine.

        The actors of ``cluster``, if given, compute missing results instead of ``workers``. ``on_results`` is called
        while results are computed; an exception that it raises ends the evaluation, after they are stored.
        """
        self._setup = setup
        self._cluster = cluster
        self._ranking_only = ranking_only
        self._budget = budget
        self._failures = Failures(store, retry_failed=retry_failed)
        self._store = store
        self._clock = clock
        self._workers = workers
        self._limit = memory
        self._memory = Memory(memory_per_process(memory, self._processes))
        self._progress = progress or (lambda done, total: None)
        self._on_results = on_results or (lambda: None)
        self._runner: Runner | None = None
        self._engine: Engine | None = None
        self._stack = ExitStack()
        self._fitter = Fitter(setup, store, self._get_runner)
        self._rows: dict[str, dict[str, ResultRow]] = {}
        self._test_keys: dict[str, str] = {}  # with a test judge, the keys of results on test questions, by key
        self._records = RecordCache(self._memory, store.results_reopened)
        self._requested: dict[str, set[str]] = {}
        self._parts: dict[str, tuple[tuple[str, ...], ...]] = {}  # the sets of questions of each evaluation, by its key
        self._evaluations: dict[tuple[str, tuple[str, ...]], Evaluation] = {}
        self.computed = 0
        self.computed_rankings = 0
        self.reused = 0
        self.timings = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        memory = self._memory
        if kind is None and memory.limit and memory.needed:
            warn_caller(
                f"memory: a process used {memory.needed / MIB:,.0f} MiB with almost empty caches, and its share"
                f" is {memory.limit / MIB:,.0f} MiB: results are the same, and are computed faster with more memory"
            )

    def work(self) -> ComputedWork | None:
        """Return the computed calls of models and stages; None if all results were cached."""
        return self._runner.work() if self._runner else None

    def activity(self) -> ProviderActivity:
        """Return the past and current activity of providers."""
        return self._engine.gateway.activity() if self._engine else ProviderActivity()

    @property
    def evaluations(self) -> Evaluations:
        """All evaluations so far."""
        return self._evaluations

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The keys of evaluations that were started and not finished."""
        ended = {key for key, _ in self._evaluations}
        return tuple(key for key in self._requested if key not in ended)

    def forget_trouble(self) -> bool:
        """Forget what failed by `ProviderTrouble`, so that it is computed again; return whether anything did."""
        found = [
            (rows, question)
            for rows in {id(rows): rows for rows in self._rows.values()}.values()
            for question, row in rows.items()
            if row.state == "failed" and is_trouble(row.value)
        ]
        for rows, question in found:
            del rows[question]
        self._evaluations = {place: one for place, one in self._evaluations.items() if not one.has_trouble}
        self._failures.forget_trouble()
        self._fitter.forget_failures()
        return bool(found)

    def key(self, candidate: Candidate, *, tested: bool = False) -> str:
        """Return the key in the store of the evaluation of a candidate, which must be fitted if it learns.

        If ``tested``, it is that of the results on test questions, which differs if these have another judge.
        """
        return (
            retrieval_key(self._setup, candidate)
            if self._ranking_only
            else evaluation_key(self._setup, candidate, tested=tested)
        )

    def stored_key(self, key: str, question: str) -> str:
        """Return the key in the store of the result of the evaluation ``key`` on a question."""
        return self._test_keys[key] if key in self._test_keys and question in self._setup.tested else key

    def evaluate(self, candidates: Sequence[Candidate], examples: Sequence[Example]) -> list[Evaluation]:
        """Return the evaluations of ``candidates`` on ``examples``, in order, after fitting what learns."""
        questions = tuple(example.id for example in sort_examples(examples))
        part, key_of = (RANKING, retrieval_key) if self._ranking_only else (ANSWER, evaluation_key)
        return self._evaluate(candidates, questions, part, key_of, counts=True)

    def rank(self, candidates: Sequence[Candidate], examples: Sequence[Example]) -> list[Evaluation]:
        """Evaluate rankings alone: records have no answer, and only the measures of rankings.

        Candidates with equal genes up to the filter share their records.
        """
        questions = tuple(example.id for example in sort_examples(examples))
        return self._evaluate(candidates, questions, RANKING, ranking_key, counts=False)

    def observe(
        self, wanted: Sequence[tuple[Candidate, Sequence[str]]], observer: TraceObserver
    ) -> Iterator[tuple[int, str, Any]]:
        """Yield candidate index, question id and result of ``observer`` for the traces of candidates on questions.

        The order is arbitrary. Results are neither stored nor counted as answers. Candidates that learn must be fitted;
        a question that fails is left out.
        """
        jobs = [(place, question) for place, (_, questions) in enumerate(wanted) for question in questions]
        if not jobs:
            return
        for batch in self._get_runner().run([candidate for candidate, _ in wanted], jobs, observer):
            for finished in batch:
                if finished.ok:
                    yield (*finished.job, finished.value)

    def score_answers(
        self, judge: LanguageModel | ChatModel, requests: Sequence[tuple[int, Mapping[str, Input]]]
    ) -> list[float | None]:
        """Return the scores of ``judge`` for samples and inputs of its task; None if a verdict failed.

        Raises:
            ModelUnavailable: its server is in trouble, which says nothing of the judge.
        """
        gateway = Gateway(self._store, self._budget, self._failures)
        view = gateway.language_model(judge, Meter(), "judge")

        def score(request: tuple[int, Mapping[str, Input]]) -> float | str | None:
            try:
                with stage_errors("measures", "judge"):
                    return collect_scores(view, [request], raised=(ModelUnavailable, ProviderTrouble))[0]
            except StageFailed as failed:
                if isinstance(failed.cause, ProviderTrouble):
                    raise ModelUnavailable(f"{failed.cause}: run the same command later") from None
                return str(failure_record(failed, failed.stage)["error"])  # raises what ends a run

        try:
            with ThreadPoolExecutor(CONCURRENT_CALLS) as pool:
                scores = list(pool.map(score, requests))
        finally:
            gateway.write_pending()
        if errors := [value for value in scores if isinstance(value, str)]:
            warn_caller(f"the judge {judge.id} failed on planted answers: {errors[0]}")
        return [None if isinstance(value, str) else value for value in scores]

    def measure_seconds(self, candidate: Candidate, question: str) -> float | Record:
        """Return the seconds that a user waits for the answer to a question, or the failure.

        The question is answered in this process, alone, while all workers are idle.
        """
        runner = self._get_runner()
        runner.settle()  # starting processes would disturb the measurement
        try:
            seconds = measure_seconds(
                Gateway(self._store, self._budget, self._failures),
                self._budget,
                self._clock,
                *runner.engines.get(candidate),
                candidate,
                question,
                ranking_only=self._ranking_only,
            )
        except (Exception, SystemExit) as error:  # noqa: BLE001  recorded as a failure
            return failure_record(error, "timing")
        self.timings += 1
        return seconds

    def _evaluate(
        self,
        candidates: Sequence[Candidate],
        questions: tuple[str, ...],
        part: str,
        key_of: Callable[[Experiment, Candidate], str],
        *,
        counts: bool,
    ) -> list[Evaluation]:
        """Return evaluations of a ``part``, keyed by ``key_of``; with ``counts`` they are registered for the run."""
        fitted = self._fitter.fit(candidates)
        keyed = [(key_of(self._setup, candidate), candidate) for candidate, _ in fitted]
        unfitted = {key: failure for (key, _), (_, failure) in zip(keyed, fitted, strict=True) if failure}
        if key_of is evaluation_key and "test_judge" in self._setup.model_ids:
            self._test_keys |= {key: self.key(candidate, tested=True) for key, candidate in keyed}
        self._load([key for key, _ in keyed])
        distinct = list(dict(keyed).items())
        jobs = [
            (position, question)
            for position, (key, _) in enumerate(distinct)
            for question in questions
            if question not in self._rows[key]
        ]
        if counts:
            self.reused += sum(self._count_reused(key, questions) for key, _ in distinct)
        self._store_descriptions(distinct)
        for key, failure in unfitted.items():
            new = [question for question in questions if question not in self._rows[key]]
            self._store_rows(
                [ResultRow(self.stored_key(key, question), question, "failed", failure) for question in new]
            )
        ready = [job for job in jobs if distinct[job[0]][0] not in unfitted]
        if ready:
            self._compute(distinct, ready, part, counts=counts)
        found = {key: self._collect(key, candidate, questions) for key, candidate in distinct}
        if counts:
            self._register(found)
        return [found[key] for key, _ in keyed]

    def _count_reused(self, key: str, questions: Sequence[str]) -> int:
        """Return the number of cached results among ``questions`` that this run has not requested before."""
        met = self._requested.setdefault(key, set())
        new = [question for question in questions if question not in met]
        met.update(new)
        return sum(question in self._rows[key] for question in new)

    def _collect(self, key: str, candidate: Candidate, questions: tuple[str, ...]) -> Evaluation:
        before = self._evaluations.get((key, questions))
        if before is not None and before.complete:
            return before
        return build_evaluation(key, candidate, questions, self._rows[key])

    def _register(self, found: Mapping[str, Evaluation]) -> None:
        """Register evaluations; one on a superset of the questions of another replaces it."""
        for key, evaluation in found.items():
            if any(set(evaluation.questions) < set(other) for other in self._parts.get(key, ())):
                continue
            for other in self._parts.get(key, ()):
                if set(other) < set(evaluation.questions):
                    del self._evaluations[key, other]
            parts = [other for other in self._parts.get(key, ()) if (key, other) in self._evaluations]
            self._parts[key] = tuple(dict.fromkeys((*parts, evaluation.questions)))
            self._evaluations[key, evaluation.questions] = evaluation

    def _load(self, keys: Sequence[str]) -> None:
        new = [key for key in dict.fromkeys(keys) if key not in self._rows]
        pairs = {key: (key, self._test_keys.get(key, key)) for key in new}
        stored = self._store.results_many(dict.fromkeys(each for pair in pairs.values() for each in pair))
        for key, pair in pairs.items():
            # failures of earlier runs are retried; those of this run are not
            self._rows[key] = self._rows[pair[1]] = {
                question: self._evictable(row)
                for each in dict.fromkeys(pair)
                for question, row in stored[each].items()
                if row.state == "ok" and each == self.stored_key(key, question)
            }

    def _store_descriptions(self, distinct: Sequence[tuple[str, Candidate]]) -> None:
        """Store the description of each new evaluation; a damaged row is written again."""
        digest = self._setup.dataset.digest
        new = [
            EvaluationRow(
                stored_key,
                digest,
                {
                    "pipeline": configuration(candidate),
                    "chunk_size": self._setup.for_candidate(candidate).chunk_size,
                    "models": scoring_model_ids(
                        self._setup.for_candidate(candidate).model_ids, tested=stored_key != key
                    ),
                },
            )
            for key, candidate in distinct
            for stored_key in dict.fromkeys((key, self._test_keys.get(key, key)))
            if stored_key not in self._described
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
        """Run ``jobs`` and store their results every `REPORT_SECONDS`, as a commit may take longer than an answer.

        If the process is killed, the results of one interval are computed again.
        """
        done = 0
        ended: list[ResultRow] = []
        stored = self._clock()
        try:
            for batch in self._get_runner().run([candidate for _, candidate in distinct], jobs, part):
                ended += [
                    ResultRow(
                        self.stored_key(distinct[position][0], question),
                        question,
                        "ok" if item.ok else "failed",
                        item.value,
                    )
                    for item in batch
                    for position, question in [item.job]
                ]
                done += len(batch)
                if counts:
                    self.computed += len(batch)
                    self._progress(done, len(jobs))
                else:
                    self.computed_rankings += len(batch)
                if self._clock() - stored >= REPORT_SECONDS:
                    rows, ended = ended, []
                    self._store_rows(rows)
                    stored = self._clock()
                if done < len(jobs):
                    self._on_results()
        finally:
            self._store_rows(ended)

    def _store_rows(self, rows: Sequence[ResultRow]) -> None:
        for row in self._store.put_results(rows) if rows else ():
            self._rows[row.evaluation][row.question] = self._evictable(row)

    def _evictable(self, row: ResultRow) -> ResultRow:
        """Return a row whose record can be evicted from memory."""
        return replace(row, value=self._records.add(row)) if row.state == "ok" else row

    def _get_runner(self) -> Runner:
        if self._runner is None:
            self._runner = self._stack.enter_context(self._create_runner())
        return self._runner

    def _create_runner(self) -> Runner:
        share = self._share_memory()
        engine = self._setup.engine(self._store, self._budget, self._failures, room=self._memory)
        self._engine = engine
        if self._cluster is not None:
            from ragsmith.evaluation.actor_runner import ActorRunner  # noqa: PLC0415  rarely needed

            return ActorRunner(self._setup, engine, self._cluster, self._memory.limit)
        if self._setup.prefers_threads:
            return ThreadRunner(self._setup, engine, max(1, self._workers))
        if self._processes > 1:
            return ProcessRunner(self._setup, engine, self._workers, share)
        return Runner(self._setup, engine)

    def _share_memory(self) -> int | None:
        """Return the limit of each worker; of a large collection, the limit of all processes counts the index once.

        Raises:
            WrongOption: the limit has no room for the index.
        """
        chunks = len(self._setup.corpus.chunks)
        if self._cluster is not None or chunks < LARGE_ENTRIES:
            return self._memory.limit
        collection = process_bytes() - self._memory.host_bytes + BUILDING_BYTES + chunks * CHUNK_BYTES
        fitting, own, share = share_memory(self._limit, self._processes, collection)
        if fitting < self._processes:
            self._workers = max(1, fitting - 1)
            warn_caller(
                f"memory: {self._workers} of the workers fit beside the index: results are the same, and are computed"
                " faster with more memory"
            )
        self._memory.resize(own)
        return share

    @property
    def _processes(self) -> int:
        """The number of processes during computation: this one, and workers that are processes."""
        if self._cluster is not None:
            return 1 + self._cluster.actors
        alone = self._workers <= 1 or self._setup.prefers_threads
        return 1 if alone or serves_one_process(self._setup.loaded_models.vector_store_address) else 1 + self._workers
