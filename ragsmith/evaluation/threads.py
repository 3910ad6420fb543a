"""Where evaluations run: threads for models that are waited for; this one, or processes, for models that compute.

All yield finished questions as they come, in any order; nothing that follows depends on that order.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
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
from ragsmith.evaluation.scoring import scored, scored_ranking
from ragsmith.gateway.call_context import CallCounts
from ragsmith.gateway.gateway import Gateway
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, facing
from ragsmith.pipelines.trace import Trace
from ragsmith.text.redaction import redacted
from ragsmith.types import Example, Gold, Question

PATIENCE_WHEN_STOPPING, PATIENCE_ON_INTERRUPT = 10.0, 2.0
"""Seconds in which what was sent may still be answered, and kept, when a run stops by itself and on Ctrl-C."""

JOBS_A_THREAD = 4
"""Jobs submitted at a time for each thread: tracking a whole batch would cost more than the work."""

REPORT_SECONDS = 0.5
"""So often a runner says at least what has ended, if only that nothing has: what it says is stored within this time."""

ANSWER, RANKING = "answer", "ranking"
"""What is made of a question: an answer, or the ranking alone, up to the filter."""

Job = tuple[int, str]
"""A candidate's position in the batch, and a question's id."""


@dataclass(frozen=True, slots=True)
class FinishedQuestion:
    """A job that ended: ``value`` is a record or an observation, or says what failed."""

    job: Job
    ok: bool
    value: Any


@dataclass(frozen=True, slots=True)
class ComputedWork:
    """What was really done, for the run's account."""

    calls: dict[str, CallCounts]
    stages_requested: int
    stages_computed: int

    def __add__(self, other: ComputedWork) -> ComputedWork:
        calls = {kind: counts + other.calls[kind] for kind, counts in self.calls.items()}
        return ComputedWork(
            calls, self.stages_requested + other.stages_requested, self.stages_computed + other.stages_computed
        )


class TraceObserver(Protocol):
    """A function of traces. It is sent to worker processes, and its results are sent back."""

    @property
    def answers(self) -> bool:
        """Whether pipelines are run to their answer, or up to the filter."""
        ...

    def __call__(self, engine: Engine, setup: Experiment, candidate: Candidate, trace: Trace, example: Example) -> Any:
        """See what ``candidate`` did with ``example``; ``setup`` and ``engine`` are the candidate's."""
        ...


Part = str | TraceObserver
"""What to compute for a question: `ANSWER`, `RANKING`, the observation of a family's gene, or a function of traces."""


def evaluate_job(
    engine: Engine, setup: Experiment, candidate: Candidate, job: Job, part: Part = ANSWER
) -> FinishedQuestion:
    """Run one candidate on one question: the one place where an exception becomes a state."""
    example: Example = setup.examples[job[1]]
    question, gold = Question(example.question), Gold(setup.relevance[example.id].relevant)
    try:
        able = facing(candidate, example.question)
        if not isinstance(part, str):
            trace = (engine.answer if part.answers else engine.rank)(able, question, gold)
            return FinishedQuestion(job, True, part(engine, setup, able, trace, example))
        if part == ANSWER:
            trace = engine.answer(able, question, gold)
            return FinishedQuestion(job, True, scored(setup.marking(engine), setup, trace, example))
        if part == RANKING:
            trace = engine.rank(able, question, gold)
            return FinishedQuestion(job, True, scored_ranking(setup.marking(engine), setup, trace, example))
        return FinishedQuestion(job, True, engine.observe(able, part, question, gold))
    except (Exception, SystemExit) as error:  # noqa: BLE001  recorded, shown, retried on resume; never a score
        return FinishedQuestion(job, False, state_of(error, "scoring"))


def state_of(error: BaseException, stage: str) -> dict[str, Any]:
    """What is kept of an error, which happened in ``stage`` unless it says so itself.

    Raises:
        RagsmithError: it is nothing that a question can help.
    """
    cause = error.cause if isinstance(error, StageFailed) else error
    if isinstance(cause, StoreError | ModelUnavailable | BudgetExhausted | UsageError):
        raise cause from None
    return {
        "stage": error.stage if isinstance(error, StageFailed) else stage,
        "kind": cause.kind if isinstance(cause, ModelError) else "defect",
        "error": redacted(f"{type(cause).__name__}: {cause}"),
        "traceback": redacted("".join(traceback.format_exception(cause))),
    }


