"""Write rows of cells as a Markdown table, or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from ragsmith.text.files import FORBIDDEN

Row = Sequence[str]


def markdown_table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table with the first row as header."""
    width = max(map(len, rows), default=0)
    lines = [f"| {' | '.join(_cell(cell) for cell in [*row, *[''] * (width - len(row))])} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]]) if lines else ""


def table(rows: Sequence[Row]) -> tuple[str, tuple[str, ...]] | None:
    """Return rows as CSV whose first row names every column once, and notes on what had to be named.

    Empty rows, and columns that are empty all the way, are left out. None where nothing but a header is left.
    """
    cleaned = [[" ".join(FORBIDDEN.sub("", cell).split()) for cell in row] for row in rows]
    filled = [row for row in cleaned if any(row)]
    width = max(map(len, filled), default=0)
    padded = [[*row, *[""] * (width - len(row))] for row in filled]
    kept = [at for at in range(width) if any(row[at] for row in padded)]
    padded = [[row[at] for at in kept] for row in padded]
    if len(padded) < 2:
        return None
    header, notes = _header(padded[0])
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(padded[1:])
    return file.getvalue(), notes


def _header(row: Row) -> tuple[list[str], tuple[str, ...]]:
    """Return unique column names: ``column 3`` if missing, ``price 2`` for a second ``price``."""
    names: list[str] = []
    for at, cell in enumerate(row, start=1):
        name = wanted = cell.lstrip(":").strip() or f"column {at}"
        number = 1
        while name in names:
            number += 1
            name = f"{wanted} {number}"
        names.append(name)
    if len(names) == 1 and any(mark in names[0] for mark in ",;\t"):
        names[0] = names[0].translate(dict.fromkeys(map(ord, ",;\t"), " "))
    changed = [
        f"column {at} is called {name!r}"
        for at, (name, cell) in enumerate(zip(names, row, strict=True), 1)
        if name != cell
    ]
    return names, tuple(changed[:3]) + (
        (f"and {len(changed) - 3} more columns were named",) if len(changed) > 3 else ()
    )


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
