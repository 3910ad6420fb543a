"""Approximate search of a quotation in a text by word edits (Sellers 1980)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]
"""A text as word ids, shape ``(words,)``."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """The words ``[start, end)`` of a text, which are ``edits`` changed, added or deleted words from a quotation."""

    start: int
    end: int
    edits: int


def align(wanted: Words, text: Words) -> Alignment | None:
    """Return the part of ``text`` with the fewest edits to ``wanted``; None if no word matches.

    Ties go to the first that ends, and begins, with the same word. Takes ``len(wanted)`` operations on arrays of the
    length of ``text``.
    """
    if not len(wanted) or not len(text):
        return None
    costs = _edit_costs(wanted, text, np.zeros(len(text) + 1, dtype=np.int64))
    end = _first(costs, wanted, text)
    if end == 0:
        return None
    # searched backwards from the end, the start is where the number of edits is least
    before = text[max(0, end - 2 * len(wanted)) : end][::-1]
    back = _edit_costs(wanted[::-1], before, np.arange(len(before) + 1, dtype=np.int64))
    return Alignment(end - _first(back, wanted[::-1], before), end, int(costs[end]))


def _first(costs: NDArray[np.int64], wanted: Words, text: Words) -> int:
    """Return the first of the cheapest ends, preferably one with the last word of ``wanted``.

    Otherwise the last word was changed rather than deleted: the word in its place is included.
    """
    cheapest = np.flatnonzero(costs == costs.min())
    alike = cheapest[(cheapest > 0) & (text[cheapest - 1] == wanted[-1])]
    if len(alike):
        return int(alike[0])
    gaps = np.flatnonzero(np.diff(cheapest) > 1)
    return int(cheapest[gaps[0] if len(gaps) else -1])


def _edit_costs(wanted: Words, text: Words, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the edits of the best part that ends at each position, shape ``(len(text) + 1,)``.

    ``row`` are the costs of starting at each position: zeros to start anywhere, 0, 1, ... to start at the beginning.
    """
    steps = np.arange(len(text) + 1, dtype=np.int64)
    for word in wanted:
        changed = row + 1  # deleted
        np.minimum(changed[1:], row[:-1] + (text != word), out=changed[1:])  # equal or changed
        row = np.minimum.accumulate(changed - steps) + steps  # added
    return row


def word_numbers(words: Sequence[str], vocabulary: dict[str, int]) -> Words:
    """Return the ids of ``words``; new ones are added to ``vocabulary``."""
    return np.fromiter((vocabulary.setdefault(word, len(vocabulary)) for word in words), np.int64, len(words))
