"""What people say of answers, kept as drafted questions: a person reviews them, and the next search has them.

A line is a row of ``questions.jsonl`` as a draft is one: ``origin`` says that nobody has looked at it, and by its
``method`` what was said. Where an answer was wrong and nobody said what is right, there is nothing to mark a question
by: such feedback goes to a second file beside, ``feedback.down.jsonl``, whose lines are no questions.

A line is on the disk when `FeedbackFile.keep` returns, whole; one that a crash cut off was never confirmed, and is
taken off before the next. Lines that somebody else wrote are never touched.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragsmith.datasets.locking import hold_lock
from ragsmith.types import DRAFTED, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

UP, DOWN = "up", "down"
TYPE = "feedback"
PATIENCE_SECONDS = 5.0
"""How long others may hold the file."""
BEGINNING = b'{"id": "feedback-'
"""Of every line that is written here."""


class FileFull(OSError):
    """The file has as many bytes as it may have."""


@dataclass(frozen=True, slots=True)
class FeedbackEntry:
    """What somebody said of an answer: ``thumb`` is up or down, ``corrected`` the answer that would have been right.

    ``declined`` says that the answer was none. ``evidence`` is what the answer rests on, with the words.
    """

    question: str
    answer: str
    thumb: str
    corrected: str = ""
    declined: bool = False
    evidence: Sequence[tuple[Span, str]] = ()

    @property
    def gives_a_question(self) -> bool:
        """Whether it says what a right answer is, or that there is none."""
        return bool(self.corrected) or self.thumb == UP


def row(said: FeedbackEntry, id_: str, model: str) -> Mapping[str, object]:
    """The line that ``said`` becomes, that of a drafted question if it gives one; ``model`` is what answered."""
    evidence = [{"doc": s.doc, "start": s.start, "end": s.end, "text": text} for s, text in said.evidence]
    asked = {"id": id_, "question": said.question}
    if not said.gives_a_question:
        wrong = {"declined": True} if said.declined else {"answer": said.answer, "evidence": evidence}
        return {**asked, "thumb": DOWN, **wrong, "model": model}
    answer = said.corrected or ("" if said.declined else said.answer)
    method = "corrected" if said.corrected else f"thumbs_{said.thumb}"
    return {
        **asked,
        **({"answer": answer} if answer else {"answerable": False}),
        "type": TYPE,
        **({"evidence": evidence} if answer else {}),
        "origin": {"by": DRAFTED, "method": f"feedback_{method}", "model": model},
    }


class FeedbackFile:
    """A file of feedback, and ``down``, the one beside it for what gives no question; at most ``most`` bytes of each.

    Threads and processes may write to them at the same time.
    """

    def __init__(self, path: Path, most: int, patience: float = PATIENCE_SECONDS) -> None:
        self.path = path
        self.down = path.with_name(f"{path.stem}.down{path.suffix}")
        self._most = most
        self._patience = patience
        self._lock = threading.Lock()

    def keep(self, said: FeedbackEntry, model: str) -> str:
        """Write a line, and return its id; it is on the disk then.

        Raises:
            TimeoutError: others hold the file; nothing was written.
            OSError: it cannot be written; nothing of it is left.
        """
        id_ = f"feedback-{secrets.token_hex(6)}"
        line = (json.dumps(row(said, id_, model), ensure_ascii=False) + "\n").encode()
        with self._open(self.path if said.gives_a_question else self.down) as handle:
            end, before = _without_broken_line(handle)
            line = before + line
            if end + len(line) > self._most:
                raise FileFull(0, "the file of feedback is full")
            try:
                _write_all(handle, line)
                os.fsync(handle)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(handle, end)
                raise
        return id_

    @contextmanager
    def _open(self, path: Path) -> Iterator[int]:
        until = time.monotonic() + self._patience
        if not self._lock.acquire(timeout=self._patience):
            raise TimeoutError("other threads hold the file of feedback")
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            handle = os.open(path, flags, 0o600)
            try:
                with hold_lock(handle, max(until - time.monotonic(), 0.0)):
                    yield handle
            finally:
                os.close(handle)
        finally:
            self._lock.release()


def _without_broken_line(handle: int) -> tuple[int, bytes]:
    """Take off a line that a crash cut off; return where the file ends then, and what ends its last line.

    Only what this module began is taken off: whatever else has no end of its line, as editors leave it, is somebody's.
    """
    end = os.lseek(handle, 0, os.SEEK_END)
    last = _last_line(handle, end)
    if not last:
        return end, b""
    if not _is_broken(last):
        return end, b"\n"
    os.ftruncate(handle, end - len(last))
    return end - len(last), b""


def _last_line(handle: int, end: int) -> bytes:
    """What follows the last end of a line; ``end`` is where the file ends."""
    last = b""
    while end:
        begin = max(0, end - 4096)
        os.lseek(handle, begin, os.SEEK_SET)
        block = os.read(handle, end - begin)
        found = block.rfind(b"\n")
        last = block[found + 1 :] + last
        if found >= 0:
            break
        end = begin
    return last


def _is_broken(line: bytes) -> bool:
    """Whether ``line`` is the beginning of one that is written here."""
    if not line.startswith(BEGINNING):
        return BEGINNING.startswith(line)
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]
