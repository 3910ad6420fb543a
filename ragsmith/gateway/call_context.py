"""The call context: the store, budget, failures and counts that all model calls of a process share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from ragsmith.building import TaskProgress
from ragsmith.errors import ModelError, ModelUnavailable, StoreError
from ragsmith.gateway.budget import Budget, mark_attempt
from ragsmith.gateway.claims import BatchedStore, CallStore
from ragsmith.gateway.failures import FailedCall, Failures, RequestTarget
from ragsmith.gateway.memo import EvictionPolicy, GetParts, Memo
from ragsmith.models.calls import ChatModel, StoredCall, result_key
from ragsmith.models.protocols import CrossEncoder, Embedder
from ragsmith.models.usage import NO_USAGE, Usage

A = TypeVar("A")
B = TypeVar("B")
V = TypeVar("V")

WAITING_REQUESTS = 512
"""Maximum number of waiting requests, enough for a batch; the provider limits the number in flight."""
COLLECTION_ITEMS = 256
"""Minimum number of inputs of a call that processes a whole collection, whose progress is logged."""
MODEL_KINDS = ("language_model", "embedder", "cross_encoder")

_SENDING: ContextVar[CallContext | None] = ContextVar("_SENDING", default=None)
"""The context of the current request; contexts share a provider, and can be stopped independently."""


@dataclass(slots=True)
class CallCounts:
    """Counts of the calls of one kind of model.

    ``asked`` counts all calls, ``distinct`` those with different inputs, ``stored`` those answered from the store,
    ``made`` those sent to a model, and ``cut`` prompts that were truncated to the context window of the model.
    """

    asked: int = 0
    distinct: int = 0
    stored: int = 0
    made: int = 0
    cut: int = 0

    def __add__(self, other: CallCounts) -> CallCounts:
        return CallCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class CallContext:
    """The store of paid calls, the failures, the budget, the counts and the stop flag. Thread-safe.

    ``budget`` reserves the cost of each request before it is sent, by default the total budget of the store; without
    either, costs are neither limited nor recorded.
    """

    def __init__(self, store: CallStore | None, budget: Budget | None, failures: Failures | None = None) -> None:
        self._budget = budget or (store.total if store else None)
        self.store = None if store is None else BatchedStore(store, self._budget)
        self.on_made: Callable[[], object] | None = None
        """Called when calls are sent to a model, in the context of their caller."""
        self._reset(failures or Failures(persistent=False))

    def _reset(self, failures: Failures) -> None:
        self.failures, self.stopped, self._lock = failures, False, threading.Lock()
        self._counts = {kind: CallCounts() for kind in MODEL_KINDS}
        self.sent: dict[str, Usage] = {}
        """The usage of requests by model id, with that of failed ones as far as servers report it."""

    def copy_for_request(self) -> CallContext:
        """Return a context with the same store, budget and threads, and separate failures, counts and stop flag."""
        threads = self._pool  # created before copying, so that both contexts share it
        context = copy(self)
        context._reset(Failures(persistent=False))
        context._pool = threads
        return context

    def count(self, kind: str, **added: int) -> None:
        """Add to the counts of a kind of model."""
        if self.on_made is not None and added.get("made"):
            self.on_made()
        with self._lock:
            counts = self._counts[kind]
            for name, number in added.items():
                setattr(counts, name, getattr(counts, name) + number)

    def counts(self, distinct: Mapping[str, int]) -> dict[str, CallCounts]:
        """Return the counts by kind of model, with the number of ``distinct`` calls of each."""
        with self._lock:
            return {kind: replace(counts, distinct=distinct[kind]) for kind, counts in self._counts.items()}

    @contextmanager
    def reserve_cost(
        self, model: ChatModel | Embedder | CrossEncoder, text: str, max_tokens: int = 0
    ) -> Iterator[list[Usage]]:
        """Reserve the cost of a request before it is sent; the caller appends its usage to the list that is yielded.

        Raises:
            ModelUnavailable: the run is being stopped.
            StoreError: the reply to an earlier request could not be written.
            BudgetExhausted: the request could exceed the budget.
        """
        if self.store is not None and not self.stopped:
            self.store.recover()
        self.raise_if_stopped()
        token = _SENDING.set(self)
        usages: list[Usage] = []
        try:
            if self._budget is None:
                yield usages
                return
            announced = getattr(model, "provider", None) is not None
            with self._budget.request(model.id, text, max_tokens, announced=announced) as usages:
                yield usages
        except ModelError as error:
            usages.append(Usage(error.calls, 0, 0, error.input_tokens, error.output_tokens))
            raise
        finally:
            _SENDING.reset(token)
            with self._lock:
                self.sent[model.id] = sum(usages, self.sent.get(model.id, NO_USAGE))

    def before_attempt(self) -> None:
        """Check before each attempt, after any queueing, that the request may be sent. Raises as `reserve_cost`.

        The context of the request is checked, which may differ from the one registered with the provider.
        """
        context = _SENDING.get() or self
        with mark_attempt():
            context.raise_if_stopped()
            if context._budget is not None:
                context._budget.before_attempt()

    def raise_if_stopped(self) -> None:
        """Raise ModelUnavailable when the run is being stopped, StoreError when paid replies cannot be written."""
        if self.store is not None and self.store.broken is not None:
            raise StoreError(str(self.store.broken))
        if self.stopped:
            raise ModelUnavailable("the run is being stopped")

    def map_parallel(self, function: Callable[[A], B], items: Sequence[A], what: str = "") -> list[B]:
        """Apply ``function`` to the items concurrently; return the results in the order of the items.

        For a whole collection, progress is logged under the name ``what``.
        """
        if len(items) < 2:
            return [function(item) for item in items]
        results: list[B] = []
        progress = TaskProgress(what, len(items)) if what and len(items) >= COLLECTION_ITEMS else None
        contexts = [copy_context() for _ in items]  # of the caller; a context cannot be used by two threads at once
        for result in self._pool.map(lambda context, item: context.run(function, item), contexts, items):
            results.append(result)
            if progress is not None:
                progress.done(len(results))
        return results

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(WAITING_REQUESTS, thread_name_prefix="ragsmith-calls")

    def fetch(
        self,
        target: RequestTarget,
        kind: str,
        texts: Sequence[str],
        compute: Callable[[Sequence[str]], Sequence[V | ModelError]],
        encode: Callable[[V], Any],
        decode: Callable[[Any], V],
        batch_size: int,
    ) -> list[V | ModelError]:
        """Return the results for ``texts`` from the store; compute and store missing ones in batches of ``batch_size``.

        The result of a text that failed is its error, which is stored as well. ``encode`` converts a result to JSON.
        """
        keys = [result_key(target.role, target.model, text, kind) for text in texts]
        text_of = dict(zip(keys, texts, strict=True))
        results_by_key: dict[str, V | ModelError | StoredCall] = {**self.store.get_calls(text_of)} if self.store else {}
        missing = [key for key in text_of if key not in results_by_key]

        def compute_batch(batch: Sequence[str]) -> dict[str, V | ModelError]:
            found = self.failures.find_failed(batch)
            failed = {key: failure for key, failure in found.items() if failure.covers(kind, 0)}
            for failure in failed.values():
                self.failures.count_known_failure(target, kind, failure)
            pending = [key for key in batch if key not in failed]
            computed = dict(zip(pending, compute([text_of[key] for key in pending]) if pending else (), strict=True))
            results = {key: value for key, value in computed.items() if not isinstance(value, ModelError)}
            self.count(target.role, made=len(results))
            if self.store and results:
                self.store.put_calls([StoredCall(key, target.model, kind, encode(v)) for key, v in results.items()])
            errors = {key: value for key, value in computed.items() if isinstance(value, ModelError)}
            self.failures.record_failures(
                [FailedCall.from_error(e, key, target.model, kind) for key, e in errors.items()]
            )
            errors |= {key: failure.error() for key, failure in failed.items()}
            for key in errors if self.store else ():
                self.store.release(key)  # type: ignore[union-attr]
            return {**results, **errors}

        batches = [missing[i : i + batch_size] for i in range(0, len(missing), batch_size)]
        for shared in self.map_parallel(lambda batch: self.share(batch, compute_batch), batches):
            results_by_key |= shared
        self.count(target.role, stored=sum(isinstance(value, StoredCall) for value in results_by_key.values()))
        return [decode(v.value) if isinstance(v, StoredCall) else v for v in (results_by_key[key] for key in keys)]

    def share(self, keys: Sequence[str], call: Callable[[Sequence[str]], Mapping[str, A]]) -> dict[str, A | StoredCall]:
        """Return the results of ``call`` for the keys that this process claims, and wait for those of other claims.

        Raises:
            ModelUnavailable: the run is being stopped.
            StoreError: the cache cannot be written.
        """
        return {**call(keys)} if self.store is None else self.store.share(keys, call, self.raise_if_stopped)


class CallMemo(Generic[V]):
    """The calls of one kind of model in this process: their context, and a memo of their values."""

    def __init__(
        self, context: CallContext, eviction: EvictionPolicy | None = None, get_parts: GetParts | None = None
    ) -> None:
        self.context = context
        self._count = context.count
        self.memo: Memo[V] = Memo(eviction, get_parts)
