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
from ragsmith.labelling.checking.registry import GATES, gate

__all__ = ["GATES", "gate"]
