"""Load a system by name: a file of rows, an HTTP address, ``FILE.py:function``, or a function."""

import re
import sys
from contextlib import closing, redirect_stdout
from datetime import datetime
from inspect import iscoroutinefunction, isgeneratorfunction
from pathlib import Path
from typing import Any

from ragsmith.errors import UsageError, warn_caller
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.exported.file import ExportedFile
from ragsmith.pipelines.genes import SYSTEM
from ragsmith.plugins import load_file, version_of
from ragsmith.systems.answers import GivenAnswer, match_rows, read_rows
from ragsmith.systems.contexts import ContextLocator
from ragsmith.systems.searched import BuiltSystem
from ragsmith.systems.system import System
from ragsmith.text.redaction import redacted
from ragsmith.types import Dataset

ROW_SUFFIXES = (".jsonl", ".json")
URL = re.compile("https?:", re.IGNORECASE)
MAX_NAMED = 3
"""The number of contexts that were not found which a notice names."""


def is_system(source: object) -> bool:
    """Whether ``source`` names a system rather than a pipeline, or is a function."""
    if isinstance(source, str | Path):
        name = str(source)
        is_named = bool(URL.match(name)) or name.endswith((*ROW_SUFFIXES, ".py")) or ".py:" in name
        return is_named or is_system_file(source)
    return callable(source)


def is_system_file(source: object) -> bool:
    """Whether ``source`` is a YAML file of another system with its parameters, which a search of them wrote."""
    if not isinstance(source, str | Path) or Path(source).suffix not in (".yaml", ".yml") or not Path(source).is_file():
        return False
    return bool(re.search(rf"^{SYSTEM}:", Path(source).read_text(encoding="utf-8", errors="replace"), re.MULTILINE))


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
    searched = _read_searched(source) if is_system_file(source) else None
    answers = _load_answers(searched or source, data, folder, workers)
    locator = ContextLocator(setup.corpus, dict(data.merged))
    located = {question: locator.locate(question, given) for question, given in sorted(answers.items())}
    if locator.not_found:
        listed = "; ".join(locator.not_found[:MAX_NAMED])
        total = sum(len(one.chunks) for one in located.values())
        warn_caller(
            f"{len(locator.not_found):,} of {total:,} contexts are at no single place of the documents and count as "
            f"irrelevant: {listed}{'; ...' if len(locator.not_found) > MAX_NAMED else ''}",
        )
    return System(setup, located, fitness, searched.record_identity if searched else "")


def _read_searched(source: str | Path) -> BuiltSystem:
    """Return the system of the file that a search wrote; a `Notice` says that its program has changed since."""
    with redirect_stdout(sys.stderr):  # what other people's code prints is no result
        place, version, parameters = ExportedFile(Path(source)).system()
    system = BuiltSystem.at(place, parameters)
    if system.version != version:
        warn_caller(f"{system.program} has changed since the search that wrote {source}: it is asked as it is now")
    return system


def _load_answers(source: Any, data: Dataset, folder: Path, workers: int) -> dict[str, GivenAnswer]:
    from ragsmith.systems.asking import Endpoint, collect_answers, file_name  # noqa: PLC0415  an HTTP client is slow

    if isinstance(source, BuiltSystem):
        with redirect_stdout(sys.stderr):
            return _collect(source, source.name, folder / file_name(source.name, data, source.identity), data, workers)
    name = str(source)
    if not isinstance(source, str | Path):
        _check_function(source, name)
        return collect_answers(source, data, name=getattr(source, "__name__", "the system"), workers=workers)
    if name.endswith(ROW_SUFFIXES) and not URL.match(name):
        if not Path(name).is_file():
            raise UsageError(f"there is no file {name!r}: name the file with the answers of the system, a row for each")
        if not (rows := read_rows(Path(name))):
            raise UsageError(f"{name} has no rows: write a line of JSON for each question")
        return match_rows(rows, data)
    if name.endswith(".py"):
        raise UsageError(f"{name} is a program: name a function in it that answers a question, {name}:FUNCTION")
    with redirect_stdout(sys.stderr):
        if URL.match(name):
            with closing(Endpoint(name)) as endpoint:
                return _collect(endpoint, name, folder / file_name(name, data, ""), data, workers)
        file, _, function = name.rpartition(":")
        if not Path(file).is_file():
            raise UsageError(f"there is no file {file!r}: give FILE.py:function")
        ask = getattr(load_file(file), function, None)
        _check_function(ask, f"{function!r} of {file}")
        return _collect(ask, name, folder / file_name(name, data, version_of(Path(file))), data, workers)


def _collect(ask: Any, name: str, keep: Path, data: Dataset, workers: int) -> dict[str, GivenAnswer]:
    from ragsmith.systems.asking import collect_answers  # noqa: PLC0415  as above

    shown = name.partition("?")[0]  # without keys of a query
    kept = "are those of" if keep.exists() else "are kept in"
    answers = collect_answers(ask, data, name=redacted(shown), keep=keep, workers=workers)
    at = datetime.fromtimestamp(keep.stat().st_mtime).isoformat(" ", "minutes")
    said = f"the answers of {redacted(shown)} {kept} {keep}, the last of {at}: delete it to ask again"
    warn_caller(said)
    return answers


def _check_function(function: object, name: str) -> None:
    """Raise `UsageError` if ``function`` cannot be called with a question."""
    if not callable(function) or iscoroutinefunction(function) or isgeneratorfunction(function):
        raise UsageError(f"{name} is no function that returns an answer: name one that maps a question to its answer")
