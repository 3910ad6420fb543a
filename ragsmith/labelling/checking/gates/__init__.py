"""The gates: one file each, in the order in which they are asked. Data first, then shortcuts, then what it can show."""

from ragsmith.labelling.checking.gates import (  # noqa: F401  # isort: skip
    spans,
    duplicates,
    copies,
    position,
    length,
    titles,
    overlap,
    closed_book,
    yes_no,
    bm25,
    spread,
    leakage,
    questions,
)
from ragsmith.labelling.checking.registry import Gate, registered


def gates() -> tuple[Gate, ...]:
    """All gates, in the order in which they are asked."""
    return registered()
