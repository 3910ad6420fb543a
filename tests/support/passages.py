"""Passages in several languages, made up for the tests: four of a language, what they are about, and one in more."""

from __future__ import annotations

import json
from pathlib import Path

_KEPT = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

PASSAGES: dict[str, tuple[str, ...]] = {language: tuple(texts) for language, texts in _KEPT["passages"].items()}
"""Four passages of a language: on rent, on leave, on cleaning a machine, on returning goods."""

INFLECTED: dict[str, tuple[tuple[str, int], ...]] = {k: tuple(map(tuple, its)) for k, its in _KEPT["inflected"].items()}
"""Queries in other forms than the passage has, and which passage they are about."""

EXACT: dict[str, tuple[tuple[str, int], ...]] = {k: tuple(map(tuple, its)) for k, its in _KEPT["exact"].items()}
"""Queries with words, or in Chinese, Japanese and Thai stretches, as the passage has them."""

PARAGRAPHS: dict[str, str] = _KEPT["paragraphs"]
"""One sentence of further languages."""
