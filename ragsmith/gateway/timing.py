"""The gateway of a question that is timed: what a user waits for is asked anew, but for replies of chat models.

A reply of a chat model says how many seconds it took when it was made. So it is taken from where it is remembered, and
its seconds are added to those of the clock. Vectors and scores say nothing of the kind, and are made again: where the
embedder or the reranker is paid for, they are paid for again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ragsmith.gateway.budget import Budget
from ragsmith.gateway.failures import asker_of
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.metered import MeteredChat, MeteredEmbedder
from ragsmith.gateway.vectors_and_scores import EmbeddingMemo
from ragsmith.models.calls import ChatModel, is_chat_model
from ragsmith.models.protocols import Embedder, LanguageModel, Vectors
from ragsmith.models.usage import Meter

T = TypeVar("T")


class TimingGateway(Gateway):
    """For one question, all replies to which ``warm`` remembers; vectors of ``collection`` are there before, too.

    Nothing is kept of what is asked anew, nor of its failures: what was found the first time counts.
    """

    def __init__(self, warm: Gateway, collection: frozenset[str], budget: Budget | None = None) -> None:
        super().__init__(None, budget)
        self._warm = warm
        self._collection = collection

    def language_model(self, model: LanguageModel | ChatModel, meter: Meter, role: str = "") -> LanguageModel:
        """See `Gateway.language_model`."""
        if is_chat_model(model):
            return MeteredChat(self._warm._replies, model, meter, asker_of(role, model) if role else None)
        return super().language_model(model, meter, role)

    def embedder(self, model: Embedder, meter: Meter) -> Embedder:
        """See `Gateway.embedder`."""
        self._watch(model)
        return _TimedView(self._embeddings, model, meter, self._warm.embedder(model, meter), self._collection)


class _TimedView(MeteredEmbedder):
    """Texts of a collection were embedded before anybody asked; others are embedded anew."""

    def __init__(
        self, calls: EmbeddingMemo, model: Any, meter: Meter, warm: Embedder, collection: frozenset[str]
    ) -> None:
        super().__init__(calls, model, meter)
        self._warm = warm
        self._collection = collection

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See `Embedder.embed`."""
        return self._warm.embed(texts) if self._collection.issuperset(texts) else super().embed(texts)
