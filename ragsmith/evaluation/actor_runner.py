"""Evaluation on a Ray cluster: the driver process selects, stores and reports, and actors answer questions.

The driver builds indexes and entity graphs and puts them into Ray's object store, part by part. If an actor or its
node is lost, its jobs go to the other actors, and Ray restarts it where resources are available.
"""

import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from time import monotonic, sleep
from types import TracebackType
from typing import Any

from ragsmith.errors import RagsmithError, StageFailed, UsageError, WrongOption, warn_caller
from ragsmith.evaluation.actors import CLUSTER_LOST, GRAPH, ActorBatch, EvaluationActor, StoredName, StoredReference
from ragsmith.evaluation.cluster import Cluster
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.job_queues import MAX_LOSSES, JobQueues
from ragsmith.evaluation.node_setup import pack_setup
from ragsmith.evaluation.threads import (
    ANSWER,
    REPORT_SECONDS,
    ComputedWork,
    FinishedQuestion,
    Job,
    Part,
    Runner,
)
from ragsmith.index.parts import list_parts, pack_part
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate

WORK_SECONDS = 10.0
"""Timeout in seconds for an actor to report its work."""
WARN_SECONDS = 15.0
"""Seconds without any running actor before a warning."""
STARTUP_SECONDS = 60.0
"""Maximum seconds to wait for actors after a start or a loss, before a measurement of time."""
STARTUP_FAILED = (
    f"an actor was lost {MAX_LOSSES} times during its startup on a node of the cluster, which may have too little "
    "memory for documents and models: ask for fewer actors with --workers, or use larger nodes"
)
STORE_FULL = (
    "the object store of the Ray cluster is full: start its nodes with a larger --object-store-memory, and run the "
    "same command again"
)

Assigned = dict[Any, tuple[int, list[Job]]]
"""The index of an actor and its jobs, by the reference to their result."""


