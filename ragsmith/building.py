"""What is said while something is built that a whole collection needs once, which may take minutes: by `logging`.

The command line prints it. From Python::

    logging.basicConfig()
    logging.getLogger("ragsmith.building").setLevel(logging.INFO)

A record has ``what``, ``done`` and ``total``; 0 stands for a number that is not known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

EVERY_SECONDS = 5.0
"""So often something is told at most; what takes less is told nothing of."""

_LOGGER = logging.getLogger(__name__)


class Building:
    """Something that is being built out of ``total`` parts, which `done` counts."""

    def __init__(self, what: str, total: int = 0, clock: Callable[[], float] = monotonic) -> None:
        self._what = what
        self._total = total
        self._clock = clock
        self._told = clock()

    def done(self, parts: int) -> None:
        """Tell that so many ``parts`` are done, if something has not been told for a while."""
        now = self._clock()
        if now - self._told >= EVERY_SECONDS:
            self._told = now
            tell(self._what, parts, self._total)


def tell(what: str, done: int = 0, total: int = 0) -> None:
    """Tell at once how far something is, or that it begins, as what has no parts that could be counted."""
    far = f": {done:,} of {total:,}" if total else f": {done:,}" if done else ""
    _LOGGER.info("%s%s", what, far, extra={"what": what, "done": done, "total": total})
