"""Feedback of users on answers, stored as drafted questions, which a reviewer can accept for the next search.

A line has the form of a drafted row of ``questions.jsonl``: ``origin`` marks it as drafted, and has the kind of
feedback as its ``method``. Negative feedback without a corrected answer cannot become a question; it is written to a
second file, ``feedback.down.jsonl``.

`FeedbackFile.write` appends and syncs a complete line. An incomplete line after a crash was never confirmed, and is
removed before the next write. Lines of other programs are never changed.
"""

import json
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ragsmith.datasets.locking import hold_lock
from ragsmith.types import DRAFTED, Span

UP, DOWN = "up", "down"
TYPE = "feedback"
LOCK_TIMEOUT_SECONDS = 5.0
"""Maximum time to wait for the lock of the file, in seconds."""
LINE_PREFIX = b'{"id": "feedback-'
"""Prefix of every line of feedback."""


class FileFull(OSError):
    """The file has reached its maximum size."""


@dataclass(frozen=True, slots=True)
class FeedbackEntry:
    """Feedback on an answer: ``thumb`` is up or down, and ``corrected`` the correct answer, if the user wrote it.

    ``declined`` is whether the pipeline declined to answer. ``evidence`` are the sources, with their texts. ``request``
    is the id of the request that was answered, if it is known, and ``pipeline`` identifies what answered.
    """

    question: str
    answer: str
    thumb: str
    corrected: str = ""
    declined: bool = False
    evidence: Sequence[tuple[Span, str]] = ()
    request: str = ""
    pipeline: str = ""

    @property
    def is_labelled(self) -> bool:
        """Whether the entry states the correct answer, or that there is none."""
        return bool(self.corrected) or self.thumb == UP


def to_row(entry: FeedbackEntry, id_: str, model: str) -> Mapping[str, object]:
    """Return the row of ``entry``, that of a drafted question if it is labelled; ``model`` wrote the answer."""
    evidence = [{"doc": s.doc, "start": s.start, "end": s.end, "text": text} for s, text in entry.evidence]
    question = {"id": id_, "question": entry.question}
    about = {"request": entry.request, "pipeline": entry.pipeline}
    received = {name: value for name, value in about.items() if value} | {
        "time": datetime.now(UTC).isoformat(timespec="seconds")
    }
    if not entry.is_labelled:
        feedback = {"declined": True} if entry.declined else {"answer": entry.answer, "evidence": evidence}
        return {**question, "thumb": DOWN, **feedback, "model": model, **received}
    answer = entry.corrected or ("" if entry.declined else entry.answer)
    method = "corrected" if entry.corrected else f"thumbs_{entry.thumb}"
    return {
        **question,
        **({"answer": answer} if answer else {"answerable": False}),
        "type": TYPE,
        **({"evidence": evidence} if answer else {}),
        "origin": {"by": DRAFTED, "method": f"feedback_{method}", "model": model, **received},
    }


class FeedbackFile:
    """Feedback file, and file ``down`` for unlabelled feedback, each of at most ``max_bytes``.

    Threads and processes may write concurrently.
    """

    def __init__(self, path: Path, max_bytes: int, timeout: float = LOCK_TIMEOUT_SECONDS) -> None:
        self.path = path
        self.down = path.with_name(f"{path.stem}.down{path.suffix}")
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._lock = threading.Lock()

    def write(self, entry: FeedbackEntry, model: str) -> str:
        """Append and sync a line, and return its id.

        Raises:
            TimeoutError: the file is locked by another process; nothing was written.
            OSError: the line cannot be written; a partial write is undone.
        """
        id_ = f"feedback-{secrets.token_hex(6)}"
        line = (json.dumps(to_row(entry, id_, model), ensure_ascii=False) + "\n").encode()
        with self._open(self.path if entry.is_labelled else self.down) as handle:
            end, line_break = _remove_broken_line(handle)
            line = line_break + line
            if end + len(line) > self._max_bytes:
                raise FileFull(0, "the feedback file is full")
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
        until = time.monotonic() + self._timeout
        if not self._lock.acquire(timeout=self._timeout):
            raise TimeoutError("the feedback file is locked by other threads")
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


def _remove_broken_line(handle: int) -> tuple[int, bytes]:
    """Remove an incomplete last line; return the end of the file, and the missing line break of its last line.

    Only incomplete lines of feedback are removed: other last lines without a line break may come from an editor.
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
    """Return the text after the last line break; ``end`` is the size of the file."""
    last = b""
    while end:
        begin = max(0, end - 4096)
        os.lseek(handle, begin, os.SEEK_SET)
        block = os.read(handle, end - begin)
        position = block.rfind(b"\n")
        last = block[position + 1 :] + last
        if position >= 0:
            break
        end = begin
    return last


def _is_broken(line: bytes) -> bool:
    """Whether ``line`` is the beginning of a line of feedback."""
    if not line.startswith(LINE_PREFIX):
        return LINE_PREFIX.startswith(line)
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]