class ActorRunner(Runner):
    """Runner on the actors of a cluster, each with its own engines."""

    def __init__(
        self,
        setup: Experiment,
        engine: Engine,
        cluster: Cluster,
        memory: int | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``memory`` limits the bytes of each actor. ``clock`` times the warning that no actor is running.

        Raises:
            UsageError: there is no such cluster.
        """
        super().__init__(setup, engine)
        self._ray = cluster.connect()
        self._shard = {question: i % cluster.actors for i, question in enumerate(setup.order)}
        self._actors: list[Any] = []
        self._starting: dict[Any, int] = {}
        """Indices of actors during startup, by the reference to their next message."""
        self._free: list[int] = []
        """Indices of actors that are ready and have no jobs."""
        self._running: set[int] = set()
        """Indices of actors that have replied to a ping since their last start."""
        self._deaths: Counter[int] = Counter()
        """Number of losses of each actor during startup, since it was last ready."""
        self._clock = clock
        self._idle_since = math.inf
        """Time since which no actor has been running."""
        self._has_warned = False
        self._stored: dict[StoredName, StoredReference] = {}
        with self._translated_errors(), ExitStack() as stack:
            stack.push(self)
            self._packed = [self._ray.put(pack_setup(setup))]
            actor_class = self._ray.remote(num_cpus=1, max_restarts=-1, scheduling_strategy="SPREAD")(EvaluationActor)
            self._actors = [actor_class.remote(memory) for _ in range(cluster.actors)]
            for index in range(len(self._actors)):
                self._ping(index)
            self._startup_deadline = self._clock() + STARTUP_SECONDS
            stack.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            for actor in self._actors:
                with suppress(self._ray.exceptions.RayError, ConnectionError, ValueError):
                    self._ray.kill(actor)

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate errors of Ray into errors that say how to go on.

        Raises:
            RagsmithError: the cluster has no memory for the data, or is lost.
        """
        errors = self._ray.exceptions
        try:
            yield
        except errors.RayTaskError:
            raise  # a defect of ours
        except (errors.ObjectStoreFullError, errors.OutOfDiskError) as error:
            raise RagsmithError(f"{STORE_FULL} ({type(error).__name__})") from error
        except (errors.RayError, ConnectionError) as error:
            raise RagsmithError(f"{CLUSTER_LOST} ({type(error).__name__})") from error

    def settle(self) -> None:
        """See `Runner.settle`; actors that lack resources are not waited for longer than `STARTUP_SECONDS`."""
        with self._translated_errors():
            while self._starting and self._clock() < self._startup_deadline:
                for reference in self._completed([*self._starting]):
                    self._advance_startup(reference)

    def work(self) -> ComputedWork:
        """See `Runner.work`; the work of lost actors is not counted."""
        total = super().work()
        reports = [self._actors[index].account.remote() for index in self._free]
        for reference in reports:
            with suppress(self._ray.exceptions.RayError):
                total = total + self._ray.get(reference, timeout=WORK_SECONDS)
        return total

    def run(
        self, candidates: Sequence[Candidate], jobs: Sequence[Job], part: Part = ANSWER
    ) -> Iterator[list[FinishedQuestion]]:
        """See `Runner.run`."""
        with self._translated_errors():
            batch = self._ray.put(self._batch(candidates, part))
            queues = JobQueues(jobs, self._shard)
            assigned: Assigned = {}
            try:
                while queues.left:
                    self._assign(batch, queues, assigned)
                    yield from self._results(queues, assigned)
            finally:
                self._free += [index for index, _ in assigned.values()]  # if the caller stopped early

    def _assign(self, batch: Any, queues: JobQueues, assigned: Assigned) -> None:
        """Give jobs to the free actors."""
        for index in list(self._free):
            if share := queues.take(index):
                self._free.remove(index)
                assigned[self._actors[index].evaluate.remote(batch, share)] = index, share

    def _results(self, queues: JobQueues, assigned: Assigned) -> Iterator[list[FinishedQuestion]]:
        """Yield the results that have arrived, and then raise the error of an actor, if any."""
        found: list[FinishedQuestion] = []
        problem: BaseException | None = None
        for reference in self._completed([*assigned, *self._starting]):
            if reference in self._starting:
                self._advance_startup(reference)
                continue
            finished, stopped = self._fetch(reference, queues, *assigned.pop(reference))
            found += finished
            problem = problem or stopped
        yield found
        if problem is not None:
            raise problem

    def _completed(self, waiting: list[Any]) -> list[Any]:
        """Return the completed references of ``waiting``; an empty list after `REPORT_SECONDS` without one.

        Warns once if no actor has been running for `WARN_SECONDS`.
        """
        now = self._clock()
        self._idle_since = math.inf if self._running else min(self._idle_since, now)
        if not self._has_warned and now - self._idle_since >= WARN_SECONDS:
            self._has_warned = True
            warn_caller(
                f"waiting for the Ray cluster to have room for an actor, which takes one CPU, of {len(self._actors)} "
                "requested: --workers asks for fewer"
            )
        ended, _ = self._ray.wait(waiting, num_returns=1, timeout=REPORT_SECONDS)
        if ended:
            ended, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        return list(ended)

    def _fetch(
        self, reference: Any, queues: JobQueues, index: int, taken: list[Job]
    ) -> tuple[list[FinishedQuestion], BaseException | None]:
        """Return the results of an actor, none if it was lost, and an error that stops the run; queue the other jobs.

        Raises:
            RagsmithError: the same jobs were lost too often.
        """
        finished, problem = [], None
        try:
            finished, problem = self._ray.get(reference)
            self._free.append(index)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError:
            queues.count_loss(taken)
            self._ping(index)
            self._startup_deadline = self._clock() + STARTUP_SECONDS
        queues.settle(index, taken, finished)
        return finished, problem

    def _ping(self, index: int) -> None:
        """Ping an actor that is being started: its startup counts from the first reply."""
        self._running.discard(index)
        self._starting[self._actors[index].ping.remote()] = index

    def _advance_startup(self, reference: Any) -> None:
        """Advance the startup of an actor by its message: a reply to a ping, readiness, or an error.

        Raises:
            UsageError: the node of the actor cannot be used.
            RagsmithError: the actor was lost too often during startup.
        """
        index = self._starting.pop(reference)
        errors = self._ray.exceptions
        try:
            problem = self._ray.get(reference)
        except errors.ActorUnavailableError:
            self._deaths[index] += index in self._running  # else it is just being started again
            if self._deaths[index] >= MAX_LOSSES:
                raise RagsmithError(STARTUP_FAILED) from None
            sleep(REPORT_SECONDS)
            self._ping(index)
            return
        except errors.RayError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise UsageError(
                f"no actor can be started on a node of the cluster ({lines[-1].strip() if lines else error}): it needs "
                "the same Python, Ray and ragsmith[ray] as this process"
            ) from error
        if index not in self._running:
            self._running.add(index)
            self._starting[self._actors[index].ready.remote(self._packed)] = index
            return
        if problem:
            raise WrongOption("engine", f"cannot be used: {problem}")
        del self._deaths[index]
        self._free.append(index)

    def _batch(self, candidates: Sequence[Candidate], part: Part) -> ActorBatch:
        """Return the common data of jobs of ``candidates``; their indexes are built and stored once."""
        collections: list[tuple[StoredName, ...]] = [()] * len(candidates)
        for position, candidate in enumerate(candidates):
            with suppress(StageFailed):  # then actors meet the same failure, and record it for each question
                collections[position] = self._store_collection(candidate)
        stored = {name: self._stored[name] for names in collections for name in names}
        return ActorBatch(self._packed, pickle.dumps(candidates), tuple(collections), stored, part)

    def _store_collection(self, candidate: Candidate) -> tuple[StoredName, ...]:
        """Store the index and entity graph of ``candidate`` in the object store, once, and return their names."""
        engine, _ = self.engines.get(candidate)
        index, graph = engine.prepare(candidate)
        values: dict[StoredName, Callable[[], Any]] = {
            (str(id(engine)), candidate[0].identity, part): partial(pack_part, index, part)
            for part in list_parts(index)
        }
        if graph is not None:
            values[str(id(engine)), "", GRAPH] = lambda: graph
        for name, value in values.items():
            if name not in self._stored:
                self._stored[name] = [self._ray.put(value())]
        return tuple(values)
