"""The fitness: the score by which pipelines are ranked, computed from the measures of a record.

The default is that of the paper (Kartal et al., arXiv 2511.01386): F is the weighted mean of R, the mean of four
measures of the ranking, and G, the mean of two measures of the answer. A custom fitness is a function, of a file or of
a notebook. The fitness is computed for each question and then averaged, as the fitness of means differs unless it is
linear.

A question without evidence has no R, and its fitness is G. For an unanswerable question, G is 1 for declining and 0
otherwise. A missing value is None, never 0; means of R and of G are over the questions that have them, and are reported
with their number. Every counted question has a fitness, so that differences between pipelines stay paired by question.

If retrieval alone is tuned, the fitness is R, or a custom function of the measures of the ranking, and nothing is
generated.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from types import CodeType, MappingProxyType, ModuleType
from typing import Any

from ragsmith.argument_types import check_fields
from ragsmith.cells import fingerprint_source
from ragsmith.digest import fingerprint, not_fingerprinted
from ragsmith.errors import UsageError, WrongOption
from ragsmith.measures.case import Case
from ragsmith.measures.registry import Measure, measures
from ragsmith.plugins import imported_file, line_of, load_file
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Example


def reading(measures: MeasureValues) -> float:
    """Return the fitness of the paper with precision as a fifth measure in R, which penalizes irrelevant passages.

    The precision is that of the context, by characters; without generation, that of the passages after the filter. The
    four measures of the paper cannot rise when the last passages are dropped, so they never favour a filter.
    """
    parts = []
    if (found := measures["retrieval"]) is not None:
        of_context = measures.get("context_precision")
        precision = measures["kept_precision"] if of_context is None else of_context
        parts.append((4 * found + (precision or 0.0)) / 5)
    if (answered := measures.get("generation")) is not None:
        parts.append(answered)
    return sum(parts) / len(parts)


BUILTIN_FITNESSES: Mapping[str, Callable[[MeasureValues], float]] = MappingProxyType({"reading": reading})
DEFAULT_FITNESS = "paper"
"""Name of the default fitness, the formula of the paper."""

MeasureValues = Mapping[str, float | None]
"""The measures of a record by name; None for a measure that does not apply."""

COMPOSITES: Mapping[str, tuple[str, ...]] = {
    "retrieval": ("recall", "map", "ndcg", "mrr"),
    "generation": ("judge", "similarity"),
}
"""Composite values and the measures that they average: R and G of the paper."""

QUALITY, RETRIEVAL = "quality", "retrieval"
OBJECTIVES: Mapping[str, str] = {
    QUALITY: "what is found and what is answered",
    RETRIEVAL: "what is found, and nothing is generated",
}
"""The objectives of a search, with a description."""

HEADLINE: Mapping[str, str] = {"fitness": "F", "retrieval": "R", "generation": "G"}
"""The main scores of reports, and their symbols."""


REFUSAL = "refusal"
"""The measure used as G for unanswerable questions."""

FALSE_REFUSAL = "false_refusal"
"""The measure of declining a question that has an answer."""


def composite(name: str, measures: Mapping[str, Any]) -> float | None:
    """Return a composite value of one question from its ``measures``; None if it does not apply to the question."""
    members = COMPOSITES[name]
    values = [measures[member] for member in members]
    if None in values:
        declined: float | None = measures.get(REFUSAL) if name == "generation" else None
        return declined
    total: float = sum(values)
    return total / len(members)


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of R and G in the fitness of the paper; they are normalised to a sum of 1."""

    retrieval: float = 0.5
    generation: float = 0.5

    @not_fingerprinted
    def __post_init__(self) -> None:
        check_fields(self)
        if not (self.retrieval >= 0 and self.generation >= 0 and 0 < self.retrieval + self.generation < math.inf):
            raise UsageError(f"weights {self.retrieval} and {self.generation}: give numbers from 0 up, not both 0")


RETRIEVAL_ALONE = Weights(1.0, 0.0)


