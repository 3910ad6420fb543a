"""Ray actors that evaluate candidates, and the mailbox for their requests to models.

Each call of an actor ends within a reporting interval, and Ray may restart an actor on any node. Models that cost
something are called by the driver process (`ragsmith.evaluation.actor_runner`), through a `Mailbox`.
"""

import pickle
import threading
from asyncio import Future, Queue, get_running_loop, wait, wait_for
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from time import monotonic, sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ragsmith.digest import program_digest
from ragsmith.errors import ModelUnavailable, RagsmithError, UsageError
from ragsmith.evaluation.experiment import Engines, Experiment
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
from ragsmith.gateway.remote import (
    ModelKey,
    RemoteGateway,
    RemoteModel,
    RemoteRequest,
)
from ragsmith.index.index import Index
from ragsmith.models.loading import SharedModels, load_models
from ragsmith.models.registry import OBJECT_KIND
from ragsmith.models.roles import Models
from ragsmith.models.usage import Usage
from ragsmith.models.vector_stores import resolve_address
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.techniques.registry import load_techniques

IndexPart = tuple[str, str]
"""A part of an index: `ENTRIES`, `VECTORS` and the embedder, or `DERIVED` and the name of the structure."""

ENTRIES: IndexPart = "entries", ""
VECTORS, DERIVED = "vectors", "derived"

PackedPart = tuple[bytes, list[NDArray[np.uint8]]]
"""A pickled part of an index, and the buffers of its arrays, which are not copied."""


def list_parts(index: Index) -> list[IndexPart]:
    """Return the parts built so far, each after those that it may share objects with."""
    vectors, derived = index.get_cached()
    return [ENTRIES, *((VECTORS, name) for name in vectors), *((DERIVED, name) for name in derived)]


def pack_part(index: Index, part: IndexPart) -> PackedPart:
    """Return a part in pickled form."""
    kind, name = part
    vectors, derived = index.get_cached()
    shared: dict[int, IndexPart] = {}
    value: Any
    if part == ENTRIES:
        value = index.copy_with({}, {})
    elif kind == VECTORS:
        value = vectors[name]
    else:
        value = derived[name]
        shared = {id(index): ENTRIES, **{id(matrix): (VECTORS, embedder) for embedder, matrix in vectors.items()}}
        for earlier, structure in derived.items():
            if earlier == name:
                break
            shared[id(structure)] = DERIVED, earlier
    written = BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    _PartPickler(written, buffers, shared).dump(value)
    return written.getvalue(), [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]


def unpack_part(index: Index | None, part: IndexPart, sent: PackedPart) -> Index:
    """Return an index with the entries of ``index`` and this part alone; shared objects are taken from ``index``.

    For `ENTRIES`, ``index`` may be None. `Index.copy_cached_from` merges the part into another index.
    """
    value = _PartUnpickler(sent, index).load()
    if index is None:
        entries: Index = value
        return entries
    kind, name = part
    return index.copy_with({name: value}, {}) if kind == VECTORS else index.copy_with({}, {name: value})


