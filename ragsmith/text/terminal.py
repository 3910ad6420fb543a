"""Wrapped lines and aligned columns for a terminal."""

import shutil
import sys
from collections.abc import Collection, Sequence
from textwrap import wrap

from ragsmith.text import numbers

COLUMNS = 80
"""Maximum number of characters of a line where standard output is no terminal."""

GAP = "  "
"""Separator of two columns of a table."""


def terminal_columns() -> int:
    """Return the width of the terminal that standard output is, or `COLUMNS` if it is none."""
    return shutil.get_terminal_size((COLUMNS, 24)).columns if sys.stdout.isatty() else COLUMNS


def folded(line: str, columns: int = COLUMNS) -> list[str]:
    """Wrap a line without breaking words or intervals; continuation lines are indented."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    unbroken = numbers.WHOLE.sub(lambda found: found[0].replace(" ", "\u00a0"), line)
    lines = wrap(unbroken, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [part.replace("\u00a0", " ") for part in lines] or [""]


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width in characters of each column of ``rows``."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Format rows as lines with aligned columns, those in ``right`` to the right."""
    column_widths = widths(rows)
    return [
        GAP.join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, column_widths, strict=True))
        ).rstrip()
        for row in rows
    ]
