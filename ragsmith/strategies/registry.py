"""Registration of search strategies.

```python
class Climb(SteppedSearch):
    def __init__(self, problem: SearchProblem, jumps: int) -> None: ...
    def steps(self) -> Iterator[Population]: ...


@strategy("climb", paper="https://doi.org/...")
def climb(problem: SearchProblem, *, jumps: Count = 3) -> Climb:
    \"\"\"Climb from random pipelines.\"\"\"
    return Climb(problem, jumps)
```

``climb`` or ``climb(jumps=5)`` is then a strategy of ``ragsmith search``.
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
    """Constraints of a search: feasibility and the maximum number of evaluations."""

    feasible: Feasible
    max_evaluations: int | None


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """The input of a strategy: see `SteppedSearch` for sizes and bounds.

    ``prior`` is a prior over the fitness of genomes. A strategy uses the fields of ``settings`` that it declares with
    ``reads``.
    """

    sizes: Sizes
    bounds: Bounds
    settings: GeneticSettings
    seed: int = 42
    prior: Prior | None = None


@dataclass(frozen=True, kw_only=True)
class RegisteredStrategy(Extension):
    """A function that creates a search from a `SearchProblem`.

    ``reads`` names the fields of `GeneticSettings` that the strategy uses; it is an error to set any other.
    ``multi_objective`` is whether the strategy supports several objectives.
    """

    reads: frozenset[str] = frozenset()
    multi_objective: bool = False

    @property
    def code(self) -> str:
        """The fingerprint of the code, with the version of the optional package.

        Raises:
            UsageError: the package is not installed.
        """
        self.check_package()
        code = fingerprint(self.fn.__module__, self.fn.__name__)
        return f"{code} {version(self.package.name)}" if self.package else code

    def start(self, problem: SearchProblem) -> SteppedSearch:
        """Create a search.

        Raises:
            UsageError: the package is not installed, or the function does not return a `SteppedSearch`.
        """
        search = self.call(problem)
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
    multi_objective: bool = False,
    paper: str = "",
    package: Package | None = None,
) -> Callable[[Callable[..., S]], Callable[..., S]]:
    """Register the decorated function as the strategy ``name``; see `RegisteredStrategy` for the arguments."""
    return STRATEGIES.registers(
        lambda fn: RegisteredStrategy(
            name=name, fn=fn, paper=paper, package=package, reads=frozenset(reads), multi_objective=multi_objective
        )
    )
