"""Counts what a search does: ``python counting.py DATASET SPACE`` searches in a fresh cache, then on what is known.

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
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any

from sqlalchemy.engine.default import DefaultDialect

from ragsmith.evaluation.experiment import CHUNK_SIZE, prepare_experiment
from ragsmith.evaluation.scoring import score_answer
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.runs.run import Execution, Run
from ragsmith.store.rows import add_checksum, verify_checksum
from ragsmith.store.store import Store
from ragsmith.text import languages, words

COUNTED: dict[str, Callable[..., Any]] = {
    "commits": DefaultDialect.do_commit,
    "rows encoded": add_checksum,
    "rows decoded": verify_checksum,
    "stages computed": Engine.call,
    "answers scored": score_answer,
    "model tasks": ExtractiveModel.run,
    "batches embedded": WordLlamaEmbedder.embed,
    "texts tokenised": WordLlamaEmbedder.tokens,
    "texts split into words": words.words,
    "texts split into sentences": words._sentences,
    "languages told": languages.detect_language,
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


COLD = RunSettings(seed=1)
SEARCHES = {"cold": COLD, "repeated": COLD, "replayed": replace(COLD, margin=0.03)}
"""The same command twice, and one that goes the same way on what is stored, to another comparison at its end."""


def _search(dataset: str, space: str, cache: Path, settings: RunSettings) -> None:
    """Search as `ragsmith.search` does, with a clock that stands still: no half second ends, whatever the machine."""
    setup = prepare_experiment(dataset, ModelNames(), CHUNK_SIZE)
    with Store.open(cache) as store:
        Run(setup, load_space(space), store, settings, execution=Execution(clock=lambda: 0.0)).go()


def main(dataset: str, space: str) -> None:
    """Search in one cache, and print the counts of each search as JSON."""
    found = {}
    with TemporaryDirectory() as folder:
        for kind, settings in SEARCHES.items():
            counts = Counter(dict.fromkeys(COUNTED, 0))
            with counting(counts):
                _search(dataset, space, Path(folder, "cache.sqlite"), settings)
            found[kind] = dict(counts)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
