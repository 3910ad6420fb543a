"""Hold the questions of a data set against others who change them.

Two may review, one may draft meanwhile, and a third may repair evidence: whoever replaces ``questions.jsonl`` holds
this lock from reading it to the end of writing it, or a decision that was confirmed in between is lost.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

LOCK = ".questions.lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread holds ``folder``, and hold it; a process that is killed lets go of it."""
    with (folder / LOCK).open("ab") as file:
        _lock(file)
        try:
            yield
        finally:
            _unlock(file)


if sys.platform != "win32":
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)

    def _unlock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)

else:  # pragma: no cover
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)

    def _unlock(file: IO[bytes]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
