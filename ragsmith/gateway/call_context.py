"""The desk: what all calls of one process share, whatever kind of model they are for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeVar

from ragsmith.building import TaskProgress
from ragsmith.errors import ModelError, ModelUnavailable, StoreError
from ragsmith.gateway.budget import Budget, attempting
from ragsmith.gateway.claims import BatchedStore, CallStore, claim_calls
from ragsmith.gateway.failures import Asker, FailedCall, Failures
from ragsmith.models.calls import ChatModel, StoredCall, result_key
from ragsmith.models.protocols import CrossEncoder, Embedder
from ragsmith.models.usage import Usage

A = TypeVar("A")
B = TypeVar("B")
V = TypeVar("V")

WAITING_REQUESTS = 512
"""Requests of techniques that wait at the same time, enough for a batch; the provider says how many it is sent."""
COLLECTION_ITEMS = 256
"""A technique asks a language model about so many inputs at once for a whole collection only: that is told of."""
KINDS = ("language_model", "embedder", "cross_encoder")

_SENDING: ContextVar[CallContext | None] = ContextVar("_SENDING", default=None)
"""The desk of the request that is being sent: several share a provider, and one may be stopped while others go on."""


@dataclass(slots=True)
class CallCounts:
    """What passed through a gateway, for one kind of call."""

    asked: int = 0
    distinct: int = 0
    stored: int = 0
    made: int = 0
    cut: int = 0
    """Prompts that were shortened to what the model can read."""

    def __add__(self, other: CallCounts) -> CallCounts:
        return CallCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class CallContext:
    """Holds the store of paid calls and the claims on them, the failures, the budget, the counts, and whether to go on.

    Safe to use from many threads. ``budget`` is asked before anything is sent; None spends without counting.
    """

    def __init__(self, store: CallStore | None, budget: Budget | None, failures: Failures | None = None) -> None:
        self.store = None if store is None else BatchedStore(store, budget)
        self.failures = failures or Failures(lasting=False)
        self.stopped = False
        self._budget = budget
        self._counts = {kind: CallCounts() for kind in KINDS}
        self._lock = threading.Lock()

    def for_request(self) -> CallContext:
        """A desk with the same store and budget, for one request: it alone is stopped when it is."""
        pool = self._pool  # made before, so that both have the same
        one = copy(self)
        one.failures, one.stopped, one._lock = Failures(lasting=False), False, threading.Lock()
        one._counts = {kind: CallCounts() for kind in KINDS}
        one._pool = pool
        return one

    def count(self, kind: str, *, asked: int = 0, stored: int = 0, made: int = 0, cut: int = 0) -> None:
        """Add to the counts."""
        with self._lock:
            counts = self._counts[kind]
            counts.asked += asked
            counts.stored += stored
            counts.made += made
            counts.cut += cut

    def counts(self, distinct: Mapping[str, int]) -> dict[str, CallCounts]:
        """The counts by kind of model, with the number of ``distinct`` calls of each."""
        with self._lock:
            return {
                kind: CallCounts(c.asked, distinct[kind], c.stored, c.made, c.cut) for kind, c in self._counts.items()
            }

    @contextmanager
    def paid(self, model: ChatModel | Embedder | CrossEncoder, text: str, max_tokens: int = 0) -> Iterator[list[Usage]]:
        """Reserve the cost of a request that is about to be made; what it cost is appended to what is yielded.

        Raises:
            ModelUnavailable: the run is being stopped.
            StoreError: the reply to an earlier one could not be written.
            BudgetExhausted: it could cost more than is left.
        """
        if self.store is not None and not self.stopped:
            self.store.recover()
        self.refuse_if_stopped()
        before = _SENDING.set(self)
        try:
            if self._budget is None:
                yield []
                return
            announced = getattr(model, "provider", None) is not None
            with self._budget.request(model.id, text, max_tokens, announced=announced) as used:
                yield used
        finally:
            _SENDING.reset(before)

    def before_attempt(self) -> None:
        """Called before each attempt to send a request, also of one that has waited for its turn. Raises as `paid`.

        The desk that is asked is that of the request, which need not be the one that the provider knows.
        """
        desk = _SENDING.get() or self
        with attempting():
            desk.refuse_if_stopped()
            if desk._budget is not None:
                desk._budget.before_attempt()

    def refuse_if_stopped(self) -> None:
        """Raise ModelUnavailable when the run is being stopped, StoreError when paid replies cannot be written."""
        if self.store is not None and self.store.broken is not None:
            raise StoreError(str(self.store.broken))
        if self.stopped:
            raise ModelUnavailable("the run is being stopped")

    def in_parallel(self, ask: Callable[[A], B], items: Sequence[A], what: str = "") -> list[B]:
        """What ``ask`` makes of each item, in their order; many are asked at once.

        Of those that are a collection's it is told, as ``what``, how many are there.
        """
        if len(items) < 2:
            return [ask(item) for item in items]
        found: list[B] = []
        building = TaskProgress(what, len(items)) if what and len(items) >= COLLECTION_ITEMS else None
        for made in self._pool.map(ask, items):
            found.append(made)
            if building is not None:
                building.done(len(found))
        return found

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(WAITING_REQUESTS, thread_name_prefix="ragsmith-calls")

    def kept(
        self,
        asker: Asker,
        kind: str,
        texts: Sequence[str],
        compute: Callable[[Sequence[str]], Sequence[V | ModelError]],
        plain: Callable[[V], Any],
        read: Callable[[Any], V],
        most: int,
    ) -> list[V | ModelError]:
        """The results for ``texts``: those in the store as they are, others computed, ``most`` at a time, and kept.

        A text for which there is none has an error in its place, which is kept, too.
        """
        counted, model = asker.role, asker.model
        keys = {text: result_key(counted, model, text, kind) for text in texts}
        known = self.store.get_calls(keys.values()) if self.store else {}
        found: dict[str, V | ModelError] = {text: read(known[k].value) for text, k in keys.items() if k in known}
        self.count(counted, stored=len(found))
        missing = [text for text in keys if text not in found]

        def make(part: Sequence[str]) -> dict[str, V | ModelError]:
            hopeless = self.failures.known(kind, [keys[text] for text in part])
            for failed_before in hopeless.values():
                self.failures.recalled(asker, kind, failed_before)
            wanted = [text for text in part if keys[text] not in hopeless]
            made = dict(zip(wanted, compute(wanted) if wanted else (), strict=True))
            good = {text: value for text, value in made.items() if not isinstance(value, ModelError)}
            self.count(counted, made=len(good))
            if self.store and good:
                self.store.put_calls([StoredCall(keys[t], model, kind, plain(v)) for t, v in good.items()])
            failed = {text: error for text, error in made.items() if isinstance(error, ModelError)}
            self.failures.keep([FailedCall.of(error, keys[t], model, kind) for t, error in failed.items()])
            return made | {text: hopeless[keys[text]].error() for text in part if keys[text] in hopeless}

        def share(part: Sequence[str]) -> dict[str, V | ModelError]:
            return self._shared(self.store, counted, keys, part, make, read) if self.store else make(part)

        for made in self.in_parallel(share, [missing[i : i + most] for i in range(0, len(missing), most)]):
            found.update(made)
        return [found[text] for text in texts]

    def _shared(
        self,
        store: BatchedStore,
        counted: str,
        keys: Mapping[str, str],
        texts: Sequence[str],
        make: Callable[[Sequence[str]], dict[str, V | ModelError]],
        read: Callable[[Any], V],
    ) -> dict[str, V | ModelError]:
        """The results for ``texts``, made here but for those that another process is making, which are waited for."""
        found: dict[str, V | ModelError] = {}
        while missing := [text for text in texts if text not in found]:
            self.refuse_if_stopped()
            with claim_calls(store, [keys[text] for text in missing]) as (free, others):
                own = [text for text in missing if keys[text] in free]
                made = make(own) if own else {}
                for text in (text for text, value in made.items() if isinstance(value, ModelError)):
                    store.release(keys[text])
                found.update(made)
            theirs = [text for text in missing if keys[text] in others]
            found.update((text, read(others[keys[text]].value)) for text in theirs)
            self.count(counted, stored=len(theirs))
            if not own and not theirs:
                store.wait_for([keys[text] for text in missing], lambda: self.stopped)
        return found
