"""Web page for questions, combined into one file without external resources."""

from functools import cache
from pathlib import Path

import ragsmith.reporting
from ragsmith.reporting.inline import inline_page


@cache
def page() -> tuple[str, str]:
    """Return the page, and a Content-Security-Policy that allows only its own script and style."""
    colours = Path(*ragsmith.reporting.__path__, "templates", "colours.css").read_text(encoding="utf-8")
    return inline_page(Path(__file__).parent, f"{colours.strip()}\n")
