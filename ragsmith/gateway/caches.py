"""Caches of functions, such as what a text's sentences are: bounded by numbers of entries, not by their bytes.

They are emptied where a process has more memory than it may, and every so often in one that serves. What they held is
worked out again, and is the same.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import lru_cache
from typing import Any

OURS = "ragsmith"
FEWEST = 64
"""A cache of fewer entries is left alone: it holds what is used all the time, such as a table."""

_RANKING = "ragsmith.models.embedded.sentence_ranking"
"""Where a class keeps what it knows of texts in a dictionary. A method of its own that gives it up would make the
embedded language model another one, by the digest of its code, and all that is stored of it stale."""

_KIND = type(lru_cache(maxsize=1)(len))


def empty_caches() -> None:
    """Empty every cache with a bound, of modules and of objects; one without any holds what there is only once."""
    things = _objects()
    module = sys.modules.get(_RANKING)
    if module is not None:
        for held in (vars(thing) for thing in things if type(thing) is module.SentenceRanking):
            if "_lock" in held:  # else it is being made
                with held["_lock"]:
                    held["_known"].clear()
    caches: list[Any] = [thing for thing in things if type(thing) is _KIND]
    del things
    for cache in caches:
        known = cache.cache_info()
        is_ours = str(getattr(cache, "__module__", "")).partition(".")[0] == OURS
        if is_ours and known.maxsize is not None and known.currsize >= FEWEST:
            cache.cache_clear()


def _objects() -> list[object]:
    """What the collector of garbage knows, those among it that it was told to leave alone: a worker began with them."""
    if not gc.get_freeze_count():
        return gc.get_objects()
    gc.unfreeze()
    try:
        return gc.get_objects()
    finally:
        gc.freeze()


def give_back() -> None:
    """Give free memory back to the system, where its C library can be asked to."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
        if trim is not None:
            trim(0)
