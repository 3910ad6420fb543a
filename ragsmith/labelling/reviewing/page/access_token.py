"""A file that leads a browser to the page: whoever starts a browser with an address shows its token in `ps`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path


@contextmanager
def doorway(url: str) -> Iterator[str]:
    """Give the address of a file that leads to ``url`` and that nobody else can read; it is gone at the end."""
    handle, name = tempfile.mkstemp(prefix="ragsmith-review-", suffix=".html")  # with permissions 0600
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(
                f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(url)}"><title>Review</title>\n'
            )
        yield path.as_uri()
    finally:
        path.unlink(missing_ok=True)
