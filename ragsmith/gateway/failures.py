"""Failures of requests, stored by request, so that a request that cannot succeed is sent once.

A permanent failure (refused, unreadable, truncated, too long) is raised again for other pipelines, commands and
processes. After trouble of the provider or another error that may be temporary, the next command repeats the request;
a search repeats it once before it chooses a winner.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ragsmith.errors import (
    CutReply,
    LoopingReply,
    ModelError,
    ModelUnavailable,
    ProviderTrouble,
    RefusedContent,
    TooLong,
    Unreadable,
)
from ragsmith.models.registry import ROLE_LABELS
from ragsmith.text.redaction import redacted

MAX_FAILED_REQUESTS = 20
"""Failed requests after which a model without any reply counts as unavailable in its role.

If half of all requests fail, this happens by chance in one run in a million; if 7 in 10 fail, in one in 1,250.
"""

IN_FORM = " in its form"
"""End of the task of a failure that holds for replies in its form, not for a text."""

ERROR_CLASSES = {
    error.kind: error
    for error in (ModelError, ProviderTrouble, RefusedContent, Unreadable, CutReply, LoopingReply, TooLong)
}
TEMPORARY_KINDS = {ModelError.kind, ProviderTrouble.kind}


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A failed request; ``key`` is the key that its reply would have.

    ``attempts`` is the number of failures, and ``calls`` that of their calls; tokens are counted by the server.
    """

    key: str
    model: str
    task: str
    kind: str
    message: str
    attempts: int = 1
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @classmethod
    def from_error(cls, error: ModelError, key: str, model: str, task: str) -> FailedCall:
        """Return the failure of the request ``key`` with ``error``."""
        costs = error.calls, error.input_tokens, error.output_tokens
        return cls(key, model, task, error.kind, redacted(str(error)), 1, *costs)

    def after(self, before: FailedCall) -> FailedCall:
        """Return this failure with the attempts and costs of the earlier failure ``before`` added.

        A truncated reply is remembered after a server error, which says nothing of the limit or the form.
        """
        names = ("attempts", "calls", "input_tokens", "output_tokens")
        latest = before if self.kind in TEMPORARY_KINDS and before.kind in (CutReply.kind, LoopingReply.kind) else self
        return replace(latest, **{name: getattr(before, name) + getattr(self, name) for name in names})

    def covers(self, task: str, tokens: int) -> bool:
        """Whether the request would fail again for ``task`` with at most ``tokens``.

        A reply that is unreadable or truncated for one task may be usable for another task, or with a larger limit.
        """
        if self.kind == CutReply.kind:
            return self.cut_at(task) >= tokens
        return not self.loops_in_form and (self.kind != Unreadable.kind or self.task == describe_limit(task, tokens))

    def cut_at(self, task: str) -> int:
        """Return the token limit at which a reply to ``task`` was truncated, or 0 if none was."""
        name, _, limit = self.task.rpartition(" in ")
        return int(limit.split()[0]) if self.kind == CutReply.kind and name == task else 0

    @property
    def loops_in_form(self) -> bool:
        """Whether a reply in the form of the task looped, so that a text is left to request."""
        return self.kind == LoopingReply.kind and self.task.endswith(IN_FORM)

    def error(self) -> ModelError:
        """Return the exception to raise."""
        return ERROR_CLASSES[self.kind](self.message)


def describe_limit(task: str, tokens: int) -> str:
    """Return the task of a failure, with the limit for which it holds; 0 is no limit."""
    return f"{task} in {tokens} tokens" if tokens else task


class FailureStore(Protocol):
    """A store of failures."""

    def failed_calls(self, keys: Iterable[str]) -> dict[str, FailedCall]:
        """Return the failed requests among ``keys``, by key."""

    def put_failed_calls(self, failed: Sequence[FailedCall]) -> None:
        """Store failures; attempts and costs are added to stored ones."""

    def has_reply(self, model: str, task: str | None) -> bool:
        """Whether there is any reply of a model, to ``task`` unless it is None."""


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The recipient of requests: a role, its model and the model's provider ("" for a model in this process)."""

    role: str
    model: str
    provider: str = ""

    def reply_task(self, task: str) -> str | None:
        """Return ``task`` for a role with several tasks, whose replies count by task; None for other roles."""
        return task if self.role in ("language_model", "judge") else None

    def failure_key(self, task: str, request: Hashable) -> Hashable:
        """Return the key by which failures are counted: the request, or the query (``task``) of a reranker."""
        return task if self.role == "cross_encoder" else request


