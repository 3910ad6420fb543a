"""Registry of in-memory caches, all of which can be emptied at once.

Caches are bounded by entries, not by bytes. They are emptied when a process exceeds its memory limit, and periodically
in a server; results do not depend on them. `docs/caches.md` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar
from weakref import WeakMethod, ref

T = TypeVar("T")

MIN_CACHE_ENTRIES = 64
"""Minimum number of entries of a cache that is emptied; smaller ones, such as tables, are always in use."""

_caches: list[ref[_lru_cache_wrapper[Any]]] = []
_emptying: list[WeakMethod[Callable[[], None]]] = []


def bounded_cache(entries: int, *, key: str) -> Callable[[Callable[..., T]], _lru_cache_wrapper[T]]:
    """Cache the results of a function for its last ``entries`` arguments; ``key`` describes these in `docs/caches.md`.

    The cache lives as long as the function or, where a bound method is wrapped, as the object that holds it.
    """
    del key  # the test of `docs/caches.md` reads it from the source

    def wrap(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        cached = lru_cache(maxsize=entries)(function)
        _caches.append(ref(cached, _caches.remove))
        return cached

    return wrap


def register_cache(empty: Callable[[], None], *, key: str, entries: int) -> None:
    """Register the bound method ``empty`` for `empty_caches`, for the lifetime of its object."""
    del key, entries  # the test of `docs/caches.md` reads it from the source
    _emptying.append(WeakMethod(empty, _emptying.remove))


def empty_caches() -> None:
    """Empty every registered cache of this process."""
    for reference in tuple(_caches):
        cached = reference()
        if cached is not None and cached.cache_info().currsize >= MIN_CACHE_ENTRIES:
            cached.cache_clear()
    for method in tuple(_emptying):
        empty = method()
        if empty is not None:
            empty()
