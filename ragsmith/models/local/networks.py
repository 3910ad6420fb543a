"""Loaded networks of sentence-transformers, with their windows."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ragsmith.errors import RagsmithError, UsageError
from ragsmith.models.local.fixed_shapes import Array, FixedShapes

_UNLIMITED = 10**9
"""Libraries represent "no limit" by None, infinity or 10^30."""


class Network:
    """``model`` with a window of ``context_window`` tokens, by default its own, run in batches of ``rows``."""

    def __init__(self, model: Any, *, context_window: int | None, rows: int | None) -> None:
        self.model = model
        self.truncated = 0
        self._counting = threading.Lock()
        self._shapes = FixedShapes(rows, on_cpu=model.device.type == "cpu")
        self.window = _window(model, context_window)
        if self.window is not None:
            model.max_seq_length = self.window
            # a copy, because threads cannot share a tokenizer that truncates in some calls only
            self._tokenizer = copy.deepcopy(model.tokenizer)

    def run(
        self, items: Sequence[str], forward: Callable[[list[str]], Array], read: Sequence[Sequence[str]]
    ) -> list[Array]:
        """Return the result of ``forward`` for each of ``items``; ``read`` has its texts in one column or two."""
        if not items:
            return []
        lengths = self._lengths(read)
        if self.window is not None:
            with self._counting:
                self.truncated += sum(length > self.window for length in lengths)
            lengths = [min(length, self.window) for length in lengths]
        return self._shapes.run(items, lengths, forward)

    def _lengths(self, read: Sequence[Sequence[str]]) -> list[int]:
        """Return the tokens of each item before truncation, or its characters if the network has no window."""
        if self.window is None:
            return [sum(map(len, columns)) for columns in zip(*read, strict=True)]
        with self._counting:
            ids = self._tokenizer(*map(list, read), truncation=False, padding=False, verbose=False)["input_ids"]
        return [len(item) for item in ids]


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Disable progress bars, and turn failures into a `UsageError` about the model ``name``."""
    from transformers.utils import logging  # noqa: PLC0415

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    except RagsmithError:
        raise
    except (OSError, ValueError, RuntimeError, AssertionError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"the model {name!r} cannot be loaded: {type(error).__name__}: {reason}") from error
    finally:
        if shown:
            logging.enable_progress_bar()


def _window(model: Any, context_window: int | None) -> int | None:
    """Return the window of ``model`` in tokens, at most its number of positions; None if it is unlimited."""
    positions = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if context_window is not None and positions is not None and context_window > positions:
        raise UsageError(
            f"context_window is {context_window}, and the model reads {positions} tokens: give at most that"
        )
    own = getattr(model, "max_seq_length", None)
    limits = [context_window] if context_window is not None else [own, positions]
    return min((int(limit) for limit in limits if limit is not None and limit < _UNLIMITED), default=None)
