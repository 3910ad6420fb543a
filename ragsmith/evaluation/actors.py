"""What runs on the nodes of a Ray cluster: actors, which hold engines, and the mailbox that they ask through.

An actor answers questions for as long as a report takes, and may be started again anywhere. Models that cost
something are called by the process that leads the search (`ragsmith.evaluation.actor_runner`), through a `Mailbox`.
"""

from __future__ import annotations

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

from ragsmith.digest import program
from ragsmith.errors import ModelUnavailable, RagsmithError, UsageError
from ragsmith.evaluation.experiment import Engines, Experiment
from ragsmith.evaluation.threads import (
    REPORT_SECONDS,
    ComputedWork,
    FinishedQuestion,
    Job,
    Part,
    account,
    evaluate_job,
    sendable,
)
from ragsmith.gateway.memory import Memory
from ragsmith.gateway.remote import (
    ModelKey,
    RemoteGateway,
    RemoteModel,
    RemoteRequest,
)
from ragsmith.index.index import Index
from ragsmith.models.loading import load_models
from ragsmith.models.registry import GIVEN
from ragsmith.models.roles import Models
from ragsmith.models.usage import Usage
from ragsmith.models.vector_stores import resolve_address
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.techniques.registry import load_techniques

IndexPart = tuple[str, str]
"""`ENTRIES`; or `VECTORS` and of which embedder, or `DERIVED` and under which name."""

ENTRIES: IndexPart = "entries", ""
VECTORS, DERIVED = "vectors", "derived"

Packed = tuple[bytes, list[NDArray[np.uint8]]]
"""What `pickle` made of a part, and the bytes of its arrays, which are not copied."""


def parts_of(index: Index) -> list[IndexPart]:
    """The parts that ``index`` has so far, each after those that it may share something with."""
    vectors, derived = index.built()
    return [ENTRIES, *((VECTORS, name) for name in vectors), *((DERIVED, name) for name in derived)]


def packed(index: Index, part: IndexPart) -> Packed:
    """A part, as it can be sent."""
    kind, name = part
    vectors, derived = index.built()
    shared: dict[int, IndexPart] = {}
    value: Any
    if part == ENTRIES:
        value = index.with_only({}, {})
    elif kind == VECTORS:
        value = vectors[name]
    else:
        value = derived[name]
        shared = {id(index): ENTRIES, **{id(own): (VECTORS, of) for of, own in vectors.items()}}
        for earlier, own in derived.items():
            if earlier == name:
                break
            shared[id(own)] = DERIVED, earlier
    written = BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    _Pickler(written, buffers, shared).dump(value)
    return written.getvalue(), [np.frombuffer(buffer.raw(), dtype=np.uint8) for buffer in buffers]


def with_part(index: Index | None, part: IndexPart, sent: Packed) -> Index:
    """An index of the entries of ``index`` with this part alone; the entries need none. What it shares is in ``index``.

    `Index.take_vectors` puts it to the others.
    """
    value = _Unpickler(sent, index).load()
    if index is None:
        entries: Index = value
        return entries
    kind, name = part
    return index.with_only({name: value}, {}) if kind == VECTORS else index.with_only({}, {name: value})


class _Pickler(pickle.Pickler):
    def __init__(self, file: BytesIO, buffers: list[pickle.PickleBuffer], shared: Mapping[int, IndexPart]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._shared = shared

    def persistent_id(self, value: Any) -> IndexPart | None:
        return self._shared.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, sent: Packed, index: Index | None) -> None:
        super().__init__(BytesIO(sent[0]), buffers=sent[1])
        self._index = index

    def persistent_load(self, part: IndexPart) -> Any:
        kind, name = part
        if self._index is None or part == ENTRIES:
            return self._index
        vectors, derived = self._index.built()
        return vectors[name] if kind == VECTORS else derived[name]


