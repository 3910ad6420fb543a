"""What is said while something is built that a whole collection needs once, which may take minutes: by `logging`.

The command line prints it. From Python::

    logging.basicConfig()
    logging.getLogger("ragsmith.building").setLevel(logging.INFO)

``fields`` of a record are ``what``, ``done`` and ``total``; a total that is not known is 0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

LOGGER = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
"""So often it is told at most how far something is; of what takes less nothing is told, unless by `log_progress`."""

_AROUND: ContextVar[TaskProgress | None] = ContextVar("_AROUND", default=None)


class TaskProgress:
    """Something that is being built out of ``total`` parts.

    What is begun inside a block of `around` with the same name is counted there, as a part of that.
    """

    def __init__(self, what: str, total: int = 0, clock: Callable[[], float] = monotonic) -> None:
        self._what = what
        self._total = total
        self._clock = clock
        self._told = clock()
        self._done = 0
        around = _AROUND.get()
        self._whole = around if around is not None and around._what == what else self
        self._before = self._whole._done

    def done(self, parts: int) -> None:
        """Tell that so many ``parts`` are done, if something has not been told for a while."""
        self._done = parts
        self._whole._tell(self._before + parts)

    @contextmanager
    def around(self) -> Iterator[None]:
        """What is built of the same name in this block is a part of this, behind what is done already."""
        before = _AROUND.set(self._whole)
        try:
            yield
        finally:
            _AROUND.reset(before)

    def _tell(self, done: int) -> None:
        now = self._clock()
        if now - self._told >= EVERY_SECONDS:
            self._told = now
            log_progress(self._what, done, self._total)


def log_progress(what: str, done: int = 0, total: int = 0) -> None:
    """Tell at once that something begins, or how far it is."""
    far = f": {done:,} of {total:,}" if total else f": {done:,}" if done else ""
    LOGGER.info("%s%s", what, far, extra={"fields": {"what": what, "done": done, "total": total}})


def disable_progress_log() -> None:
    """Tell nothing more in this process: another one speaks for it."""
    LOGGER.disabled = True
