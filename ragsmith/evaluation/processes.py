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
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import Any, cast

from ragsmith.building import TaskProgress, disable_progress_log, log_progress
from ragsmith.errors import ModelUnavailable, RagsmithError, StageFailed, UsageError
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
    account,
    evaluate_job,
)
from ragsmith.gateway.memory import Memory, release_free_memory
from ragsmith.index.entity_graph import EntityGraph
from ragsmith.index.index import Index
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import GENES, Candidate, Fit, Gene, make_gene
from ragsmith.plugins import LoadedFiles

LARGE_ENTRIES = 20_000
"""An index with this many entries is not sent to running workers. A smaller one is sent in less time than new workers
need to compute again what the running ones have cached."""
HAND_OVER_SECONDS = 0.05
"""How long a worker collects results before it sends them: each message wakes the parent, which needs a core."""
PATIENCE_SECONDS = 1.0
"""How long a worker may take to end by itself; one in the middle of a question is stopped."""


class ProcessRunner:
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
        self.engines = Engines(setup, engine)
        self._setup = setup
        self._count = workers
        self._memory = memory
        self._large_from = large_from
        self._shard = {question: i % workers for i, question in enumerate(setup.order)}
        self._installed: set[str] = set()
        self._graphs_sent: set[int] = set()
        self._described: set[str] = set()
        self._has_large = self._outdated = False
        self._met: set[Hashable] = set()
        self._announced: set[tuple[int, str]] = set()
        self._before: list[ComputedWork] = []
        self._workers: list[tuple[BaseProcess, Connection]] = []
        self._settled = False
        if not can_be_copied():
            self._begin()  # at once: they import while this process builds what it will send

    def _begin(self) -> None:
        """Start the workers: copies of this process where there can be any."""
        self._copied = can_be_copied()
        if self._copied:
            parents: list[Connection] = []

            def copy(ours: Connection, theirs: Connection) -> BaseProcess:
                parents.append(ours)
                arguments = parents, theirs, self.engines, self._memory
                return multiprocessing.get_context("fork").Process(target=_serve_as_copy, args=arguments, daemon=True)

            self._start(copy)
            return

        def new(_: Connection, theirs: Connection) -> BaseProcess:
            arguments = LoadedFiles(), theirs, self._setup, self._memory
            return multiprocessing.get_context("spawn").Process(target=_serve_anew, args=arguments, daemon=True)

        resource_tracker.ensure_running()  # it unblocks signals when it starts, so not while they are held
        with _one_thread_each():
            self._start(new)

    def _start(self, worker: Callable[[Connection, Connection], BaseProcess]) -> None:
        with ExitStack() as stack:
            stack.push(self)
            for _ in range(self._count):
                with signals_held():
                    ours, theirs = multiprocessing.Pipe()
                    process = worker(ours, theirs)
                    process.start()
                    self._workers.append((process, ours))
                    theirs.close()
            stack.pop_all()

    def __enter__(self) -> ProcessRunner:
        return self

    def __exit__(self, *_: object) -> None:
        for _process, connection in self._workers:
            connection.close()  # a worker at rest ends by itself and cleans up
        for process, _connection in self._workers:
            process.join(PATIENCE_SECONDS)
            process.kill()
            process.join()

    def _end(self) -> None:
        """End the workers, so that others can be made; what they did is not forgotten."""
        accounts = self._accounts()
        self.__exit__()
        self._workers.clear()
        self._before += accounts
        self._described.clear()
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
        return sum([*self._before, *self._accounts()], start=account(self.engines))

    def _accounts(self) -> list[ComputedWork]:
        """What each worker did."""
        for _, connection in self._workers:
            _send(connection, ("account",))
        return [_receive(connection) for _, connection in self._workers]

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
                self._installed.clear()
                self._graphs_sent.clear()
                self._prepare(candidates)
        named = [self._named(candidate) for candidate in candidates]
        shares: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for position, question in sorted(rest, key=lambda job: (job[1], job[0])):
            shares[self._shard[question]][question].append(position)
        waiting: dict[Any, int] = {}
        for worker, share in shares.items():
            connection = self._workers[worker][1]
            _send(connection, ("evaluate", named, dict(share), part))
            waiting[connection] = sum(map(len, share.values()))
        while waiting:
            batch: list[FinishedQuestion] = []
            for ready in wait_for(list(waiting), REPORT_SECONDS):
                connection = cast(Connection, ready)
                # all other results that arrived meanwhile go with it
                while waiting[connection] and (not batch or connection.poll()):
                    received = _receive(connection)
                    waiting[connection] -= len(received)
                    batch += received
                if not waiting[connection]:
                    del waiting[connection]
            yield batch

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
            self._announce(candidate)
            with suppress(StageFailed):  # then the workers meet the same failure, and record it for each question
                self._install(candidate)

    def _announce(self, candidate: Candidate) -> None:
        """Tell what retrieval of a large collection needs, before it is built for the first time."""
        engine, setup = self.engines.of(candidate)
        if len(setup.corpus.chunks) < self._large_from:
            return
        retrieval = next(gene for gene in candidate if gene.technique.family == "retrieval")
        searched = f"{retrieval} on {candidate[0]}"
        if (id(engine), searched) not in self._announced:
            self._announced.add((id(engine), searched))
            log_progress(f"building the index for retrieval {retrieval}, pre_embedding {candidate[0]}")

    def _install(self, candidate: Candidate) -> None:
        engine, _ = self.engines.of(candidate)
        index, graph = engine.prepare(candidate)
        held = f"{id(engine)}:{candidate[0].identity}:{','.join(sorted(index.holds))}"
        new_index = held not in self._installed
        new_graph = graph is not None and id(engine) not in self._graphs_sent
        if not (new_index or new_graph):
            return
        self._installed.add(held)
        if new_graph:
            self._graphs_sent.add(id(engine))
        if len(index.entries) >= self._large_from:
            self._has_large = True
            if can_be_copied():
                self._outdated = bool(self._workers)
                return
        message = ("install", self._named(candidate), index if new_index else None, graph if new_graph else None)
        for _, connection in self._workers:
            _send(connection, message)

    def _named(self, candidate: Candidate) -> list[str]:
        """The identities of a candidate's genes, by which workers know them; each is described to them once."""
        new = {gene.identity: plain(gene) for gene in candidate if gene.identity not in self._described}
        if new and self._workers:
            for _, connection in self._workers:
                _send(connection, ("genes", new))
            self._described.update(new)
        return [gene.identity for gene in candidate]


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


