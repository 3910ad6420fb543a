"""Runners of evaluations: threads for remote models; one thread, or processes, for models that compute.

Results are yielded as they arrive, in any order; nothing depends on that order.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Protocol, Self

from ragsmith.errors import (
    BudgetExhausted,
    ModelError,
    ModelUnavailable,
    RagsmithError,
    StageFailed,
    StoreError,
    UsageError,
)
from ragsmith.evaluation.experiment import Engines, Experiment
from ragsmith.evaluation.scoring import score_answer, score_ranking
from ragsmith.gateway.call_context import CallCounts
from ragsmith.gateway.gateway import Gateway
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, out_of_fold
from ragsmith.pipelines.trace import Trace
from ragsmith.text.redaction import redacted
from ragsmith.types import Example, Gold

STOP_SECONDS, INTERRUPT_SECONDS = 10.0, 2.0
"""Seconds to wait for requests in flight when a run stops by itself, and on Ctrl-C."""

JOBS_PER_THREAD = 4
"""Jobs submitted at a time for each thread, so that a whole batch does not take memory."""

REPORT_SECONDS = 0.5
"""Maximum seconds between two batches of results, which may be empty; results are stored within this time."""

ANSWER, RANKING = "answer", "ranking"
"""Parts of a pipeline: up to the answer, or up to the filter, which gives the ranking."""

Job = tuple[int, str]
"""A candidate's position in the batch, and a question's id."""


@dataclass(frozen=True, slots=True)
class FinishedQuestion:
    """The result of a job: ``value`` is a record or an observation or, if not ``ok``, a failure."""

    job: Job
    ok: bool
    value: Any


@dataclass(frozen=True, slots=True)
class ComputedWork:
    """Computed calls and stages, for the statistics of a run."""

    calls: dict[str, CallCounts]
    stages_requested: int
    stages_computed: int

    def __add__(self, other: ComputedWork) -> ComputedWork:
        calls = {kind: counts + other.calls[kind] for kind, counts in self.calls.items()}
        return ComputedWork(
            calls, self.stages_requested + other.stages_requested, self.stages_computed + other.stages_computed
        )


class TraceObserver(Protocol):
    """A function of traces; it and its results must be picklable, for worker processes."""

    @property
    def answers(self) -> bool:
        """Whether pipelines run up to the answer instead of the filter."""
        ...

    def __call__(self, engine: Engine, setup: Experiment, candidate: Candidate, trace: Trace, example: Example) -> Any:
        """Observe the trace of ``candidate`` on ``example``; ``setup`` and ``engine`` are those of the candidate."""
        ...


Part = str | TraceObserver
"""What to compute for a question: `ANSWER`, `RANKING`, the observation of a family's gene, or a function of traces."""


def evaluate_job(
    engine: Engine, setup: Experiment, candidate: Candidate, job: Job, part: Part = ANSWER
) -> FinishedQuestion:
    """Run a candidate on a question; exceptions are recorded as failures here only."""
    example: Example = setup.examples[job[1]]
    question, gold = example.as_question, Gold(setup.relevance[example.id].relevant)
    try:
        prepared = out_of_fold(candidate, example.question)
        if not isinstance(part, str):
            trace = (engine.answer if part.answers else engine.rank)(prepared, question, gold)
            return FinishedQuestion(job, True, part(engine, setup, prepared, trace, example))
        if part == ANSWER:
            trace = engine.answer(prepared, question, gold)
            return FinishedQuestion(
                job, True, score_answer(setup.scoring_engine(engine, example.id), setup, trace, example)
            )
        if part == RANKING:
            trace = engine.rank(prepared, question, gold)
            return FinishedQuestion(
                job, True, score_ranking(setup.scoring_engine(engine, example.id), setup, trace, example)
            )
        return FinishedQuestion(job, True, engine.observe(prepared, part, question, gold))
    except (Exception, SystemExit) as error:  # noqa: BLE001  recorded, shown, retried on resume; never a score
        return FinishedQuestion(job, False, failure_record(error, "scoring"))


def failure_record(error: BaseException, stage: str) -> dict[str, Any]:
    """Return the record of an error, which is attributed to ``stage`` unless it names its own.

    Raises:
        RagsmithError: the error is not specific to a question, and ends the run.
    """
    cause = error.cause if isinstance(error, StageFailed) else error
    if isinstance(cause, StoreError | ModelUnavailable | BudgetExhausted | UsageError):
        raise cause from None
    if isinstance(cause, ModuleNotFoundError):  # no question can be answered without it
        at = error.stage if isinstance(error, StageFailed) else stage
        raise UsageError(
            f"{at} needs a package that is not installed ({cause}): install it, or leave {at} out"
        ) from None
    return {
        "stage": error.stage if isinstance(error, StageFailed) else stage,
        "kind": cause.kind if isinstance(cause, ModelError) else "defect",
        "error": redacted(f"{type(cause).__name__}: {cause}"),
        "traceback": redacted("".join(traceback.format_exception(cause))),
    }


