"""Counts what a search does: ``python counting.py DATASET SPACE`` searches in a fresh cache, then again, as JSON.

Counts do not depend on the machine, as seconds do. They are taken of all threads of a fresh process, so that nothing is
known from before.
"""

from __future__ import annotations

import inspect
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

from sqlalchemy.engine.default import DefaultDialect

import ragsmith
from ragsmith.evaluation.scoring import scored
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.pipelines.engine import Engine
from ragsmith.store.rows import seal, unseal
from ragsmith.text import words

COUNTED: dict[str, Callable[..., Any]] = {
    "commits": DefaultDialect.do_commit,
    "rows encoded": seal,
    "rows decoded": unseal,
    "stages computed": Engine.call,
    "answers scored": scored,
    "model tasks": ExtractiveModel.run,
    "batches embedded": WordLlamaEmbedder.embed,
    "texts tokenised": WordLlamaEmbedder.tokens,
    "texts split into words": words.words,
    "texts split into sentences": words._sentences,
}
"""What is counted: calls of these, without those that a cache in front of them answers."""


@contextmanager
def counting(counts: Counter[str]) -> Any:
    """Count into ``counts`` while the context is open, in all threads that begin in it and in this one."""
    names: dict[CodeType, str] = {inspect.unwrap(function).__code__: name for name, function in COUNTED.items()}

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (name := names.get(frame.f_code)):
            counts[name] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def main(dataset: str, space: str) -> None:
    """Search twice, and print the counts of each search."""
    found = {}
    with TemporaryDirectory() as folder:
        for kind in ("cold", "repeated"):
            counts = Counter(dict.fromkeys(COUNTED, 0))
            with counting(counts):
                ragsmith.search(dataset, space=space, workers=1, seed=1, cache=Path(folder, "cache.sqlite"))
            found[kind] = dict(counts)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
