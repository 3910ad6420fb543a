"""Queues of the jobs of a batch, one for each worker of a cluster, any of which may be lost with the jobs it has."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from ragsmith.errors import RagsmithError
from ragsmith.evaluation.threads import REPORT_SECONDS, FinishedQuestion, Job, to_picklable

MAX_JOBS_PER_CALL = 256
"""Maximum number of jobs in one call of a worker, which answers some of them and returns the rest."""
MAX_LOSSES = 4
"""Number of times that a worker may be lost with the same job, or during startup, before the run stops."""
JOBS_LOST = (
    f"questions were lost with their process {MAX_LOSSES} times (out of memory, or nodes that end): run the same "
    "command again to go on"
)


class JobQueues:
    """The unfinished jobs of a batch; ``left`` is their number.

    All jobs of a question go to its worker in ``workers``, as candidates share stages. If the models are waited for
    (``by_candidate``), jobs are ordered by candidate, so that few of them wait for the same reply; otherwise by
    question, so that cached stages are reused at once. A worker takes up to ``per_call`` jobs in a call, ``at_once`` of
    which it works on.
    """

    def __init__(
        self, jobs: Sequence[Job], workers: Mapping[str, int], *, per_call: int, at_once: int, by_candidate: bool
    ) -> None:
        self.left = len(jobs)
        self._per_call, self._at_once = per_call, at_once
        self._losses: Counter[Job] = Counter()
        self._lost: deque[Job] = deque()
        self._begun: set[int] = set()
        self._queues: dict[int, deque[Job]] = {worker: deque() for worker in workers.values()}
        for job in sorted(jobs, key=None if by_candidate else lambda job: (job[1], job[0])):
            self._queues[workers[job[1]]].append(job)

    def take(self, worker: int) -> list[Job]:
        """Return the next jobs of a worker: its own, lost ones, or half of those that the longest queue can spare.

        The jobs at the head of a queue are spared if their worker may have begun them.
        """
        if queue := self._queues.get(worker) or self._lost:
            self._begun.add(worker)
            return [queue.popleft() for _ in range(min(len(queue), self._per_call))]
        other = max(self._queues, key=lambda one: len(self._queues[one]), default=worker)
        queue = self._queues.get(other, self._lost)
        spare = len(queue) - self._at_once * (other in self._begun)
        return [queue.pop() for _ in range(min((spare + 1) // 2, self._per_call))][::-1]

    def settle(self, worker: int, taken: Sequence[Job], finished: Sequence[FinishedQuestion]) -> None:
        """Queue those of the jobs ``taken`` again that have not ``finished``."""
        done = {result.job for result in finished}
        self.left -= len(done)
        self._queues.setdefault(worker, deque()).extendleft(job for job in reversed(taken) if job not in done)

    def lose(self, worker: int, taken: Sequence[Job]) -> None:
        """Let any worker take the jobs of one that was lost with those that it had ``taken``.

        Raises:
            RagsmithError: a job was lost too often, and may be the cause.
        """
        self._begun.discard(worker)
        self._lost.extend([*taken, *self._queues.pop(worker, ())])
        self._losses.update(taken)
        if any(self._losses[job] >= MAX_LOSSES for job in taken):
            raise RagsmithError(JOBS_LOST)


class JobPool:
    """The threads of a worker, which continue between its calls with jobs that have not ended."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._batch = -1
        self._running: dict[Job, Future[FinishedQuestion]] = {}

    def run(
        self, batch: int, jobs: Sequence[Job], evaluate: Callable[[Job], FinishedQuestion]
    ) -> tuple[list[FinishedQuestion], BaseException | None]:
        """Return results of ``jobs`` within `REPORT_SECONDS`, and an error that stops the run, if any.

        Jobs of the last call that are not among them, and not begun, are cancelled.
        """
        kept = {job: self._running[job] for job in jobs if batch == self._batch and job in self._running}
        self.cancel([job for job in self._running if job not in kept])
        self._batch, self._running = batch, kept
        for job in jobs:
            if job not in kept:
                kept[job] = self._pool.submit(evaluate, job)
        wait(kept.values(), REPORT_SECONDS)
        finished: list[FinishedQuestion] = []
        problem: BaseException | None = None
        for job in [job for job in jobs if kept[job].done()]:
            try:
                finished.append(kept.pop(job).result())
            except RagsmithError as error:
                problem = to_picklable(error)
        return finished, problem

    def cancel(self, jobs: Sequence[Job] | None = None) -> None:
        """Cancel ``jobs``, by default all, unless they are begun."""
        for job in self._running if jobs is None else jobs:
            self._running[job].cancel()
