"""Where a quotation stands best when words of it were changed, left out or added: approximate search (Sellers 1980)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]
"""A text as the numbers of its words."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """The words ``[start, end)`` of a text are a quotation with ``edits`` words changed, added or left out."""

    start: int
    end: int
    edits: int


def align(wanted: Words, text: Words) -> Alignment | None:
    """Return a stretch of ``text`` that the fewest edits make ``wanted``; None if nothing is like it.

    Of several, the first that ends as ``wanted`` does, and begins so, if there is one.
    Takes ``len(wanted)`` operations on arrays as long as ``text``.
    """
    if not len(wanted) or not len(text):
        return None
    costs = _costs(wanted, text)
    end = _first(costs, wanted, text)
    if end == 0:
        return None
    # read backwards from its end, the stretch is the one that begins where as few edits are reached
    before = text[max(0, end - 2 * len(wanted)) : end][::-1]
    back = _costs_from_start(wanted[::-1], before)
    return Alignment(end - _first(back, wanted[::-1], before), end, int(costs[end]))


def _first(costs: NDArray[np.int64], wanted: Words, text: Words) -> int:
    """The first of the cheapest ends, of those that end with the last word of ``wanted`` if there are any.

    Otherwise the last word was changed rather than left out: what stands in its place belongs to the stretch.
    """
    cheapest = np.flatnonzero(costs == costs.min())
    alike = cheapest[(cheapest > 0) & (text[cheapest - 1] == wanted[-1])]
    if len(alike):
        return int(alike[0])
    gaps = np.flatnonzero(np.diff(cheapest) > 1)
    return int(cheapest[gaps[0] if len(gaps) else -1])


def _costs(wanted: Words, text: Words) -> NDArray[np.int64]:
    """For each end in ``text``, shape ``(len(text) + 1,)``: the edits of the best stretch that ends there."""
    return _table(wanted, text, np.zeros(len(text) + 1, dtype=np.int64))


def _costs_from_start(wanted: Words, text: Words) -> NDArray[np.int64]:
    """For each end in ``text``: the edits between ``wanted`` and all of ``text`` before it."""
    return _table(wanted, text, np.arange(len(text) + 1, dtype=np.int64))


def _table(wanted: Words, text: Words, row: NDArray[np.int64]) -> NDArray[np.int64]:
    steps = np.arange(len(text) + 1, dtype=np.int64)
    for word in wanted:
        changed = row + 1  # the word was left out
        np.minimum(changed[1:], row[:-1] + (text != word), out=changed[1:])  # it stands there, or another does
        row = np.minimum.accumulate(changed - steps) + steps  # words were added
    return row


def word_numbers(words: Sequence[str], vocabulary: dict[str, int]) -> Words:
    """Return the numbers of ``words``, and add those that are new to ``vocabulary``."""
    return np.fromiter((vocabulary.setdefault(word, len(vocabulary)) for word in words), np.int64, len(words))