class _PartPickler(pickle.Pickler):
    def __init__(self, file: BytesIO, buffers: list[pickle.PickleBuffer], shared: Mapping[int, IndexPart]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._shared = shared

    def persistent_id(self, value: Any) -> IndexPart | None:
        return self._shared.get(id(value))


class _PartUnpickler(pickle.Unpickler):
    def __init__(self, sent: PackedPart, index: Index | None) -> None:
        super().__init__(BytesIO(sent[0]), buffers=sent[1])
        self._index = index

    def persistent_load(self, part: IndexPart) -> Any:
        kind, name = part
        if self._index is None or part == ENTRIES:
            return self._index
        vectors, derived = self._index.get_cached()
        return vectors[name] if kind == VECTORS else derived[name]


MAILBOX_SECONDS = 60.0
"""Timeout of one call of the mailbox, after which the request is sent again."""
POLL_SECONDS = 1.0
"""Timeout of one poll of the mailbox."""
RETRY_SECONDS = 180.0
"""Seconds for which an actor retries a lost mailbox: Ray needs time to detect the loss of a node."""
CLUSTER_LOST = "the Ray cluster cannot be used any more: run the same command again to go on"

StoredReference = Sequence[Any]
"""A reference to the object store, in a list so that Ray does not fetch it early."""
StoredName = tuple[str, str, IndexPart]
"""Name of an object in the store: its engine, its gene if any, and the part of the index, or `GRAPH`."""
GRAPH: IndexPart = "graph", ""


@dataclass(frozen=True)
class NodeSetup(Experiment):
    """The experiment on a node; ``remote`` has proxies of the models that the driver calls.

    Folders of vectors are relative to ``folder``, the working directory of the driver.
    """

    remote: Mapping[ModelKey, RemoteModel] = field(default_factory=dict, kw_only=True, hash=False)
    folder: Path = field(default=Path(), kw_only=True)

    @cached_property
    def loaded_models(self) -> Models:
        """The models of this node, and proxies of the others."""
        names = self.models
        proxies = {role: self.remote.get((role, names.for_role(role))) for role in names.named_roles}
        given = {role: model for role, model in proxies.items() if model is not None}
        here = replace(names, **{role: f"{OBJECT_KIND}:{model.id}" for role, model in given.items()})
        chunks = self.corpus.chunks
        shared = (self.scored_by or self)._shared
        languages = [chunk.language for chunk in chunks]
        models = load_models(here, [chunk.text for chunk in chunks], given, shared, languages=languages)
        return replace(models, vector_store_address=resolve_address(models.vector_store_address, self.folder))

    @cached_property
    def _shared(self) -> SharedModels:
        """Models shared by all variants, without servers: the driver calls those, and a node lacks their keys."""
        return SharedModels()


@dataclass(frozen=True, slots=True)
class ActorBatch:
    """Common data of several jobs; ``candidates`` are pickled, as user files must be loaded before they are read.

    ``collections`` has, for each candidate, the names in ``stored`` of the parts of its index and of its entity graph,
    if it has one. ``packed`` has the initial state of an actor, and the mailbox, if there is one.
    """

    packed: StoredReference
    candidates: bytes
    collections: tuple[tuple[StoredName, ...], ...]
    stored: Mapping[StoredName, StoredReference]
    part: Part


class Mailbox:
    """Queue of requests from actors to the driver, and of its answers, as no process of a cluster can call the driver.

    A request has a random number and remains until it is answered. A repeated request is delivered again, so that a
    lost request or answer blocks no caller for ever.
    """

    def __init__(self, patience: float = MAILBOX_SECONDS) -> None:
        self._new: Queue[tuple[str, bytes]] = Queue()
        self._open: dict[str, Future[bytes]] = {}
        self._patience = patience

    async def ask(self, number: str, request: bytes) -> bytes:
        """Wait for the answer to a request; return empty bytes after the timeout, and the caller asks again."""
        answer = self._open.setdefault(number, get_running_loop().create_future())
        if not answer.done():
            self._new.put_nowait((number, request))
        await wait([answer], timeout=self._patience)
        if not answer.done():
            return b""
        self._open.pop(number, None)
        return answer.result()

    async def take(self) -> list[tuple[str, bytes]]:
        """Return new and repeated requests with their numbers; none after `POLL_SECONDS` without one."""
        try:
            taken = [await wait_for(self._new.get(), POLL_SECONDS)]
        except TimeoutError:
            return []
        while not self._new.empty():
            taken.append(self._new.get_nowait())
        return taken

    async def reply(self, number: str, answer: bytes) -> None:
        """Deliver an answer if its request is still open."""
        waiting = self._open.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)


def find_mismatch(made_by: str, models: Mapping[str, str], setup: Callable[[], Experiment]) -> str:
    """Return why a search by the program ``made_by``, on these ``models``, cannot use this node; "" if it can."""
    if made_by != program_digest():
        return "has another version of ragsmith, of Python or of what they need: install the same there as here"
    if models != setup().model_ids:
        return "has other models under the same names: put the same there as here"
    return ""