ASKED_SECONDS = 60.0
"""How long a request waits for its answer in one call of the mailbox; then it is asked again."""
LOOK_SECONDS = 1.0
"""How long a look into the mailbox waits for something."""
PATIENCE_SECONDS = 180.0
"""How long an actor asks a mailbox that is not there: it takes Ray some time to see that a node is lost."""
UNCONNECTED = "the Ray cluster cannot be used any more: run the same command again to go on"

Stored = Sequence[Any]
"""A reference to the object store, in a list so that Ray does not fetch it early."""
Name = tuple[str, str, IndexPart]
"""Name of an object in the store: its engine, its gene if any, and the part of the index, or `GRAPH`."""
GRAPH: IndexPart = "graph", ""


@dataclass(frozen=True)
class NodeSetup(Experiment):
    """The experiment on a node; ``remote`` has proxies of the models that the leading process calls.

    Folders of vectors are relative to ``folder``, where the leader is.
    """

    remote: Mapping[ModelKey, RemoteModel] = field(default_factory=dict, kw_only=True, hash=False)
    folder: Path = field(default=Path(), kw_only=True)

    @cached_property
    def loaded_models(self) -> Models:
        """The models of this node, and proxies of the others."""
        names = self.models
        found = {role: self.remote.get((role, names.for_role(role))) for role in names.named_roles}
        given = {role: model for role, model in found.items() if model is not None}
        here = replace(names, **{role: f"{GIVEN}:{model.id}" for role, model in given.items()})
        chunks = self.corpus.chunks
        shared = (self.marked_by or self)._shared
        languages = [chunk.language for chunk in chunks]
        models = load_models(here, [chunk.text for chunk in chunks], given, shared, languages=languages)
        return replace(models, vectors_at=resolve_address(models.vectors_at, self.folder))


@dataclass(frozen=True, slots=True)
class ActorBatch:
    """What several jobs have in common; ``candidates`` are pickled, as user files must be loaded before they are read.

    ``collections`` has, for each candidate, under which names the parts of its index, and its entity graph if it has
    one, are ``stored``; ``packed`` is what an actor begins with, and the mailbox, if there is one.
    """

    packed: Stored
    candidates: bytes
    collections: tuple[tuple[Name, ...], ...]
    stored: Mapping[Name, Stored]
    part: Part


class Mailbox:
    """Where actors leave what they ask, and the leader its answers: no process of a cluster can call the leader.

    A request has a number that its asker draws, and is there until it is answered: as long as it is sent again, it is
    delivered again, so that a lost request or answer blocks no caller for ever.
    """

    def __init__(self, patience: float = ASKED_SECONDS) -> None:
        self._new: Queue[tuple[str, bytes]] = Queue()
        self._open: dict[str, Future[bytes]] = {}
        self._patience = patience

    async def ask(self, number: str, request: bytes) -> bytes:
        """The answer to a request, when it is there; nothing if it is not for so long that it has to be asked again."""
        answer = self._open.setdefault(number, get_running_loop().create_future())
        if not answer.done():
            self._new.put_nowait((number, request))
        await wait([answer], timeout=self._patience)
        if not answer.done():
            return b""
        self._open.pop(number, None)
        return answer.result()

    async def take(self) -> list[tuple[str, bytes]]:
        """Requests that came, or came again, by number; none after `LOOK_SECONDS`."""
        try:
            taken = [await wait_for(self._new.get(), LOOK_SECONDS)]
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


