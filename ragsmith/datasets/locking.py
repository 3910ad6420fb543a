"""Lock the questions of a data set against concurrent changes.

Reviewing, drafting and repairing may run at the same time: each process that replaces ``questions.jsonl`` holds this
lock from reading to writing, as changes in between would be lost.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".questions.lock"
AGAIN_SECONDS = 0.02


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait for the lock of ``folder`` and hold it; a killed process releases it."""
    with (folder / LOCK).open("ab") as file, held(file.fileno()):
        yield


@contextmanager
def held(handle: int, seconds: float | None = None) -> Iterator[None]:
    """Wait for the lock of the open file ``handle``, for at most ``seconds`` if given, and hold it.

    Raises:
        TimeoutError: another process holds the lock longer.
    """
    if seconds is None:
        _lock(handle)
    else:
        until = time.monotonic() + seconds
        while not _lock_at_once(handle):
            if time.monotonic() >= until:
                raise TimeoutError(f"another process has held the file for {seconds:g} seconds")
            time.sleep(AGAIN_SECONDS)
    try:
        yield
    finally:
        _unlock(handle)


if sys.platform != "win32":
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _lock_at_once(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)

else:  # pragma: no cover
    import msvcrt

    def _lock(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)

    def _lock_at_once(handle: int) -> bool:
        os.lseek(handle, 0, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _unlock(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
