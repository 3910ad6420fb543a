"""Vectors and scores: each text is embedded, and each pair scored, once; those of slow models are kept in the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ragsmith.gateway.asking import embedding, row, unit, vector
from ragsmith.gateway.batching import Batcher
from ragsmith.gateway.desk import Desk
from ragsmith.gateway.memo import Memo
from ragsmith.models.calls import keeps
from ragsmith.models.protocols import CrossEncoder, Embedder, Vectors
from ragsmith.models.usage import Usage, tokens_at_most

BATCH_TEXTS = 64
"""Texts of all threads that are embedded, and kept, in one batch."""


class Embeddings:
    """The vectors that embedders made in this process."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._count = desk.count
        self.remembered: Memo[Any] = Memo()
        self._batchers: dict[str, Batcher[str, Any]] = {}
        self._lock = threading.Lock()

    def embed(self, model: Embedder, texts: Sequence[str], *, as_queries: bool = False) -> Vectors:
        """Vectors of ``texts``, each embedded once; of slow models, in batches over threads, and kept."""
        kind, embed = embedding(model, as_queries)

        def compute(missing: list[tuple[str, str, str]]) -> Sequence[Any]:
            wanted = [text for *_, text in missing]
            if not keeps(model):
                self._count("embedder", made=len(wanted))
                return list(unit(model.id, embed(wanted), len(wanted)))
            batched = self._batcher(model, kind, embed)
            found = self.desk.kept("embedder", kind, model.id, wanted, batched, row, vector, BATCH_TEXTS)
            return list(unit(model.id, found, len(wanted)))

        if not texts:
            return model.embed(texts)
        self._count("embedder", asked=len(texts))
        return np.stack(self.remembered.get_many([(model.id, kind, text) for text in texts], compute))

    def _batcher(self, model: Embedder, kind: str, embed: Callable[[Sequence[str]], Vectors]) -> Batcher[str, Any]:
        def run(batch: list[str]) -> list[Any]:
            asked = "".join(batch)
            with self.desk.paid(model, asked) as used:
                vectors = list(embed(batch))
                used.append(Usage(1, 0, 0, tokens_at_most(asked)))
            return vectors

        with self._lock:
            return self._batchers.setdefault(f"{kind} {model.id}", Batcher(run, size=BATCH_TEXTS))


class Scores:
    """The scores that rerankers gave in this process."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._count = desk.count
        self.remembered: Memo[float] = Memo()

    def score(self, model: CrossEncoder, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Scores of ``texts`` against ``query``, each pair scored once."""

        def compute(missing: list[tuple[str, str, str]]) -> Sequence[float]:
            wanted = [text for _, _, text in missing]
            if not keeps(model):
                self._count("cross_encoder", made=len(wanted))
                return model.score(query, wanted)
            return self.desk.kept("cross_encoder", query, model.id, wanted, score, float, float, len(wanted))

        def score(wanted: Sequence[str]) -> tuple[float, ...]:
            asked = "".join(query + text for text in wanted)
            with self.desk.paid(model, asked) as used:
                scores = model.score(query, wanted)
                used.append(Usage(1, 0, 0, tokens_at_most(asked)))
            return scores

        self._count("cross_encoder", asked=len(texts))
        return tuple(self.remembered.get_many([(model.id, query, text) for text in texts], compute))
