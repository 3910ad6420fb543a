"""Limits of a server: concurrency, sizes and times."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ragsmith.argument_types import check_fields
from ragsmith.errors import WrongOption

MAX_SECONDS = 86_400
"""Maximum of a time limit, in seconds."""
LOCAL_CONCURRENCY, REMOTE_CONCURRENCY = 2, 16
"""Default number of concurrent answers with local and with remote models.

With local models the interpreter is the bottleneck; a second thread only keeps slow questions from blocking others."""


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """Limits of a server.

    ``concurrency`` is the number of questions answered at the same time; None is 2, or 16 with remote models. ``queue``
    is the maximum number of waiting questions; further ones are refused with status 503. ``seconds`` is the time limit
    of a request; ``body_seconds`` that of receiving its head and its body, and of a client that does not read the
    reply. ``question`` and ``turns`` are maximum numbers of characters, of a question and of each earlier turn of a
    conversation. ``body`` and ``feedback`` are maximum numbers of bytes, of a request and of the feedback file;
    ``connections`` is the maximum number of open connections. A stream sends a comment every ``heartbeat_seconds``, so
    that proxies do not close it.
    """

    concurrency: int | None = None
    queue: int = 64
    seconds: float = 120.0
    body_seconds: float = 10.0
    question: int = 4000
    turns: int = 2000
    body: int = 1 << 20
    connections: int = 1000
    heartbeat_seconds: float = 10.0
    feedback: int = 64 << 20

    def __post_init__(self) -> None:
        check_fields(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if field.name.endswith("seconds"):
                if not 0 < value <= MAX_SECONDS:
                    raise WrongOption(field.name, f"is {value}: give a number above 0, up to {MAX_SECONDS:,}")
            elif value < (minimum := 0 if field.name == "queue" else 1):
                raise WrongOption(field.name, f"is {value}: give an integer of at least {minimum}")

    def threads(self, *, prefers_threads: bool) -> int:
        """Return the number of threads that answer; ``waits`` is whether models are remote."""
        if self.concurrency is not None:
            return self.concurrency
        return REMOTE_CONCURRENCY if prefers_threads else LOCAL_CONCURRENCY
