"""Readiness of a server: whether what its answers need is available."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from ragsmith.serving.workers import Workers, done_event

CHECK_SECONDS = 2.0
"""Minimum number of seconds between two checks, and maximum number of seconds that a request waits for one."""


SLOW_SECONDS = 10.0
"""Number of seconds since the last completed check after which one that is still running counts as failed."""


class Readiness:
    """The result of ``check``, which returns what is missing with the reasons; requests share checks and results."""

    def __init__(self, check: Callable[[], Mapping[str, str]]) -> None:
        self._check, self._workers = check, Workers(1, 0)
        self._missing: Mapping[str, str] = {}
        self._checked = self._ended = float("-inf")

    async def find_missing(self) -> Mapping[str, str]:
        """Return what is missing, with the reasons."""
        if time.monotonic() - self._checked >= CHECK_SECONDS:
            work = self._workers.submit("check", lambda _: self._check())
            with suppress(TimeoutError):
                await asyncio.wait_for(done_event(work).wait(), CHECK_SECONDS)
            self._checked = time.monotonic()
            found: Mapping[str, str] | Exception = self._missing  # still valid while a check is slow
            if work.future.done():
                found, self._ended = work.future.result(), self._checked
            elif self._checked - self._ended > SLOW_SECONDS:
                found = TimeoutError("no result in time")
            self._missing = {"check": f"{type(found).__name__}: {found}"} if isinstance(found, Exception) else found
        return self._missing

    def close(self) -> None:
        """End the thread of the checks."""
        self._workers.close()
