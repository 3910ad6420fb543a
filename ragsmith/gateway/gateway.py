"""The one way from techniques to models: remembers calls, joins identical ones in flight, and counts.

Techniques are given metered views of the models. A remembered call adds the cost of the call that was made, so a
candidate that profits from the cache does not look cheap; the gateway's own counts are what this process really did.
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
from ragsmith.gateway.asking import parse_reply, render_prompt
from ragsmith.gateway.budget import Budget, lost_attempt
from ragsmith.gateway.call_context import KINDS, CallContext, CallCounts
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.completions import CompletionMemo
from ragsmith.gateway.failures import Failures, RequestTarget, make_target
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.gateway.vectors_and_scores import EmbeddingMemo, ScoreMemo
from ragsmith.models.calls import ChatModel, is_chat_model
from ragsmith.models.capabilities import CapabilityLearner, ModelCapabilities, find_learner
from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel, Vectors
from ragsmith.models.served.provider import Provider, ProviderActivity
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import Meter, Usage

C = TypeVar("C")
T = TypeVar("T")


class MeteredModel(Generic[C]):
    """A view of a model: the calls of its kind in this process, the meter that adds up its own, and the target."""

    def __init__(self, calls: C, model: Any, meter: Meter, target: RequestTarget | None = None) -> None:
        self._calls = calls
        self._model = model
        self._meter = meter
        self._target = target

    @property
    def id(self) -> str:
        """The id of the model."""
        return str(self._model.id)


class MeteredTasks(MeteredModel[CompletionMemo], LanguageModel):
    """A language model that performs tasks itself."""

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """See `LanguageModel.run`."""
        result, usage = self._calls.perform(self._model, task, sample, inputs)
        self._meter.add(usage)
        return result


class MeteredChat(MeteredModel[CompletionMemo]):
    """A chat model: tasks become prompts, and replies become results."""

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """See `LanguageModel.run`."""
        result, usage = self._complete(task, sample, inputs)
        self._meter.add(usage)
        return result

    def run_all(self, task: Task[T], inputs: Sequence[Mapping[str, Input]]) -> tuple[T, ...]:
        """See `LanguageModel.run_all`."""
        found = self._calls.context.map_parallel(lambda one: self._complete(task, 0, one), inputs, task.name)
        for _, usage in found:  # in their order, and in this thread
            self._meter.add(replace(usage, seconds=0.0))
        self._meter.seconds += _parallel_seconds([usage.seconds for _, usage in found], self._model)
        return tuple(result for result, _ in found)

    def _complete(self, task: Task[T], sample: int, inputs: Mapping[str, Input]) -> tuple[T, Usage]:
        prompt, was_cut = render_prompt(task, inputs, getattr(self._model, "context_window", None))
        if was_cut:
            self._calls.context.count("language_model", cut=1)
        reply, usage = self._calls.complete(self._model, task, prompt, sample, self._target)
        return parse_reply(task, reply), usage


def _parallel_seconds(seconds: Sequence[float], model: Any) -> float:
    """The seconds until all replies have come, with as many requests in flight as ``model`` allows."""
    provider = getattr(model, "provider", None)
    slots = len(seconds) if provider is None else min(len(seconds), provider.policy.in_flight)
    free = [0.0] * slots  # when each is
    for each in seconds:
        heapreplace(free, free[0] + each)
    return max(free, default=0.0)


class MeteredEmbedder(MeteredModel[EmbeddingMemo]):
    """An embedder."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`."""
        self._meter.texts_embedded += len(texts)
        return self._calls.embed(self._model, texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries, which asymmetric models embed otherwise."""
        self._meter.texts_embedded += len(texts)
        return self._calls.embed(self._model, texts, as_queries=True)


class MeteredCrossEncoder(MeteredModel[ScoreMemo]):
    """A cross-encoder."""

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """See `CrossEncoder.score`."""
        self._meter.pairs_scored += len(texts)
        return self._calls.score(self._model, query, texts)


class Gateway:
    """One per process; safe to use from many threads."""

    def __init__(
        self,
        store: CallStore | None = None,
        budget: Budget | None = None,
        failures: Failures | None = None,
        room: EvictionPolicy | None = None,
    ) -> None:
        """Set up memory and counts.

        Args:
            store: Where paid replies are stored; None stores nothing.
            budget: Reserves each request before it is sent; None spends without counting.
            failures: Requests that failed and are not to be repeated; None repeats them.
            room: The eviction policy of everything that this process remembers; None evicts nothing.
        """
        self.room = room
        self._store = store
        self._providers: dict[int, Provider] = {}
        self._learners: dict[int, CapabilityLearner] = {}
        self._lock = threading.Lock()
        self._use(CallContext(store, budget, failures), room)

    def _use(self, context: CallContext, room: EvictionPolicy | None) -> None:
        self._context = context
        self._completions = CompletionMemo(context, room)
        self._embeddings = EmbeddingMemo(context, room)
        self._scores = ScoreMemo(context, room)

    def for_request(self) -> Gateway:
        """A gateway for one request of a server: the same store and providers, with an empty memory.

        So the memory of a process does not grow with the requests, and one request can be cancelled by itself.
        """
        one = copy(self)
        one.room = None
        one._use(self._context.copy_for_request(), None)
        return one

    def cancel(self) -> None:
        """Send nothing more through this gateway; replies on their way are awaited and stored."""
        self._context.stopped = True

    def counts(self) -> dict[str, CallCounts]:
        """Calls asked for, distinct among them, answered from the store, and made, by kind of model."""
        distinct = self._completions.memo.computed, self._embeddings.distinct, self._scores.memo.computed
        return self._context.counts(dict(zip(KINDS, distinct, strict=True)))

    def language_model(self, model: LanguageModel | ChatModel, meter: Meter, role: str = "") -> LanguageModel:
        """A metered view of a language model; in a ``role``, one that never answers is `ModelUnavailable`."""
        return cast(LanguageModel, self._view("language_model", model, meter, role))

    def embedder(self, model: Embedder, meter: Meter) -> Embedder:
        """A metered view of an embedder."""
        return cast(Embedder, self._view("embedder", model, meter))

    def cross_encoder(self, model: CrossEncoder, meter: Meter) -> CrossEncoder:
        """A metered view of a cross-encoder."""
        return cast(CrossEncoder, self._view("cross_encoder", model, meter))

    def _view(self, kind: str, model: Any, meter: Meter, role: str = "") -> object:
        self._connect(model)
        if kind == "embedder":
            return MeteredEmbedder(self._embeddings, model, meter)
        if kind == "cross_encoder":
            return MeteredCrossEncoder(self._scores, model, meter)
        view = MeteredChat if is_chat_model(model) else MeteredTasks
        return view(self._completions, model, meter, make_target(role, model) if role else None)

    def activity(self) -> ProviderActivity:
        """The requests of all providers, so far and in flight."""
        each = [provider.activity for provider in tuple(self._providers.values())]
        return ProviderActivity(
            sum(a.attempts for a in each),
            sum(a.retries for a in each),
            sum(a.in_flight for a in each),
            max((a.waiting_until for a in each), default=0.0),
        )

    def stop(self, patience: float = 0.0) -> None:
        """Send nothing more: requests now raise `ModelUnavailable`, and those waiting do so after ``patience`` seconds.

        Until then replies to what was sent may come, and are stored.
        """
        self.cancel()
        until = time.monotonic() + patience
        for provider in tuple(self._providers.values()):
            provider.close(patience=until - time.monotonic())
        if self._context.store is not None:
            self._context.store.settle()

    def write_rest(self) -> None:
        """Write replies that could not be written, and release all claims; to be called with nothing in flight.

        Raises:
            StoreError: as `BatchedStore.write_rest`.
        """
        if self._context.store is not None:
            self._context.store.write_rest()
            self._context.store.release_all()

    def _connect(self, model: Any) -> None:
        """Have the model's provider, if any, report each attempt, and store what is learnt of the model.

        A provider that several gateways use reports to the one that gave out a view of its model last.
        """
        provider = getattr(model, "provider", None)
        if provider is not None:
            self._providers[id(provider)] = provider
            provider.on_attempt = self._context.before_attempt
            provider.on_lost = lost_attempt
        learner = find_learner(model)
        if learner is None or self._store is None or id(learner) in self._learners:
            return
        store, model_id = self._store, str(model.id)

        def keep(capabilities: ModelCapabilities) -> None:
            with suppress(StoreError):  # else a paid reply would be lost; capabilities can be learnt again
                store.put_capabilities(model_id, capabilities)

        with self._lock:
            if id(learner) not in self._learners:
                if (known := store.capabilities(model_id)) is not None:
                    learner.restore(known)
                learner.keep = keep
                self._learners[id(learner)] = learner


class TimingGateway(Gateway):
    """The gateway of a question that is timed: everything is asked anew, except replies of chat models.

    A reply of a chat model records its seconds, so it is taken from the memory of ``warm``, which has all replies to
    the question, and its seconds are added to those of the clock. Vectors and scores record none and are made again;
    from a paid embedder or reranker they are paid for again. Vectors of the texts of the ``collection`` exist before a
    question is asked. Nothing that is asked anew is stored, nor are its failures: the first result counts.
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
        timed = _TimedEmbedder(self._embeddings, model, meter)
        timed.warm, timed.collection = self._warm.embedder(model, meter), self._collection
        return timed


class _TimedEmbedder(MeteredEmbedder):
    """An embedder that embeds anew all but the texts of a ``collection``, whose vectors are those of ``warm``."""

    warm: Embedder
    collection: frozenset[str]

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`."""
        return self.warm.embed(texts) if self.collection.issuperset(texts) else super().embed(texts)
