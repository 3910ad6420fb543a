"""The one way from techniques to models: remembers calls, joins identical ones in flight, and counts.

Techniques are handed metered views of the models. A remembered call returns the bill of the call that was made, so a
candidate that profits from the cache does not look cheap; the gateway's own counts say what this process really did.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from copy import copy
from typing import Any

from ragsmith.errors import StoreError
from ragsmith.gateway.budget import Budget, lost_attempt
from ragsmith.gateway.call_context import KINDS, CallContext, CallCounts
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.completions import CompletionMemo
from ragsmith.gateway.failures import Failures, asker_of
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.gateway.metered import MeteredChat, MeteredCrossEncoder, MeteredEmbedder, MeteredTasks
from ragsmith.gateway.vectors_and_scores import EmbeddingMemo, ScoreMemo
from ragsmith.models.calls import ChatModel, completes
from ragsmith.models.capabilities import CapabilityLearner, ModelCapabilities, learner_of
from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel
from ragsmith.models.served.provider import Provider, ProviderActivity
from ragsmith.models.usage import Meter


class Gateway:
    """One per process; safe to use from many threads.

    ``budget`` is asked before anything is sent to a provider; None spends without counting. ``failures`` knows what
    failed and is not to be asked again; without, everything is.
    """

    def __init__(
        self,
        store: CallStore | None = None,
        budget: Budget | None = None,
        failures: Failures | None = None,
        room: EvictionPolicy | None = None,
    ) -> None:
        """``room`` is where this process remembers, also what others than the gateway remember; without, all is."""
        self.room = room
        self._desk = CallContext(store, budget, failures)
        self._replies = CompletionMemo(self._desk, room)
        self._embeddings = EmbeddingMemo(self._desk, room)
        self._scores = ScoreMemo(self._desk, room)
        self._providers: dict[int, Provider] = {}
        self._store = store
        self._learners: dict[int, CapabilityLearner] = {}
        self._lock = threading.Lock()

    def for_request(self) -> Gateway:
        """A gateway for one request of a server: it has the same store and providers, and remembers nothing of others.

        So what a process remembers does not grow with what it is asked, and a request can be given up by itself.
        """
        one = copy(self)
        one.room, one._desk = None, self._desk.for_request()
        one._replies, one._embeddings, one._scores = (
            CompletionMemo(one._desk),
            EmbeddingMemo(one._desk),
            ScoreMemo(one._desk),
        )
        return one

    def cancel(self) -> None:
        """Send nothing more for whoever asks this gateway; a reply that is on its way is waited for, and kept."""
        self._desk.stopped = True

    def counts(self) -> dict[str, CallCounts]:
        """Calls asked for, distinct among them, answered from the store, and made, by kind of model."""
        distinct = self._replies.remembered.computed, self._embeddings.distinct, self._scores.remembered.computed
        return self._desk.counts(dict(zip(KINDS, distinct, strict=True)))

    def language_model(self, model: LanguageModel | ChatModel, meter: Meter, role: str = "") -> LanguageModel:
        """A metered view of a language model, in a role in which it must answer something sooner or later, if any."""
        self._watch(model)
        asker = asker_of(role, model) if role else None
        return (MeteredChat if completes(model) else MeteredTasks)(self._replies, model, meter, asker)

    def embedder(self, model: Embedder, meter: Meter) -> Embedder:
        """A metered view of an embedder."""
        self._watch(model)
        return MeteredEmbedder(self._embeddings, model, meter)

    def cross_encoder(self, model: CrossEncoder, meter: Meter) -> CrossEncoder:
        """A metered view of a cross-encoder."""
        self._watch(model)
        return MeteredCrossEncoder(self._scores, model, meter)

    def activity(self) -> ProviderActivity:
        """What the providers have done so far, and do now."""
        each = [provider.activity for provider in tuple(self._providers.values())]
        return ProviderActivity(
            sum(a.attempts for a in each),
            sum(a.retries for a in each),
            sum(a.in_flight for a in each),
            max((a.waiting_until for a in each), default=0.0),
        )

    def stop(self, patience: float = 0.0) -> None:
        """Send nothing more: whoever asks a provider now gets `ModelUnavailable`, or waits for one in ``patience`` s.

        Until then what was sent may be answered, and is kept.
        """
        self._desk.stopped = True
        until = time.monotonic() + patience
        for provider in tuple(self._providers.values()):
            provider.close(patience=until - time.monotonic())
        if self._desk.store is not None:
            self._desk.store.settle()

    def write_rest(self) -> None:
        """See `BatchedStore.write_rest`; to be called when nothing is in flight any more: nothing stays claimed, either."""
        if self._desk.store is not None:
            self._desk.store.write_rest()
            self._desk.store.leave()

    def _watch(self, model: Any) -> None:
        """Have the model's provider, if it has one, ask the desk before each attempt, and keep what is learnt of it.

        A provider that several gateways use asks the desk of the one that handed out a view of its model last.
        """
        provider = getattr(model, "provider", None)
        if provider is not None:
            self._providers[id(provider)] = provider
            provider.on_attempt = self._desk.before_attempt
            provider.on_lost = lost_attempt
        learner = learner_of(model)
        if learner is not None and self._store is not None and id(learner) not in self._learners:
            self._acquaint(learner, str(model.id), self._store)

    def _acquaint(self, learner: CapabilityLearner, model: str, store: CallStore) -> None:
        """Tell ``learner`` what is known of its model, and have what it learns kept."""

        def keep(traits: ModelCapabilities) -> None:
            with suppress(StoreError):  # else a reply that was paid for would be lost; it can be learnt again
                store.put_traits(model, traits)

        with self._lock:
            if id(learner) in self._learners:
                return
            if (known := store.traits(model)) is not None:
                learner.restore(known)
            learner.keep = keep
            self._learners[id(learner)] = learner
