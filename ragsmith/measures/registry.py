"""How a function becomes a measure. Everything known about one is read from its own file."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args

from ragsmith.digest import fingerprint
from ragsmith.errors import UsageError
from ragsmith.measures.case import Case
from ragsmith.models.protocols import Embedder, LanguageModel
from ragsmith.plugins import load_plugins, tools_of
from ragsmith.text.suggest import did_you_mean

Subject = Literal["ranking", "passages", "answer"]
Needs = Literal["evidence", "reference", "answerable", "unanswerable"]
"""What a question must have, or be, for a measure to be about it."""
M = TypeVar("M", bound=Callable[..., float | None])

TOOLS: Mapping[Any, str] = {LanguageModel: "judge", Embedder: "embedder"}
"""Argument types of the models that a measure gets besides its case, and the role of each."""

COMPOSITES_AND_COSTS = frozenset(
    {"fitness", "retrieval", "generation", "calls", "texts_embedded", "pairs_scored", "input_tokens", "output_tokens"}
)
COLUMNS = frozenset(
    {"question", "split", "type", "modality", "state", "answer", "retrieved", "error", "pipeline", "place", "name"}
)
"""Columns of tables that have a column for each measure as well."""
RESERVED = COMPOSITES_AND_COSTS | COLUMNS
"""What something else in a report is called; no measure may have such a name."""


@dataclass(frozen=True)
class Measure:
    """A registered function, and what its file declares about it.

    ``subject`` is what it judges. ``range`` holds the lowest and highest possible value, ``direction`` says which of
    two values is better, and is None where neither is. A ``costly`` measure asks the judge more than once for an
    answer: it is computed where the judge costs nothing, and elsewhere only when it is asked for. Of a question that
    has not what it ``needs`` it has no value.
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
        """The label, and which way is better where that is down."""
        return f"{self.label} (lower is better)" if self.direction == "lower" else self.label

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (inspect.getdoc(self.fn) or "").split("\n", 1)[0]

    @cached_property
    def tools(self) -> dict[str, str]:
        """Argument names and the roles of their models."""
        return tools_of(self.fn, TOOLS)

    @property
    def identity(self) -> tuple[str, str]:
        """What stored values of this measure depend on: its name, and the code of its function."""
        return self.name, fingerprint(self.fn.__module__, self.fn.__name__)

    def plain(self) -> dict[str, Any]:
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
        """Measure ``case``; ``models`` has a model for each role that ``tools`` names. None: nothing to measure.

        Raises:
            ValueError: the value is not a finite number.
        """
        if self.needs and not case.has(self.needs):
            return None
        tools = self.tools
        value = self.fn(case, **{name: models[role] for name, role in tools.items()}) if tools else self.fn(case)
        if value is not None and not math.isfinite(value):
            raise ValueError(f"the measure {self.name} is {value}: a measure is a finite number, or None")
        return None if value is None else float(value)


REGISTERED: dict[str, Measure] = {}
"""Every measure by name, in the order in which their files were read."""


USUAL_NEEDS: Mapping[str, Needs] = {"ranking": "evidence", "answer": "reference"}


def measure(
    *,
    label: str,
    subject: Subject,
    paper: str = "",
    range: tuple[float, float] = (0.0, 1.0),  # noqa: A002  the word for it, and the built-in is not used here
    direction: Literal["higher", "lower"] | None = "higher",
    costly: bool = False,
    needs: Needs | Literal["nothing"] | None = None,
    name: str | None = None,
) -> Callable[[M], M]:
    """Register the decorated function; see `Measure`. Its own name is the measure's unless ``name`` is given.

    Unless it says what it ``needs``, a measure of rankings is of questions with evidence, and one of answers of those
    with a reference answer.
    """

    def register(fn: M) -> M:
        called = name or fn.__name__
        if subject not in get_args(Subject):
            raise ValueError(f"the subject of {called} is {subject!r}: it is one of {', '.join(get_args(Subject))}")
        if called in REGISTERED or called in RESERVED:
            raise ValueError(f"the measure {called} is registered twice, or has the name of something else")
        wanted = needs or USUAL_NEEDS.get(subject)
        known = None if wanted == "nothing" else wanted
        REGISTERED[called] = Measure(called, fn, label, subject, paper, range, direction, costly, known)
        return fn

    return register


def measures() -> dict[str, Measure]:
    """Return every measure by name: those of rankings, of passages and of answers, each in the order of their files."""
    load_plugins("ragsmith.measures")
    order = get_args(Subject)
    found = sorted(REGISTERED.values(), key=lambda known: (order.index(known.subject), known.fn.__module__))
    return {known.name: known for known in found}


def measure_named(name: str) -> Measure:
    """Return the measure called ``name``.

    Raises:
        UsageError: there is none; the message names the known ones.
    """
    known = measures()
    if name not in known:
        raise UsageError(f"no measure is called {name!r}: {did_you_mean(name, known)}")
    return known[name]
