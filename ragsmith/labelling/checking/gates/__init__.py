"""The gates, in the order in which they are asked: data first, then shortcuts, then what it can show.

A file of one's own registers one in the same way::

    from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit
    from ragsmith.labelling.checking.gates import gate

    @gate("Is each question short?")
    def short(view, *, words: int = 30): ...
"""

from ragsmith.labelling.checking.gates import (  # noqa: F401  # isort: skip
    evidence,
    shortcuts,
    discrimination,
)
from collections.abc import Sequence

from ragsmith.errors import WrongOption
from ragsmith.labelling.checking.registry import GATES, Gate, gate
from ragsmith.text.suggest import did_you_mean

__all__ = ["GATES", "chosen_gates", "gate"]


def chosen_gates(only: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[Gate, ...]:
    """The gates that are named, in their order.

    Raises:
        UsageError: a gate is not known, none is left, or a package is not installed.
    """
    known = {gate.name: gate for gate in GATES}
    for parameter, names in (("only", only), ("without", without)):
        for name in names:
            if name not in known:
                raise WrongOption(parameter, f"names no gate: {name!r}; {did_you_mean(name, known)}")
    left = tuple(one for name, one in known.items() if (not only or name in only) and name not in without)
    if not left:
        raise WrongOption("without", "leaves no gate: leave one of its names out")
    for one in left:
        if one.package:
            one.package.check()
    return left
