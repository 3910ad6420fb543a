"""Failures of requests, stored by request: what cannot be answered is asked once.

A lasting failure (refused, unreadable, cut, too long) fails at once for every other pipeline, command and process. A
server's own error may have passed: the next command asks again, this run does not.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ragsmith.errors import CutReply, ModelError, ModelUnavailable, RefusedContent, TooLong, Unreadable
from ragsmith.models.registry import ROLE_LABELS
from ragsmith.text.redaction import redacted

IN_VAIN = 20
"""Failed requests after which a model that never answered counts as unavailable in its role.

A model that answers every other request fails as often in one run in a million, one that answers 3 in 10 in one in
1,250.
"""

CLASSES = {error.kind: error for error in (ModelError, RefusedContent, Unreadable, CutReply, TooLong)}


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A request that failed, under the key where its reply would be.

    ``attempts`` counts its failures, ``calls`` the requests that these took; the tokens are those that the server
    counted.
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
        """The failure of the request under ``key`` with ``error``."""
        costs = error.calls, error.input_tokens, error.output_tokens
        return cls(key, model, task, error.kind, redacted(str(error)), 1, *costs)

    def after(self, before: FailedCall) -> FailedCall:
        """This failure with the attempts and costs of the failure ``before`` added."""
        names = ("attempts", "calls", "input_tokens", "output_tokens")
        return replace(self, **{name: getattr(before, name) + getattr(self, name) for name in names})

    def error(self) -> ModelError:
        """The error, to be raised again."""
        return CLASSES[self.kind](self.message)


class FailureStore(Protocol):
    """A store of failures."""

    def failed_calls(self, keys: Iterable[str]) -> dict[str, FailedCall]:
        """The requests among ``keys`` that failed, by key."""

    def put_failed_calls(self, failed: Sequence[FailedCall]) -> None:
        """Store several; attempts and costs are added to those stored."""

    def has_reply(self, model: str, task: str | None) -> bool:
        """Whether there is any reply of a model, to ``task`` if one is named."""


@dataclass(frozen=True, slots=True)
class Asker:
    """A role, its model, and the provider of that ("" for a model in this process)."""

    role: str
    model: str
    provider: str = ""

    def needs(self, task: str) -> str | None:
        """The task that must have a reply, where a role has several; None for a role with one."""
        return task if self.role in ("language_model", "judge") else None

    def counted(self, task: str, request: Hashable) -> Hashable:
        """What a failure is counted by: the request; for a reranker its query, with whatever texts."""
        return task if self.role == "cross_encoder" else request


def asker_of(role: str, model: Any) -> Asker:
    """The asker of ``model`` in ``role``."""
    return Asker(role, str(model.id), getattr(getattr(model, "provider", None), "name", ""))


class Failures:
    """The failures of this process and, in ``store``, of earlier ones; safe to use from many threads.

    With ``ask_again``, what failed before is asked again. Without ``lasting`` nothing is remembered, as for a single
    question, which is repeated because it failed.
    """

    def __init__(self, store: FailureStore | None = None, *, ask_again: bool = False, lasting: bool = True) -> None:
        self._store = store
        self._ask_again = ask_again
        self._lasting = lasting
        self._new: dict[str, FailedCall] = {}
        self._answered: set[tuple[Asker, str | None]] = set()
        self._in_vain: dict[tuple[Asker, str | None], dict[Hashable, bool]] = {}
        self._waiting: dict[Asker | None, set[int]] = {}
        self._begun = 0
        self._lock = threading.Lock()

    def known(self, task: str, keys: Iterable[str]) -> dict[str, FailedCall]:
        """The requests among ``keys`` that are not to be sent, because they failed.

        A reply that ``task`` cannot read, or that is cut, may do for another task, or for a larger limit.
        """
        wanted = list(keys)
        found = {key: self._new[key] for key in wanted if key in self._new}
        rest = [key for key in wanted if key not in found]
        if rest and self._lasting and self._store is not None and not self._ask_again:
            stored = self._store.failed_calls(rest)
            found |= {key: failed for key, failed in stored.items() if failed.kind != ModelError.kind}
        by_task = (Unreadable.kind, CutReply.kind)
        return {key: failed for key, failed in found.items() if failed.kind not in by_task or failed.task == task}

    def keep(self, failed: Sequence[FailedCall]) -> None:
        """Store requests that have just failed."""
        if not self._lasting or not failed:
            return
        self._new.update((one.key, one) for one in failed)
        if self._store is not None:
            self._store.put_failed_calls(failed)

    def answered(self, asker: Asker | None, task: str) -> None:
        """Note that a request had a usable reply."""
        if asker is not None:
            self._answered.add((asker, asker.needs(task)))

    @contextmanager
    def asking(self, asker: Asker | None, task: str, request: Hashable) -> Iterator[None]:
        """Make a request in the block: it failed if a `ModelError` leaves that, and was answered otherwise.

        Raises:
            ModelUnavailable: as `count_failure`.
        """
        with self._lock:
            self._begun += 1
            began = self._begun
            waiting = self._waiting.setdefault(asker, set())
            waiting.add(began)
        try:
            yield
        except ModelError as error:
            self.count_failure(asker, task, request, str(error), began)
            raise
        else:
            self.answered(asker, task)
        finally:
            with self._lock:
                waiting.discard(began)

    def recalled(self, asker: Asker | None, task: str, failed: FailedCall) -> None:
        """Count a request that is not sent, because it ``failed`` before. Raises as `count_failure`."""
        if failed.key not in self._new:  # else it is counted
            self.count_failure(asker, task, failed.key, failed.message)

    def count_failure(
        self, asker: Asker | None, task: str, request: Hashable, problem: str, began: float = math.inf
    ) -> None:
        """Count a failed request, of an earlier command where it has no number ``began``.

        Raises:
            ModelUnavailable: `IN_VAIN` requests failed and none was ever answered. While one that began earlier is
                waited for, only those of earlier commands count: a refusal is quicker than a reply.
        """
        if asker is None or not self._lasting:
            return
        needed, request = asker.needs(task), asker.counted(task, request)
        with self._lock:
            if (asker, needed) in self._answered:
                return
            requests = self._in_vain.setdefault((asker, needed), {})
            requests[request] = requests.get(request, False) or began == math.inf
            early = min(self._waiting.get(asker, ()), default=math.inf) < began
            if (sum(requests.values()) if early else len(requests)) < IN_VAIN:
                return
            if self._store is not None and self._store.has_reply(asker.model, needed):
                self._answered.add((asker, needed))
                return
        at = f" at {asker.provider}" if asker.provider else ""
        raise ModelUnavailable(
            f"the {ROLE_LABELS[asker.role]} {asker.model}{at} has not given one usable reply to {len(requests)} "
            f"requests (the last: {problem}): repair that, and run the same command with --retry-failed"
        ) from None
