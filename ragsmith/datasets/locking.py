"""Lock the questions of a data set against concurrent changes.

Several commands may edit the questions at the same time: each process that replaces ``questions.jsonl`` holds this lock
from reading to writing, so that no change is lost.
"""

import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = ".questions.lock"
RETRY_SECONDS = 0.02
"""Time between two attempts to lock a file, in seconds."""


@contextmanager
def lock_questions(folder: Path) -> Iterator[None]:
    """Wait for the lock of the data set in ``folder`` and hold it; the operating system releases it at process exit."""
    with (folder / LOCK_FILE).open("ab") as file, hold_lock(file.fileno()):
        yield


@contextmanager
def hold_lock(handle: int, seconds: float = math.inf) -> Iterator[None]:
    """Wait for the lock of the open file ``handle``, at most ``seconds``, and hold it.

    Raises:
        TimeoutError: another process holds the lock for longer.
    """
    until = time.monotonic() + seconds
    while not _try_lock(handle):
        if time.monotonic() >= until:
            raise TimeoutError(f"another process has held the file for {seconds:g} seconds")
        time.sleep(RETRY_SECONDS)
    try:
        yield
    finally:
        _unlock(handle)


if sys.platform != "win32":
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)

else:  # pragma: no cover
    import msvcrt

    def _try_lock(handle: int) -> bool:
        os.lseek(handle, 0, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _unlock(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