@dataclass(frozen=True)
class Fitness:
    """A fitness: the formula of the paper with ``weights``, or a ``function`` of a ``file`` or of `BUILTIN_FITNESSES`.

    ``objective`` is one of `OBJECTIVES`; see `with_objective`. ``digest`` identifies the contents of the file, which
    must not change while results are compared, or the source of a function without a file. The function takes a mapping
    with the measures of a question, and R and G as ``retrieval`` and ``generation``, and returns a number; higher is
    better. A measure that a question lacks is None: without evidence those of the ranking, without an answer those of
    the answer; see `try_on`.
    """

    weights: Weights = field(default_factory=Weights)
    file: str = ""
    function: str = ""
    digest: str = ""
    objective: str = QUALITY

    @classmethod
    @not_fingerprinted
    def from_spec(cls, given: Fitness | Weights | str | Callable[[MeasureValues], float] | None) -> Fitness:
        """Return the fitness specified by weights, a name, ``FILE.py:function``, a function or lambda, or None.

        A function of a file that can be imported is referred to by the file. Any other is known to this process only,
        and identified by its source.

        Raises:
            UsageError: there is no such file or function, the source of a function is not known, or it returns no
                number for a question with all measures 0.5.
        """
        if isinstance(given, Fitness):
            return given
        if given is None or isinstance(given, Weights):
            return cls(given or Weights())
        if given == DEFAULT_FITNESS:
            return cls()
        if isinstance(given, str) and given in BUILTIN_FITNESSES:
            return cls(function=given)
        if isinstance(given, str):
            file, _, function = given.rpartition(":")
        else:
            function = getattr(given, "__qualname__", "")
            imported = inspect.isfunction(given) and given.__module__ != "__main__"
            file = (inspect.getsourcefile(given) or "") if imported else ""
        if isinstance(given, str) and file and not Path(file).is_file():
            raise UsageError(f"the fitness {given!r} names the file {file}, which is missing: give FILE.py:function")
        if inspect.isfunction(given) and not (file and function.isidentifier() and Path(file).is_file()):
            found = cls(function=given.__name__, digest=fingerprint_source(given))
            _passed_functions[found.digest] = given
        elif not file or not function.isidentifier() or not Path(file).is_file():
            names = ", ".join((DEFAULT_FITNESS, *BUILTIN_FITNESSES))
            raise UsageError(
                f"unknown fitness {given!r}: give one of {names}, FILE.py:FUNCTION, or in Python a function"
            )
        else:
            path = str(Path(file).resolve())
            found = cls(file=path, function=function, digest=fingerprint(_load_module(path).__name__))
        found._check()
        return found

    def with_objective(self, objective: str) -> Fitness:
        """Return the fitness with another objective: for retrieval, R or the function of the measures of a ranking.

        Raises:
            UsageError: the function requires other measures, or there are weights, which do not apply to R alone.
        """
        if objective == self.objective:
            return self
        if objective == RETRIEVAL and self.weights not in (Weights(), RETRIEVAL_ALONE):
            problem = "is retrieval, which has no G to weigh against R: leave the weights out, or tune quality"
            raise WrongOption("objective", problem)
        found = replace(self, weights=RETRIEVAL_ALONE if objective == RETRIEVAL else Weights(), objective=objective)
        if found.is_custom:
            found._check()
        return found

    @property
    def is_custom(self) -> bool:
        """Whether the fitness is a function of the measures instead of the formula of the paper."""
        return bool(self.function)

    @not_fingerprinted
    def try_on(self, measures: Iterable[Measure], examples: Iterable[Example]) -> None:
        """Compute an own fitness from made-up values of ``measures``, for each kind of question in ``examples``.

        Kinds are with and without evidence, answerable and unanswerable. All values are 0.5, then 0, then 1, as far as
        the ranges of the measures allow; they are None for measures that the kind lacks.

        Raises:
            UsageError: the function raises an error or does not return a finite number.
        """
        known = [one for one in measures if one.subject == "ranking" or not self.ranking_only]
        asked = [one for one in examples if one.evidence or not self.needs_evidence] if self.is_custom else []
        cases = {(bool(one.evidence), one.answerable): one for one in asked}
        for (has_evidence, answerable), example in sorted(cases.items(), reverse=True, key=lambda item: item[0]):
            case = Case(evidence=example.evidence, answerable=answerable)
            for level in (0.5, 0.0, 1.0):
                made_up: dict[str, float | None] = {
                    one.name: min(max(level, one.range[0]), one.range[1])
                    if not one.needs or case.satisfies(one.needs)
                    else None
                    for one in known
                }
                self(
                    made_up,
                    f"an {'un' * (not answerable)}answerable question with{'out' * (not has_evidence)} evidence",
                )

    def _check(self) -> None:
        """Compute the fitness of a question with all measures 0.5, to raise errors early."""
        ranked = [known.name for known in measures().values() if known.subject == "ranking"]
        known = (
            [*COMPOSITES["retrieval"], *ranked] if self.ranking_only else [*measures(), *chain(*COMPOSITES.values())]
        )
        self(dict.fromkeys(known, 0.5))

    @property
    def ranking_only(self) -> bool:
        """Whether the fitness depends on rankings alone, so that no answer is needed."""
        return self.objective == RETRIEVAL

    @property
    def needs_evidence(self) -> bool:
        """Whether a question without evidence has no fitness."""
        return self.ranking_only or (not self.is_custom and self.weights.generation == 0)

    @property
    def output_name(self) -> str:
        """The output that is evaluated: rankings or answers."""
        return "rankings" if self.ranking_only else "answers"

    @property
    def is_additive(self) -> bool:
        """Whether the fitness is a sum of a share of R and a share of G."""
        return not self.is_custom and not self.ranking_only

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], folder: Path | None = None) -> Fitness:
        """Return the fitness from its dictionary, the inverse of `to_dict`; paths are relative to ``folder``.

        Raises:
            ValueError: the dictionary does not describe a fitness.
        """
        try:
            if plain.get("objective") == RETRIEVAL:
                rest = {name: value for name, value in plain.items() if name != "objective"}
                found = cls.from_dict(rest, folder) if rest else cls()
                return replace(found, weights=RETRIEVAL_ALONE, objective=RETRIEVAL)
            if set(plain) == {"weights"} and set(plain["weights"]) == {"retrieval", "generation"}:
                return cls(Weights(**plain["weights"]))
            if plain.get("name") in BUILTIN_FITNESSES:
                return cls(function=plain["name"])
            file = str((folder or Path()) / plain["file"]) if plain["file"] else ""
            return cls(file=file, function=plain["function"], digest=plain["digest"])
        except WrongOption as error:
            raise ValueError(f"fitness: {error}") from error
        except (TypeError, KeyError, AttributeError) as error:
            form = (
                "'weights' of 'retrieval' and 'generation', 'objective: retrieval', a 'name', or 'file', 'function' "
                "and 'digest'"
            )
            raise ValueError(f"fitness must have {form}") from error

    def to_dict(self, folder: Path | None = None) -> dict[str, Any]:
        """Return a dictionary for a run or an exported pipeline; the path is relative to ``folder`` if one is given."""
        about = {"objective": self.objective} if self.ranking_only else {}
        if not self.is_custom:
            return about or {"weights": asdict(self.weights)}
        if not self.digest:
            return {**about, "name": self.function}
        path = os.path.relpath(self.file, folder.resolve()) if folder and self.file else self.file
        return {**about, "file": path and Path(path).as_posix(), "function": self.function, "digest": self.digest}

    @property
    def identity(self) -> dict[str, Any]:
        """The properties that results depend on, without the location of the file."""
        if not self.is_custom:
            return self.to_dict()
        code = self.digest or fingerprint(BUILTIN_FITNESSES[self.function].__module__, self.function)
        return {**self.to_dict(), "digest": code, "file": ""}

    @property
    def formula(self) -> str:
        """A description of the formula."""
        if self.file:
            return f"{Path(self.file).name}:{self.function} (own), worked out for each question"
        if self.is_custom:
            return f"{self.function}{' (own)' if self.digest else ''}, worked out for each question"
        if self.ranking_only:
            return "R, as retrieval alone was tuned"
        weights = " and ".join(f"{weight:g} {name}" for name, weight in asdict(self.weights).items())
        return f"mean of R and G, weights {weights}"

    def __call__(self, measures: MeasureValues, question: str = "a question") -> float:
        """Return the fitness of one question, which errors describe as ``question``.

        Raises:
            UsageError: the file of the function is missing or has changed, or the function raises an error or does not
                return a finite number.
        """
        parts = {name: composite(name, measures) for name in COMPOSITES if name == RETRIEVAL or not self.ranking_only}
        if not self.is_custom:
            values = {name: value for name, value in parts.items() if value is not None}
            if not values:
                raise UsageError("a question has neither evidence nor an answer, so that nothing can be scored")
            return self.combine(**values) if len(values) == len(COMPOSITES) else next(iter(values.values()))
        known = {**measures, **parts}
        function = self._load()
        code = inspect.unwrap(function).__code__
        try:
            found = function(known)
            number = math.nan if found is None else float(found)
        except (Exception, SystemExit) as error:  # a user's function may raise anything
            asked = error.args[0] if isinstance(error, KeyError) and error.args else None
            if isinstance(asked, str) and asked not in known:
                problem = f"asks for a measure that {question} lacks: {asked!r} ({did_you_mean(asked, known)})"
            else:
                reason = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
                problem = f"cannot be worked out for {question}: {reason}{_name_missing(code, known)}"
            place = line_of(error, Path(code.co_filename)) or f" (line {code.co_firstlineno})"
            raise UsageError(f"{self._named}{place} {problem}") from error
        if not math.isfinite(number):
            problem = f"is {found} for {question}: return a finite number{_name_missing(code, known)}"
            raise UsageError(f"{self._named} (line {code.co_firstlineno}) {problem}")
        return number

    def _load(self) -> Callable[[MeasureValues], Any]:
        """Return the function of an own fitness."""
        if self.file:
            return _load_function(self.file, self.function, self.digest)
        if not self.digest:
            return BUILTIN_FITNESSES[self.function]
        if self.digest not in _passed_functions:
            raise UsageError(
                f"{self._named} is in no file, and only the process that searched knows it: put it in a file and "
                "search again, which reuses all answers"
            )
        return _passed_functions[self.digest]

    def combine(self, retrieval: float, generation: float) -> float:
        """Return the weighted mean of R and G of a question, the formula of the paper."""
        r, g = self.weights.retrieval, self.weights.generation
        return (r * retrieval + g * generation) / (r + g)

    @property
    def _named(self) -> str:
        return f"the fitness {Path(self.file).name}:{self.function}" if self.file else f"the fitness {self.function}"


_passed_functions: dict[str, Callable[[MeasureValues], Any]] = {}
"""The functions that are not referred to by a file, by the digest of their source."""


def _name_missing(code: CodeType, measures: MeasureValues) -> str:
    """Return the part of an error that names measures of the ``code`` of a function that a question lacks."""
    missing = [name for name in code.co_consts if isinstance(name, str) and measures.get(name, 0.0) is None]
    return f"; what a question lacks is None, here {', '.join(missing)}" if missing else ""


def _load_module(file: str) -> ModuleType:
    """Return the module of a file; an imported one is not run again, as it would register measures twice."""
    return imported_file(Path(file)) or load_file(file)


@cache
def _load_function(file: str, function: str, digest: str) -> Callable[[MeasureValues], Any]:
    """Return a function of a file; the code must have this digest."""
    module = _load_module(file)
    if fingerprint(module.__name__) != digest:
        raise UsageError(f"{file} has changed since pipelines were ranked by it: put it back, or search again")
    known = {name: value for name, value in vars(module).items() if inspect.isfunction(value)}
    if function not in known:
        raise UsageError(f"{file} has no function {function!r}: {did_you_mean(function, known)}")
    return known[function]
