"""Capabilities of a chat model, learnt from its server's responses: refused parameters, forms, tokens for thinking.

A capability is learnt once and applies to every later request of all threads; it is stored in the cache for later
commands. Capabilities only accumulate, so concurrent processes never overwrite each other's. A check of the model
renews the refusals, as a server may be replaced; of the tasks that a model can do, the last check counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ragsmith.digest import digest
from ragsmith.models.tasks import Task

FIRST_REQUEST_SECONDS = 5.0
"""Seconds that other requests wait for a model's first one. Servers reject parameters before they compute anything,
so a first request that takes longer was accepted, or its server does not respond."""


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """The parameters and forms of replies that a model ``refuses``, and the observed number of tokens for thinking.

    ``begins_in_thought`` is true if a reply closed a thought that it had not opened, because the chat template opens
    one in the prompt. A reply that is truncated before the end of the thought then contains nothing else.
    ``takes_forms`` is true if the server accepted a form, so that a refusal concerns one form only.
    ``tasks`` is whether the last check of the model found that it can do a task, by `task_key`.

    >>> both = ModelCapabilities(frozenset({"seed"}), 512) | ModelCapabilities(begins_in_thought=True)
    >>> both.refuses, both.thinking_tokens, both.begins_in_thought
    (frozenset({'seed'}), 512, True)
    """

    refuses: frozenset[str] = frozenset()
    thinking_tokens: int = 0
    begins_in_thought: bool = False
    tasks: Mapping[str, bool] = field(default_factory=dict)
    takes_forms: bool = False

    def __or__(self, other: ModelCapabilities) -> ModelCapabilities:
        return ModelCapabilities(
            self.refuses | other.refuses,
            max(self.thinking_tokens, other.thinking_tokens),
            self.begins_in_thought or other.begins_in_thought,
            {**self.tasks, **other.tasks},
            self.takes_forms or other.takes_forms,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return asdict(self) | {"refuses": sorted(self.refuses)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> ModelCapabilities:
        """Inverse of `to_dict`."""
        return cls(**{**fields, "refuses": frozenset(fields["refuses"])})

    def without_refusals(self) -> ModelCapabilities:
        """Return what remains when a check asks the server afresh: how the model thinks, and the tasks it can do."""
        return replace(self, refuses=frozenset(), takes_forms=False)

    def cannot(self, task: Task[Any]) -> bool:
        """Whether the last check of ``task``, with the same prompt, found that the model cannot do it."""
        return self.tasks.get(task_key(task)) is False


def task_key(task: Task[Any]) -> str:
    """Return the key of a task: its name and the digest of its prompt, with which a model may do it or not."""
    return f"{task.name} {digest('prompt', task.prompt)[:12]}"


class CapabilityLearner:
    """The capabilities of one model, shared by all threads that call it.

    ``on_change`` is called with the new capabilities in the thread that learnt them; `ragsmith.gateway.gateway` sets
    it, and restores capabilities from the cache.
    """

    def __init__(self) -> None:
        self.on_change: Callable[[ModelCapabilities], None] = lambda _: None
        self._learnt: ModelCapabilities | None = None
        self._lock = threading.Lock()
        self._first_began: dict[bool, float] = {}
        self._answered = {False: threading.Event(), True: threading.Event()}

    @property
    def capabilities(self) -> ModelCapabilities:
        """The capabilities learnt so far."""
        return self._learnt or ModelCapabilities()

    def restore(self, stored: ModelCapabilities) -> None:
        """Add stored capabilities; the first request then no longer precedes the others.

        The result of a check is left out, so that this process never overwrites that of a later one.
        """
        with self._lock:
            self._learnt = self.capabilities | replace(stored, tasks={})
        self._answered[False].set()
        if stored.takes_forms or "json_object" in stored.refuses:
            self._answered[True].set()

    def learn(self, learnt: ModelCapabilities) -> None:
        """Add the capabilities ``learnt``; an empty set of refused parameters is stored as well."""
        with self._lock:
            before, self._learnt = self._learnt, self.capabilities | learnt
            merged = self._learnt
        if merged != before:
            self.on_change(merged)

    @contextmanager
    def request(self, *, with_form: bool = False) -> Iterator[None]:
        """Enclose a request: the first one, and the first ``with_form``, run alone, so that each refusal occurs once.

        The others wait until it is answered, for at most `FIRST_REQUEST_SECONDS`.
        """
        with self._lock:
            is_first = with_form not in self._first_began and not self._answered[with_form].is_set()
            if is_first:
                self._first_began[with_form] = time.monotonic()
        if not is_first:
            self._answered[with_form].wait(
                self._first_began.get(with_form, 0.0) + FIRST_REQUEST_SECONDS - time.monotonic()
            )
        try:
            yield
        finally:
            self._answered[with_form].set()


def find_learner(model: object) -> CapabilityLearner | None:
    """Return the capability learner of ``model``, or None if it has none."""
    learner = getattr(model, "learner", None)
    return learner if isinstance(learner, CapabilityLearner) else None


def thinking_tokens(model: object) -> int:
    """Return the tokens that ``model`` may use to think, in addition to those of a task's reply."""
    return int(getattr(model, "thinking_tokens", 0))
