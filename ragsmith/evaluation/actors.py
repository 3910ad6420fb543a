"""Ray actors that evaluate candidates.

Each call of an actor ends within a reporting interval, and Ray may restart an actor on any node. The driver process
(`ragsmith.evaluation.actor_runner`) has the store, and collects requests to it from the `Mailbox` of each actor.
"""

import pickle
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from threadpoolctl import threadpool_limits

from ragsmith.errors import RagsmithError, UsageError
from ragsmith.evaluation.experiment import Engines, Experiment
from ragsmith.evaluation.job_queues import JobPool
from ragsmith.evaluation.mailbox import Mailbox, Request
from ragsmith.evaluation.node_setup import ActorBatch, StoredName, StoredReference, install_part, unpack_setup
from ragsmith.evaluation.threads import (
    ComputedWork,
    FinishedQuestion,
    Job,
    evaluate_job,
    measure_work,
    to_picklable,
)
from ragsmith.gateway.memory import Memory
from ragsmith.gateway.remote import RemoteGateway, RemoteRequest
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate

CLUSTER_LOST = "the Ray cluster cannot be used any more: run the same command again to go on"


class EvaluationActor:
    """A Ray actor with its own engines, which evaluates jobs and may be restarted on any node."""

    def __init__(self, memory: int | None, threads: int, settings: Mapping[str, Any]) -> None:
        self._limits = threadpool_limits(1, user_api="blas")  # sums of several threads differ in their last digits
        self._packed = b""
        self._memory = memory
        self._settings = settings
        self._mailbox = Mailbox()
        self._jobs = JobPool(threads)
        self._installed: set[tuple[int, StoredName]] = set()
        self._lock = threading.Lock()

    def ping(self) -> None:
        """Return, which shows that the actor is running."""

    def ready(self, packed: StoredReference) -> str:
        """Initialize from the state that the driver ``packed``; return a problem with this node, or ""."""
        import ray  # noqa: PLC0415  runs in workers of Ray only

        try:
            with self._lock:
                self._take(packed)
                self._setup  # noqa: B018  checks this node
        except UsageError as error:
            return f"the node {ray.util.get_node_ip_address()} {error}"
        return ""

    def _take(self, packed: StoredReference) -> None:
        import ray  # noqa: PLC0415

        if not self._packed:  # a restarted actor has no state
            self._packed = ray.get(packed[0])

    @cached_property
    def _setup(self) -> Experiment:
        return unpack_setup(self._packed)

    @cached_property
    def _gateway(self) -> RemoteGateway:
        return RemoteGateway(self._ask, Memory(self._memory), **self._settings)

    @cached_property
    def _engines(self) -> Engines:
        return Engines(self._setup, self._setup.engine(gateway=self._gateway))

    def _ask(self, request: RemoteRequest) -> Any:
        """Return the answer of the driver to a request, or raise its error."""
        from ray import cloudpickle  # noqa: PLC0415

        is_answer, value = pickle.loads(self._mailbox.ask((request.kind, cloudpickle.dumps(request))))
        if is_answer:
            return value
        raise value

    def exchange(self, answers: Mapping[str, bytes], again: bool) -> list[tuple[str, Request]]:
        """See `Mailbox.exchange`."""
        return self._mailbox.exchange(answers, again=again)

    def evaluate(self, batch: ActorBatch, jobs: Sequence[Job]) -> tuple[list[FinishedQuestion], BaseException | None]:
        """Return results of ``jobs`` within `REPORT_SECONDS`, and an error that stops the run, if any.

        The jobs that have not ended are continued, and have to be among those of the next call.
        """
        import ray  # noqa: PLC0415

        try:
            with self._lock:
                self._take(batch.packed)
                prepared = self._prepare(batch, sorted({position for position, _ in jobs}))
        except RagsmithError as error:
            return [], to_picklable(error)
        except ray.exceptions.RayError as error:  # a stored object is lost, or does not fit in the memory of this node
            return [], RagsmithError(f"{CLUSTER_LOST} ({type(error).__name__} on {ray.util.get_node_ip_address()})")
        return self._jobs.run(batch.number, jobs, lambda job: evaluate_job(*prepared[job[0]], job, batch.part))

    def settle(self, patience: float | None) -> None:
        """Record all costs, and release what is reserved; with ``patience``, send no more, and wait for replies."""
        if patience is not None:
            self._jobs.cancel()
            self._gateway.stop(patience)
        self._gateway.write_pending()

    def account(self) -> ComputedWork:
        """Return the work of this actor."""
        return measure_work(self._engines)

    def _prepare(self, batch: ActorBatch, positions: Sequence[int]) -> dict[int, tuple[Engine, Experiment, Candidate]]:
        """Return the engine, experiment and candidate of each position, with its index and entity graph installed."""
        import ray  # noqa: PLC0415

        engines, candidates = self._engines, pickle.loads(batch.candidates)
        self._gateway.forget_trouble(batch.forgotten)
        prepared = {}
        for position in positions:
            candidate = candidates[position]
            engine, setup = engines.get(candidate)
            for name in batch.collections[position]:
                if (id(engine), name) in self._installed:
                    continue
                try:
                    install_part(engine, candidate, name[2], ray.get(batch.stored[name][0]))
                except UsageError as error:  # such as a missing folder of vectors
                    node = ray.util.get_node_ip_address()
                    raise UsageError(f"an index cannot be opened on the node {node}: {error}") from error
                self._installed.add((id(engine), name))
            prepared[position] = engine, setup, candidate
        return prepared
