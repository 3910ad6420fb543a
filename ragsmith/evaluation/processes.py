"""Evaluations in processes, for models that compute: each has its own engine and its share of the questions.

Processes share questions out, not candidates, because candidates share their stages within a question.

Where this process can be forked, its workers are copies of it, made when there is a question for them: what was
imported, loaded and built until then is in memory once. Elsewhere they are new interpreters, which receive what
whole collections need.

What is built later is sent to copies, too, unless the collection is a large one: then they end, and others are made,
so that a machine has it once. Much is only built for a question (words, what models know of a collection): of a large
one this process answers a first question for every technique, and for every retrieval on every index, so that copies
find that built as well.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import Any, cast

from threadpoolctl import threadpool_limits

from ragsmith.building import TaskProgress, disable_progress_log, log_progress
from ragsmith.errors import RagsmithError, StageFailed
from ragsmith.evaluation.experiment import Engines, Experiment
from ragsmith.evaluation.signals import ignore_signals, signals_held
from ragsmith.evaluation.threads import (
    ANSWER,
    RANKING,
    REPORT_SECONDS,
    ComputedWork,
    FinishedQuestion,
    Job,
    Part,
    Runner,
    account,
    evaluate_job,
    sendable,
)
from ragsmith.gateway.memory import Memory, release_free_memory
from ragsmith.index.entity_graph import EntityGraph
from ragsmith.index.index import Index
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import GENES, Candidate, Gene
from ragsmith.plugins import LoadedFiles
from ragsmith.techniques.registry import load_techniques

LARGE_ENTRIES = 20_000
"""An index with this many entries is not sent to running workers. A smaller one is sent in less time than new workers
need to compute again what the running ones have cached."""
HAND_OVER_SECONDS = 0.05
"""How long a worker collects results before it sends them: each message wakes the parent, which needs a core."""
PATIENCE_SECONDS = 1.0
"""How long a worker may take to end by itself; one in the middle of a question is stopped."""


class ProcessRunner(Runner):
    """``workers`` processes, each with engines of its own and its share of the questions.

    The calling process builds what a whole collection needs, once, and sends it. A worker that loses its parent
    ends by itself: its pipe closes. Each has at most ``memory`` bytes.
    """

    def __init__(
        self,
        setup: Experiment,
        engine: Engine,
        workers: int,
        memory: int | None = None,
        large_from: int = LARGE_ENTRIES,
    ) -> None:
        """A collection of ``large_from`` chunks or more is in memory once, as far as processes can be copied."""
        super().__init__(setup, engine)
        self._setup = setup
        self._count = workers
        self._memory = memory
        self._large_from = large_from
        self._shard = {question: i % workers for i, question in enumerate(setup.order)}
        self._sent: set[Hashable] = set()
        self._has_large = self._outdated = self._settled = False
        self._met: set[Hashable] = set()
        self._announced: set[Hashable] = set()
        self._before: list[ComputedWork] = []
        self._workers: list[tuple[BaseProcess, Connection]] = []
        if not can_be_copied():
            self._begin()  # at once: they import while this process builds what it will send

    def _begin(self) -> None:
        """Start the workers: copies of this process where there can be any."""
        self._copied = can_be_copied()
        context: Any = multiprocessing.get_context("fork" if self._copied else "spawn")
        if not self._copied:
            resource_tracker.ensure_running()  # it unblocks signals when it starts, so not while they are held
        source = (None, self.engines) if self._copied else (LoadedFiles(), self._setup)
        parents: list[Connection] = []
        with ExitStack() as stack:
            stack.callback(self._stop)
            for _ in range(self._count):
                with signals_held():
                    ours, theirs = multiprocessing.Pipe()
                    if self._copied:
                        parents.append(ours)
                    arguments = *source, parents, theirs, self._memory
                    process = context.Process(target=_serve, args=arguments, daemon=True)
                    process.start()
                    self._workers.append((process, ours))
                    theirs.close()
            stack.pop_all()

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        for _process, connection in self._workers:
            connection.close()  # a worker at rest ends by itself and cleans up
        for process, _connection in self._workers:
            process.join(PATIENCE_SECONDS)
            process.kill()
            process.join()
        self._workers.clear()

    def _end(self) -> None:
        """End the workers, so that others can be made; what they did is not forgotten."""
        self._before += self._accounts()
        self._stop()
        self._outdated = self._settled = False
        gc.collect()
        release_free_memory()

    def settle(self) -> None:
        """See `Runner.settle`: a worker answers when it has begun."""
        if not self._settled:
            self._accounts()
            self._settled = bool(self._workers)

    def work(self) -> ComputedWork:
        """See `Runner.work`."""
        return sum([*self._before, *self._accounts()], start=super().work())

    def _accounts(self) -> list[ComputedWork]:
        """What each worker did."""
        self._send_all(_account)
        return [_receive(connection) for _, connection in self._workers]

    def _send_all(self, *message: Any) -> None:
        for _, connection in self._workers:
            _send(connection, message)

    def run(
        self, candidates: Sequence[Candidate], jobs: Sequence[Job], part: Part = ANSWER
    ) -> Iterator[list[FinishedQuestion]]:
        """See `Runner.run`."""
        self._prepare(candidates)
        rest = list(jobs)
        if self._has_large and can_be_copied():
            for finished in self._first_of_new(candidates, jobs, part):
                rest.remove(finished.job)
                yield [finished]
        if self._outdated:
            self._end()
        if not self._workers:
            self._begin()
            if not self._copied:  # what was built until now started a thread, so it has to be sent after all
                self._sent.clear()
                self._prepare(candidates)
        shares: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for position, question in sorted(rest, key=lambda job: (job[1], job[0])):
            shares[self._shard[question]][question].append(position)
        waiting: dict[Any, int] = {}
        for worker, share in shares.items():
            connection = self._workers[worker][1]
            _send(connection, (_evaluate, candidates, dict(share), part))
            waiting[connection] = sum(map(len, share.values()))
        yield from _collect(waiting)

    def _first_of_new(
        self, candidates: Sequence[Candidate], jobs: Sequence[Job], part: Part
    ) -> Iterator[FinishedQuestion]:
        """Answer here, one by one, the first job of each candidate that has something which none had before."""
        first = {position: (position, question) for position, question in sorted(jobs, reverse=True)}
        met = set(self._met)
        new: list[tuple[Job, set[Hashable]]] = []
        for position in sorted(first):
            derived = self._derives(candidates[position], part)
            if not derived <= met:
                met |= derived
                new.append((first[position], derived))
        if not new:
            return
        log_progress(
            f"answering a question with {len(new)} new pipelines, which builds what else they need of the documents"
        )
        building = TaskProgress("new pipelines that answered", len(new))
        self._outdated = bool(self._workers)
        for number, (job, derived) in enumerate(sorted(new, key=lambda one: one[0][::-1]), 1):
            candidate = candidates[job[0]]
            yield evaluate_job(*self.engines.of(candidate), candidate, job, part)
            self._met |= derived
            building.done(number)

    def _derives(self, candidate: Candidate, part: Part) -> set[Hashable]:
        """What names all that ``part`` of a candidate may build of its collection: retrieval for each index."""
        engine, _ = self.engines.of(candidate)
        found: set[Hashable] = set()
        for gene in _run_for(candidate, part):
            family, name = gene.technique.family, gene.technique.name
            index = candidate[0].identity if family == "retrieval" else ""
            found.add((id(engine), family, name, index))
        return found

    def _prepare(self, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            with suppress(StageFailed):  # then the workers meet the same failure, and record it for each question
                self._build(candidate)

    def _build(self, candidate: Candidate) -> None:
        """Build what a candidate needs of its collection, and send the workers what they lack of it."""
        engine, setup = self.engines.of(candidate)
        retrieval = next(gene for gene in candidate if gene.technique.family == "retrieval")
        searched = id(engine), retrieval, candidate[0]
        if len(setup.corpus.chunks) >= self._large_from and searched not in self._announced:
            self._announced.add(searched)
            log_progress(f"building the index for retrieval {retrieval}, pre_embedding {candidate[0]}")
        index, graph = engine.prepare(candidate)
        built = {(id(engine), candidate[0].identity, index.holds): index, (id(engine), "graph"): graph}
        new = [part if name not in self._sent else None for name, part in built.items()]
        if not any(part is not None for part in new):
            return
        self._sent |= {name for name, part in built.items() if part is not None}
        if len(index.entries) >= self._large_from:
            self._has_large = True
            if can_be_copied():
                self._outdated = bool(self._workers)
                return
        self._send_all(_install, candidate, *new)


def _run_for(candidate: Candidate, part: Part) -> Sequence[Gene]:
    """The genes that run where ``part`` is made of a question, see `Runner.run`."""
    genes = candidate[:GENES]
    if part == ANSWER or (not isinstance(part, str) and part.answers):
        return genes
    families = [gene.technique.family for gene in genes]
    if part == "retrieval":
        return [genes[0], genes[families.index(part)]]
    if isinstance(part, str) and part != RANKING:
        return genes[: families.index(part) + 1]
    return genes[: families.index("passage_augment")]


LOST = "a worker process ended unexpectedly (out of memory, or killed): run the same command again to go on"


def _send(connection: Connection, message: tuple[Any, ...]) -> None:
    try:
        connection.send(message)
    except OSError:
        raise RagsmithError(LOST) from None


def _receive(connection: Connection) -> Any:
    """Return what a worker sends, or raise the error that ended it.

    Raises:
        RagsmithError: the worker is lost, or cannot go on.
    """
    if isinstance(received := _read(connection), BaseException):
        raise received
    return received


def _collect(waiting: dict[Any, int]) -> Iterator[list[FinishedQuestion]]:
    """Yield results as they arrive; ``waiting`` has how many are expected on each connection.

    An error of a worker is raised after the results that arrived before it.
    """
    while waiting:
        batch: list[FinishedQuestion] = []
        failure: BaseException | None = None
        for ready in wait_for(list(waiting), REPORT_SECONDS):
            connection = cast(Connection, ready)
            # all other results that arrived meanwhile go with it
            while waiting[connection] and not failure and (not batch or connection.poll()):
                received = _read(connection)
                if isinstance(received, BaseException):
                    failure = received
                else:
                    waiting[connection] -= len(received)
                    batch += received
            if not waiting[connection]:
                del waiting[connection]
        yield batch
        if failure:
            raise failure


def _read(connection: Connection) -> Any:
    """Return what a worker sends, or the error that ended it."""
    try:
        return connection.recv()
    except (EOFError, OSError):
        return RagsmithError(LOST)


def can_be_copied() -> bool:
    """Whether a copy of this process goes on as this one would: no other thread may hold a lock, which stays locked in
    the copy, and no client of a database is loaded, whose connections both would use.
    """
    if sys.platform != "linux" or not {"qdrant_client", "psycopg"}.isdisjoint(sys.modules):
        return False
    return len(list(Path("/proc/self/task").iterdir())) == 1  # those of libraries among them


def _serve(
    _: LoadedFiles | None,
    source: Engines | Experiment,
    parents: Sequence[Connection],
    connection: Connection,
    memory: int | None,
) -> None:
    """Body of a worker process: call the functions that the parent sends, until it is gone.

    A copy of the parent has its engines as ``source``, and its ends of pipes; a new process has loaded the files of
    the parent when it begins. An error that forbids to go on is sent to the parent.
    """
    ignore_signals()  # the parent hears them, and ends its workers
    disable_progress_log()
    for inherited in parents:
        inherited.close()  # a pipe whose other end were open here would not say that the parent is gone
    os.environ["OMP_NUM_THREADS"] = "1"  # of what is not loaded yet: the threads of processes would fight for cores
    threadpool_limits(1)
    with suppress(EOFError, OSError):  # the parent is gone, or needs no more
        try:
            load_techniques()
            room = Memory(memory)
            engines = source.copied(room) if isinstance(source, Engines) else Engines(source, source.engine(room=room))
            gc.freeze()
            gc.set_threshold(100_000, 20, 1_000)  # walking what is cached again and again took 7 % of the time
            while True:
                function, *arguments = connection.recv()
                function(connection, engines, *arguments)
        except RagsmithError as error:  # such as a vector store that cannot be opened here
            connection.send(sendable(error))
            while True:  # what the parent sends before it reads that
                connection.recv_bytes()


def _account(connection: Connection, engines: Engines) -> None:
    connection.send(account(engines))


def _install(
    _: Connection, engines: Engines, candidate: Candidate, index: Index | None, graph: EntityGraph | None
) -> None:
    engine, _setup = engines.of(candidate)
    if index is not None:
        engine.install_index(candidate[0], index)
    if graph is not None:
        engine.install_graph(graph)


def _evaluate(
    connection: Connection,
    engines: Engines,
    candidates: Sequence[Candidate],
    share: Mapping[str, Sequence[int]],
    part: Part,
) -> None:
    able = [engines.of(candidate) for candidate in candidates]
    ended: list[FinishedQuestion] = []
    sent = monotonic()
    try:
        for question, positions in share.items():
            for position in positions:
                ended.append(evaluate_job(*able[position], candidates[position], (position, question), part))
            if monotonic() - sent >= HAND_OVER_SECONDS:
                handed_over, ended = ended, []
                connection.send(handed_over)
                sent = monotonic()
    finally:
        if ended:
            connection.send(ended)
