"""Rows of tests, most of them malformed, that are data: ``tests/models/rows.json``."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _tables() -> dict[str, list[Any]]:
    text = (Path(__file__).parents[1] / "models" / "rows.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def rows(table: str) -> list[Any]:
    """The rows of a table."""
    return _tables()[table]
