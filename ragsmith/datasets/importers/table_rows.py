"""A heuristic for the table rows behind an answer of which only the value and its derivation are published."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ragsmith.text.words import terms

Cells = tuple[tuple[str, ...], ...]
"""A table as rows of equal width."""

Value = str | float
"""A case-folded cell, or a number in it without sign, unit and thousands separators."""

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?|\.\d+")
_WORD = re.compile(r"[^\W\d_]{4,}")
_YEAR = re.compile(r"(?:fy\s*)?(?:19|20)\d\d", re.IGNORECASE)
_CONSTANT = re.compile(r"[/*×]\s*(?:[2-9]|1[0-2]|100|1,?000)(?![\d.,]*\d|\s*%)|-\s*1\s*$")
"""Constants of formulas: the 2 of an average, the 12 of months, the 100 of per cent, the 1 subtracted from a ratio."""


@dataclass(frozen=True, slots=True)
class SoughtValue:
    """The question, texts copied as the answer, and the derivation of the answer.

    ``derivation`` is a formula such as ``(44.1-56.7)/56.7``, a list such as ``2019##2018``, or remarks.
    """

    question: str
    copied: tuple[str, ...]
    derivation: str


def rows(table: Cells, sought: SoughtValue) -> tuple[int, ...]:
    """Return the indices of the rows that an answer was taken from; none if they are not found.

    The numbers of a formula are searched for in the cells, else the copied or listed values. Of several rows with a
    value, the one with the most of the values is taken, then the one whose label is in the question. Years are ignored,
    as they are column names.
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
    """Return rows that cover the ``wanted`` values, chosen greedily (Chvatal 1979)."""
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
    """Return the numbers of a formula without constants and years; none of a list or of words."""
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
    """Return for each row the ``texts`` with words that are part of a cell."""
    worded = [text for text in texts if _WORD.search(text)]
    return [frozenset(text for text in worded if any(_folded(text) in _folded(cell) for cell in row)) for row in table]


def _share_named(row: tuple[str, ...], question: str) -> float:
    """Return the share of the words of a row's label that are in the question."""
    label = frozenset(terms(row[0]))
    return len(label & frozenset(terms(question))) / len(label) if label else 0.0


def _folded(text: str) -> str:
    return text.casefold().strip(" .,:;")


def _number(text: str) -> float:
    return float(text.replace(",", ""))
