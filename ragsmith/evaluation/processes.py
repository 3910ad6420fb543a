"""Runner of evaluations in worker processes, for models that compute.

Questions are distributed among processes instead of candidates, because candidates share stages within a question.

Where forking is safe, workers are forks of this process, created at the first question, and share its imported modules,
models and indexes in memory. Elsewhere they are new interpreters, which receive indexes and entity graphs.

Indexes built later are sent to the workers. For a large collection, the workers are restarted as new forks instead, so
that memory holds it once. Some structures are only built for a question, such as term statistics. For a large
collection, this process answers the first question of every new technique, and of every retrieval on every index, so
that forks share these structures too.
"""

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
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from time import monotonic
from typing import Any, cast

from threadpoolctl import threadpool_limits

from ragsmith.building import TaskProgress, disable_progress_log, log_progress
from ragsmith.errors import RagsmithError, StageFailed
from ragsmith.evaluation.experiment import Engines, Experiment
from ragsmith.evaluation.signals import ignore_signals, signals_deferred
from ragsmith.evaluation.threads import (
    ANSWER,
    RANKING,
    REPORT_SECONDS,
    ComputedWork,
    FinishedQuestion,
    Job,
    Part,
    Runner,
    evaluate_job,
    measure_work,
    to_picklable,
)
from ragsmith.gateway.memory import Memory, release_free_memory
from ragsmith.index.entity_graph import EntityGraph
from ragsmith.index.index import Index
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import N_FAMILIES, Candidate, Gene
from ragsmith.plugins import LoadedFiles
from ragsmith.techniques.registry import load_techniques

LARGE_ENTRIES = 20_000
"""An index with this many entries is not sent to running workers. A smaller one is sent in less time than new workers
need to compute again what the running ones have cached."""
SEND_SECONDS = 0.05
"""Seconds for which a worker collects results before it sends them: each message wakes the parent process."""
EXIT_SECONDS = 1.0
"""Timeout in seconds for a worker to exit; a busy one is killed afterwards."""


