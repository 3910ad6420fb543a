"""What the commands print with."""

from __future__ import annotations

import json
import sys
from typing import Any


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


def table(rows: list[list[str]], head: list[str], right: frozenset[int] = frozenset()) -> None:
    """Print a plain table; columns in ``right`` are aligned right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = [
            cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        say("  ".join(cells).rstrip())
