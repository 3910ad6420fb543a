"""Extensions other than techniques and models: functions registered by a decorator and described by their signature.

Drafting methods, importers of published data sets and readers of documents are registered this way. The options of an
extension are the keyword-only arguments of its function; a command takes them as ``NAME(option=value)``.
"""

import ast
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from traceback import extract_tb
from typing import Any, Generic, Self, TypeVar, get_type_hints

from ragsmith.errors import MissingExtra, RagsmithError, UsageError
from ragsmith.plugins import KINDS, Range, expected, load_plugins
from ragsmith.text.suggest import did_you_mean

LOADS_OWN = "--import FILE.py loads one of your own"
"""The end of a sentence about an unknown name."""


@dataclass(frozen=True, slots=True)
class Package:
    """An optional package, which is imported as ``module``; ``extra`` is the extra that installs it, if any."""

    module: str
    name: str
    extra: str = ""

    def check(self) -> None:
        """Raise UsageError with the command that installs the package, unless it is installed."""
        with suppress(ModuleNotFoundError):  # of the package that a dotted name is part of
            if importlib.util.find_spec(self.module) is not None:
                return
        if self.extra:
            raise MissingExtra(self.name, self.extra)
        raise UsageError(f"{self.name} is not installed: run  pip install {self.name}")


