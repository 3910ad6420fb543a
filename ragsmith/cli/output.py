"""What the commands print with, and the options that several of them have."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

CACHE = Path("cache.sqlite")
REPORTS = Path("reports")

CacheOption = Annotated[
    str, typer.Option("--cache", help="Where results are kept: a file, or any SQLAlchemy URL.", show_default=True)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DatasetOption = Annotated[str | None, typer.Option("--dataset", help="A bundled data set by name, or a folder.")]


def say(text: str = "") -> None:
    """Print a line, with control characters made visible: documents and models do not drive the terminal."""
    print("".join(c if c == "\t" or c.isprintable() else repr(c)[1:-1] for c in text))


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
