"""Grouping of values by a key."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def group_values(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key of ``pairs``; keys and values are in the order of the pairs."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
