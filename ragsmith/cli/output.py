"""What the commands print with."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ragsmith.text.terminal import COLUMNS, GAP, aligned, folded, widths

if TYPE_CHECKING:
    from ragsmith.text.table import Table

INDENT = "    "
"""What precedes the columns of a table that go on in another line."""


def say(text: str = "") -> None:
    """Print a line, with control characters made visible: documents and models do not drive the terminal."""
    print("".join(c if c == "\t" or c.isprintable() else repr(c)[1:-1] for c in text))


def say_lines(*lines: str | None) -> None:
    """Print lines, without those that are None."""
    for line in lines:
        if line is not None:
            say(line)


def say_folded(*paragraphs: str | None) -> None:
    """Print paragraphs in lines of 80 characters, also in a pipe; no word or interval is torn.

    All lines but the first of a paragraph are indented. None is no paragraph.
    """
    for paragraph in paragraphs:
        say_lines(*(folded(paragraph) if paragraph is not None else ()))


def show_result(as_json: bool, value: Any, say_text: Callable[[], None]) -> None:
    """Print a result: ``value`` as JSON, or else what ``say_text`` prints."""
    if as_json:
        say_json(value)
    else:
        say_text()


def say_json(value: Any) -> None:
    """Print JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False))


def shortened(text: str, width: int) -> str:
    """As many whole words of a text as fit into ``width`` characters, and an ellipsis if there are more."""
    if len(text) <= width:
        return text
    whole = text[:width].rpartition(" ")[0].rstrip()
    return f"{whole or text[: width - 1]}…"


def note(text: str) -> None:
    """Print a line about progress, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def table(rows: list[list[str]], head: list[str], right: frozenset[int] = frozenset(), *, fold: bool = False) -> None:
    """Print a plain table; columns in ``right`` are aligned right.

    With ``fold``, columns for which 80 characters have no room go on in further lines of each row, further in.
    """
    wide = widths([head, *rows])
    if fold and sum(wide) + len(GAP) * (len(wide) - 1) > COLUMNS:
        _say_in_lines([head, *rows], right, wide)
        return
    for line in aligned([head, ["-" * width for width in wide], *rows], right):
        say(line)


def say_table(found: Table, *, fold: bool = False) -> None:
    """Print a table; its caption is left to the caller."""
    right = frozenset(place for place, column in enumerate(found.columns) if column.number)
    table(found.cells, [column.name for column in found.columns], right, fold=fold)


def _say_in_lines(rows: list[list[str]], right: frozenset[int], wide: list[int]) -> None:
    groups: list[list[int]] = [[]]
    room = COLUMNS
    for place, width in enumerate(wide):
        if groups[-1] and width > room:
            groups.append([])
            room = COLUMNS - len(INDENT)
        groups[-1].append(place)
        room -= width + len(GAP)
    parts = [
        aligned([[row[i] for i in group] for row in rows], {at for at, i in enumerate(group) if i in right})
        for group in groups
    ]
    for number, (first, *others) in enumerate(zip(*parts, strict=True)):
        say_folded(first)
        for line in others:
            say_folded(INDENT + line)
        if not number:
            say("-" * COLUMNS)
