"""How a function becomes a gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ragsmith.labelling.checking.finding import Finding
from ragsmith.labelling.checking.view import View

Judge = Callable[[View], Finding]


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate by name, the question that it asks of a data set, and the function that answers it."""

    name: str
    asks: str
    judge: Judge

    def __call__(self, view: View) -> Finding:
        """What the gate finds."""
        return replace(self.judge(view), gate=self.name)


_GATES: dict[str, Gate] = {}


def gate(asks: str) -> Callable[[Judge], Judge]:
    """Register a function as the gate of its name; ``asks`` is the question that it answers, in words."""

    def register(judge: Judge) -> Judge:
        name = judge.__name__
        if name in _GATES:
            raise ValueError(f"there are two gates {name!r}: rename one of them")
        _GATES[name] = Gate(name, asks, judge)
        return judge

    return register


def registered() -> tuple[Gate, ...]:
    """The gates whose files were imported, in the order of that; `ragsmith.labelling.checking.gates` imports all."""
    return tuple(_GATES.values())
