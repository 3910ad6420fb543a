"""How a function becomes a search strategy. Everything known about one is read from its own file.

```python
class Climb(SteppedSearch):
    def __init__(self, problem: SearchProblem, jumps: int) -> None: ...
    def steps(self) -> Iterator[Population]: ...


@strategy("climb", paper="https://doi.org/...")
def climb(problem: SearchProblem, *, jumps: Count = 3) -> Climb:
    \"\"\"Climb from random pipelines.\"\"\"
    return Climb(problem, jumps)
```

From then on ``climb`` or ``climb(jumps=5)`` is a strategy of ``ragsmith search``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, TypedDict, TypeVar

from ragsmith.digest import fingerprint
from ragsmith.errors import UsageError
from ragsmith.extensions import Extension, Package, Registry
from ragsmith.strategies.strategy import Feasible, Prior, Sizes, SteppedSearch

if TYPE_CHECKING:
    from ragsmith.strategies.settings import GeneticSettings

S = TypeVar("S", bound=SteppedSearch)


class Bounds(TypedDict):
    """The limits of every search."""

    feasible: Feasible
    max_evaluations: int | None


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """What a strategy searches: see `SteppedSearch` for sizes and bounds.

    ``prior`` is what is expected of genomes before any is evaluated. ``settings`` are those that a strategy declares
    with ``reads``.
    """

    sizes: Sizes
    bounds: Bounds
    settings: GeneticSettings
    seed: int = 42
    prior: Prior | None = None


@dataclass(frozen=True, kw_only=True)
class RegisteredStrategy(Extension):
    """A function that makes a search from a `SearchProblem`.

    ``reads`` names the fields of `GeneticSettings` that change where it goes: others are refused where a user sets
    them. ``weighs`` says whether it can search for several objectives.
    """

    reads: frozenset[str] = frozenset()
    weighs: bool = False

    @property
    def code(self) -> str:
        """Fingerprint of its code, and the version of its package.

        Raises:
            UsageError: its package is not installed.
        """
        if self.package:
            self.package.check()
        code = fingerprint(self.fn.__module__, self.fn.__name__)
        return f"{code} {version(self.package.name)}" if self.package else code

    def start(self, problem: SearchProblem) -> SteppedSearch:
        """A new search.

        Raises:
            UsageError: its package is not installed, or the function returns no search.
        """
        if self.package:
            self.package.check()
        with self.named_errors():
            search = self.fn(problem, **self.chosen)
        if not isinstance(search, SteppedSearch):
            raise UsageError(f"the strategy {self.name} returned {search!r}: return a SteppedSearch")
        search.name = self.name
        search.named_errors = self.named_errors
        return search


STRATEGIES: Registry[RegisteredStrategy] = Registry("strategy", "ragsmith.strategies")


def strategy(
    name: str,
    *,
    reads: Collection[str] = (),
    weighs: bool = False,
    paper: str = "",
    package: Package | None = None,
) -> Callable[[Callable[..., S]], Callable[..., S]]:
    """Register the decorated function as the strategy ``name``; see `RegisteredStrategy` for the arguments."""

    def register(fn: Callable[..., S]) -> Callable[..., S]:
        STRATEGIES.add(
            RegisteredStrategy(name=name, fn=fn, paper=paper, package=package, reads=frozenset(reads), weighs=weighs)
        )
        return fn

    return register
