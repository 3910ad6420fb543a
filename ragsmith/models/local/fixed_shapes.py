"""Running a neural network so that what it makes of a text depends on nothing but the text.

The last bits of a matrix product change with the shape that is multiplied and with the number of threads (measured for
all-MiniLM-L6-v2: 1e-7 in a coordinate, enough to move the sixth decimal of a cosine). So the shape a text is computed
in follows from its own length, and every product is one thread's work. Cores are used by working on several texts at
once, which is no slower on a CPU: padding to the longest of a batch costs more than batches gain.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Array = NDArray[np.float32]

ACCELERATOR_ROWS = 32


def equal_lengths(lengths: Sequence[int], rows: int) -> list[tuple[int, ...]]:
    """Positions in batches of up to ``rows``, of one length each; the longest first, so that the last one is short."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for position, length in enumerate(lengths):
        by_length[length].append(position)
    groups = [by_length[length] for length in sorted(by_length, reverse=True)]
    return [tuple(group[i : i + rows]) for group in groups for i in range(0, len(group), rows)]


class FixedShapes:
    """Runs batches of ``rows`` items of one length; a batch with fewer is filled up with repeats.

    ``rows`` is by default 1 on a CPU, where the result is then exact. With more, only an item's place in its batch can
    still show in the last bits. Threads may share an instance: they share its workers, one for each core that
    ``OMP_NUM_THREADS`` allows (a single one in an evaluation's worker process, and for a device other than the CPU).
    """

    def __init__(self, rows: int | None, *, on_cpu: bool) -> None:
        self.rows = rows or (1 if on_cpu else ACCELERATOR_ROWS)
        self._pool = ThreadPoolExecutor(allowed_cores() if on_cpu else 1, "network", _one_thread)

    def run(self, items: Sequence[T], lengths: Sequence[int], forward: Callable[[list[T]], Array]) -> list[Array]:
        """What ``forward`` makes of each item, in the order of ``items``; ``lengths`` are their numbers of tokens."""

        def compute(batch: tuple[int, ...]) -> Array:
            filled = [*batch, *[batch[-1]] * (self.rows - len(batch))]
            return forward([items[position] for position in filled])[: len(batch)]

        results: dict[int, Array] = {}
        batches = equal_lengths(lengths, self.rows)
        for batch, made in zip(batches, self._pool.map(compute, batches), strict=True):
            results.update(zip(batch, made, strict=True))
        return [results[position] for position in range(len(items))]


def allowed_cores() -> int:
    """The number of threads that ``OMP_NUM_THREADS`` allows, by default one for each core."""
    allowed = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(allowed) if allowed.isdecimal() and int(allowed) else os.cpu_count() or 1


def _one_thread() -> None:
    import torch  # noqa: PLC0415  1.1 s

    torch.set_num_threads(1)  # for this worker's products
