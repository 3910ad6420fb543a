"""A witness outside of the database: a small file beside it that says how far the record of spending had come.

The database forgets in silence: without its log, or behind a damaged page of it, SQLite goes on from an earlier state.
The witness is written after a reservation is committed and before anything is sent. So a record that ends before it
has lost something, and one that goes beyond it has not: its process died in between.

Each process has a line of its own for each run, which it overwrites; so nobody waits for anybody.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from ragsmith.errors import StoreError
from ragsmith.gateway.budget import Spent

LINE_BYTES = 256
"""Of every line; it divides a disk's block, so that no write is ever torn in two."""

BLANK = b"\n".rjust(LINE_BYTES)
"""In the place of a line that was damaged."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a process had come: the row of the record it wrote last, and the sum after it.

    ``origin`` is the database that the row is in: a new one under the same name is another.
    """

    origin: str
    run: str
    number: int
    after: Spent


class Witness:
    """The file of one database; safe to use from many threads. It is made by the first reservation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._places: dict[tuple[str, str], int] = {}
        self._written: dict[tuple[str, str], int] = {}

    def write(self, mark: Mark) -> None:
        """Put ``mark`` in the place of this process's last one, on disk when this returns.

        Raises:
            StoreError: it cannot be written.
        """
        key = (mark.origin, mark.run)
        with self._lock:
            if mark.number <= self._written.get(key, -1):
                return  # another thread has come further meanwhile
            self._put(key, _line(mark))
            self._written[key] = mark.number

    def marks(self) -> Iterator[Mark]:
        """What all processes have left; damaged lines are left out, as each process has one of its own."""
        return filter(None, map(_read, self._lines()))

    def damaged(self) -> list[int]:
        """The places of the lines that are damaged or cut off, from 0."""
        lines = enumerate(self._lines())
        return [place for place, line in lines if line != BLANK and (_read(line) is None or len(line) < LINE_BYTES)]

    def mend(self, damaged: Sequence[int], marks: Iterable[Mark]) -> None:
        """Write ``marks``, which stand in for what the ``damaged`` lines may have said, and leave those blank.

        One that was cut off behind all that it says goes on to say it.
        """
        for mark in marks:
            self.write(mark)
        lines = list(self._lines())
        with self._open(os.O_WRONLY) as file:
            for place in damaged:
                said = _read(lines[place])
                os.pwrite(file, BLANK if said is None else _line(said), place * LINE_BYTES)
            os.fsync(file)

    def _lines(self) -> Iterator[bytes]:
        content = self.path.read_bytes() if self.path.exists() else b""
        for start in range(0, len(content), LINE_BYTES):
            yield content[start : start + LINE_BYTES]

    @contextmanager
    def _open(self, mode: int) -> Iterator[int]:
        try:
            file = os.open(self.path, mode, 0o600)
            try:
                yield file
            finally:
                os.close(file)
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be written ({error.strerror}): make it and its folder writable, or free some "
                "space, and run the same command again"
            ) from error

    def _put(self, key: tuple[str, str], line: bytes) -> None:
        if not self.path.exists():
            self._places.clear()  # somebody has removed it: what is written to the old one is lost
        place = self._places.get(key)
        with self._open(os.O_WRONLY | os.O_CREAT | (os.O_APPEND if place is None else 0)) as file:
            if place is None:
                beyond = os.fstat(file).st_size % LINE_BYTES  # of a file that was cut off
                os.write(file, b" " * (-beyond % LINE_BYTES) + line)
                self._places[key] = os.lseek(file, 0, os.SEEK_CUR) - LINE_BYTES
            else:
                os.lseek(file, place, os.SEEK_SET)
                os.write(file, line)
            os.fsync(file)


def _line(mark: Mark) -> bytes:
    after = mark.after
    values = json.dumps([mark.origin, mark.run, mark.number, after.calls, after.tokens, after.cost])
    line = f"{_checksum(values)} {values}".encode()
    if len(line) >= LINE_BYTES:
        raise ValueError(f"a mark of {len(line)} bytes does not fit into a line of {LINE_BYTES}")
    return line.ljust(LINE_BYTES - 1) + b"\n"


def _read(line: bytes) -> Mark | None:
    checksum, _, values = line.decode(errors="replace").rstrip().partition(" ")
    if checksum != _checksum(values):
        return None
    origin, run, number, *after = json.loads(values)
    return Mark(origin, run, number, Spent(*after))


def _checksum(values: str) -> str:
    return blake2b(values.encode(errors="replace"), digest_size=16).hexdigest()
