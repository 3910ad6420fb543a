"""Evaluations on a Ray cluster, led from here: one process alone decides, pays and writes, and actors answer.

What a whole collection needs is built here and put into Ray's object store, part by part.
Questions are shared out among actors (`ragsmith.evaluation.actors`); where an actor or its node is lost,
what it had is given to those that are there, and Ray starts it again where there is room. Models that cost something
are asked here (`ragsmith.gateway.remote`): what they are asked comes through a `Mailbox`.
"""

from __future__ import annotations

import math
import pickle
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any

from ragsmith.digest import program
from ragsmith.errors import Notice, RagsmithError, StageFailed, UsageError, WrongOption
from ragsmith.evaluation.actors import (
    GRAPH,
    LOOK_SECONDS,
    UNCONNECTED,
    ActorBatch,
    EvaluationActor,
    Mailbox,
    Name,
    NodeSetup,
    Stored,
    packed,
    parts_of,
)
from ragsmith.evaluation.cluster import Cluster
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.threads import (
    ANSWER,
    REPORT_SECONDS,
    ComputedWork,
    FinishedQuestion,
    Job,
    Part,
    Runner,
    close,
    sendable,
)
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.remote import (
    ModelKey,
    RemoteModel,
    answer_remote,
    is_called_centrally,
    remote_model,
)
from ragsmith.models.calls import is_chat_model
from ragsmith.models.registry import GIVEN
from ragsmith.models.usage import Meter
from ragsmith.models.vector_stores import APPROXIMATE, serves_one_process
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.plugins import LoadedFiles

AT_ONCE = 256
"""Maximum number of jobs sent to an actor, which answers some of them and returns the rest."""
ATTEMPTS = 4
"""So often a job is given to an actor that is lost, before it is taken for the reason."""
ACCOUNT_SECONDS = 10.0
"""How long it may take an actor to say what it did."""
TELL_SECONDS = 15.0
"""After so long without any actor it is said what is waited for."""
SETTLE_SECONDS = 60.0
"""So long after actors were started, or one was lost, it is waited for those that are not ready where that matters."""
ASKED_AT_ONCE = 10_000
"""Requests that may be in the mailbox."""
LOST = (
    f"questions were lost with the process that had them, {ATTEMPTS} times (out of memory, or nodes that end): run the "
    "same command again to go on"
)
NEVER_READY = (
    f"an actor was lost {ATTEMPTS} times while it got ready on a node of the cluster, as where that has too little "
    "memory for documents and models: ask for fewer with --workers, or use larger nodes"
)
FULL = (
    "the object store of the Ray cluster is full: start its nodes with a larger --object-store-memory, and run the "
    "same command again"
)


def refuse_vectors(setup: Experiment, address: str) -> None:
    """Refuse vectors that the nodes of a cluster at ``address``, "" for one on this machine, could not search.

    Raises:
        UsageError: they lie in a folder that only this process, or only this machine, has.
    """
    for variant in setup.variants:
        at = variant.models.vectors_at
        if serves_one_process(at):
            raise UsageError(
                "vectors that lie in a folder can be searched by one process alone: leave --engine out, or give "
                "--vector-store the address of a server"
            )
        if at == APPROXIMATE and address:
            raise WrongOption(
                "vector_store",
                f"is {APPROXIMATE}, whose folder is in this user's home, and the cluster may have other machines:"
                f" give {APPROXIMATE}:FOLDER, one that all nodes share under the same path",
            )


@dataclass(slots=True)
class _Todo:
    """What one call of `ActorRunner.run` has to do: ``left`` jobs, of which ``piles`` wait and actors are ``given``.

    ``given`` has, by what says when they end, jobs and the place of the actor that has them; ``losses`` says how often
    a job was lost with its actor: it is known by its position in this batch, and means another one in the next.
    """

    batch: Any
    piles: Sequence[deque[Job]]
    left: int
    given: dict[Any, tuple[int, list[Job]]] = field(default_factory=dict)
    losses: Counter[Job] = field(default_factory=Counter)


