"""Questions on the cells of a table whose rows have names of their own, and on what is highest, lowest or how many."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ragsmith.digest import digest
from ragsmith.labelling.drafting.draft import Draft, Quote
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.tables import Row, Table, number
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import words
from ragsmith.types import Chunk

MOST = 4
"""Questions on the rows of a passage: there could be one for each cell."""

MOST_COUNTED = 5
"""Rows that a question for their number may be about; each is evidence."""

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def tables(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``| Partnership | M 110 |`` -> ``What is the fee of the partnership?``"""
    if passage.language != ENGLISH:
        return []
    drafts: list[Draft] = []
    for table in material.tables(passage.doc):
        if (key := table.key) is None:
            continue
        its = [row for row in table.rows if passage.start <= row.start < passage.end]
        if its:
            drafts += [*_cells(table, key, its, passage, material), *_extremes(table, key, its, passage, material)]
            drafts += _counts(table, key, its, passage, material)
    drafts.sort(key=lambda draft: digest("table", draft.question))
    return drafts[:MOST]


def _cells(table: Table, key: str, rows: Sequence[Row], passage: Chunk, material: Material) -> Iterator[Draft]:
    for row in rows:
        name = row.cells[key]
        for column in table.columns:
            value = row.cells.get(column, "")
            if column == key or not value or len(words(value)) > 30 or value in {"-", "–", "—", "n/a"}:
                continue
            spoken = in_words(column)
            if len(words(value)) > 5:
                asks = f"What does the table say under {spoken} for {name}{_where(table, material, column, name)}?"
            else:
                asks = f"What is the {spoken} for {name}{_where(table, material, column, name)}?"
            yield _draft(asks, f"{value}.", [row], table, passage)


def _extremes(table: Table, key: str, rows: Sequence[Row], passage: Chunk, material: Material) -> Iterator[Draft]:
    for column in table.columns:
        values = [number(row.cells.get(column, "")) for row in table.rows]
        known = [value for value in values if value is not None]
        if column == key or len(known) < 3 or len(known) < len(values) or len(set(known)) < 3:
            continue
        for word, best in (("highest", max(known)), ("lowest", min(known))):
            (at, *others) = [row for row, value in zip(table.rows, values, strict=True) if value == best]
            if not others and at in rows:
                asks = f"Which {in_words(key)} has the {word} {in_words(column)}{_where(table, material, key, column)}?"
                yield _draft(asks, f"{at.cells[key]}, with {at.cells[column]}.", [at], table, passage)


def _counts(table: Table, key: str, rows: Sequence[Row], passage: Chunk, material: Material) -> Iterator[Draft]:
    for column in table.columns:
        counts = Counter(row.cells.get(column, "") for row in table.rows)
        if column == key or len(counts) > len(table.rows) / 2:
            continue
        for value, count in sorted(counts.items()):
            holding = [row for row in table.rows if row.cells.get(column) == value]
            if value and 2 <= count <= MOST_COUNTED and number(value) is None and holding[0] in rows:
                asks = (
                    f"How many entries have {value} as their {in_words(column)}{_where(table, material, key, column)}?"
                )
                names = ", ".join(row.cells[key] for row in holding)
                yield _draft(asks, f"{count}: {names}.", holding, table, passage)


def _draft(question: str, answer: str, rows: Sequence[Row], table: Table, passage: Chunk) -> Draft:
    text = passage.text
    quotes = tuple(
        Quote(table.doc, text[row.start - passage.start : row.end - passage.start], row.start)
        for row in rows
        if passage.start <= row.start and row.end <= passage.end
    )
    return Draft(" ".join(question.split()), answer, quotes, "table", "tables", passage.span)


def in_words(column: str) -> str:
    """``feed_mm_min`` -> ``feed mm min``."""
    return " ".join(_CAMEL.sub(" ", column).replace("_", " ").split()).lower()


def _where(table: Table, material: Material, *named: str) -> str:
    """The heading of a table where other tables have the same columns, or a column and a row of these names."""
    if not any(other is not table and set(named) <= _names(other) for other in material.all_tables):
        return ""
    heading = re.sub(r"^[\d.§\s]*(?:(?:Rule|Article|Section|Table)\s+\d+\w?\s*)?|\.\w{2,5}$", "", table.heading)
    heading = heading.replace("_", " ").strip()
    return f" in {heading}" if heading else ""


def _names(table: Table) -> set[str]:
    return {*table.columns, *(row.cells.get(table.key or "", "") for row in table.rows)}
