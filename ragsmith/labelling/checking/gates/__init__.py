"""Gates in the order in which they run: evidence, then shortcuts, then discrimination.

User code registers a gate in the same way::

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
from ragsmith.extensions import LOADS_OWN
from ragsmith.labelling.checking.registry import GATES, Gate, gate
from ragsmith.text.suggest import did_you_mean

__all__ = ["GATES", "chosen_gates", "gate"]


def find_gates(only: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[Gate, ...]:
    """Return the selected gates in the order in which they run.

    Raises:
        UsageError: a gate is unknown, none is selected, or a package is not installed.
    """
    known = {gate.name: gate for gate in GATES}
    for parameter, names in (("only", only), ("without", without)):
        for name in names:
            if name not in known:
                raise WrongOption(parameter, f"names no gate: {name!r}; {did_you_mean(name, known)}; {LOADS_OWN}")
    selected = tuple(gate for name, gate in known.items() if (not only or name in only) and name not in without)
    if not selected:
        raise WrongOption("without", "excludes all gates: remove one of its names")
    for selected_gate in selected:
        if selected_gate.package:
            selected_gate.package.check()
    return selected
