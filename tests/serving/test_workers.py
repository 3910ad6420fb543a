"""The threads that answer: bounded, shared by equal work, and free of what nobody wants any more."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import wait

import pytest
from asking import PATIENCE

from ragsmith.serving.workers import Aborted, CancellationToken, QueueFull, Workers, WorkItem, done_event


class Gate:
    """Work that waits for a signal; ``most`` is the maximum number of concurrent runs."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._now = self.most = self.done = 0

    def __call__(self, stop: CancellationToken) -> int:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self.begun.release()
        assert self.open.wait(PATIENCE)
        with self._lock:
            self._now -= 1
            self.done += 1
            return self.done


def result(work: WorkItem[int]) -> object:
    return work.future.result(PATIENCE)


def test_running_and_waiting_work_is_limited() -> None:
    workers, gate = Workers(2, 3), Gate()
    entered = [workers.submit(n, gate) for n in range(5)]
    assert gate.begun.acquire(timeout=PATIENCE)
    assert gate.begun.acquire(timeout=PATIENCE)
    with pytest.raises(QueueFull):
        workers.submit(9, gate)
    same = workers.submit(4, gate)  # equal work takes no room
    assert same is entered[4]
    gate.open.set()
    assert sorted(map(str, map(result, entered))) == list("12345")
    assert gate.most == 2


def test_cancelled_work_is_dropped_or_stopped() -> None:
    workers, gate = Workers(1, 3), Gate()
    told: list[str] = []
    running = workers.submit("a", gate)
    assert gate.begun.acquire(timeout=PATIENCE)
    running.cancellation.on_cancel(lambda: told.append("a"))
    waiting, shared = workers.submit("b", gate), workers.submit("c", gate)
    assert workers.submit("c", gate) is shared
    workers.withdraw(waiting)
    workers.withdraw(shared)
    workers.withdraw(running)
    assert (told, workers.waiting, workers.cancelled) == (["a"], 1, 2)
    again = workers.submit("a", gate)  # not what was told to stop
    assert again is not running
    gate.open.set()
    wait([shared.future, again.future], PATIENCE)
    assert gate.done == 3  # never b


def test_an_error_is_the_result_of_its_work_alone() -> None:
    workers = Workers(1, 1)

    def fails(stop: CancellationToken) -> int:
        raise ValueError("this one")

    assert isinstance(result(workers.submit("a", fails)), ValueError)
    assert result(workers.submit("a", lambda stop: 7)) == 7


def test_a_stop_that_came_before_is_told_at_once() -> None:
    stop, told = CancellationToken(), []
    stop.cancel()
    stop.on_cancel(lambda: told.append(1))
    assert told == [1]


def test_whatever_order_they_come_and_go_in_all_that_is_wanted_is_done() -> None:
    draw = random.Random(5)
    workers = Workers(3, 50)
    for _ in range(30):
        wanted: list[WorkItem[int]] = []
        left = 0
        for n in range(40):
            work = workers.submit((n % 7, draw.random() < 0.5), lambda stop: 1)
            if draw.random() < 0.4:
                workers.withdraw(work)
                left += 1
            else:
                wanted.append(work)
        assert [result(work) for work in wanted] == [1] * len(wanted)
        for work in wanted:
            workers.withdraw(work)
    assert workers.waiting == 0
    workers.close()
    with pytest.raises(QueueFull):
        workers.submit("late", lambda stop: 1)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_work_that_wants_to_end_its_thread_ends_with_an_error_and_the_thread_goes_on(kind: type[BaseException]) -> None:
    workers = Workers(1, 1)

    def ends(stop: CancellationToken) -> int:
        raise kind

    found = result(workers.submit("a", ends))
    assert isinstance(found, Aborted)
    assert str(found) == kind.__name__
    assert result(workers.submit("a", lambda stop: 7)) == 7
    assert workers.busy == 0


def test_an_arrival_is_told_to_the_loop_that_waits_and_to_no_loop_that_has_ended() -> None:
    workers, gate = Workers(1, 1), Gate()

    async def first() -> WorkItem[int]:
        work = workers.submit("a", gate)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(done_event(work).wait(), 0.01)
        return work

    async def second(work: WorkItem[int]) -> None:
        arrived = done_event(work)
        gate.open.set()
        await asyncio.wait_for(arrived.wait(), PATIENCE)

    asyncio.run(second(asyncio.run(first())))
