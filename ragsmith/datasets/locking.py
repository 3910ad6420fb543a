"""Hold the questions of a data set against others who change them.

Two may review, one may draft meanwhile, and a third may repair evidence: whoever replaces ``questions.jsonl`` holds
this lock from reading it to the end of writing it, or a decision that was confirmed in between is lost.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = ".questions.lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread holds ``folder``, and hold it; a process that is killed lets go of it."""
    with (folder / LOCK).open("ab") as file, held(file.fileno()):
        yield


@contextmanager
def held(handle: int) -> Iterator[None]:
    """Wait until nobody holds the open file ``handle``, and hold it."""
    _lock(handle)
    try:
        yield
    finally:
        _unlock(handle)


if sys.platform != "win32":
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)

else:  # pragma: no cover
    import msvcrt

    def _lock(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)

    def _unlock(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