def sendable(error: BaseException) -> BaseException:
    """``error`` in a form that can be pickled: its message if the error itself cannot."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  pickling a foreign error may raise anything
        kind = next((k for k in (UsageError, RagsmithError) if isinstance(error, k)), RuntimeError)
        return kind(f"{error}" if isinstance(error, RagsmithError) else f"{type(error).__name__}: {error}")
    return error


def account(engines: Iterable[Engine]) -> ComputedWork:
    """What engines did, which have one gateway."""
    each = list(engines)
    asked, computed = sum(engine.requested for engine in each), sum(engine.stages.computed for engine in each)
    return ComputedWork(each[0].gateway.counts(), asked, computed)


class Runner:
    """Evaluates jobs in this thread, one after the other; other runners derive from it.

    A context manager, so that whatever was started is stopped. ``engines`` are those of this process, one for each
    setup that candidates ask for; they have built what whole collections need.
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
        """What was done so far."""
        return account(self.engines)

    def run(
        self, candidates: Sequence[Candidate], jobs: Sequence[Job], part: Part = ANSWER
    ) -> Iterator[list[FinishedQuestion]]:
        """Evaluate ``jobs`` and yield them as they end, a few at a time, or none at all for `REPORT_SECONDS`.

        The value is a record of the answer, or of the `RANKING` alone; or, where ``part`` is the name of a family, what
        its gene, which is to be fitted, observes on the question; or what a `TraceObserver` sees. Jobs go question by
        question, as candidates share stages within one.
        """
        able = [self.engines.of(candidate) for candidate in candidates]
        for job in sorted(jobs, key=lambda job: (job[1], job[0])):
            yield [evaluate_job(*able[job[0]], candidates[job[0]], job, part)]


def close(pool: ThreadPoolExecutor, gateway: Gateway, kind: type[BaseException] | None) -> None:
    """End threads that ask through ``gateway``; after an error of some ``kind`` nothing more is sent.

    What is in flight is then soon given up, sooner after Ctrl-C.
    """
    if kind is not None:
        pool.shutdown(wait=False, cancel_futures=True)
        is_interrupt = issubclass(kind, KeyboardInterrupt)
        gateway.stop(PATIENCE_ON_INTERRUPT if is_interrupt else PATIENCE_WHEN_STOPPING)
    pool.shutdown(wait=True, cancel_futures=True)
    gateway.write_pending()


class ThreadRunner(Runner):
    """One engine for each setup that candidates ask for, ``workers`` questions in flight.

    Jobs begin candidate by candidate: questions of one candidate share little, so that hardly any thread waits for
    what another is asking. On the way out through an error, or Ctrl-C, nothing more is sent, and what is in flight soon
    given up.
    """

    def __init__(self, setup: Experiment, engine: Engine, workers: int) -> None:
        super().__init__(setup, engine)
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="ragsmith")
        self._ahead = JOBS_A_THREAD * workers

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        close(self._pool, self._gateway, kind)

    def run(
        self, candidates: Sequence[Candidate], jobs: Sequence[Job], part: Part = ANSWER
    ) -> Iterator[list[FinishedQuestion]]:
        """See `Runner.run`."""
        waiting = iter(sorted(jobs))
        able = [self.engines.of(candidate) for candidate in candidates]
        futures: set[Future[FinishedQuestion]] = set()
        while True:
            for job in islice(waiting, self._ahead - len(futures)):
                futures.add(self._pool.submit(evaluate_job, *able[job[0]], candidates[job[0]], job, part))
            if not futures:
                return
            done, futures = wait(futures, REPORT_SECONDS, return_when=FIRST_COMPLETED)
            finished = [future for future in done if future.exception() is None]
            yield [future.result() for future in finished]
            for future in done:
                future.result()  # finished results were delivered before this may raise
