"""Reproducible inference of neural networks: a text's result depends only on the text.

The last bits of a matrix product depend on its shape and the number of threads (1e-7 in a coordinate of
all-MiniLM-L6-v2, which may change the sixth decimal of a cosine). So the shape for a text depends only on its length,
and each product uses one thread. Several texts are computed in parallel, which is no slower on a CPU than padded
batches.
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
    """Group positions into batches of up to ``rows`` of equal length, longest first so that the last one is short."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for position, length in enumerate(lengths):
        by_length[length].append(position)
    groups = [by_length[length] for length in sorted(by_length, reverse=True)]
    return [tuple(group[i : i + rows]) for group in groups for i in range(0, len(group), rows)]


class FixedShapes:
    """Runs batches of ``rows`` items of one length; smaller batches are padded with repeats.

    The default of ``rows`` on a CPU is 1, with which results are exact; with more, the last bits may depend on an
    item's place in its batch. Threads share the workers: one for each core that ``OMP_NUM_THREADS`` allows, and one
    for a device other than the CPU.
    """

    def __init__(self, rows: int | None, *, on_cpu: bool) -> None:
        self.rows = rows or (1 if on_cpu else ACCELERATOR_ROWS)
        self._pool = ThreadPoolExecutor(allowed_cores() if on_cpu else 1, "network", _one_thread)

    def run(self, items: Sequence[T], lengths: Sequence[int], forward: Callable[[list[T]], Array]) -> list[Array]:
        """Return the result of ``forward`` for each of ``items``, in order; ``lengths`` are in tokens."""

        def compute(batch: tuple[int, ...]) -> Array:
            filled = [*batch, *[batch[-1]] * (self.rows - len(batch))]
            return forward([items[position] for position in filled])[: len(batch)]

        results: dict[int, Array] = {}
        batches = equal_lengths(lengths, self.rows)
        for batch, made in zip(batches, self._pool.map(compute, batches), strict=True):
            results.update(zip(batch, made, strict=True))
        return [results[position] for position in range(len(items))]


def allowed_cores() -> int:
    """Return the number of threads that ``OMP_NUM_THREADS`` allows, by default one for each core."""
    allowed = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(allowed) if allowed.isdecimal() and int(allowed) else os.cpu_count() or 1


def _one_thread() -> None:
    import torch  # noqa: PLC0415  1.1 s

    torch.set_num_threads(1)  # for this worker's products
