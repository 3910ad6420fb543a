"""How a function becomes a technique. Everything known about one is read from its own file."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, get_type_hints

from ragsmith.digest import fingerprint
from ragsmith.errors import SpaceError
from ragsmith.extensions import Package
from ragsmith.index.entity_graph import EntityGraph
from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel
from ragsmith.plugins import KINDS, Range, is_instance_of, load_plugins, tools_of
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Fitted, Gold

F = TypeVar("F", bound=Callable[..., Any])
Parameter = str | int | float | bool

TOOLS: Mapping[Any, str] = {
    LanguageModel: "language_model",
    Embedder: "embedder",
    CrossEncoder: "cross_encoder",
    EntityGraph: "entity_graph",
    Fitted: "fitted",
    Gold: "gold",
}
"""Types of the arguments that are tools, and their kinds."""
ANY_NUMBER = Range(-math.inf)
"""The range of numbers without a declared range."""


Signals = Mapping[str, Mapping[str, float]]
"""By chunk id, the signals of a candidate by name."""


@dataclass(frozen=True)
class Fitting:
    """How a technique learns plain numbers from calibration questions.

    ``observe`` is called for each question with the inputs of the technique, ``gold``, and the tools and parameters in
    its signature; it returns JSON types. ``solve`` gets all observations, in the order of the questions, and the
    parameters in its signature; it returns ``fitted.numbers`` of the technique. If ``when`` lists values of parameters,
    the technique learns only with these; with others ``fitted.numbers`` is empty.

    A technique that orders candidates by a linear score (`ragsmith.techniques.listwise`) describes its signals in
    ``names``, in order. Their weights are also learned on other data sets: ``solve`` gets them as ``general``, and no
    observations if the technique does not learn. ``signals`` has the arguments of ``observe`` without gold, and returns
    the signals of the candidates.
    """

    observe: Callable[..., Any]
    solve: Callable[..., Mapping[str, Any]]
    when: Mapping[str, tuple[Parameter, ...]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    signals: Callable[..., Signals] | None = None


@dataclass(frozen=True)
class Technique:
    """A registered function, and what its signature says about it.

    ``paper`` links the paper itself (arXiv, DOI, ACL Anthology), or names authors and title where it has no identifier.
    """

    family: str
    fn: Callable[..., Any]
    paper: str
    choices: Mapping[str, tuple[Parameter, ...]] = field(default_factory=dict)
    fitting: Fitting | None = None
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    packages: Mapping[str, Mapping[Parameter, Package]] = field(default_factory=dict)
    """By parameter and value, what has to be installed for it."""
    most_chunks: int | None = None
    """Largest collection for which building its index was measured to be affordable; None for any."""

    @property
    def analysis_only(self) -> bool:
        """Whether it reads the gold labels, so that no pipeline may contain it."""
        return "gold" in self.tools.values()

    def learns(self, parameters: Mapping[str, Parameter]) -> bool:
        """Whether it is fitted before it runs with ``parameters``, all of them."""
        its = self.fitting
        return its is not None and all(parameters[name] in values for name, values in its.when.items())

    @property
    def identity(self) -> str:
        """``family.name``."""
        return f"{self.family}.{self.name}"

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals whose weights were learned on other data sets; none for most techniques."""
        return tuple(self.fitting.names) if self.fitting else ()

    @property
    def name(self) -> str:
        """Function name = file name = gene value."""
        return self.fn.__name__

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (inspect.getdoc(self.fn) or "").split("\n", 1)[0]

    @cached_property
    def tools(self) -> dict[str, str]:
        """Argument name to kind of tool, in the order of the signature."""
        return tools_of(self.fn, TOOLS)

    @cached_property
    def defaults(self) -> dict[str, Parameter]:
        """Parameters (keyword-only arguments that are not tools) and their defaults."""
        parameters = inspect.signature(self.fn).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in self.tools}

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """The ranges of parameters that are numbers, as annotated."""
        hints = get_type_hints(self.fn, include_extras=True)
        beside = {name: getattr(hints[name], "__metadata__", ()) for name in self.defaults}
        return {name: part for name, parts in beside.items() for part in parts if isinstance(part, Range)}

    @cached_property
    def code(self) -> str:
        """Fingerprint of the function and of everything it uses."""
        return fingerprint(self.fn.__module__, self.fn.__name__)

    def check_parameters(self) -> None:
        """Raise SpaceError unless every parameter has a type, and a default that it may have itself."""
        hints = get_type_hints(self.fn)
        for name, default in self.defaults.items():
            if name not in hints or type(default) not in KINDS:
                raise SpaceError(f"{self.family}.{self.name}: {name} needs a type, and a default that JSON can say")
        self.resolved(self.defaults)

    def resolved(self, given: Mapping[str, Any], where: str = "") -> dict[str, Parameter]:
        """Return all parameters, defaults applied.

        Raises:
            SpaceError: a name is unknown, or a value has the wrong type, or is not in the declared range or among the
                declared choices.
        """
        begin = f"{where}: " if where else ""
        for name, value in given.items():
            if name not in self.defaults:
                raise SpaceError(
                    f"{begin}{self.family}.{self.name} has no parameter {name!r}: {did_you_mean(name, self.defaults)}"
                )
            default, kind = self.defaults[name], type(self.defaults[name])
            problem = ""
            if not is_instance_of(kind, value):
                problem = f"{'a word' if kind is str else KINDS[kind]} like {default!r}"
            elif kind in (int, float) and value not in (within := self.ranges.get(name, ANY_NUMBER)):
                problem = f"{KINDS[kind]} {within}"
            elif isinstance(default, str) and value not in self.choices.get(name, (value,)):
                problem = f"one of {', '.join(map(repr, self.choices[name]))}"
            if problem:
                raise SpaceError(f"{begin}{self.family}.{self.name}: {name} must be {problem}, not {value!r}")
        merged = {**self.defaults, **given}
        return {name: float(v) if isinstance(self.defaults[name], float) else v for name, v in merged.items()}


