"""What is learnt of a chat model from how its server answers: what it refuses, and how much it needs to think.

A trait is learnt once and counts for every later request, of all threads and, as it is kept in the cache, of later
commands. Traits only ever join: two processes that learn of one model at a time lose nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

FIRST_SECONDS = 5.0
"""How long others wait for the first request of a model. What a server refuses it refuses before it computes anything:
after so long, on a busy machine too, the first one is being answered, or nobody is."""


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """What is known of a model: the parameters that it ``refuses``, and the tokens that it was seen to need to think.

    ``begins_in_thought`` says that a reply ended thoughts which it had not begun: a template opens them in the prompt,
    so that what is cut before it ends them is nothing but thoughts.

    >>> Traits(frozenset({"seed"}), 512) | Traits(frozenset({"temperature"}))
    Traits(refuses=frozenset({'seed', 'temperature'}), thinking_tokens=512, begins_in_thought=False)
    """

    refuses: frozenset[str] = frozenset()
    thinking_tokens: int = 0
    begins_in_thought: bool = False

    def __or__(self, other: ModelCapabilities) -> ModelCapabilities:
        return ModelCapabilities(
            self.refuses | other.refuses,
            max(self.thinking_tokens, other.thinking_tokens),
            self.begins_in_thought or other.begins_in_thought,
        )

    def plain(self) -> dict[str, Any]:
        """As it is kept."""
        return {
            "refuses": sorted(self.refuses),
            "thinking_tokens": self.thinking_tokens,
            "begins_in_thought": self.begins_in_thought,
        }

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> ModelCapabilities:
        """From what was kept."""
        return cls(frozenset(plain["refuses"]), plain["thinking_tokens"], plain["begins_in_thought"])


class CapabilityLearner:
    """The traits of one model, for all threads that ask it.

    ``keep`` is called with whatever is new, in the thread that learnt it; `ragsmith.gateway.gateway` sets it, and
    restores what is in the cache.
    """

    def __init__(self) -> None:
        self.keep: Callable[[ModelCapabilities], None] = _nowhere
        self._traits: ModelCapabilities | None = None
        self._lock = threading.Lock()
        self._first_began: float | None = None
        self._answered = threading.Event()

    @property
    def traits(self) -> ModelCapabilities:
        """What is known by now."""
        return self._traits or ModelCapabilities()

    def restore(self, traits: ModelCapabilities) -> None:
        """Take over what was learnt before: no request has to go ahead of the others."""
        with self._lock:
            self._traits = self.traits | traits
        self._answered.set()

    def learn(self, traits: ModelCapabilities) -> None:
        """Add to what is known. That a model refuses nothing is worth keeping, too."""
        with self._lock:
            known, self._traits = self._traits, self.traits | traits
            new = self._traits
        if new != known:
            self.keep(new)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Around each request: the first one goes ahead, and meets each refusal alone.

        The others wait until it has an answer, for `FIRST_SECONDS` at most: then they go with what is known by then,
        and each of those may be refused on its own.
        """
        with self._lock:
            is_first = self._first_began is None and not self._answered.is_set()
            if is_first:
                self._first_began = time.monotonic()
        if not is_first:
            self._answered.wait((self._first_began or 0.0) + FIRST_SECONDS - time.monotonic())
            yield
            return
        try:
            yield
        finally:
            self._answered.set()


def _nowhere(_: ModelCapabilities) -> None:
    return


def learner_of(model: object) -> CapabilityLearner | None:
    """What learns of ``model``; None of one that nothing can be learnt of."""
    found = getattr(model, "learner", None)
    return found if isinstance(found, CapabilityLearner) else None


def thinking_tokens(model: object) -> int:
    """The tokens that ``model`` may use to think, on top of what a task has it write."""
    return int(getattr(model, "thinking_tokens", 0))