class EvaluationActor:
    """A Ray actor with its own engines, which evaluates jobs and may be restarted on any node."""

    def __init__(self, memory: int | None) -> None:
        self._limits = threadpool_limits(1, user_api="blas")  # sums of several threads differ in their last digits
        self._packed = b""
        self._mailbox: Any = None
        self._memory = memory
        self._installed: set[tuple[int, StoredName]] = set()
        self._lock = threading.Lock()

    def ping(self) -> None:
        """Return, which shows that the actor is running."""

    def ready(self, packed: StoredReference) -> str:
        """Initialize from the state that the driver ``packed``; return a problem with this node, or ""."""
        import ray  # noqa: PLC0415  runs in workers of Ray only

        node = ray.util.get_node_ip_address()
        try:
            with self._lock:
                self._take(packed)
                made_by, models = pickle.loads(self._packed)[:2]
                problem = find_mismatch(made_by, models, lambda: self._setup)
        except UsageError as error:
            problem = f"lacks something: {error}; put it there, under the same path"
        return problem and f"the node {node} {problem}"

    def _take(self, packed: StoredReference) -> None:
        import ray  # noqa: PLC0415

        if not self._packed:  # a restarted actor has no state
            self._packed, self._mailbox = ray.get(packed[0]), packed[1]

    @cached_property
    def _setup(self) -> Experiment:
        load_techniques()
        _, _, files, packed = pickle.loads(self._packed)
        pickle.loads(files)  # the user files that the driver has loaded; the experiment may use their classes
        setup: Experiment = pickle.loads(packed)
        return setup

    @cached_property
    def _engines(self) -> Engines:
        gateway = RemoteGateway(self._ask, Memory(self._memory))
        return Engines(self._setup, self._setup.engine(gateway=gateway))

    def _ask(self, request: RemoteRequest) -> tuple[Any, Usage]:
        """Send a request to the driver; it is repeated if the mailbox is lost, and a repeated answer costs nothing."""
        import ray  # noqa: PLC0415
        from ray import cloudpickle  # noqa: PLC0415

        number, packed = token_hex(16), cloudpickle.dumps(request)
        until = monotonic() + RETRY_SECONDS
        while True:
            try:
                reply = ray.get(self._mailbox.ask.remote(number, packed))
            except ray.exceptions.RayActorError as error:
                if monotonic() > until:
                    raise ModelUnavailable("the driver process of the search does not answer any more") from error
                sleep(POLL_SECONDS)
                continue
            if reply:
                break
            until = monotonic() + RETRY_SECONDS
        is_answer, value = pickle.loads(reply)
        if is_answer:
            return value[0], value[1]
        raise value

    def evaluate(self, batch: ActorBatch, jobs: Sequence[Job]) -> tuple[list[FinishedQuestion], BaseException | None]:
        """Return the results of ``jobs`` within `REPORT_SECONDS`, in order, and an error that stops the run, if any."""
        import ray  # noqa: PLC0415

        try:
            with self._lock:
                self._take(batch.packed)
                prepared = self._prepare(batch, sorted({position for position, _ in jobs}))
        except RagsmithError as error:
            return [], to_picklable(error)
        except ray.exceptions.RayError as error:  # a stored object is lost, or does not fit in the memory of this node
            return [], RagsmithError(f"{CLUSTER_LOST} ({type(error).__name__} on {ray.util.get_node_ip_address()})")
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
        import ray  # noqa: PLC0415

        engines, candidates = self._engines, pickle.loads(batch.candidates)
        prepared = {}
        for position in positions:
            candidate = candidates[position]
            engine, setup = engines.get(candidate)
            for name in batch.collections[position]:
                if (id(engine), name) in self._installed:
                    continue
                built = ray.get(batch.stored[name][0])
                part = name[2]
                if part == GRAPH:
                    engine.install_graph(built)
                else:
                    index = None if part == ENTRIES else engine.index(candidate[0])
                    try:
                        engine.install_index(candidate[0], unpack_part(index, part, built))
                    except UsageError as error:  # such as a missing folder of vectors
                        node = ray.util.get_node_ip_address()
                        raise UsageError(f"an index cannot be opened on the node {node}: {error}") from error
                self._installed.add((id(engine), name))
            prepared[position] = engine, setup, candidate
        return prepared