PlainGene = tuple[str, str, dict[str, Any], str, Fit | None]


def plain(gene: Gene) -> PlainGene:
    """A gene in a form that can be sent; `make_gene` is the inverse."""
    return gene.technique.family, gene.technique.name, dict(gene.parameters), "", gene.fit


LOST = "a worker process ended unexpectedly (out of memory, or killed): run the same command again to go on"


def _send(connection: Connection, message: object) -> None:
    try:
        connection.send(message)
    except OSError:
        raise RagsmithError(LOST) from None


def _receive(connection: Connection) -> Any:
    try:
        received = connection.recv()
    except (EOFError, OSError):
        raise RagsmithError(LOST) from None
    if isinstance(received, _WorkerRefusal):
        raise received.kind(received.message)
    return received


@dataclass(frozen=True, slots=True)
class _WorkerRefusal:
    """The answer of a worker that cannot use what it received: an error by its message, as not all can be pickled."""

    kind: type[RagsmithError]
    message: str


THREADS = "OMP_NUM_THREADS"
_replaced: list[str | None] = []
"""What the variable said whenever a block of `_one_thread_each` was entered that has not been left."""
_replacing = threading.Lock()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started here use one BLAS thread: those of several processes would fight for the cores.

    Searches in several threads may be here at once: the last to leave puts back what the first one found.
    """
    with _replacing:
        _replaced.append(os.environ.get(THREADS))
        os.environ[THREADS] = "1"
    try:
        yield
    finally:
        with _replacing:
            before = _replaced.pop()
            if not _replaced and before is None:
                del os.environ[THREADS]
            elif not _replaced and before is not None:
                os.environ[THREADS] = before


def can_be_copied() -> bool:
    """Whether a copy of this process goes on as this one would: no other thread may hold a lock, which stays locked in
    the copy, and no client of a database is loaded, whose connections both would use.
    """
    if sys.platform != "linux" or not {"qdrant_client", "psycopg"}.isdisjoint(sys.modules):
        return False
    return len(list(Path("/proc/self/task").iterdir())) == 1  # those of libraries among them


def _serve_as_copy(parents: Sequence[Connection], connection: Connection, engines: Engines, memory: int | None) -> None:
    """Body of a worker process that is a copy of its parent, whose ends of pipes it has, too."""
    ignore_signals()  # the parent hears them, and ends its workers
    disable_progress_log()
    for inherited in parents:
        inherited.close()  # a pipe whose other end were open here would not say that the parent is gone
    os.environ[THREADS] = "1"  # of what is not loaded yet
    _serve(connection, engines.copied(Memory(memory)))


def _serve_anew(_: LoadedFiles | None, connection: Connection, setup: Experiment, memory: int | None) -> None:
    """Body of a worker process that is a new one, and has loaded the files of the parent when it begins."""
    ignore_signals()
    from ragsmith.techniques.registry import load_techniques  # noqa: PLC0415  in the worker, not where the runner is imported

    load_techniques()
    _serve(connection, Engines(setup, setup.engine(room=Memory(memory))))


def _serve(connection: Connection, engines: Engines) -> None:
    """Do what the parent says, until it is gone."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 1_000)  # what is remembered stays: walking it again and again took 7 % of the time
    genes: dict[str, Gene] = {}  # the same ones all the time: they remember their identity, and their parts by fold
    with suppress(EOFError, OSError):  # the parent is gone, or needs no more
        while True:
            try:
                message = connection.recv()
            except RagsmithError as error:  # such as a vector store whose files it does not find
                plain = (kind for kind in (UsageError, ModelUnavailable, RagsmithError) if isinstance(error, kind))
                connection.send(_WorkerRefusal(next(plain), str(error)))
                while True:  # what the parent sends before it reads that
                    connection.recv_bytes()
            _handle(connection, engines, genes, message)


def _handle(connection: Connection, engines: Engines, genes: dict[str, Gene], message: tuple[Any, ...]) -> None:
    match message:
        case ("genes", new):
            genes.update((identity, make_gene(*plain)) for identity, plain in new.items())
        case ("install", named, index, graph):
            _take_over(engines, _read(named, genes), index, graph)
        case ("evaluate", candidates, share, part):
            _evaluate(connection, engines, [_read(named, genes) for named in candidates], share, part)
        case ("account",):
            connection.send(account(engines))


def _read(named: Sequence[str], genes: Mapping[str, Gene]) -> Candidate:
    return tuple(genes[identity] for identity in named)


def _take_over(engines: Engines, candidate: Candidate, index: Index | None, graph: EntityGraph | None) -> None:
    engine, _ = engines.of(candidate)
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
    for question, positions in share.items():
        ended += [evaluate_job(*able[p], candidates[p], (p, question), part) for p in positions]
        if monotonic() - sent >= HAND_OVER_SECONDS:
            connection.send(ended)
            ended, sent = [], monotonic()
    if ended:
        connection.send(ended)
