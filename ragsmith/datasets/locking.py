"""Hold the questions of a data set against others who change them.

Two may review, one may draft meanwhile, and a third may repair evidence: whoever replaces ``questions.jsonl`` holds
this lock from reading it to the end of writing it, or a decision that was confirmed in between is lost.
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
    """Wait until no other process or thread holds ``folder``, and hold it; a process that is killed lets go of it."""
    with (folder / LOCK).open("ab") as file, held(file.fileno()):
        yield


@contextmanager
def held(handle: int, seconds: float | None = None) -> Iterator[None]:
    """Wait until nobody holds the open file ``handle``, for ``seconds`` at most if they are given, and hold it.

    Raises:
        TimeoutError: somebody else has held it for so long.
    """
    if seconds is None:
        _lock(handle)
    else:
        until = time.monotonic() + seconds
        while not _lock_at_once(handle):
            if time.monotonic() >= until:
                raise TimeoutError(f"somebody else has held the file for {seconds:g} seconds")
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