@dataclass(frozen=True)
class Family(Generic[F]):
    """A gene: what its techniques read and write, and the techniques themselves.

    Calling it returns the decorator that registers a technique, typed so that a wrong signature is a type error.
    ``tier`` is when it runs: once for a collection, inside `search`, or once for a question.
    """

    name: str
    reads: tuple[str, ...]
    writes: str
    purpose: str
    tier: Literal["collection", "search", "question"] = "question"
    techniques: dict[str, Technique] = field(default_factory=dict)

    def __call__(
        self,
        *,
        paper: str,
        choices: Mapping[str, tuple[Parameter, ...]] | None = None,
        fitting: Fitting | None = None,
        after: Mapping[str, tuple[str, ...]] | None = None,
        packages: Mapping[str, Mapping[Parameter, Package]] | None = None,
        most_chunks: int | None = None,
    ) -> Callable[[F], F]:
        """Register the decorated function.

        ``choices`` lists the values that a search varies a parameter over; the range of a number is annotated with its
        type (`Range`, or `Count`, `Share` and `Amount`). ``after`` lists, by family, the techniques of which one has to
        precede this one. ``packages`` are optional packages that a value of a parameter needs. A corpus of more than
        ``most_chunks`` is refused before a search starts.
        """

        def register(fn: F) -> F:
            if fn.__name__ in self.techniques:
                raise ValueError(f"{self.name}.{fn.__name__} is registered twice")
            rest = choices or {}, fitting, after or {}, packages or {}, most_chunks
            made = Technique(self.name, fn, paper, *rest)
            if not fn.__module__.startswith("ragsmith."):  # for those of this package a test does so, once
                made.check_parameters()
            self.techniques[fn.__name__] = made
            return fn

        return register

    def __getitem__(self, name: str) -> Technique:
        """Return the technique called ``name``.

        Raises:
            SpaceError: there is none; the message names the known ones.
        """
        if found := self.techniques.get(name):
            return found
        raise SpaceError(f"no {self.name} technique is called {name!r}: {did_you_mean(name, self.techniques)}")


def load_techniques() -> None:
    """Import every file under ``ragsmith/techniques`` and every installed package that offers techniques."""
    load_plugins("ragsmith.techniques")
