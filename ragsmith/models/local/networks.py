"""Networks of sentence-transformers, run so that the result for a text does not depend on other texts.

The last bits of a matrix product depend on its shape and the number of threads (1e-7 in a coordinate of
all-MiniLM-L6-v2, which may change the sixth decimal of a cosine). So the shape for a text depends only on its length,
and each product uses one thread. Several texts are computed in parallel, which is no slower on a CPU than padded
batches.
"""

import copy
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.errors import RagsmithError, UsageError

Array = NDArray[np.float32]

ACCELERATOR_ROWS = 32
"""Default number of items per batch on an accelerator."""
_UNLIMITED = 10**9
"""Libraries represent "no limit" by None, infinity or 10^30."""


class Network:
    """``model`` with a window of ``context_window`` tokens, by default its own; its results do not depend on batches.

    Batches have ``rows`` items of one length, and smaller ones are padded with repeats: by default 1 on a CPU, where
    each product uses one thread.
    """

    def __init__(self, model: Any, *, context_window: int | None, rows: int | None) -> None:
        self.model = model
        self.truncated = 0
        self._lock = threading.Lock()
        on_cpu = model.device.type == "cpu"
        self._rows = rows or (1 if on_cpu else ACCELERATOR_ROWS)
        self._pool = ThreadPoolExecutor(allowed_cores() if on_cpu else 1, "network", _use_one_thread)
        self.window = _window(model, context_window)
        if self.window is not None:
            model.max_seq_length = self.window
            # a copy, because threads cannot share a tokenizer that truncates in some calls only
            self._tokenizer = copy.deepcopy(model.tokenizer)

    def run(
        self, items: Sequence[str], forward: Callable[[list[str]], Array], columns: Sequence[Sequence[str]]
    ) -> list[Array]:
        """Return the result of ``forward`` for each item; ``columns`` has the texts, in two columns for pairs."""
        if not items:
            return []
        lengths = self._lengths(columns)
        if self.window is not None:
            with self._lock:
                self.truncated += sum(length > self.window for length in lengths)
            lengths = [min(length, self.window) for length in lengths]

        def compute(batch: tuple[int, ...]) -> Array:
            padded = [*batch, *[batch[-1]] * (self._rows - len(batch))]
            return forward([items[position] for position in padded])[: len(batch)]

        results: dict[int, Array] = {}
        batches = equal_lengths(lengths, self._rows)
        for batch, outputs in zip(batches, self._pool.map(compute, batches), strict=True):
            results.update(zip(batch, outputs, strict=True))
        return [results[position] for position in range(len(items))]

    def _lengths(self, columns: Sequence[Sequence[str]]) -> list[int]:
        """Return the tokens of each item before truncation, or its characters if the network has no window."""
        if self.window is None:
            return [sum(map(len, texts)) for texts in zip(*columns, strict=True)]
        with self._lock:
            ids = self._tokenizer(*map(list, columns), truncation=False, padding=False, verbose=False)["input_ids"]
        return [len(item) for item in ids]


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Disable progress bars, and turn failures into a `UsageError` about the model ``name``."""
    from transformers.utils import logging  # noqa: PLC0415

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    except RagsmithError:
        raise
    except (OSError, ValueError, RuntimeError, AssertionError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"the model {name!r} cannot be loaded: {type(error).__name__}: {reason}") from error
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def _window(model: Any, context_window: int | None) -> int | None:
    """Return the window of ``model`` in tokens, at most its number of positions; None if it is unlimited."""
    positions = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if context_window is not None and positions is not None and context_window > positions:
        raise UsageError(
            f"context_window is {context_window}, but the model has {positions} positions: give at most {positions}"
        )
    default = getattr(model, "max_seq_length", None)
    limits = [context_window] if context_window is not None else [default, positions]
    return min((int(limit) for limit in limits if limit is not None and limit < _UNLIMITED), default=None)


def equal_lengths(lengths: Sequence[int], rows: int) -> list[tuple[int, ...]]:
    """Group positions into batches of up to ``rows`` of equal length, longest first so that the last one is short."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for position, length in enumerate(lengths):
        by_length[length].append(position)
    groups = [by_length[length] for length in sorted(by_length, reverse=True)]
    return [tuple(group[i : i + rows]) for group in groups for i in range(0, len(group), rows)]


def allowed_cores() -> int:
    """Return the number of threads that ``OMP_NUM_THREADS`` allows, by default one for each core."""
    allowed = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(allowed) if allowed.isdecimal() and int(allowed) else os.cpu_count() or 1


def _use_one_thread() -> None:
    import torch  # noqa: PLC0415  1.1 s

    torch.set_num_threads(1)  # for this worker's products
