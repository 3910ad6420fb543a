"""How much a server takes at a time, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ragsmith.errors import WrongOption

LONGEST_SECONDS = 86_400
COMPUTED_ANSWERS, WAITING_ANSWERS = 2, 16
"""Questions answered at the same time: where one interpreter does all the work, so that a second only keeps a long one
from holding up the others; and where a model elsewhere is waited for."""


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """What a server takes.

    ``concurrency`` questions are answered at a time; None is 2, and 16 where a model elsewhere is waited for. ``queue``
    more wait for their turn, and others are told to come again. ``seconds`` is how long a request may take from its
    arrival, ``body_seconds`` how long its head and its body may each take to arrive, and how long a client may take
    nothing of its reply. ``question`` and ``turns`` are in characters: of a question, and of each turn of a
    conversation before it that is read. ``body`` is in bytes, and so is ``feedback``, the file that feedback is written
    to; ``connections`` are open at a time. A stream that has nothing to say yet says so every ``heartbeat_seconds``, so
    that nothing between takes it for dead.
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
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if field.name.endswith("seconds"):
                if not 0 < value <= LONGEST_SECONDS:
                    raise WrongOption(field.name, f"is {value}: give a number above 0, up to {LONGEST_SECONDS:,}")
            elif value < (least := 0 if field.name == "queue" else 1):
                raise WrongOption(field.name, f"is {value}: give a whole number from {least} up")

    def threads(self, *, waits: bool) -> int:
        """How many questions are answered at a time; ``waits`` says whether a model elsewhere is waited for."""
        if self.concurrency is not None:
            return self.concurrency
        return WAITING_ANSWERS if waits else COMPUTED_ANSWERS