class ProcessRunner(Runner):
    """Runner with ``workers`` processes, each with its own engines and a share of the questions.

    The calling process builds indexes and entity graphs once. A worker exits when its parent ends, as its pipe closes.
    ``memory`` limits the bytes of each process.
    """

    def __init__(
        self,
        setup: Experiment,
        engine: Engine,
        workers: int,
        memory: int | None = None,
        large_from: int = LARGE_ENTRIES,
    ) -> None:
        """Collections with at least ``large_from`` chunks are shared by forks instead of sent, where possible."""
        super().__init__(setup, engine)
        self._setup = setup
        self._count = workers
        self._memory = memory
        self._large_from = large_from
        self._shard = {question: i % workers for i, question in enumerate(setup.order)}
        self._sent: set[Hashable] = set()
        self._has_large = self._outdated = self._settled = False
        self._built: set[Hashable] = set()
        self._announced: set[Hashable] = set()
        self._earlier_work: list[ComputedWork] = []
        self._workers: list[tuple[BaseProcess, Connection]] = []
        if not is_fork_safe():
            self._start()  # early, so that they import while this process builds indexes

    def _start(self) -> None:
        """Start the workers, as forks of this process where that is safe."""
        self._forked = is_fork_safe()
        context: Any = multiprocessing.get_context("fork" if self._forked else "spawn")
        if not self._forked:
            resource_tracker.ensure_running()  # its start unblocks signals, so it must precede `signals_deferred`
        engines = self.engines if self._forked else None
        parents: list[Connection] = []
        with ExitStack() as stack:
            stack.callback(self._stop)
            for _ in range(self._count):
                with signals_deferred():
                    ours, theirs = multiprocessing.Pipe()
                    if self._forked:
                        parents.append(ours)
                    arguments = engines, parents, theirs, self._memory
                    process = context.Process(target=_serve, args=arguments, daemon=True)
                    process.start()
                    self._workers.append((process, ours))
                    theirs.close()
            if not self._forked:
                # Sent when all are starting. As an argument of a process that cannot start, it would block forever.
                startup = ForkingPickler.dumps((LoadedFiles(), self._setup))
                for _, connection in self._workers:
                    _send_bytes(connection, startup, NOT_STARTED)
            stack.pop_all()

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        for _process, connection in self._workers:
            connection.close()  # an idle worker exits and cleans up
        for process, _connection in self._workers:
            process.join(EXIT_SECONDS)
            process.kill()
            process.join()
        self._workers.clear()

    def _retire(self) -> None:
        """Stop the workers before new ones are started, and keep their counts of work."""
        self._earlier_work += self._collect_work()
        self._stop()
        self._outdated = self._settled = False
        gc.collect()
        release_free_memory()

    def settle(self) -> None:
        """See `Runner.settle`: a worker replies once it has started."""
        if not self._settled:
            self._collect_work()
            self._settled = bool(self._workers)

    def work(self) -> ComputedWork:
        """See `Runner.work`."""
        return sum([*self._earlier_work, *self._collect_work()], start=super().work())

    def _collect_work(self) -> list[ComputedWork]:
        """Return the work of each worker, which ends the evaluation that it is at; results not read are dropped."""
        self._send_all(_report_work)
        each: list[ComputedWork] = []
        for _, connection in self._workers:
            while isinstance(received := _receive(connection), list):
                pass
            each.append(received)
        return each

    def _send_all(self, *message: Any) -> None:
        for _, connection in self._workers:
            _send(connection, message)

    def run(
        self, candidates: Sequence[Candidate], jobs: Sequence[Job], part: Part = ANSWER
    ) -> Iterator[list[FinishedQuestion]]:
        """See `Runner.run`."""
        self._prepare(candidates)
        rest = list(jobs)
        if self._has_large and is_fork_safe():
            for finished in self._evaluate_first_jobs(candidates, jobs, part):
                rest.remove(finished.job)
                yield [finished]
        if self._outdated:
            self._retire()
        if not self._workers:
            self._start()
            if not self._forked:  # a thread was started meanwhile, so indexes have to be sent
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
        try:
            yield from _collect(waiting)
        except GeneratorExit:  # the caller stopped early
            self._collect_work()
            raise

    def _evaluate_first_jobs(
        self, candidates: Sequence[Candidate], jobs: Sequence[Job], part: Part
    ) -> Iterator[FinishedQuestion]:
        """Evaluate in this process the first job of each candidate with a new technique or index."""
        first = {position: (position, question) for position, question in sorted(jobs, reverse=True)}
        met = set(self._built)
        new: list[tuple[Job, set[Hashable]]] = []
        for position in sorted(first):
            derived = self._derived_keys(candidates[position], part)
            if not derived <= met:
                met |= derived
                new.append((first[position], derived))
        if not new:
            return
        log_progress(
            f"answering a question with {len(new)} new pipelines, which builds the other structures that they need"
        )
        building = TaskProgress("new pipelines that answered", len(new))
        self._outdated = bool(self._workers)
        for number, (job, derived) in enumerate(sorted(new, key=lambda one: one[0][::-1]), 1):
            candidate = candidates[job[0]]
            yield evaluate_job(*self.engines.get(candidate), candidate, job, part)
            self._built |= derived
            building.done(number)

    def _derived_keys(self, candidate: Candidate, part: Part) -> set[Hashable]:
        """Return identifiers of the structures that a ``part`` may build; those of retrieval depend on the index."""
        engine, _ = self.engines.get(candidate)
        found: set[Hashable] = set()
        for gene in _list_executed_genes(candidate, part):
            family, name = gene.technique.family, gene.technique.name
            index = candidate[0].identity if family == "retrieval" else ""
            found.add((id(engine), family, name, index))
        return found

    def _prepare(self, candidates: Sequence[Candidate]) -> None:
        for candidate in candidates:
            with suppress(StageFailed):  # workers raise the same failure, and record it for each question
                self._build(candidate)

    def _build(self, candidate: Candidate) -> None:
        """Build the index and entity graph of a candidate, and send them to the workers that lack them."""
        engine, setup = self.engines.get(candidate)
        retrieval = next(gene for gene in candidate if gene.technique.family == "retrieval")
        searched = id(engine), retrieval, candidate[0]
        if len(setup.corpus.chunks) >= self._large_from and searched not in self._announced:
            self._announced.add(searched)
            log_progress(f"building the index for retrieval {retrieval}, pre_embedding {candidate[0]}")
        index, graph = engine.prepare(candidate)
        built = {(id(engine), candidate[0].identity, index.cached_names): index, (id(engine), "graph"): graph}
        new = [part if name not in self._sent else None for name, part in built.items()]
        if not any(part is not None for part in new):
            return
        self._sent |= {name for name, part in built.items() if part is not None}
        if len(index.entries) >= self._large_from:
            self._has_large = True
            if is_fork_safe():
                self._outdated = bool(self._workers)
                return
        self._send_all(_install, candidate, *new)


