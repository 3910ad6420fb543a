"""The gateway from techniques to models: caches calls, deduplicates identical ones in flight, and counts.

Techniques call metered views of the models. A cached call adds its original cost to the meter, so that candidates do
not look cheap because of the cache. The counts of the gateway are those of the calls of this process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from heapq import heapreplace
from typing import Any, Generic, TypeVar, cast

from ragsmith.errors import StoreError
from ragsmith.gateway.budget import Budget, record_failed_attempt
from ragsmith.gateway.call_context import MODEL_KINDS, CallContext, CallCounts
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.completions import CompletionMemo
from ragsmith.gateway.failures import Failures, RequestTarget, make_target
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.gateway.prompts_and_vectors import parse_reply, render_prompt
from ragsmith.gateway.vectors_and_scores import EmbeddingMemo, ScoreMemo
from ragsmith.models.calls import ChatModel, is_chat_model, limit_answer, may_vary
from ragsmith.models.capabilities import CapabilityLearner, ModelCapabilities, find_learner
from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel, Vectors
from ragsmith.models.served.provider import Provider, ProviderActivity
from ragsmith.models.tasks import Input, Task
from ragsmith.models.unit_vectors import UnitVectors
from ragsmith.models.usage import Meter, Usage

C = TypeVar("C")
T = TypeVar("T")


class MeteredModel(Generic[C]):
    """A view of a model with a meter for its calls; ``calls`` is the cache of its kind, ``target`` for failures.

    ``first_sample`` is added to the numbers of samples.
    """

    def __init__(
        self, calls: C, model: Any, meter: Meter, target: RequestTarget | None = None, first_sample: int = 0
    ) -> None:
        self._calls = calls
        self._first_sample = first_sample
        self._model = model
        self._meter = meter
        self._target = target

    @property
    def id(self) -> str:
        """The id of the model."""
        return str(self._model.id)


class MeteredTasks(MeteredModel[CompletionMemo], LanguageModel):
    """A metered view of a language model that performs tasks itself."""

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """See `LanguageModel.run`."""
        result, usage = self._calls.perform(self._model, task, self._first_sample + sample, inputs)
        self._meter.add(usage)
        return result


class MeteredChat(MeteredModel[CompletionMemo]):
    """A metered view of a chat model, which renders tasks as prompts and parses replies."""

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """See `LanguageModel.run`."""
        result, usage = self._complete(task, sample, inputs)
        self._meter.add(usage)
        return result

    def run_all(self, task: Task[T], inputs: Sequence[Mapping[str, Input]]) -> tuple[T, ...]:
        """See `LanguageModel.run_all`."""
        results = self._calls.context.map_parallel(lambda values: self._complete(task, 0, values), inputs, task.name)
        for _, usage in results:  # in order, and in this thread
            self._meter.add(replace(usage, seconds=0.0))
        self._meter.seconds += _parallel_seconds([usage.seconds for _, usage in results], self._model)
        return tuple(result for result, _ in results)

    def _complete(self, task: Task[T], sample: int, inputs: Mapping[str, Input]) -> tuple[T, Usage]:
        task = limit_answer(self._model, task)
        prompt, was_truncated = render_prompt(task, inputs, getattr(self._model, "context_window", None))
        if was_truncated:
            self._calls.context.count("language_model", cut=1)
        reply, usage = self._calls.complete(self._model, task, prompt, self._first_sample + sample, self._target)
        return parse_reply(task, reply), usage


def _parallel_seconds(seconds: Sequence[float], model: Any) -> float:
    """Return the seconds until the last reply, with as many requests in flight as the server of ``model`` gets now."""
    provider = getattr(model, "provider", None)
    slots = len(seconds) if provider is None else min(len(seconds), provider.slots)
    free = [0.0] * slots  # the time when each slot is free
    for duration in seconds:
        heapreplace(free, free[0] + duration)
    return max(free, default=0.0)


class MeteredEmbedder(MeteredModel[EmbeddingMemo]):
    """A metered view of an embedder."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`."""
        self._meter.texts_embedded += len(texts)
        return self._calls.embed(self._model, texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries, for which asymmetric models have a separate function."""
        self._meter.texts_embedded += len(texts)
        return self._calls.embed(self._model, texts, as_queries=True)


class MeteredCrossEncoder(MeteredModel[ScoreMemo]):
    """A metered view of a cross-encoder."""

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """See `CrossEncoder.score`."""
        self._meter.pairs_scored += len(texts)
        return self._calls.score(self._model, query, texts)


class Gateway:
    """The gateway of a process. Thread-safe."""

    _first_sample = 0

    def __init__(
        self,
        store: CallStore | None = None,
        budget: Budget | None = None,
        failures: Failures | None = None,
        eviction: EvictionPolicy | None = None,
    ) -> None:
        """Create caches and counts.

        Args:
            store: Stores paid replies; None stores nothing.
            budget: Reserves each request before it is sent; None neither limits nor records costs.
            failures: Failed requests, which are not repeated; None repeats them.
            eviction: The eviction policy of all caches of this process; None evicts nothing.
        """
        self.eviction = eviction
        self._store = store
        self._providers: dict[int, Provider] = {}
        self._learners: dict[int, CapabilityLearner] = {}
        self._lock = threading.Lock()
        self._set_context(CallContext(store, budget, failures), eviction)

    def _set_context(self, context: CallContext, eviction: EvictionPolicy | None) -> None:
        self._context = context
        self._completions = CompletionMemo(context, eviction)
        self._embeddings = EmbeddingMemo(context, eviction)
        self._scores = ScoreMemo(context, eviction)

    def for_request(self) -> Gateway:
        """Return a gateway for one request of a server, with the same store and providers, and empty caches.

        Memory is then independent of the number of requests, and each request can be cancelled separately.
        """
        gateway = copy(self)
        gateway.eviction = None
        gateway._set_context(self._context.copy_for_request(), None)
        return gateway

    def with_first_sample(self, number: int) -> Gateway:
        """Return a gateway on the same caches that adds ``number`` to the samples of chat models, except judges."""
        gateway = copy(self)
        gateway._first_sample = number
        return gateway

    def cancel(self) -> None:
        """Send nothing more through this gateway; replies in flight are awaited and stored."""
        self._context.stopped = True

    def counts(self) -> dict[str, CallCounts]:
        """Return the counts of calls by kind of model."""
        distinct = self._completions.memo.computed, self._embeddings.distinct, self._scores.memo.computed
        return self._context.counts(dict(zip(MODEL_KINDS, distinct, strict=True)))

    @property
    def sent(self) -> Mapping[str, Usage]:
        """The usage of requests by model id; see `CallContext.sent`."""
        return self._context.sent

    def language_model(self, model: LanguageModel | ChatModel, meter: Meter, role: str = "") -> LanguageModel:
        """Return a metered view of a language model; with ``role``, repeated failures raise `ModelUnavailable`."""
        return cast(LanguageModel, self._view("language_model", model, meter, role))

    def embedder(self, model: Embedder, meter: Meter) -> Embedder:
        """Return a metered view of an embedder."""
        return cast(Embedder, self._view("embedder", model, meter))

    def cross_encoder(self, model: CrossEncoder, meter: Meter) -> CrossEncoder:
        """Return a metered view of a cross-encoder."""
        return cast(CrossEncoder, self._view("cross_encoder", model, meter))

    def _view(self, kind: str, model: Any, meter: Meter, role: str = "") -> object:
        self._connect(model)
        if kind == "embedder":
            return MeteredEmbedder(self._embeddings, model, meter)
        if kind == "cross_encoder":
            return MeteredCrossEncoder(self._scores, model, meter)
        view = MeteredChat if is_chat_model(model) else MeteredTasks
        return view(
            self._completions,
            model,
            meter,
            make_target(role, model) if role else None,
            self._first_sample if may_vary(model) and role != "judge" else 0,
        )

    def activity(self) -> ProviderActivity:
        """Return the total activity of all providers."""
        activities = [provider.activity for provider in tuple(self._providers.values())]
        return ProviderActivity(
            sum(activity.attempts for activity in activities),
            sum(activity.retries for activity in activities),
            sum(activity.in_flight for activity in activities),
            max((activity.waiting_until for activity in activities), default=0.0),
        )

    def stop(self, patience: float = 0.0) -> None:
        """Send nothing more: new requests raise `ModelUnavailable`, and pending ones do so after ``patience`` seconds.

        Replies that arrive until then are stored.
        """
        self.cancel()
        until = time.monotonic() + patience
        for provider in tuple(self._providers.values()):
            provider.close(patience=until - time.monotonic())
        if self._context.store is not None:
            self._context.store.settle()

    def write_pending(self) -> None:
        """Write unwritten replies, and release all claims, when no requests are in flight.

        Raises:
            StoreError: as `BatchedStore.write_pending`.
        """
        if self._context.store is not None:
            self._context.store.write_pending()
            self._context.store.release_all()

    def before_request(self) -> None:
        """Reserve in the budget a request to what is no model.

        Raises:
            BudgetExhausted: the budget is spent, and it must not be sent.
            ModelUnavailable: the run is being stopped.
        """
        self._context.before_attempt()

    def _connect(self, model: Any) -> None:
        """Register callbacks for the attempts of the model's provider, and for learnt capabilities of the model.

        A provider shared by several gateways reports to the one that created a view of its model last.
        """
        provider = getattr(model, "provider", None)
        if provider is not None:
            self._providers[id(provider)] = provider
            provider.on_attempt = self._context.before_attempt
            provider.on_billable_failure = record_failed_attempt
        vectors = getattr(model, "vectors", None)
        if isinstance(vectors, UnitVectors) and vectors.dimensions is None and self._store is not None:
            vectors.dimensions = self._store.vector_dimensions(str(model.id))
        learner = find_learner(model)
        if learner is None or self._store is None or id(learner) in self._learners:
            return
        store, model_id = self._store, str(model.id)

        def store_capabilities(capabilities: ModelCapabilities) -> None:
            with suppress(StoreError):  # capabilities can be learnt again; an error would lose the paid reply
                store.put_capabilities(model_id, capabilities)

        with self._lock:
            if id(learner) not in self._learners:
                if (stored := store.capabilities(model_id)) is not None:
                    learner.restore(stored)
                learner.on_change = store_capabilities
                self._learners[id(learner)] = learner


class TimingGateway(Gateway):
    """A gateway for timing a question: all calls are repeated, except those of chat models.

    Replies of chat models record their seconds, so they are taken from the cache of ``warm``, and their seconds are
    added to the measured time. Vectors and scores record no seconds, so they are computed again, and paid for again if
    the model is paid. Vectors of the ``collection``, which are computed before a question
    arrives, are taken from ``warm``. Repeated results and failures are not stored.
    """

    def __init__(self, warm: Gateway, collection: frozenset[str], budget: Budget | None = None) -> None:
        super().__init__(None, budget)
        self._warm = warm
        self._collection = collection

    def _view(self, kind: str, model: Any, meter: Meter, role: str = "") -> object:
        if kind == "language_model" and is_chat_model(model):
            return MeteredChat(self._warm._completions, model, meter, make_target(role, model) if role else None)
        if kind != "embedder":
            return super()._view(kind, model, meter, role)
        self._connect(model)
        embedder = _TimedEmbedder(self._embeddings, model, meter)
        embedder.warm, embedder.collection = self._warm.embedder(model, meter), self._collection
        return embedder


class _TimedEmbedder(MeteredEmbedder):
    """An embedder that takes vectors of ``collection`` texts from ``warm``, and computes all others again."""

    warm: Embedder
    collection: frozenset[str]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`."""
        return self.warm.embed(texts) if self.collection.issuperset(texts) else super().embed(texts)
