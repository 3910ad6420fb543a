"""Fitness functions with a name, which ``--fitness`` takes besides a function in a user's file.

Each is a function of the measures of a question, as a user's own is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType


def reading(measures: Mapping[str, float]) -> float:
    """The paper's, with a fifth measure in R, the precision of what is read: what is read for nothing costs something.

    It is that of the context, by characters; where nothing is generated, that of the passages which pass the filter.
    The paper's own four cannot rise when the last passages are dropped, so that by them a filter can only lose.
    """
    parts = []
    if "retrieval" in measures:
        precision = measures["context_precision" if "context_precision" in measures else "kept_precision"]
        parts.append((4 * measures["retrieval"] + precision) / 5)
    if "generation" in measures:
        parts.append(measures["generation"])
    return sum(parts) / len(parts)


NAMED: Mapping[str, Callable[[Mapping[str, float]], float]] = MappingProxyType({"reading": reading})
PAPERS = "paper"
"""What the formula of the paper is called among them, with its weights; it is what is used by default."""
