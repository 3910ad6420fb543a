"""Printing: lines, wrapped paragraphs, tables and JSON on standard output, progress on standard error."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragsmith.text.terminal import GAP, aligned, folded, terminal_columns, widths

if TYPE_CHECKING:
    from ragsmith.text.table import Table

INDENT = "    "
"""Indent of the columns of a row that are continued on the next line."""


def print_line(text: str = "") -> None:
    """Print a line with control characters escaped, so that documents and models cannot control the terminal."""
    print("".join(c if c == "\t" or c.isprintable() else repr(c)[1:-1] for c in text))


def print_lines(*lines: str | None) -> None:
    """Print lines; None is skipped."""
    for line in lines:
        if line is not None:
            print_line(line)


def print_wrapped(*paragraphs: str | None) -> None:
    """Print paragraphs wrapped at the width of the terminal, 80 to a pipe; words and intervals are not broken.

    Continuation lines are indented. None is skipped.
    """
    for paragraph in paragraphs:
        print_lines(*(folded(paragraph, terminal_columns()) if paragraph is not None else ()))


def ask_line(pipeline: str | Path) -> str:
    """Return the line with the command that asks a pipeline that was written."""
    return f'ask it  ragsmith ask {shlex.quote(str(pipeline))} "your question"'


def show_result(as_json: bool, value: Any, print_text: Callable[[], None]) -> None:
    """Print a result: ``value`` as JSON if ``as_json``, else as text by ``print_text``."""
    if as_json:
        print_json(value)
    else:
        print_text()


def print_json(value: Any) -> None:
    """Print ``value`` as indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=False))


def truncate(text: str, width: int) -> str:
    """Truncate ``text`` to at most ``width`` characters at a word boundary, with an ellipsis."""
    if len(text) <= width:
        return text
    whole = text[:width].rpartition(" ")[0].rstrip()
    return f"{whole or text[: width - 1]}…"


def print_stderr(text: str) -> None:
    """Print a line to standard error: progress and notes, separate from the results."""
    print(text, file=sys.stderr, flush=True)


def print_rows(
    rows: list[list[str]], head: list[str], right: frozenset[int] = frozenset(), *, fold: bool = False
) -> None:
    """Print a plain table; the columns at the positions in ``right`` are right-aligned.

    With ``fold``, columns that do not fit into the terminal are continued on further, indented lines of each row.
    """
    column_widths = widths([head, *rows])
    if fold and sum(column_widths) + len(GAP) * (len(column_widths) - 1) > terminal_columns():
        _print_folded_rows([head, *rows], right, column_widths)
        return
    for line in aligned([head, ["-" * width for width in column_widths], *rows], right):
        print_line(line)


def print_table(content: Table, *, fold: bool = False) -> None:
    """Print a table without its caption."""
    right = frozenset(position for position, column in enumerate(content.columns) if column.number)
    print_rows(content.cells, [column.name for column in content.columns], right, fold=fold)


def _print_folded_rows(rows: list[list[str]], right: frozenset[int], column_widths: list[int]) -> None:
    groups: list[list[int]] = [[]]
    remaining = columns = terminal_columns()
    for position, width in enumerate(column_widths):
        if groups[-1] and width > remaining:
            groups.append([])
            remaining = columns - len(INDENT)
        groups[-1].append(position)
        remaining -= width + len(GAP)
    parts = [
        aligned([[row[i] for i in group] for row in rows], {at for at, i in enumerate(group) if i in right})
        for group in groups
    ]
    for number, (first, *others) in enumerate(zip(*parts, strict=True)):
        print_wrapped(first)
        for line in filter(None, others):
            print_wrapped(INDENT + line)
        if not number:
            print_line("-" * columns)
