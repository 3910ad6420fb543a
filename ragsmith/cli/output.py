"""What the commands print with."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragsmith.text.table import Table

WIDTH = 80
"""Characters of a line."""

GAP, INDENT = "  ", "    "
"""What stands between two columns of a table, and before those that go on in another line."""


def say(text: str = "") -> None:
    """Print a line, with control characters made visible: documents and models do not drive the terminal."""
    print("".join(c if c == "\t" or c.isprintable() else repr(c)[1:-1] for c in text))


def say_folded(text: str) -> None:
    """Print a paragraph in lines of 80 characters, no word or interval torn; what follows the first stands further in.

    Whoever reads it as data takes --json, so that it is folded in a pipe, too.
    """
    from ragsmith.reporting.summary import folded

    for line in folded(text):
        say(line)


def say_json(value: Any) -> None:
    """Print JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False))


def note(text: str) -> None:
    """Print a line about progress, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def table(rows: list[list[str]], head: list[str], right: frozenset[int] = frozenset(), *, fold: bool = False) -> None:
    """Print a plain table; columns in ``right`` are aligned right.

    With ``fold``, columns for which 80 characters have no room go on in further lines of each row, further in.
    """
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    if fold and sum(widths) + len(GAP) * (len(widths) - 1) > WIDTH:
        _say_in_lines(rows, head, right, widths)
        return
    every = range(len(head))
    for row in [head, ["-" * width for width in widths], *rows]:
        say(_line(row, every, widths, right))


def say_table(found: Table, *, fold: bool = False) -> None:
    """Print a table; its caption is left to the caller."""
    right = frozenset(place for place, column in enumerate(found.columns) if column.number)
    table(found.cells, [column.name for column in found.columns], right, fold=fold)


def _say_in_lines(rows: list[list[str]], head: list[str], right: frozenset[int], widths: list[int]) -> None:
    groups: list[list[int]] = [[]]
    room = WIDTH
    for place, width in enumerate(widths):
        if groups[-1] and width > room:
            groups.append([])
            room = WIDTH - len(INDENT)
        groups[-1].append(place)
        room -= width + len(GAP)
    for number, row in enumerate([head, *rows]):
        for group in groups:
            indent = "" if group is groups[0] else INDENT
            say_folded(indent + _line(row, group, widths, right))
        if not number:
            say("-" * WIDTH)


def _line(row: list[str], places: Iterable[int], widths: list[int], right: frozenset[int]) -> str:
    cells = (row[i].rjust(widths[i]) if i in right else row[i].ljust(widths[i]) for i in places)
    return GAP.join(cells).rstrip()
