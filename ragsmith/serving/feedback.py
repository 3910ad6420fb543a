"""What people say of answers, kept as drafted questions: a person reviews them, and the next search has them.

A line is a row of ``questions.jsonl`` as a draft is one: ``origin`` says that nobody has looked at it, and by its
``method`` what was said. It is on the disk when `Feedback.keep` returns, whole; a line that a crash cut off was never
confirmed, and is taken off before the next.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragsmith.datasets.locking import held
from ragsmith.types import DRAFTED, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

UP, DOWN = "up", "down"
TYPE = "feedback"


class FileFull(OSError):
    """The file has as many bytes as it may have."""


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody said of an answer: ``thumb`` is up or down, ``corrected`` the answer that would have been right.

    ``declined`` says that the answer was none. ``evidence`` is what the answer rests on, with the words.
    """

    question: str
    answer: str
    thumb: str
    corrected: str = ""
    declined: bool = False
    evidence: Sequence[tuple[Span, str]] = ()


def drafted_row(said: Said, id_: str, model: str) -> Mapping[str, object]:
    """The row of a drafted question; ``model`` is what answered."""
    answer = said.corrected or ("" if said.declined else said.answer)
    evidence = [{"doc": s.doc, "start": s.start, "end": s.end, "text": text} for s, text in said.evidence if answer]
    method = "corrected" if said.corrected else f"thumbs_{said.thumb}"
    return {
        "id": id_,
        "question": said.question,
        **({"answer": answer} if answer else {"answerable": False}),
        "type": TYPE,
        **({"evidence": evidence} if answer else {}),
        "origin": {"by": DRAFTED, "method": f"feedback_{method}", "model": model},
    }


class Feedback:
    """A file of feedback, at most ``most`` bytes of it; threads and processes may write to it at the same time."""

    def __init__(self, path: Path, most: int) -> None:
        self.path = path
        self._most = most
        self._lock = threading.Lock()

    def keep(self, said: Said, model: str) -> str:
        """Write a line, and return the id of the drafted question; it is on the disk then.

        Raises:
            OSError: it cannot be written; nothing of it is left.
        """
        id_ = f"feedback-{secrets.token_hex(6)}"
        line = (json.dumps(drafted_row(said, id_, model), ensure_ascii=False) + "\n").encode()
        with self._lock, self._open() as handle:
            end = _without_broken_line(handle)
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
    def _open(self) -> Iterator[int]:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(self.path, flags, 0o600)
        try:
            with held(handle):
                yield handle
        finally:
            os.close(handle)


def _without_broken_line(handle: int) -> int:
    """Take off what follows the last end of a line; return where the file ends then."""
    end = os.lseek(handle, 0, os.SEEK_END)
    keep = end
    while keep:
        begin = max(0, keep - 4096)
        os.lseek(handle, begin, os.SEEK_SET)
        found = os.read(handle, keep - begin).rfind(b"\n")
        if found >= 0:
            keep = begin + found + 1
            break
        keep = begin
    if keep != end:
        os.ftruncate(handle, keep)
    return keep


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]
