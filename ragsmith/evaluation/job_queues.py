"""Queues of the jobs of a batch, one for each worker of a cluster, any of which may be lost with the jobs it has."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence

from ragsmith.errors import RagsmithError
from ragsmith.evaluation.threads import FinishedQuestion, Job

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

    All jobs of a question go to its worker in ``workers``, one after the other, as candidates share its stages.
    """

    def __init__(self, jobs: Sequence[Job], workers: Mapping[str, int]) -> None:
        self.left = len(jobs)
        self._losses: Counter[Job] = Counter()
        self._queues: dict[int, deque[Job]] = {worker: deque() for worker in workers.values()}
        for job in sorted(jobs, key=lambda job: (job[1], job[0])):
            self._queues[workers[job[1]]].append(job)

    def take(self, worker: int) -> list[Job]:
        """Return the next jobs of a worker: from its own queue or, if that is empty, from the longest."""
        queue = self._queues.get(worker) or max(self._queues.values(), key=len)
        return [queue.popleft() for _ in range(min(len(queue), MAX_JOBS_PER_CALL))]

    def settle(self, worker: int, taken: Sequence[Job], finished: Sequence[FinishedQuestion]) -> None:
        """Queue those of the jobs ``taken`` again that have not ``finished``."""
        done = {result.job for result in finished}
        self.left -= len(done)
        self._queues.setdefault(worker, deque()).extendleft(job for job in reversed(taken) if job not in done)

    def count_loss(self, taken: Sequence[Job]) -> None:
        """Count the loss of a worker with the jobs that it has ``taken``.

        Raises:
            RagsmithError: a job was lost too often, and may be the cause.
        """
        self._losses.update(taken)
        if any(self._losses[job] >= MAX_LOSSES for job in taken):
            raise RagsmithError(JOBS_LOST)
