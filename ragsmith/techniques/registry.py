"""Registration of techniques: decorated functions, described by their signatures and docstrings."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, get_type_hints

from ragsmith.cells import fingerprint_definition, is_in_cell
from ragsmith.digest import fingerprint
from ragsmith.errors import SpaceError
from ragsmith.extensions import Package
from ragsmith.index.entity_graph import EntityGraph
from ragsmith.index.fields import FieldSearch
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
    FieldSearch: "field_search",
    Fitted: "fitted",
    Gold: "gold",
}
"""Kinds of tools by the type of the argument."""

ANY_NUMBER = Range(-math.inf)
"""The range of numeric parameters without an annotated range."""

Signals = Mapping[str, Mapping[str, float]]
"""Signals of candidates by chunk id and signal name."""


@dataclass(frozen=True)
class Fitting:
    """The functions that fit a technique to calibration questions.

    ``observe`` is called for each question with the inputs of the technique, ``gold``, and the tools and parameters in
    its signature; it returns JSON types. ``solve`` is called with all observations, in the order of the questions, and
    the parameters in its signature; it returns ``fitted.numbers`` of the technique. If ``when`` lists values of
    parameters, the technique is fitted only with these values; with others, ``fitted.numbers`` is empty.

    A technique that orders candidates by a linear score (`ragsmith.techniques.listwise`) describes its signals in
    ``names``, in order. Their weights are also learned on other data sets and passed to ``solve`` as ``general``; there
    are no observations if the technique is not fitted. ``signals`` has the arguments of ``observe`` except ``gold`` and
    returns the signals of the candidates.
    """

    observe: Callable[..., Any]
    solve: Callable[..., Mapping[str, Any]]
    when: Mapping[str, tuple[Parameter, ...]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    signals: Callable[..., Signals] | None = None


@dataclass(frozen=True)
class Technique:
    """A registered function with the properties declared by its signature and decorator.

    ``paper`` is a link to the paper (arXiv, DOI, ACL Anthology), authors and title if it has no identifier, or "".
    """

    family: str
    fn: Callable[..., Any]
    paper: str
    choices: Mapping[str, tuple[Parameter, ...]] = field(default_factory=dict)
    fitting: Fitting | None = None
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    packages: Mapping[str, Mapping[Parameter, Package]] = field(default_factory=dict)
    """Required optional packages by parameter and value."""
    most_chunks: int | None = None
    """Maximum number of chunks for which its index is affordable, by measurement; None for no limit."""

    @property
    def analysis_only(self) -> bool:
        """Whether the technique reads gold labels and is therefore not allowed in pipelines."""
        return "gold" in self.tools.values()

    def learns(self, parameters: Mapping[str, Parameter]) -> bool:
        """Whether the technique is fitted with these ``parameters``, which must be complete."""
        fitting = self.fitting
        return fitting is not None and all(parameters[name] in values for name, values in fitting.when.items())

    @property
    def identity(self) -> str:
        """The qualified name, ``family.name``."""
        return f"{self.family}.{self.name}"

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the signals with weights learned on other data sets; empty for most techniques."""
        return tuple(self.fitting.names) if self.fitting else ()

    @property
    def name(self) -> str:
        """The name of the function, which is also that of its file and the value of the gene."""
        return self.fn.__name__

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.fn) or "").split("\n", 1)[0]

    @cached_property
    def tools(self) -> dict[str, str]:
        """Kinds of tools by argument name, in the order of the signature."""
        return tools_of(self.fn, TOOLS)

    @cached_property
    def defaults(self) -> dict[str, Parameter]:
        """Defaults of the parameters, which are the keyword-only arguments that are not tools."""
        parameters = inspect.signature(self.fn).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in self.tools}

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """Annotated ranges of the numeric parameters."""
        hints = get_type_hints(self.fn, include_extras=True)
        metadata = {name: getattr(hints[name], "__metadata__", ()) for name in self.defaults}
        return {name: item for name, items in metadata.items() for item in items if isinstance(item, Range)}

    @property
    def code(self) -> str:
        """Fingerprint of the function, of those that fit it, and of the code that they use."""
        if not is_in_cell(self.fn):
            return fingerprint(self.fn.__module__, self.fn.__name__)
        fitting = self.fitting
        parts = (fitting.observe, fitting.solve, fitting.signals) if fitting else ()
        return "".join(fingerprint_definition(part) for part in (self.fn, *parts) if part is not None)

    def check_parameters(self) -> None:
        """Raise `SpaceError` unless every parameter has a type and a valid default."""
        hints = get_type_hints(self.fn)
        for name, default in self.defaults.items():
            if name not in hints or type(default) not in KINDS:
                raise SpaceError(f"{self.family}.{self.name}: {name} needs a type, and a default that JSON can say")
        self.resolve_parameters(self.defaults)

    def resolve_parameters(self, values: Mapping[str, Any], where: str = "") -> dict[str, Parameter]:
        """Return all parameters, with defaults for those not in ``values``; ``where`` prefixes error messages.

        Raises:
            SpaceError: a name is unknown, or a value has the wrong type or is outside the declared range or choices.
        """
        prefix = f"{where}: " if where else ""
        for name, value in values.items():
            if name not in self.defaults:
                raise SpaceError(
                    f"{prefix}{self.family}.{self.name} has no parameter {name!r}: {did_you_mean(name, self.defaults)}"
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
                raise SpaceError(f"{prefix}{self.family}.{self.name}: {name} must be {problem}, not {value!r}")
        merged = {**self.defaults, **values}
        return {name: float(v) if isinstance(self.defaults[name], float) else v for name, v in merged.items()}


@dataclass(frozen=True)
class Family(Generic[F]):
    """A family of techniques: a gene, with the types of its inputs and output.

    An instance is the decorator that registers a technique; a wrong signature is a type error. ``tier`` is the scope of
    an execution: once per collection, within `search`, or once per question.
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
        paper: str = "",
        choices: Mapping[str, tuple[Parameter, ...]] | None = None,
        fitting: Fitting | None = None,
        after: Mapping[str, tuple[str, ...]] | None = None,
        packages: Mapping[str, Mapping[Parameter, Package]] | None = None,
        most_chunks: int | None = None,
    ) -> Callable[[F], F]:
        """Register the decorated function; one of a notebook cell replaces an earlier one of its name from a cell.

        ``choices`` are the values of a parameter that a search explores; the range of a number is part of its type
        (`Range`, or `Count`, `Share` and `Amount`). ``after`` lists, by family, techniques of which one must precede
        this one. ``packages`` are the optional packages that values of parameters require. A corpus with more than
        ``most_chunks`` chunks is rejected before a search starts.
        """

        def register(fn: F) -> F:
            known = self.techniques.get(fn.__name__)
            if known and not (is_in_cell(known.fn) and is_in_cell(fn)):
                raise ValueError(f"{self.name}.{fn.__name__} is registered twice: give the function another name")
            options = choices or {}, fitting, after or {}, packages or {}, most_chunks
            technique = Technique(self.name, fn, paper, *options)
            if not fn.__module__.startswith("ragsmith."):  # a test checks the techniques of this package
                technique.check_parameters()
            self.techniques[fn.__name__] = technique
            return fn

        return register

    def __getitem__(self, name: str) -> Technique:
        """Return the technique called ``name``.

        Raises:
            SpaceError: there is no such technique.
        """
        if technique := self.techniques.get(name):
            return technique
        raise SpaceError(
            f"no {self.name} technique is called {name!r}: {did_you_mean(name, self.techniques)}; "
            "one of your own needs --import FILE"
        )


def load_techniques() -> None:
    """Import all modules of ``ragsmith.techniques`` and the installed packages with techniques."""
    load_plugins("ragsmith.techniques")