def to_picklable(error: BaseException) -> BaseException:
    """Return ``error`` if it can be pickled, else an error with its message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  pickling a foreign error may raise anything
        kind = next((k for k in (UsageError, RagsmithError) if isinstance(error, k)), RuntimeError)
        return kind(f"{error}" if isinstance(error, RagsmithError) else f"{type(error).__name__}: {error}")
    return error


def measure_work(engines: Iterable[Engine]) -> ComputedWork:
    """Return the work of engines that share a gateway."""
    each = list(engines)
    asked, computed = sum(engine.requested for engine in each), sum(engine.stages.computed for engine in each)
    return ComputedWork(each[0].gateway.counts(), asked, computed)


class Runner:
    """Evaluates jobs in this thread, one after the other; other runners derive from it.

    A context manager that stops its workers. ``engines`` are those of this process, which build indexes and entity
    graphs.
    """

    def __init__(self, setup: Experiment, engine: Engine) -> None:
        self.engines = Engines(setup, engine)
        self._gateway = engine.gateway

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if kind is not None:
            self._gateway.stop()
        self._gateway.write_pending()

    def settle(self) -> None:
        """Wait until all workers have started, so that starting them does not disturb a measurement."""

    def work(self) -> ComputedWork:
        """Return the work so far."""
        return measure_work(self.engines)

    def run(
        self, candidates: Sequence[Candidate], jobs: Sequence[Job], part: Part = ANSWER
    ) -> Iterator[list[FinishedQuestion]]:
        """Evaluate ``jobs`` and yield batches of results, which are empty after `REPORT_SECONDS` without a result.

        A value is the record of an answer or, for the part `RANKING`, of a ranking; the observation of the gene of a
        family, for fitting; or the result of a `TraceObserver`. Jobs are ordered by question, as candidates share
        stages within one.
        """
        prepared = [self.engines.get(candidate) for candidate in candidates]
        for job in sorted(jobs, key=lambda job: (job[1], job[0])):
            yield [evaluate_job(*prepared[job[0]], candidates[job[0]], job, part)]


def close_pool(pool: ThreadPoolExecutor, gateway: Gateway, kind: type[BaseException] | None) -> None:
    """Stop the threads that use ``gateway``; after an error of some ``kind``, no further requests are sent.

    Requests in flight are then cancelled after a short wait, which is shorter after Ctrl-C.
    """
    if kind is not None:
        pool.shutdown(wait=False, cancel_futures=True)
        is_interrupt = issubclass(kind, KeyboardInterrupt)
        gateway.stop(INTERRUPT_SECONDS if is_interrupt else STOP_SECONDS)
    pool.shutdown(wait=True, cancel_futures=True)
    gateway.write_pending()


class ThreadRunner(Runner):
    """Runner with ``workers`` threads, for models that spend their time waiting for replies.

    Jobs are ordered by candidate: questions of one candidate share few requests, so threads rarely wait for the same
    reply. After an error or Ctrl-C no further requests are sent; see `close_pool`.
    """

    def __init__(self, setup: Experiment, engine: Engine, workers: int) -> None:
        super().__init__(setup, engine)
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="ragsmith")
        self._ahead = JOBS_PER_THREAD * workers

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        close_pool(self._pool, self._gateway, kind)

    def run(
        self, candidates: Sequence[Candidate], jobs: Sequence[Job], part: Part = ANSWER
    ) -> Iterator[list[FinishedQuestion]]:
        """See `Runner.run`."""
        waiting = iter(sorted(jobs))
        prepared = [self.engines.get(candidate) for candidate in candidates]
        done: SimpleQueue[Future[FinishedQuestion]] = SimpleQueue()  # waiting for many futures is slow
        submitted = 0
        while True:
            for job in islice(waiting, self._ahead - submitted):
                future = self._pool.submit(evaluate_job, *prepared[job[0]], candidates[job[0]], job, part)
                future.add_done_callback(done.put)
                submitted += 1
            if not submitted:
                return
            ended: list[Future[FinishedQuestion]] = []
            with suppress(Empty):
                ended.append(done.get(timeout=REPORT_SECONDS))
                ended += [done.get() for _ in range(done.qsize())]
            submitted -= len(ended)
            yield [future.result() for future in ended if future.exception() is None]
            for future in ended:
                future.result()  # finished results were delivered before this may raise
