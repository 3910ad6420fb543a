"""Log the progress of long tasks, such as building an index; the command line prints it.

From Python::

    logging.basicConfig()
    logging.getLogger("ragsmith.building").setLevel(logging.INFO)

The ``fields`` of a record are ``what``, ``done`` and ``total``; an unknown total is 0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

LOGGER = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
"""Minimum number of seconds between two messages on a task; shorter tasks log only through `log_progress`."""

_AROUND: ContextVar[TaskProgress | None] = ContextVar("_AROUND", default=None)


class TaskProgress:
    """Progress of a task of ``total`` parts.

    A task of the same name that begins inside a block of `around` is counted as a part of this one.
    """

    def __init__(self, what: str, total: int = 0, clock: Callable[[], float] = monotonic) -> None:
        self._what = what
        self._total = total
        self._clock = clock
        self._logged = clock()
        self._done = 0
        around = _AROUND.get()
        self._whole = around if around is not None and around._what == what else self
        self._before = self._whole._done

    def done(self, parts: int) -> None:
        """Log that ``parts`` parts are completed, at most every `EVERY_SECONDS`."""
        self._done = parts
        self._whole._log(self._before + parts)

    @contextmanager
    def around(self) -> Iterator[None]:
        """Count tasks of the same name in this block as parts of this task, after those that are done."""
        before = _AROUND.set(self._whole)
        try:
            yield
        finally:
            _AROUND.reset(before)

    def _log(self, done: int) -> None:
        now = self._clock()
        if now - self._logged >= EVERY_SECONDS:
            self._logged = now
            log_progress(self._what, done, self._total)


def log_progress(what: str, done: int = 0, total: int = 0) -> None:
    """Log the start or the progress of a task immediately."""
    far = f": {done:,} of {total:,}" if total else f": {done:,}" if done else ""
    LOGGER.info("%s%s", what, far, extra={"fields": {"what": what, "done": done, "total": total}})


def disable_progress_log() -> None:
    """Log no progress in this process, because another process does."""
    LOGGER.disabled = True
