"""The page on which one asks: put together into one file, which fetches nothing but answers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import ragsmith.reporting
from ragsmith.reporting.inline import inline_page


@cache
def page() -> tuple[str, str]:
    """The page, and the Content-Security-Policy that allows its script and its style and nothing else."""
    colours = Path(*ragsmith.reporting.__path__, "templates", "colours.css").read_text(encoding="utf-8")
    return inline_page(Path(__file__).parent, f"{colours.strip()}\n")
