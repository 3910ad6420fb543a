"""Which rows of a table hold an answer, where only the answer and how it was worked out are published: a heuristic."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ragsmith.text.words import terms

Cells = tuple[tuple[str, ...], ...]
"""A table by rows, all equally wide."""

Value = str | float
"""A cell's text in small letters, or a number in it without its sign, unit and thousands separators."""

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?|\.\d+")
_WORD = re.compile(r"[^\W\d_]{4,}")
_YEAR = re.compile(r"(?:fy\s*)?(?:19|20)\d\d", re.IGNORECASE)
_CONSTANT = re.compile(r"[/*×]\s*(?:[2-9]|1[0-2]|100|1,?000)(?![\d.,]*\d|\s*%)|-\s*1\s*$")
"""The 2 of an average, the 12 of months, the 100 of per cent, the 1 that is taken off a ratio."""


@dataclass(frozen=True, slots=True)
class SoughtValue:
    """What is known of an answer: the question, texts that were copied as the answer, and how it was worked out.

    ``derivation`` is a sum such as ``(44.1-56.7)/56.7``, a list such as ``2019##2018``, or remarks.
    """

    question: str
    copied: tuple[str, ...]
    derivation: str


def rows(table: Cells, sought: SoughtValue) -> tuple[int, ...]:
    """Return the numbers of the rows, from 0, that an answer was taken from; none when that cannot be told.

    The numbers of a sum are looked for in the cells, else what was copied or listed. Where several rows hold a value,
    the one with the most of the values is taken, then the one whose label the question names. A year tells no row: it
    is the name of a column.
    """
    values = [frozenset(value for cell in row for value in _values(cell)) for row in table]
    named = [_share_named(row, sought.question) for row in table]
    operands = _operands(sought.derivation)
    listed = sought.copied or ([] if operands else sought.derivation.split("##"))
    texts = [text.strip() for text in listed if text.strip() and not _YEAR.fullmatch(text.strip())]
    return (
        _cover(values, operands, named)
        or _cover(values, frozenset(value for text in texts for value in _wanted(text)), named)
        or _cover(_containing(table, texts), frozenset(texts), named)
    )


def _cover(values: list[frozenset[Value]], wanted: frozenset[Value], named: list[float]) -> tuple[int, ...]:
    """The rows that hold the ``wanted`` values, as few as a greedy choice needs (Chvatal 1979)."""
    left = wanted
    chosen: list[int] = []
    while left:
        best = max(range(len(values)), key=lambda i: (len(values[i] & left), len(values[i] & wanted), named[i], -i))
        if not values[best] & left:
            break
        chosen.append(best)
        left -= values[best]
    return tuple(sorted(chosen))


def _operands(derivation: str) -> frozenset[Value]:
    """The numbers of a sum, without constants and years; none of a list or of remarks in words."""
    if _WORD.search(derivation) or "##" in derivation:
        return frozenset()
    found = _NUMBER.findall(_CONSTANT.sub(" ", derivation))
    return frozenset(_number(number) for number in found if not _YEAR.fullmatch(number))


def _values(cell: str) -> Iterator[Value]:
    yield _folded(cell)
    if not _WORD.search(cell):
        yield from map(_number, _NUMBER.findall(cell))


def _wanted(text: str) -> Iterator[Value]:
    numbers = [] if _WORD.search(text) else _NUMBER.findall(text)
    yield from map(_number, numbers) if numbers else [_folded(text)]


def _containing(table: Cells, texts: Iterable[str]) -> list[frozenset[Value]]:
    """Which of the ``texts`` that have words are a part of a cell of each row."""
    worded = [text for text in texts if _WORD.search(text)]
    return [frozenset(text for text in worded if any(_folded(text) in _folded(cell) for cell in row)) for row in table]


def _share_named(row: tuple[str, ...], question: str) -> float:
    """The share of the words of a row's label that the question has."""
    label = frozenset(terms(row[0]))
    return len(label & frozenset(terms(question))) / len(label) if label else 0.0


def _folded(text: str) -> str:
    return text.casefold().strip(" .,:;")


def _number(text: str) -> float:
    return float(text.replace(",", ""))