def _list_executed_genes(candidate: Candidate, part: Part) -> Sequence[Gene]:
    """Return the genes that run for ``part``; see `Runner.run`."""
    genes = candidate[:N_FAMILIES]
    if part == ANSWER or (not isinstance(part, str) and part.answers):
        return genes
    families = [gene.technique.family for gene in genes]
    if part == "retrieval":
        return [genes[0], genes[families.index(part)]]
    if isinstance(part, str) and part != RANKING:
        return genes[: families.index(part) + 1]
    return genes[: families.index("passage_augment")]


WORKER_LOST = (
    "a worker process ended unexpectedly (out of memory, killed, or a script calls ragsmith without "
    '`if __name__ == "__main__":`): run the same command again to go on'
)
NOT_STARTED = (
    "a worker process could not start: in a script, put the call of ragsmith under "
    '`if __name__ == "__main__":`, as workers import the script'
)


def _send(connection: Connection, message: tuple[Any, ...]) -> None:
    _send_bytes(connection, ForkingPickler.dumps(message))


def _send_bytes(connection: Connection, message: memoryview, lost: str = WORKER_LOST) -> None:
    try:
        connection.send_bytes(message)
    except OSError:
        raise RagsmithError(lost) from None


def _receive(connection: Connection) -> Any:
    """Receive a message of a worker, and raise it if it is an error.

    Raises:
        RagsmithError: the worker is lost, or has failed.
    """
    if isinstance(received := _read(connection), BaseException):
        raise received
    return received


def _collect(waiting: dict[Any, int]) -> Iterator[list[FinishedQuestion]]:
    """Yield results as they arrive; ``waiting`` has the number of expected results of each connection.

    An error of a worker is raised after the results that arrived before it.
    """
    while waiting:
        batch: list[FinishedQuestion] = []
        failure: BaseException | None = None
        for ready in wait_for(list(waiting), REPORT_SECONDS):
            connection = cast(Connection, ready)
            # add all results that have arrived meanwhile
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
    """Receive a message of a worker; return an error if the worker is lost."""
    try:
        return connection.recv()
    except (EOFError, OSError):
        return RagsmithError(WORKER_LOST)


def is_fork_safe() -> bool:
    """Return whether this process can be forked safely.

    There must be no other thread, whose locks would stay locked in the fork, and no loaded database client, whose
    connections would be shared.
    """
    if sys.platform != "linux" or not {"qdrant_client", "psycopg"}.isdisjoint(sys.modules):
        return False
    return len(list(Path("/proc/self/task").iterdir())) == 1  # including threads of libraries


def _serve(
    inherited_engines: Engines | None,
    parents: Sequence[Connection],
    connection: Connection,
    memory: int | None,
) -> None:
    """Run a worker process: call the functions that the parent sends, until the parent ends.

    A fork has the engines of the parent, and closes the ends of its pipes in ``parents``. A new process receives the
    user files of the parent, which it loads, and the experiment. An error is sent to the parent.
    """
    ignore_signals()  # the parent handles them, and stops its workers
    disable_progress_log()
    for inherited in parents:
        inherited.close()  # otherwise the pipe would not close when the parent ends
    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries not loaded yet: one thread for each process
    threadpool_limits(1)
    with suppress(EOFError, OSError):  # the parent has ended
        try:
            load_techniques()
            room = Memory(memory)
            if inherited_engines is not None:
                engines = inherited_engines.copy_with(room)
            else:
                _, setup = connection.recv()
                engines = Engines(setup, setup.engine(room=room))
            gc.freeze()
            gc.set_threshold(100_000, 20, 1_000)  # collections of cached objects took 7 % of the time
            while True:
                function, *arguments = connection.recv()
                function(connection, engines, *arguments)
        except RagsmithError as error:  # such as a vector store that cannot be opened here
            connection.send(to_picklable(error))
            while True:  # discard messages until the parent reads the error
                connection.recv_bytes()


def _report_work(connection: Connection, engines: Engines) -> None:
    connection.send(measure_work(engines))


def _install(
    _: Connection, engines: Engines, candidate: Candidate, index: Index | None, graph: EntityGraph | None
) -> None:
    engine, _setup = engines.get(candidate)
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
    prepared = [engines.get(candidate) for candidate in candidates]
    ended: list[FinishedQuestion] = []
    sent = monotonic()
    try:
        for question, positions in share.items():
            if connection.poll():  # the parent wants something else
                break
            for position in positions:
                ended.append(evaluate_job(*prepared[position], candidates[position], (position, question), part))
            if monotonic() - sent >= SEND_SECONDS:
                handed_over, ended = ended, []
                connection.send(handed_over)
                sent = monotonic()
    finally:
        if ended:
            connection.send(ended)
