"""Micro-batches: requests of many threads to a model at about the same time, sent together."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Batcher(Generic[A, B]):
    """Runs ``run`` on up to ``size`` items at a time; the first thread waits ``window`` seconds for others."""

    def __init__(self, run: Callable[[list[A]], Sequence[B]], *, size: int = 64, window: float = 0.004) -> None:
        self._run = run
        self._size = size
        self._window = window
        self._lock = threading.Lock()
        self._full = threading.Event()
        self._waiting: list[tuple[A, Future[B]]] = []

    def __call__(self, items: Sequence[A]) -> list[B]:
        """Return the results for ``items``, in order; an error of a batch is raised in all of its threads."""
        if not items:
            return []
        if len(items) >= self._size:  # enough for separate batches
            return self._run_in_chunks(list(items))
        futures: list[Future[B]] = [Future() for _ in items]
        with self._lock:
            is_leader = not self._waiting
            self._waiting += zip(items, futures, strict=True)
            if len(self._waiting) >= self._size:
                self._full.set()
        if is_leader:
            self._run_batch()
        return [future.result() for future in futures]

    def _run_batch(self) -> None:
        """Wait for other threads, and resolve all futures, even after an interrupt."""
        batch: list[tuple[A, Future[B]]] = []
        try:
            self._full.wait(self._window)
            batch = self._take_batch()
            results = self._run_in_chunks([item for item, _ in batch])
        except BaseException as error:
            for _, future in batch or self._take_batch():
                future.set_exception(error)
            raise
        for (_, future), result in zip(batch, results, strict=True):
            future.set_result(result)

    def _take_batch(self) -> list[tuple[A, Future[B]]]:
        with self._lock:
            batch, self._waiting = self._waiting, []
            self._full.clear()
        return batch

    def _run_in_chunks(self, items: list[A]) -> list[B]:
        output: list[B] = []
        for start in range(0, len(items), self._size):
            part = items[start : start + self._size]
            results = self._run(part)
            if len(results) != len(part):
                raise RuntimeError(f"{len(part)} results were expected, {len(results)} were returned")
            output += results
        return output