@dataclass(frozen=True, kw_only=True)
class Extension:
    """A registered function.

    ``paper`` is a reference (arXiv, DOI or a web page), ``package`` an optional package that it requires, and
    ``chosen`` are the options that were set.
    """

    name: str
    fn: Callable[..., Any]
    paper: str = ""
    package: Package | None = None
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (inspect.getdoc(self.fn) or "").partition("\n")[0]

    @property
    def is_user_code(self) -> bool:
        """Whether the function is user code."""
        return not self.fn.__module__.startswith("ragsmith.")

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Replace exceptions of user code, and missing packages, by a UsageError with the file and line.

        Raises:
            UsageError: user code raised an exception other than a RagsmithError, or a package cannot be imported.
        """
        try:
            yield
        except RagsmithError:
            raise
        except Exception as error:
            if not self.is_user_code and not isinstance(error, ImportError):
                raise
            file = self.fn.__code__.co_filename
            lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
            place = f"{file}:{lines[-1] if lines else self.fn.__code__.co_firstlineno}"
            if isinstance(error, ImportError):
                extra = self.package and self.package.extra
                how = f"run  pip install 'ragsmith[{extra}]'" if extra else "install the package"
                raise UsageError(f"{self.name} of {place} cannot import what it needs ({error}): {how}") from error
            raise UsageError(f"{self.name} of {place} failed: {type(error).__name__}: {error}") from error

    def check_package(self) -> None:
        """Raise UsageError unless the required package is installed."""
        if self.package:
            self.package.check()

    def call(self, *arguments: Any, **more: Any) -> Any:
        """Call the function with ``arguments``, the chosen options and ``more``.

        Raises:
            UsageError: the required package is not installed, or user code raised an exception.
        """
        self.check_package()
        with self.named_errors():
            return self.fn(*arguments, **self.chosen, **more)

    @cached_property
    def options(self) -> dict[str, Any]:
        """The keyword-only arguments and their defaults."""
        parameters = inspect.signature(self.fn).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def problem(self, option: str, value: object) -> str | None:
        """Return the problem with an option as a sentence without a full stop, or None."""
        if option not in self.options:
            known = did_you_mean(option, self.options) if self.options else "it has none"
            return f"{self.name} has no option {option!r}: {known}"
        hint = get_type_hints(self.fn, include_extras=True).get(option)
        kind = getattr(hint, "__origin__", hint)
        if kind is None or kind not in KINDS or self.options[option] is inspect.Parameter.empty:
            return f"the option {option!r} of {self.name} needs a type, and a default: a number, a text or a bool"
        ranges = [part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Range)]
        if wanted := expected(kind, ranges, value):
            return f"the option {option!r} of {self.name} must be {wanted}, not {value!r}"
        return None

    def with_options(self, options: Mapping[str, Any]) -> Self:
        """Return the extension with these options.

        Raises:
            UsageError: an option is unknown, or a value is invalid.
        """
        for option, value in options.items():
            if problem := self.problem(option, value):
                raise UsageError(problem)
        return replace(self, chosen={**self.chosen, **options})

    def __str__(self) -> str:
        """Return the name with the options that differ from their defaults, in the syntax of `Registry.parse`."""
        chosen = {name: value for name, value in sorted(self.chosen.items()) if value != self.options[name]}
        return self.name + (f"({', '.join(f'{name}={value!r}' for name, value in chosen.items())})" if chosen else "")

    def describe(self) -> str:
        """Return one line of help: the summary, the options, and the required package."""
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        needs = f" Needs {self.package.name}." if self.package else ""
        return f"{self.summary}{f' Options: {options}.' if options else ''}{needs}"


E = TypeVar("E", bound=Extension)
F = TypeVar("F", bound=Callable[..., Any])


class Registry(Generic[E]):
    """The extensions of one kind by name, from modules of ``package``, installed packages and imported files.

    ``noun`` names the kind in messages. Installed packages declare them as entry points of the group ``package``.
    They are sorted by name if ``by_name``, else in the order of registration.
    """

    def __init__(self, noun: str, package: str, *, by_name: bool = True) -> None:
        self.noun = noun
        self.package = package
        self.by_name = by_name
        self._registered: dict[str, E] = {}

    def add(self, extension: E) -> None:
        """Register an extension.

        Raises:
            ValueError: its name is registered already, or the default of an option is invalid.
        """
        if not extension.fn.__module__.startswith("ragsmith."):
            load_plugins(self.package)  # so that a duplicate is reported for the later file
        if extension.name in self._registered:
            raise ValueError(f"the {self.noun} {extension.name!r} is registered twice")
        for option, default in extension.options.items():
            if problem := extension.problem(option, default):
                raise ValueError(problem)
        self._registered[extension.name] = extension

    def registers(self, make: Callable[[F], E]) -> Callable[[F], F]:
        """Return a decorator that registers the extension which ``make`` returns for the decorated function."""

        def register(fn: F) -> F:
            self.add(make(fn))
            return fn

        return register

    def remove(self, name: str) -> None:
        """Remove an extension, for example to define it again in a notebook."""
        del self._registered[name]

    def __iter__(self) -> Iterator[E]:
        """Iterate over the extensions."""
        load_plugins(self.package)
        names = sorted(self._registered) if self.by_name else list(self._registered)
        return iter([self._registered[name] for name in names])

    def __contains__(self, name: str) -> bool:
        """Whether there is an extension of that name."""
        return any(extension.name == name for extension in self)

    def __getitem__(self, name: str) -> E:
        """Return the extension of that name.

        Raises:
            UsageError: there is none; the message lists the registered ones.
        """
        known = {extension.name: extension for extension in self}
        if name not in known:
            raise UsageError(f"unknown {self.noun} {name!r}: {did_you_mean(name, known)}; {LOADS_OWN}")
        return known[name]

    def parse(self, text: str) -> E:
        """Return the extension of ``NAME`` or ``NAME(option=value, ...)`` with its options.

        Raises:
            UsageError: the syntax is invalid, the name or an option is unknown, or a value is invalid.
        """
        found = re.fullmatch(r"\s*([\w-]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
        if found is None:
            raise UsageError(f"{text!r} is no {self.noun}: write NAME or NAME(option=value)")
        try:
            call = ast.parse(f"f({found[2] or ''})", mode="eval").body
            if not isinstance(call, ast.Call) or call.args or any(word.arg is None for word in call.keywords):
                raise ValueError(text)
            values = {str(word.arg): word.value for word in call.keywords}
            options = {k: v.id if isinstance(v, ast.Name) else ast.literal_eval(v) for k, v in values.items()}
        except (SyntaxError, ValueError):
            raise UsageError(
                f"the options of {text!r} cannot be read: write {found[1]}(option=value), texts in quotation marks"
            ) from None
        return self[found[1]].with_options(options)
