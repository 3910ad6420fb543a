"""Text for a terminal: lines that are folded and columns that are aligned."""

from collections.abc import Collection, Sequence
from textwrap import wrap

from ragsmith.text import numbers

COLUMNS = 80
"""Characters of a line."""

GAP = "  "
"""What separates two columns of a table."""


def folded(line: str, columns: int = COLUMNS) -> list[str]:
    """Wrap a line without tearing words or intervals; continuation lines are indented."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    whole = numbers.WHOLE.sub(lambda found: found[0].replace(" ", "\u00a0"), line)
    lines = wrap(whole, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [part.replace("\u00a0", " ") for part in lines] or [""]


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the characters that each column of ``rows`` takes."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def aligned(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return rows as lines whose columns are aligned, those in ``right`` to the right."""
    wide = widths(rows)
    return [
        GAP.join(
            cell.rjust(wide[place]) if place in right else cell.ljust(wide[place]) for place, cell in enumerate(row)
        ).rstrip()
        for row in rows
    ]