class ActorRunner(Runner):
    """Actors on a cluster, each with engines of its own; where models are waited for, each has several questions.

    The calling process builds what a whole collection needs, asks models that cost something, and has what comes of
    questions; actors that are lost cost the time of what they were at, and nothing else.
    """

    def __init__(
        self,
        setup: Experiment,
        engine: Engine,
        cluster: Cluster,
        memory: int | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Each actor has at most ``memory`` bytes. ``clock`` decides when to report that no actor is there.

        Raises:
            UsageError: there is no such cluster, or vectors lie where its nodes cannot search them.
        """
        refuse_vectors(setup, cluster.address)
        super().__init__(setup, engine)
        self._ray = cluster.connect()
        self._waits = setup.waits
        self._at_once = math.ceil(setup.workers / cluster.actors) if self._waits else 1
        self._shard = {question: i % cluster.actors for i, question in enumerate(setup.order)}
        self._actors: list[Any] = []
        self._coming: dict[Any, int] = {}
        """Places of actors that are being started, by what says when they are ready."""
        self._free: list[int] = []
        """Indices of actors with free capacity, once for each concurrent job."""
        self._there: set[int] = set()
        """Places of actors that have said since they were started that they are there."""
        self._deaths: Counter[int] = Counter()
        """How often the actor at a place was lost while it got ready, since one of that place was ready."""
        self._clock = clock
        self._settled_by = 0.0
        self._alone_since = math.inf
        """Since when it is waited for any actor to be there."""
        self._was_told = False
        self._stored: dict[Name, Stored] = {}
        self._leaving = threading.Event()
        self._mailbox: Any = None
        self._at_hand: set[str] = set()
        """Numbers of requests that are being answered."""
        self._pool: ThreadPoolExecutor | None = None
        self._listening: threading.Thread | None = None
        remote, self._models = asked_in_one_place(setup, engine)
        with self._connected(), ExitStack() as stack:
            stack.push(self)
            if self._models:
                self._begin_to_listen(cluster.actors)
            self._packed = [self._ray.put(_packed(setup, remote)), self._mailbox]
            made = self._ray.remote(
                num_cpus=1, max_restarts=-1, max_concurrency=self._at_once, scheduling_strategy="SPREAD"
            )(EvaluationActor)
            self._actors = [made.remote(memory) for _ in range(cluster.actors)]
            for place in range(len(self._actors)):
                self._await(place)
            self._settled_by = self._clock() + SETTLE_SECONDS
            stack.pop_all()

    def _begin_to_listen(self, actors: int) -> None:
        """Start a mailbox on this node and a thread that reads it."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # noqa: PLC0415

        here = NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        made = self._ray.remote(num_cpus=0, max_restarts=-1, max_concurrency=ASKED_AT_ONCE, scheduling_strategy=here)(
            Mailbox
        )
        self._mailbox = made.remote()
        self._pool = ThreadPoolExecutor(self._at_once * actors, thread_name_prefix="ragsmith-remote")
        self._listening = threading.Thread(
            target=self._listen, args=(self._pool,), name="ragsmith-mailbox", daemon=True
        )
        self._listening.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._leaving.set()
        try:
            if self._pool is not None:
                close(self._pool, self._gateway, kind)
            else:
                self._gateway.write_pending()
        finally:
            for actor in [*self._actors, *([] if self._mailbox is None else [self._mailbox])]:
                with suppress(*self._refusals):
                    self._ray.kill(actor)
            if self._listening is not None:
                self._listening.join()

    @property
    def _refusals(self) -> tuple[type[Exception], ...]:
        """What Ray raises where an actor or an object is not there any more, or the connection is not."""
        return (self._ray.exceptions.RayError, ConnectionError, ValueError)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Raise what Ray cannot do as an error that says what can be done.

        Raises:
            RagsmithError: the cluster has no room for the data, or is gone.
        """
        errors = self._ray.exceptions
        try:
            yield
        except errors.RayTaskError:
            raise  # a defect of ours
        except (errors.ObjectStoreFullError, errors.OutOfDiskError) as error:
            raise RagsmithError(f"{FULL} ({type(error).__name__})") from error
        except (errors.RayError, ConnectionError) as error:
            raise RagsmithError(f"{UNCONNECTED} ({type(error).__name__})") from error

    def settle(self) -> None:
        """See `Runner.settle`; an actor that has not come for `SETTLE_SECONDS` may have no room, and waits itself."""
        with self._connected():
            while self._coming and self._clock() < self._settled_by:
                for reference in self._ended([*self._coming]):
                    self._welcome(reference)
                self._tell_who_is_waited_for()

    def work(self) -> ComputedWork:
        """See `Runner.work`; the work of lost actors is not counted."""
        total = super().work()
        asked = [self._actors[place].account.remote() for place in set(self._free)]
        for reference in asked:
            with suppress(self._ray.exceptions.RayError):
                total = total + self._ray.get(reference, timeout=ACCOUNT_SECONDS)
        return total

    def run(
        self, candidates: Sequence[Candidate], jobs: Sequence[Job], part: Part = ANSWER
    ) -> Iterator[list[FinishedQuestion]]:
        """See `Runner.run`."""
        with self._connected():
            todo = _Todo(self._ray.put(self._batch(candidates, part)), self._shared_out(jobs), len(jobs))
            try:
                yield from self._answers(todo)
            finally:
                self._free += [place for place, _ in todo.given.values()]  # where it was not gone on with

    def _answers(self, todo: _Todo) -> Iterator[list[FinishedQuestion]]:
        """What ends, until nothing is left."""
        while todo.left:
            for place in list(self._free):
                if share := self._share(todo.piles, place):
                    self._free.remove(place)
                    todo.given[self._actors[place].evaluate.remote(todo.batch, share)] = place, share
            ended = self._ended([*todo.given, *self._coming])
            found: list[FinishedQuestion] = []
            problem: BaseException | None = None
            for reference in ended:
                if reference in self._coming:
                    self._welcome(reference)
                    continue
                place, share = todo.given.pop(reference)
                finished, stopped = self._fetched(reference, place, share, todo.losses)
                found += finished
                problem = problem or stopped
                done = {one.job for one in finished}
                todo.piles[place].extendleft(job for job in reversed(share) if job not in done)
            todo.left -= len(found)
            self._tell_who_is_waited_for()
            yield found
            if problem is not None:
                raise problem  # finished results were delivered before

    def _ended(self, waiting: list[Any]) -> list[Any]:
        """What of ``waiting`` has ended: something or, for `REPORT_SECONDS`, nothing."""
        if not self._there:
            self._alone_since = min(self._alone_since, self._clock())
        ended, _ = self._ray.wait(waiting, num_returns=1, timeout=REPORT_SECONDS)
        if ended:
            ended, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        return list(ended)

    def _shared_out(self, jobs: Sequence[Job]) -> list[deque[Job]]:
        """Jobs by the actor that is to have them: each has all of a question, as candidates share stages within one.

        Where models are waited for, jobs go candidate by candidate, so that few of them wait for the same reply;
        otherwise question by question, so that cached stages are used at once.
        """
        piles: list[deque[Job]] = [deque() for _ in self._actors]
        for job in sorted(jobs, key=None if self._waits else lambda job: (job[1], job[0])):
            piles[self._shard[job[1]]].append(job)
        return piles

    def _share(self, piles: Sequence[deque[Job]], place: int) -> list[Job]:
        """What an actor does next: of its own pile or, if that is empty, of the highest."""
        pile = piles[place] or max(piles, key=len)
        return [pile.popleft() for _ in range(min(len(pile), 1 if self._waits else AT_ONCE))]

    def _fetched(
        self, reference: Any, place: int, share: list[Job], losses: Counter[Job]
    ) -> tuple[list[FinishedQuestion], BaseException | None]:
        """What came of jobs: nothing where the actor was lost, which is then waited for; how often is in ``losses``.

        Raises:
            RagsmithError: the same jobs were lost too often.
        """
        try:
            finished, problem = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError:
            losses.update(share)
            if any(losses[job] >= ATTEMPTS for job in share):
                raise RagsmithError(LOST) from None
            self._free = [other for other in self._free if other != place]
            if place not in self._coming.values():
                self._await(place)
                self._settled_by = self._clock() + SETTLE_SECONDS
            return [], None
        if place not in self._coming.values():
            self._free.append(place)
        return finished, problem

    def _await(self, place: int) -> None:
        """Wait for an actor that is being started: first until it is there, as then only is it known to begin."""
        self._there.discard(place)
        self._coming[self._actors[place].there.remote()] = place

    def _welcome(self, reference: Any) -> None:
        """An actor is there, is ready, or never will be.

        Raises:
            UsageError: its node cannot be used.
            RagsmithError: it was lost too often while it got ready.
        """
        place = self._coming.pop(reference)
        errors = self._ray.exceptions
        try:
            problem = self._ray.get(reference)
        except errors.ActorUnavailableError:
            self._deaths[place] += place in self._there  # else it is just being started again
            if self._deaths[place] >= ATTEMPTS:
                raise RagsmithError(NEVER_READY) from None
            sleep(REPORT_SECONDS)
            self._await(place)
            return
        except errors.RayError as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise UsageError(
                f"no actor can be started on a node of the cluster ({lines[-1].strip() if lines else error}): it needs "
                "the same Python, Ray and ragsmith[ray] as this process"
            ) from error
        if place not in self._there:
            self._there.add(place)
            self._coming[self._actors[place].ready.remote(self._packed)] = place
            return
        if problem:
            raise UsageError(f"--engine: {problem}")
        del self._deaths[place]
        self._free += [place] * self._at_once

    def _tell_who_is_waited_for(self) -> None:
        if self._there:
            self._alone_since = math.inf
        elif not self._was_told and self._clock() - self._alone_since >= TELL_SECONDS:
            self._was_told = True
            warnings.warn(
                f"waiting for the Ray cluster to have room for an actor, which takes one CPU of {len(self._actors)} "
                "wanted: --workers asks for fewer",
                Notice,
                stacklevel=2,
            )

    def _batch(self, candidates: Sequence[Candidate], part: Part) -> ActorBatch:
        """What actors need to know of ``candidates``; what these need for the collection is built, and put out once."""
        collections: list[tuple[Name, ...]] = []
        stored: dict[Name, Stored] = {}
        for candidate in candidates:
            put: dict[Name, Stored] = {}
            with suppress(StageFailed):  # then actors meet the same failure, and record it for each question
                put = self._put_out(candidate)
            collections.append(tuple(put))
            stored.update(put)
        return ActorBatch(
            self._packed,
            pickle.dumps(candidates),
            tuple(collections),
            stored,
            part,
        )

    def _put_out(self, candidate: Candidate) -> dict[Name, Stored]:
        """Put what ``candidate`` needs for the collection into the object store, unless it is there; return where."""
        engine, _ = self.engines.of(candidate)
        index, graph = engine.prepare(candidate)
        values: dict[Name, Callable[[], Any]] = {
            (str(id(engine)), candidate[0].identity, part): partial(packed, index, part) for part in parts_of(index)
        }
        if graph is not None:
            values[str(id(engine)), "", GRAPH] = lambda: graph
        for name, value in values.items():
            if name not in self._stored:
                self._stored[name] = [self._ray.put(value())]
        return {name: self._stored[name] for name in values}

    # --- what actors ask of models ------------------------------------------------------------------------------------

    def _listen(self, pool: ThreadPoolExecutor) -> None:
        """Have requests answered, in threads, until the runner is left."""
        while not self._leaving.is_set():
            try:
                taken = self._ray.get(self._mailbox.take.remote())
            except self._refusals:
                self._leaving.wait(LOOK_SECONDS)  # it is being restarted, and the request is sent again
                continue
            for number, request in taken:
                if number not in self._at_hand:  # else it was asked again meanwhile
                    self._at_hand.add(number)
                    with suppress(RuntimeError):  # the pool takes nothing any more
                        pool.submit(self._reply, number, request)

    def _reply(self, number: str, packed: bytes) -> None:
        said = reply_to(self._gateway, self._models, packed)
        with suppress(*self._refusals):
            self._mailbox.reply.remote(number, said)
        self._at_hand.discard(number)


def reply_to(gateway: Gateway, models: Mapping[ModelKey, Any], packed: bytes) -> bytes:
    """Whether a request for one of ``models`` has an answer, and that or what is to be raised where it was asked."""
    from ray import cloudpickle  # noqa: PLC0415

    try:
        said: bytes = cloudpickle.dumps((True, answer_remote(gateway, models, pickle.loads(packed))))
    except (Exception, SystemExit) as error:  # noqa: BLE001  raised where it was asked, and recorded there
        return pickle.dumps((False, sendable(error)))
    return said


def asked_in_one_place(setup: Experiment, engine: Engine) -> tuple[dict[ModelKey, RemoteModel], dict[ModelKey, Any]]:
    """Proxies of the models that only this process calls, and the models themselves."""
    remote: dict[ModelKey, RemoteModel] = {}
    models: dict[ModelKey, Any] = {}
    for variant in setup.variants:
        names, loaded = variant.models, variant.loaded_models
        for role in names.named_roles:
            name, model = names.for_role(role), getattr(loaded, role)
            if not is_called_centrally(model, is_object=name.kind == GIVEN):
                continue
            if is_chat_model(model):
                engine.gateway.language_model(model, Meter())  # tells it what was learnt of it
            models[role, name] = model
            remote[role, name] = remote_model(model, (role, name))
    return remote, models


def _packed(setup: Experiment, remote: Mapping[ModelKey, RemoteModel]) -> bytes:
    """What an actor begins with: of which program and which models it is, files of one's own, and the setup."""
    own = {one.name: getattr(setup, one.name) for one in fields(Experiment)}
    of_nodes = NodeSetup(**{**own, "given": {}}, remote=remote, folder=Path.cwd())
    return pickle.dumps((program(), setup.model_ids, pickle.dumps(LoadedFiles()), pickle.dumps(of_nodes)))
