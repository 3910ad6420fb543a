"""The fitness: the one number by which pipelines are ranked, made of the measures of a record.

By default it is the paper's (Kartal et al., arXiv 2511.01386): F is the weighted mean of R, the mean of four measures
of the ranking, and G, the mean of two measures of the answer. Anybody's own is a function in a file. Whichever it is,
it is worked out for each question, and then averaged: the fitness of means is something else unless it is linear.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from ragsmith.digest import fingerprint
from ragsmith.errors import UsageError
from ragsmith.measures.registry import measures
from ragsmith.plugins import imported_file, line_of, load_file
from ragsmith.text.suggest import did_you_mean

Measured = Mapping[str, float | None]
"""The measures of a record by name; None where there was nothing to measure."""

COMPOSITES: Mapping[str, tuple[str, ...]] = {
    "retrieval": ("recall", "map", "ndcg", "mrr"),
    "generation": ("judge", "similarity"),
}
"""Composite values, each the mean of some measures: R and G of the paper."""

HEADLINE: Mapping[str, str] = {"fitness": "F", "retrieval": "R", "generation": "G"}
"""The values that are shown everywhere, and their symbols."""


def composite(name: str, measures: Mapping[str, Any]) -> float:
    """A composite value of one question."""
    members = COMPOSITES[name]
    total: float = sum(measures[member] for member in members)
    return total / len(members)


@dataclass(frozen=True, slots=True)
class Weights:
    """How much retrieval and generation count in the paper's fitness; they are normalised to 1."""

    retrieval: float = 0.5
    generation: float = 0.5

    def __post_init__(self) -> None:
        if not (self.retrieval >= 0 and self.generation >= 0 and 0 < self.retrieval + self.generation < math.inf):
            raise UsageError(f"weights {self.retrieval} and {self.generation}: give numbers from 0 up, not both 0")


@dataclass(frozen=True)
class Fitness:
    """The paper's formula with ``weights``; or, where ``file`` names one, its ``function``.

    ``digest`` identifies the contents of the file, which must not change while its results are compared. The function
    is handed a mapping of the measures that the question has a value of, and of R and G as ``retrieval`` and
    ``generation``; it returns a number, higher for better.
    """

    weights: Weights = field(default_factory=Weights)
    file: str = ""
    function: str = ""
    digest: str = ""

    @classmethod
    def of(cls, given: Fitness | Weights | str | Callable[[Mapping[str, float]], float] | None) -> Fitness:
        """The fitness that a user names: weights, ``FILE.py:function``, a function of a file, or nothing.

        Raises:
            UsageError: there is no such file or function, the function is in no file, or it gives no number for a
                question of which each measure is 0.5.
        """
        if isinstance(given, Fitness):
            return given
        if given is None or isinstance(given, Weights):
            return cls(given or Weights())
        if isinstance(given, str):
            file, _, function = given.rpartition(":")
        else:
            function = getattr(given, "__qualname__", "")
            imported = inspect.isfunction(given) and given.__module__ != "__main__"
            file = (inspect.getsourcefile(given) or "") if imported else ""
        if not file or not function.isidentifier() or not Path(file).is_file():
            form = "FILE.py:function, or a function of a file that is not the script itself"
            raise UsageError(f"the fitness {given!r} is in no file that can be imported: give {form}")
        path = str(Path(file).resolve())
        found = cls(file=path, function=function, digest=fingerprint(_module(path).__name__))
        found(dict.fromkeys([*measures(), *chain.from_iterable(COMPOSITES.values())], 0.5))
        return found

    @classmethod
    def read(cls, settings: Mapping[str, Any], folder: Path | None = None) -> Fitness:
        """The fitness of a run or of an exported pipeline: what `plain` made, under ``fitness``.

        Up to version 0.1 there were ``weights`` only. Paths are relative to ``folder``.

        Raises:
            ValueError: it is neither.
        """
        plain = settings.get("fitness", {"weights": settings.get("weights")})
        try:
            if set(plain) == {"weights"} and set(plain["weights"]) == {"retrieval", "generation"}:
                return cls(Weights(**plain["weights"]))
            file = str((folder or Path()) / plain["file"])
            return cls(file=file, function=plain["function"], digest=plain["digest"])
        except (TypeError, KeyError) as error:
            form = "'weights' of 'retrieval' and 'generation', or 'file', 'function' and 'digest'"
            raise ValueError(f"fitness must have {form}") from error

    def plain(self, folder: Path | None = None) -> dict[str, Any]:
        """What a run or an exported pipeline keeps of it; the path is relative to ``folder`` if one is given."""
        if not self.file:
            return {"weights": asdict(self.weights)}
        path = os.path.relpath(self.file, folder.resolve()) if folder else self.file
        return {"file": Path(path).as_posix(), "function": self.function, "digest": self.digest}

    @property
    def identity(self) -> dict[str, Any]:
        """What results depend on: not where the file lies."""
        return {**self.plain(), "file": ""} if self.file else self.plain()

    @property
    def formula(self) -> str:
        """The formula in words."""
        if self.file:
            return f"{Path(self.file).name}:{self.function} (own), worked out for each question"
        weights = " and ".join(f"{weight:g} {name}" for name, weight in asdict(self.weights).items())
        return f"mean of R and G, weights {weights}"

    def __call__(self, measures: Measured) -> float:
        """The fitness of one question.

        Raises:
            UsageError: the file of the function is gone or has changed, or the function raises something or does not
                return a finite number.
        """
        values = {name: composite(name, measures) for name in COMPOSITES}
        if not self.file:
            return self.combined(values["retrieval"], values["generation"])
        known = {name: value for name, value in measures.items() if value is not None} | values
        function = _function(self.file, self.function, self.digest)
        try:
            found = float(function(known))
        except (Exception, SystemExit) as error:  # a user's function may raise anything
            asked = error.args[0] if isinstance(error, KeyError) and error.args else None
            if isinstance(asked, str) and asked not in known:
                missing = f"{asked!r} ({did_you_mean(asked, known)})"
                problem = f"asks for a measure that a question lacks: {missing}"
            else:
                reason = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
                problem = f"cannot be worked out for a question: {reason}"
            raise UsageError(
                f"{self._named}{line_of(error, Path(inspect.unwrap(function).__code__.co_filename))} {problem}"
            ) from error
        if not math.isfinite(found):
            raise UsageError(f"{self._named} is {found} for a question: return a finite number")
        return found

    def combined(self, retrieval: float, generation: float) -> float:
        """The paper's formula for R and G of a question; a function of one's own has none."""
        r, g = self.weights.retrieval, self.weights.generation
        return (r * retrieval + g * generation) / (r + g)

    @property
    def _named(self) -> str:
        return f"the fitness {Path(self.file).name}:{self.function}"


def _module(file: str) -> ModuleType:
    """The module of a file; one that was imported by name is not run again, for it would register measures twice."""
    return imported_file(Path(file)) or load_file(file)


@cache
def _function(file: str, function: str, digest: str) -> Callable[[Mapping[str, float]], Any]:
    """A function of a file whose code has this digest."""
    module = _module(file)
    if fingerprint(module.__name__) != digest:
        raise UsageError(f"{file} has changed since pipelines were ranked by it: put it back, or search again")
    known = {name: value for name, value in vars(module).items() if inspect.isfunction(value)}
    if function not in known:
        raise UsageError(f"{file} has no function {function!r}: {did_you_mean(function, known)}")
    return known[function]
