"""Registration of measures: decorated functions with their declarations."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args

from ragsmith.cells import fingerprint_definition, is_in_cell
from ragsmith.digest import MAX_NUMBER
from ragsmith.errors import UsageError
from ragsmith.measures.case import Case
from ragsmith.models.protocols import Embedder, LanguageModel
from ragsmith.plugins import load_plugins, tools_of
from ragsmith.text.suggest import did_you_mean

Subject = Literal["ranking", "passages", "answer"]
Needs = Literal["evidence", "reference", "answerable", "unanswerable"]
"""The requirement of a measure on questions."""
M = TypeVar("M", bound=Callable[..., float | None])

TOOLS: Mapping[Any, str] = {LanguageModel: "judge", Embedder: "embedder"}
"""Roles of the models of a measure by the type of the argument."""

COMPOSITES_AND_COSTS = frozenset(
    {"fitness", "retrieval", "generation", "calls", "texts_embedded", "pairs_scored", "input_tokens", "output_tokens"}
)
COLUMN_NAMES = frozenset(
    {"question", "split", "type", "modality", "state", "answer", "retrieved", "error", "pipeline", "place", "name"}
    | {"text", "reference", "cause"}
)
"""Other columns of tables with a column for each measure."""
RESERVED_NAMES = COMPOSITES_AND_COSTS | COLUMN_NAMES
"""Names that are not available for measures because reports use them otherwise."""

ROUNDING = 1e-6
"""How far a value may be outside of the range of its measure, as sums of single-precision numbers are."""


@dataclass(frozen=True)
class Measure:
    """A registered function with its declaration.

    ``subject`` is the object of the measure. ``range`` is the minimum and maximum value; ``direction`` states which
    values are better, or is None. A ``costly`` measure calls the judge several times per answer: it is computed if the
    judge is free of charge, otherwise on request only. The measure is undefined for questions that do not meet the
    requirement ``needs``.
    """

    name: str
    fn: Callable[..., float | None]
    label: str
    subject: Subject
    paper: str = ""
    range: tuple[float, float] = (0.0, 1.0)
    direction: Literal["higher", "lower"] | None = "higher"
    costly: bool = False
    needs: Needs | None = None

    @property
    def heading(self) -> str:
        """The label, with a note if lower is better."""
        return f"{self.label} (lower is better)" if self.direction == "lower" else self.label

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.fn) or "").split("\n", 1)[0]

    @cached_property
    def tools(self) -> dict[str, str]:
        """Roles of the models by argument name."""
        return tools_of(self.fn, TOOLS)

    @property
    def identity(self) -> tuple[str, str]:
        """The name and the fingerprint of the code, on which stored values depend."""
        return self.name, fingerprint_definition(self.fn)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as JSON types; an infinite bound is None."""
        return {
            "name": self.name,
            "label": self.label,
            "subject": self.subject,
            "summary": self.summary,
            "range": [bound if math.isfinite(bound) else None for bound in self.range],
            "direction": self.direction,
            "costly": self.costly,
            "needs": sorted(set(self.tools.values())),
            "of": self.needs,
            "paper": self.paper,
        }

    def __call__(self, case: Case, models: Mapping[str, Any]) -> float | None:
        """Return the value for ``case``, or None if it is undefined; ``models`` has a model for each role in ``tools``.

        Raises:
            ValueError: the value is no finite number or too large to be stored, or is outside ``range``.
        """
        if self.needs and not case.satisfies(self.needs):
            return None
        tools = self.tools
        value = self.fn(case, **{name: models[role] for name, role in tools.items()}) if tools else self.fn(case)
        if value is None:
            return None
        if not abs(value) <= MAX_NUMBER:
            limits = f"from {-MAX_NUMBER:g} to {MAX_NUMBER:g}"
            raise ValueError(f"the measure {self.name} is {value}: a measure is a number {limits}, or None")
        least, most = self.range
        if not least - ROUNDING <= value <= most + ROUNDING:
            raise ValueError(
                f"the measure {self.name} is {value}, outside of its range from {least:g} to {most:g}: "
                "return a number in it, or declare another with @measure(range=...)"
            )
        return float(value)


REGISTERED_MEASURES: dict[str, Measure] = {}
"""Measures by name, in the order of registration."""

DEFAULT_NEEDS: Mapping[str, Needs] = {"ranking": "evidence", "answer": "reference"}
"""Default requirements by subject."""


def measure(
    *,
    label: str,
    subject: Subject,
    paper: str = "",
    range: tuple[float, float] = (0.0, 1.0),  # noqa: A002  the built-in is not used here
    direction: Literal["higher", "lower"] | None = "higher",
    costly: bool = False,
    needs: Needs | Literal["nothing"] | None = None,
    name: str | None = None,
) -> Callable[[M], M]:
    """Register the decorated function; see `Measure` for the arguments.

    A function of a notebook cell replaces an earlier one of its name from a cell.

    ``name`` defaults to that of the function. By default, measures of rankings need questions with evidence, and
    measures of answers need a reference answer.
    """

    def register(fn: M) -> M:
        called = name or fn.__name__
        if subject not in get_args(Subject):
            raise ValueError(f"the subject of {called} is {subject!r}: it is one of {', '.join(get_args(Subject))}")
        known = REGISTERED_MEASURES.get(called)
        if called in RESERVED_NAMES or (known and not (is_in_cell(known.fn) and is_in_cell(fn))):
            raise ValueError(f"the measure {called} is registered twice, or its name is reserved: give it another name")
        requirement = needs or DEFAULT_NEEDS.get(subject)
        required = None if requirement == "nothing" else requirement
        REGISTERED_MEASURES[called] = Measure(called, fn, label, subject, paper, range, direction, costly, required)
        return fn

    return register


def measures() -> dict[str, Measure]:
    """Return all measures by name, sorted by subject (rankings, passages, answers) and module."""
    load_plugins("ragsmith.measures")
    order = get_args(Subject)
    ordered = sorted(REGISTERED_MEASURES.values(), key=lambda each: (order.index(each.subject), each.fn.__module__))
    return {each.name: each for each in ordered}


def get_measure(name: str) -> Measure:
    """Return the measure called ``name``.

    Raises:
        UsageError: there is no such measure.
    """
    known = measures()
    if name not in known:
        raise UsageError(f"no measure is called {name!r}: {did_you_mean(name, known)}")
    return known[name]