def make_target(role: str, model: Any) -> RequestTarget:
    """Return the target of requests to ``model`` in ``role``."""
    return RequestTarget(role, str(model.id), getattr(getattr(model, "provider", None), "name", ""))


class Failures:
    """The failures of this process and, in ``store``, of earlier ones. Thread-safe.

    With ``retry_failed``, requests that failed in an earlier process are sent again. Without ``persistent``, failures
    are not recorded, as for a single question that a user may repeat.
    """

    def __init__(
        self, store: FailureStore | None = None, *, retry_failed: bool = False, persistent: bool = True
    ) -> None:
        self._store = store
        self._retry_failed = retry_failed
        self._persistent = persistent
        self._new: dict[str, FailedCall] = {}
        self._answered: set[tuple[RequestTarget, str | None]] = set()
        self._failed_requests: dict[tuple[RequestTarget, str | None], dict[Hashable, bool]] = {}
        self._pending: dict[RequestTarget | None, set[int]] = {}
        self._n_begun = 0
        self._lock = threading.Lock()

    def find_failed(self, keys: Iterable[str]) -> dict[str, FailedCall]:
        """Return the failures of ``keys``, which are not repeated for what they cover (`FailedCall.covers`)."""
        requested = list(keys)
        failures = {key: self._new[key] for key in requested if key in self._new}
        others = [key for key in requested if key not in failures]
        if others and self._persistent and self._store is not None and not self._retry_failed:
            stored = self._store.failed_calls(others)
            failures |= {key: failed for key, failed in stored.items() if failed.kind not in TEMPORARY_KINDS}
        return failures

    def forget_trouble(self) -> None:
        """Let requests be sent again that failed in this process by `ProviderTrouble`."""
        self._new = {key: failed for key, failed in self._new.items() if failed.kind != ProviderTrouble.kind}

    def record_failures(self, failed: Sequence[FailedCall]) -> None:
        """Record new failures."""
        if not self._persistent or not failed:
            return
        self._new.update((failure.key, failure) for failure in failed)
        if self._store is not None:
            self._store.put_failed_calls(failed)

    def record_reply(self, target: RequestTarget | None, task: str) -> None:
        """Record a usable reply."""
        if target is not None:
            self._answered.add((target, target.reply_task(task)))

    @contextmanager
    def attempt(self, target: RequestTarget | None, task: str, request: Hashable) -> Iterator[None]:
        """Record the outcome of the request made in the block: a failure if it raises `ModelError`, else a reply.

        Raises:
            ModelUnavailable: as `count_failure`.
        """
        with self._lock:
            self._n_begun += 1
            number = self._n_begun
            pending = self._pending.setdefault(target, set())
            pending.add(number)
        try:
            yield
        except ModelError as error:
            self.count_failure(target, task, request, str(error), number)
            raise
        else:
            self.record_reply(target, task)
        finally:
            with self._lock:
                pending.discard(number)

    def count_known_failure(self, target: RequestTarget | None, task: str, failed: FailedCall) -> None:
        """Count a request that is not sent because it ``failed`` before; raises as `count_failure`."""
        if failed.key not in self._new:  # otherwise it was counted before
            self.count_failure(target, task, failed.key, failed.message)

    def count_failure(
        self, target: RequestTarget | None, task: str, request: Hashable, problem: str, number: float = math.inf
    ) -> None:
        """Count a failed request; ``number`` is its number, or infinite for a request of an earlier command.

        Raises:
            ModelUnavailable: `MAX_FAILED_REQUESTS` requests failed and none has succeeded. While a request that began
                earlier is pending, only failures of earlier commands count, as refusals arrive sooner than replies.
        """
        if target is None or not self._persistent:
            return
        reply_task, request = target.reply_task(task), target.failure_key(task, request)
        with self._lock:
            if (target, reply_task) in self._answered:
                return
            requests = self._failed_requests.setdefault((target, reply_task), {})
            requests[request] = requests.get(request, False) or number == math.inf
            has_earlier_pending = min(self._pending.get(target, ()), default=math.inf) < number
            if (sum(requests.values()) if has_earlier_pending else len(requests)) < MAX_FAILED_REQUESTS:
                return
            if self._store is not None and self._store.has_reply(target.model, reply_task):
                self._answered.add((target, reply_task))
                return
        location = f" at {target.provider}" if target.provider else ""
        raise ModelUnavailable(
            f"the {ROLE_LABELS[target.role]} {target.model}{location} has given no usable reply to {len(requests)} "
            f"requests (last error: {problem}): solve the problem, and run the same command with --retry-failed"
        ) from None