def unfit(made_by: str, models: Mapping[str, str], setup: Callable[[], Experiment]) -> str:
    """Why a search of the program ``made_by``, on these ``models``, cannot use this node; "" where it can."""
    if made_by != program():
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
        self._installed: set[tuple[int, Name]] = set()
        self._lock = threading.Lock()

    def there(self) -> None:
        """Say that there is this actor."""

    def ready(self, packed: Stored) -> str:
        """Get ready for what the leader ``packed``; what is wrong with this node, in a sentence, or nothing."""
        import ray  # noqa: PLC0415  only a worker of Ray is here

        node = ray.util.get_node_ip_address()
        try:
            with self._lock:
                self._take(packed)
                made_by, models = pickle.loads(self._packed)[:2]
                problem = unfit(made_by, models, lambda: self._setup)
        except UsageError as error:
            problem = f"has not what is needed: {error}; put it there, under the same path"
        return problem and f"the node {node} {problem}"

    def _take(self, packed: Stored) -> None:
        import ray  # noqa: PLC0415

        if not self._packed:  # an actor that was started again has nothing
            self._packed, self._mailbox = ray.get(packed[0]), packed[1]

    @cached_property
    def _setup(self) -> Experiment:
        load_techniques()
        _, _, files, packed = pickle.loads(self._packed)
        pickle.loads(files)  # the files of one's own that the leader has loaded: what follows may be made of them
        setup: Experiment = pickle.loads(packed)
        return setup

    @cached_property
    def _engines(self) -> Engines:
        gateway = RemoteGateway(self._ask, Memory(self._memory))
        return Engines(self._setup, self._setup.engine(gateway=gateway))

    def _ask(self, request: RemoteRequest) -> tuple[Any, Usage]:
        """Have the leader answer; it is asked again where its mailbox is lost, and answers the same at no cost."""
        import ray  # noqa: PLC0415
        from ray import cloudpickle  # noqa: PLC0415

        number, packed = token_hex(16), cloudpickle.dumps(request)
        until = monotonic() + PATIENCE_SECONDS
        while True:
            try:
                said = ray.get(self._mailbox.ask.remote(number, packed))
            except ray.exceptions.RayActorError as error:
                if monotonic() > until:
                    raise ModelUnavailable("the process that leads the search does not answer any more") from error
                sleep(LOOK_SECONDS)
                continue
            if said:
                break
            until = monotonic() + PATIENCE_SECONDS
        is_answer, found = pickle.loads(said)
        if is_answer:
            return found[0], found[1]
        raise found

    def evaluate(self, batch: ActorBatch, jobs: Sequence[Job]) -> tuple[list[FinishedQuestion], BaseException | None]:
        """What of ``jobs`` ends within `REPORT_SECONDS`, in their order; and what forbids to go on, if anything."""
        import ray  # noqa: PLC0415

        try:
            with self._lock:
                self._take(batch.packed)
                able = self._prepared(batch, sorted({position for position, _ in jobs}))
        except RagsmithError as error:
            return [], sendable(error)
        except ray.exceptions.RayError as error:  # what was built is not to be had, or has no room on this node
            return [], RagsmithError(f"{UNCONNECTED} ({type(error).__name__} on {ray.util.get_node_ip_address()})")
        ended: list[FinishedQuestion] = []
        until = monotonic() + REPORT_SECONDS
        for job in jobs:
            engine, setup, candidate = able[job[0]]
            try:
                ended.append(evaluate_job(engine, setup, candidate, job, batch.part))
            except RagsmithError as error:
                return ended, sendable(error)
            if monotonic() >= until:
                break
        return ended, None

    def account(self) -> ComputedWork:
        """What was done here."""
        return account(self._engines)

    def _prepared(self, batch: ActorBatch, positions: Sequence[int]) -> dict[int, tuple[Engine, Experiment, Candidate]]:
        """Engines for candidates, which have what was built for whole collections."""
        import ray  # noqa: PLC0415

        engines, candidates = self._engines, pickle.loads(batch.candidates)
        able = {}
        for position in positions:
            candidate = candidates[position]
            engine, setup = engines.of(candidate)
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
                        engine.install_index(candidate[0], with_part(index, part, built))
                    except UsageError as error:  # as by a store of vectors in a folder that is not there
                        node = ray.util.get_node_ip_address()
                        raise UsageError(f"an index cannot be opened on the node {node}: {error}") from error
                self._installed.add((id(engine), name))
            able[position] = engine, setup, candidate
        return able
