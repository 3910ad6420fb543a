"""Ray actors that evaluate candidates.

Each call of an actor ends within a reporting interval, and Ray may restart an actor on any node.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import monotonic
from typing import Any

from threadpoolctl import threadpool_limits

from ragsmith.errors import RagsmithError, UsageError
from ragsmith.evaluation.experiment import Engines, Experiment
from ragsmith.evaluation.node_setup import unpack_setup
from ragsmith.evaluation.threads import (
    REPORT_SECONDS,
    ComputedWork,
    FinishedQuestion,
    Job,
    Part,
    evaluate_job,
    measure_work,
    to_picklable,
)
from ragsmith.gateway.memory import Memory
from ragsmith.index.parts import ENTRIES, IndexPart, unpack_part
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate

CLUSTER_LOST = "the Ray cluster cannot be used any more: run the same command again to go on"

StoredReference = Sequence[Any]
"""A reference to the object store, in a list so that Ray does not fetch it early."""
StoredName = tuple[str, str, IndexPart]
"""Name of an object in the store: its engine, its gene if any, and the part of the index, or `GRAPH`."""
GRAPH: IndexPart = "graph", ""


@dataclass(frozen=True, slots=True)
class ActorBatch:
    """Common data of several jobs; ``candidates`` are pickled, as user files must be loaded before they are read.

    ``collections`` has, for each candidate, the names in ``stored`` of the parts of its index and of its entity graph,
    if it has one. ``packed`` has the initial state of an actor.
    """

    packed: StoredReference
    candidates: bytes
    collections: tuple[tuple[StoredName, ...], ...]
    stored: Mapping[StoredName, StoredReference]
    part: Part


class EvaluationActor:
    """A Ray actor with its own engines, which evaluates jobs and may be restarted on any node."""

    def __init__(self, memory: int | None) -> None:
        import ray  # noqa: PLC0415  runs in workers of Ray only

        self._ray: Any = ray
        self._limits = threadpool_limits(1, user_api="blas")  # sums of several threads differ in their last digits
        self._packed = b""
        self._memory = memory
        self._installed: set[tuple[int, StoredName]] = set()

    def ping(self) -> None:
        """Return, which shows that the actor is running."""

    def ready(self, packed: StoredReference) -> str:
        """Initialize from the state that the driver ``packed``; return a problem with this node, or ""."""
        try:
            self._take(packed)
            self._setup  # noqa: B018  checks this node
        except UsageError as error:
            return f"the node {self._node} {error}"
        return ""

    @property
    def _node(self) -> str:
        return str(self._ray.util.get_node_ip_address())

    def _take(self, packed: StoredReference) -> None:
        if not self._packed:  # a restarted actor has no state
            self._packed = self._ray.get(packed[0])

    @cached_property
    def _setup(self) -> Experiment:
        return unpack_setup(self._packed)

    @cached_property
    def _engines(self) -> Engines:
        return Engines(self._setup, self._setup.engine(room=Memory(self._memory)))

    def evaluate(self, batch: ActorBatch, jobs: Sequence[Job]) -> tuple[list[FinishedQuestion], BaseException | None]:
        """Return the results of ``jobs`` within `REPORT_SECONDS`, in order, and an error that stops the run, if any."""
        try:
            self._take(batch.packed)
            prepared = self._prepare(batch, sorted({position for position, _ in jobs}))
        except RagsmithError as error:
            return [], to_picklable(error)
        except self._ray.exceptions.RayError as error:  # a stored object is lost, or does not fit in this node's memory
            return [], RagsmithError(f"{CLUSTER_LOST} ({type(error).__name__} on {self._node})")
        finished: list[FinishedQuestion] = []
        until = monotonic() + REPORT_SECONDS
        for job in jobs:
            engine, setup, candidate = prepared[job[0]]
            try:
                finished.append(evaluate_job(engine, setup, candidate, job, batch.part))
            except RagsmithError as error:
                return finished, to_picklable(error)
            if monotonic() >= until:
                break
        return finished, None

    def account(self) -> ComputedWork:
        """Return the work of this actor."""
        return measure_work(self._engines)

    def _prepare(self, batch: ActorBatch, positions: Sequence[int]) -> dict[int, tuple[Engine, Experiment, Candidate]]:
        """Return the engine, experiment and candidate of each position, with its index and entity graph installed."""
        engines, candidates = self._engines, pickle.loads(batch.candidates)
        prepared = {}
        for position in positions:
            candidate = candidates[position]
            engine, setup = engines.get(candidate)
            for name in batch.collections[position]:
                if (id(engine), name) in self._installed:
                    continue
                built = self._ray.get(batch.stored[name][0])
                part = name[2]
                if part == GRAPH:
                    engine.install_graph(built)
                else:
                    index = None if part == ENTRIES else engine.index(candidate[0])
                    try:
                        engine.install_index(candidate[0], unpack_part(index, part, built))
                    except UsageError as error:  # such as a missing folder of vectors
                        raise UsageError(f"an index cannot be opened on the node {self._node}: {error}") from error
                self._installed.add((id(engine), name))
            prepared[position] = engine, setup, candidate
        return prepared
