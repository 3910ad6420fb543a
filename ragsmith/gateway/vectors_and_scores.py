"""Vectors and scores: each text is embedded, and each pair scored, once; those of slow models are kept in the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ragsmith.building import TaskProgress
from ragsmith.errors import ModelError
from ragsmith.gateway.asking import decode_vector, embed_function, encode_vector, unit_vectors
from ragsmith.gateway.batching import Batcher
from ragsmith.gateway.call_context import CallContext
from ragsmith.gateway.failures import Asker, asker_of
from ragsmith.gateway.memo import EvictionPolicy, Memo
from ragsmith.models.calls import keeps
from ragsmith.models.protocols import CrossEncoder, Embedder, Vectors
from ragsmith.models.usage import Usage, tokens_at_most

V = TypeVar("V")

BATCH_TEXTS = 64
"""Texts of all threads that are embedded, and kept, in one batch."""
COLLECTION_TEXTS = 1 << 14
"""Who embeds so many texts at once keeps the vectors of a whole collection: they are not remembered here besides."""
BLOCK_TEXTS, KEPT_BLOCK_TEXTS = 1 << 12, 1 << 13
"""Of a collection, texts that are embedded before the next ones: whole batches, of slow models as many as are sent."""


class EmbeddingMemo:
    """The vectors that embedders made in this process."""

    def __init__(self, desk: CallContext, room: EvictionPolicy | None = None) -> None:
        self.desk = desk
        self._count = desk.count
        self.remembered: Memo[Any] = Memo(room)
        self._of_collections = 0
        self._batchers: dict[str, Batcher[str, Any]] = {}
        self._lock = threading.Lock()

    @property
    def distinct(self) -> int:
        """How many texts were embedded, each once for a collection that it is part of."""
        return self.remembered.computed + self._of_collections

    def embed(self, model: Embedder, texts: Sequence[str], *, as_queries: bool = False) -> Vectors:
        """Vectors of ``texts``, each embedded once; of slow models, in batches over threads, and kept."""
        kind, embed = embed_function(model, as_queries)

        def made(wanted: Sequence[str]) -> Sequence[Any] | Vectors:
            if not keeps(model):
                self._count("embedder", made=len(wanted))
                return unit_vectors(model.id, embed(wanted), len(wanted))
            asker = asker_of("embedder", model)
            batched = self._batcher(asker, model, kind, embed)
            found = self.desk.kept(asker, kind, wanted, batched, encode_vector, decode_vector, BATCH_TEXTS)
            good = [value for value in found if not isinstance(value, ModelError)]
            vectors = iter(unit_vectors(model.id, good, len(good)) if good else ())
            return [value if isinstance(value, ModelError) else next(vectors) for value in found]

        if not texts:
            return model.embed(texts)
        self._count("embedder", asked=len(texts))
        if len(texts) >= COLLECTION_TEXTS:
            return self._of_collection(model, texts, made)

        def compute(missing: list[tuple[str, str, str]]) -> Sequence[Any]:
            return list(made([text for *_, text in missing]))

        return np.stack(self.remembered.get_many([(model.id, kind, text) for text in texts], compute))

    def _of_collection(
        self, model: Embedder, texts: Sequence[str], made: Callable[[Sequence[str]], Sequence[Any] | Vectors]
    ) -> Vectors:
        """Vectors of the texts of a whole collection, block by block: besides them there is one block in memory.

        ``made`` has the vectors of texts, or in the place of one a `ModelError`: raised when its block is done.
        """
        first: dict[str, int] = {}
        rows = np.array([first.setdefault(text, place) for place, text in enumerate(texts)])
        distinct, places = list(first), np.fromiter(first.values(), dtype=np.int64, count=len(first))
        again = np.flatnonzero(rows != np.arange(len(rows)))
        del first
        vectors = np.empty((len(texts), 0), dtype=np.float32)
        building = TaskProgress("embedding texts", len(distinct))
        step = KEPT_BLOCK_TEXTS if keeps(model) else BLOCK_TEXTS
        for start in range(0, len(distinct), step):
            block = made(distinct[start : start + step])
            failed = next((value for value in block if isinstance(value, ModelError)), None)
            if failed is not None:
                raise failed
            width = len(block[0])
            if not start:
                vectors = np.empty((len(texts), width), dtype=np.float32)
            if width != vectors.shape[1]:
                raise ModelError(f"{model.id}: vectors of {width} numbers came back, and of {vectors.shape[1]} before")
            vectors[places[start : start + len(block)]] = block
            with self._lock:
                self._of_collections += len(block)
            building.done(start + len(block))
        vectors[again] = vectors[rows[again]]
        return vectors

    def _batcher(
        self, asker: Asker, model: Embedder, kind: str, embed: Callable[[Sequence[str]], Vectors]
    ) -> Batcher[str, Any]:
        def run(batch: Sequence[str]) -> list[Any]:
            asked = "".join(batch)
            with self.desk.paid(model, asked) as used:
                vectors = list(embed(batch))
                used.append(Usage(1, 0, 0, tokens_at_most(asked)))
            return vectors

        with self._lock:
            alone = partial(singled_out, partial(attempted, self.desk, asker, kind, run))
            return self._batchers.setdefault(f"{kind} {model.id}", Batcher(alone, size=BATCH_TEXTS))


class ScoreMemo:
    """The scores that rerankers gave in this process."""

    def __init__(self, desk: CallContext, room: EvictionPolicy | None = None) -> None:
        self.desk = desk
        self._count = desk.count
        self.remembered: Memo[float] = Memo(room)

    def score(self, model: CrossEncoder, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Scores of ``texts`` against ``query``, each pair scored once."""

        def compute(missing: list[tuple[str, str, str]]) -> Sequence[float | ModelError]:
            wanted = [text for _, _, text in missing]
            if not keeps(model):
                self._count("cross_encoder", made=len(wanted))
                return model.score(query, wanted)
            asker = asker_of("cross_encoder", model)
            apart = partial(told_apart, partial(attempted, self.desk, asker, query, score))
            return self.desk.kept(asker, query, wanted, apart, float, float, len(wanted))

        def score(wanted: Sequence[str]) -> tuple[float, ...]:
            asked = "".join(query + text for text in wanted)
            with self.desk.paid(model, asked) as used:
                scores = model.score(query, wanted)
                used.append(Usage(1, 0, 0, tokens_at_most(asked)))
            return scores

        self._count("cross_encoder", asked=len(texts))
        return tuple(self.remembered.get_many([(model.id, query, text) for text in texts], compute))


