"""Failures of requests: kept by the request, so that what cannot be answered is asked once, whoever needs it.

What is hopeless (refused, unreadable, cut, too long) fails at once for every other pipeline, command and process. A
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
"""Requests in vain, and none answered ever, after which a model is no use in its role.

One that answers every other request is that unlucky once in a million runs, one that answers 3 in 10 once in 1,250; and
a run with thousands of prompts has asked few of them in vain.
"""

CLASSES = {error.kind: error for error in (ModelError, RefusedContent, Unreadable, CutReply, TooLong)}


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A request that failed, under the key where its reply would be.

    ``attempts`` is how often it was given up, ``calls`` how many requests that took; the tokens are those that the
    server said it counted.
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
    def of(cls, error: ModelError, key: str, model: str, task: str) -> FailedCall:
        """The request under ``key`` failed with ``error``."""
        costs = error.calls, error.input_tokens, error.output_tokens
        return cls(key, model, task, error.kind, redacted(str(error)), 1, *costs)

    def after(self, before: FailedCall) -> FailedCall:
        """This failure of a request that had failed ``before``: attempts and costs are those of both."""
        sums = {
            n: getattr(before, n) + getattr(self, n) for n in ("attempts", "calls", "input_tokens", "output_tokens")
        }
        return replace(self, **sums)

    def error(self) -> ModelError:
        """What it failed with."""
        return CLASSES[self.kind](self.message)


class FailureStore(Protocol):
    """Where failures are kept."""

    def failed_calls(self, keys: Iterable[str]) -> dict[str, FailedCall]:
        """Those of the requests that failed, by key."""
        ...

    def put_failed_calls(self, failed: Sequence[FailedCall]) -> None:
        """Keep several; attempts and costs are added to those that are there."""
        ...

    def has_reply(self, model: str, task: str | None) -> bool:
        """Whether there is any reply of a model, to a task if one is named."""
        ...


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: a role, its model, and where that is asked ("" where it is no server)."""

    role: str
    model: str
    place: str = ""

    def needs(self, task: str) -> str | None:
        """The task that must succeed for any pipeline to have a score, where it is one of several of this role."""
        return task if self.role in ("language_model", "judge") else None

    def counted(self, task: str, request: Hashable) -> Hashable:
        """What counts once where it is in vain: the request; of a reranker its query, with whatever texts."""
        return task if self.role == "cross_encoder" else request


def asker_of(role: str, model: Any) -> Asker:
    """Who asks ``model`` in ``role``."""
    return Asker(role, str(model.id), getattr(getattr(model, "provider", None), "name", ""))


class Failures:
    """What failed in this process and, by ``store``, before; safe to use from many threads.

    ``ask_again`` leaves out what failed before. Without ``lasting`` nothing is remembered at all: whoever asks a single
    question asks it again because it failed.
    """

    def __init__(self, store: FailureStore | None = None, *, ask_again: bool = False, lasting: bool = True) -> None:
        self._store = store
        self._ask_again = ask_again
        self._lasting = lasting
        self._met: dict[str, FailedCall] = {}
        self._answered: set[tuple[Asker, str | None]] = set()
        self._in_vain: dict[tuple[Asker, str | None], dict[Hashable, bool]] = {}
        self._waiting: dict[Asker | None, set[int]] = {}
        self._begun = 0
        self._lock = threading.Lock()

    def known(self, task: str, keys: Iterable[str]) -> dict[str, FailedCall]:
        """Those of the requests that are not to be sent, because they failed.

        A reply that one ``task`` cannot read, or that is cut, may do for another, or for the same with a larger limit.
        """
        wanted = list(keys)
        found = {key: self._met[key] for key in wanted if key in self._met}
        rest = [key for key in wanted if key not in found]
        if rest and self._lasting and self._store is not None and not self._ask_again:
            kept = self._store.failed_calls(rest)
            found |= {key: failed for key, failed in kept.items() if failed.kind != ModelError.kind}
        own = (Unreadable.kind, CutReply.kind)
        return {key: failed for key, failed in found.items() if failed.kind not in own or failed.task == task}

    def keep(self, failed: Sequence[FailedCall]) -> None:
        """Remember requests that have just failed."""
        if not self._lasting or not failed:
            return
        self._met.update((one.key, one) for one in failed)
        if self._store is not None:
            self._store.put_failed_calls(failed)

    def answered(self, asker: Asker | None, task: str) -> None:
        """A request was answered in a way that can be used."""
        if asker is not None:
            self._answered.add((asker, asker.needs(task)))

    @contextmanager
    def asking(self, asker: Asker | None, task: str, request: Hashable) -> Iterator[None]:
        """A request is made in the block: it is in vain if a `ModelError` leaves that, and answered otherwise.

        Raises:
            ModelUnavailable: as `in_vain`.
        """
        with self._lock:
            self._begun += 1
            began = self._begun
            waiting = self._waiting.setdefault(asker, set())
            waiting.add(began)
        try:
            yield
        except ModelError as error:
            self.in_vain(asker, task, request, str(error), began)
            raise
        else:
            self.answered(asker, task)
        finally:
            with self._lock:
                waiting.discard(began)

    def recalled(self, asker: Asker | None, task: str, failed: FailedCall) -> None:
        """A request is not sent, because it ``failed``. Raises as `in_vain`."""
        if failed.key not in self._met:  # else it has counted
            self.in_vain(asker, task, failed.key, failed.message)

    def in_vain(self, asker: Asker | None, task: str, request: Hashable, problem: str, began: float = math.inf) -> None:
        """A request was in vain, now or, where it has not ``began``, in an earlier command.

        Raises:
            ModelUnavailable: so were `IN_VAIN` in all, and none was ever answered: the rest would be in vain, too. As
                long as one is waited for that began earlier, only those of earlier commands count: a refusal is quicker
                than a reply.
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
        place = f" at {asker.place}" if asker.place else ""
        raise ModelUnavailable(
            f"the {ROLE_LABELS[asker.role]} {asker.model}{place} has not given one reply of use to "
            f"{len(requests)} requests "
            f"(the last: {problem}): mend that, and run the same command with --retry-failed"
        ) from None
