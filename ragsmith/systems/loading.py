"""Load a system by name: a file of rows, an HTTP address, ``FILE.py:function``, or a function."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ragsmith.digest import digest
from ragsmith.errors import Notice, UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.plugins import load_file
from ragsmith.systems.answers import GivenAnswer, match_rows, read_rows
from ragsmith.systems.asking import Endpoint, collect_answers, file_name
from ragsmith.systems.contexts import ContextLocator
from ragsmith.systems.system import System
from ragsmith.types import Dataset

ROW_SUFFIXES = (".jsonl", ".json")
MAX_NAMED = 3
"""The number of contexts that were not found which a notice names."""


def is_system(source: object) -> bool:
    """Whether ``source`` names a system rather than a pipeline, or is a function."""
    if isinstance(source, str | Path):
        name = str(source)
        return name.startswith(("http://", "https://")) or name.endswith(ROW_SUFFIXES) or ".py:" in name
    return callable(source)


def load_system(
    source: Any, setup: Experiment, folder: Path, *, fitness: Fitness | None = None, workers: int = 1
) -> System:
    """Return a system with its answers to the questions of ``setup``, whose models score them.

    The answers of an endpoint and of a function of a file are kept in ``folder``. A `Notice` names contexts that are
    not in the documents, which count as irrelevant, and the file.

    Raises:
        UsageError: the file or function cannot be used, or answers are malformed.
        ModelUnavailable: the system is down.
    """
    data = setup.dataset
    answers = _load_answers(source, data, folder, workers)
    locator = ContextLocator(setup.corpus, dict(data.merged))
    located = {question: locator.locate(question, given) for question, given in sorted(answers.items())}
    if locator.not_found:
        listed = "; ".join(locator.not_found[:MAX_NAMED])
        total = sum(len(one.chunks) for one in located.values())
        warnings.warn(
            f"{len(locator.not_found):,} of {total:,} contexts are at no single place of the documents and count as "
            f"irrelevant: {listed}{'; ...' if len(locator.not_found) > MAX_NAMED else ''}",
            Notice,
            stacklevel=3,
        )
    return System(setup, located, fitness)


def _load_answers(source: Any, data: Dataset, folder: Path, workers: int) -> dict[str, GivenAnswer]:
    name = str(source)
    if not isinstance(source, str | Path):
        return collect_answers(source, data, name=getattr(source, "__name__", "the system"), workers=workers)
    if name.endswith(ROW_SUFFIXES):
        if not Path(name).is_file():
            raise UsageError(f"there is no file {name!r}: name the file with the answers of the system, a row for each")
        return match_rows(read_rows(Path(name)), data)
    ask: Any
    if name.startswith("http"):
        ask, keep = Endpoint(name), folder / file_name(name, data.name)
    else:
        file, _, function = name.rpartition(":")
        if not Path(file).is_file():
            raise UsageError(f"there is no file {file!r}: give FILE.py:function")
        ask = getattr(load_file(file), function, None)
        if not callable(ask):
            raise UsageError(f"{file} has no function {function!r}: name one that maps a question to its answer")
        keep = folder / file_name(name, data.name, digest(Path(file).read_text())[:8])
    existed = keep.exists()
    try:
        answers = collect_answers(ask, data, name=name, keep=keep, workers=workers)
    finally:
        if isinstance(ask, Endpoint):
            ask.close()
    kept = "are those of" if existed else "are kept in"
    warnings.warn(f"the answers of {name} {kept} {keep}: delete it to ask again", Notice, stacklevel=4)
    return answers