Attempt = Callable[[Sequence[str]], list[V | ModelError] | ModelError]
"""What a model gives for each of several texts; or why it gives nothing."""


def attempted(
    desk: CallContext, asker: Asker, kind: str, ask: Callable[[Sequence[str]], Sequence[V]], texts: Sequence[str]
) -> list[V | ModelError] | ModelError:
    """What ``ask`` makes of each text, or why it makes nothing of them together."""
    try:
        with desk.failures.asking(asker, kind, tuple(texts)):
            return list(ask(texts))
    except ModelError as error:
        return error


def singled_out(attempt: Attempt[V], texts: Sequence[str]) -> list[V | ModelError]:
    """What comes of each text; of texts that fail together, halves are asked, down to the one at fault."""
    found = attempt(texts)
    if not isinstance(found, ModelError):
        return found
    if len(texts) == 1:
        return [found]
    half = len(texts) // 2
    return [*singled_out(attempt, texts[:half]), *singled_out(attempt, texts[half:])]


def told_apart(attempt: Attempt[V], texts: Sequence[str]) -> list[V | ModelError]:
    """As `singled_out`, of texts with one query, which is at fault itself where neither end of them can be scored."""
    found = attempt(texts)
    if not isinstance(found, ModelError):
        return found
    if len(texts) == 1:
        return [found]
    first, last = (singled_out(attempt, [text])[0] for text in (texts[0], texts[-1]))
    middle = texts[1:-1]
    if isinstance(first, ModelError) and isinstance(last, ModelError):
        return [first, *(type(found)(str(found)) for _ in middle), last]  # each cost counts once
    return [first, *(singled_out(attempt, middle) if middle else ()), last]
