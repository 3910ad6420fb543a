"""Which words of a passage an answer says: what is marked where both are shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

IN_A_ROW = 5
"""Words that must stand in a row in both: fewer are said by chance. Of a shorter answer, all of it."""

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class QuotedSpan:
    """Where the words stand: characters of the passage, the end not included."""

    start: int
    end: int


def quoted(answer: str, passage: str) -> tuple[QuotedSpan, ...]:
    """The parts of ``passage`` that stand word by word in ``answer``, in order; case and punctuation do not count.

    >>> quoted("It takes three years.", "It begins then. It takes three years, unless ...")
    (Quote(start=16, end=36),)
    """
    said = [word.casefold() for word in _WORD.findall(answer)]
    places = [(match.group().casefold(), match.start(), match.end()) for match in _WORD.finditer(passage)]
    n = min(IN_A_ROW, len(said))
    if not n:
        return ()
    runs = {tuple(said[i : i + n]) for i in range(len(said) - n + 1)}
    words = [word for word, _, _ in places]
    firsts = {run[0] for run in runs}  # few words are, and the others need no closer look
    begins = [i for i in range(len(words) - n + 1) if words[i] in firsts and tuple(words[i : i + n]) in runs]
    return tuple(QuotedSpan(places[first][1], places[last][2]) for first, last in _joined(begins, n))


def _joined(begins: Sequence[int], n: int) -> list[tuple[int, int]]:
    """Runs of ``n`` words from each of ``begins``, those that touch as one: positions of the first and last word."""
    found: list[tuple[int, int]] = []
    for begin in begins:
        if found and begin <= found[-1][1] + 1:
            found[-1] = (found[-1][0], begin + n - 1)
        else:
            found.append((begin, begin + n - 1))
    return found
