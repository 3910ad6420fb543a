"""Vectors and scores, computed once per text or pair; those of slow models are stored."""

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ragsmith.building import TaskProgress
from ragsmith.errors import ModelError
from ragsmith.gateway.batching import Batcher
from ragsmith.gateway.call_context import CallContext, CallMemo
from ragsmith.gateway.failures import RequestTarget, make_target
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.gateway.prompts_and_vectors import decode_vector, encode_vector, normalize_vectors, select_embed_function
from ragsmith.models.calls import is_stored
from ragsmith.models.protocols import CrossEncoder, Embedder, Vectors
from ragsmith.models.usage import Usage, estimate_max_tokens

V = TypeVar("V")

BATCH_TEXTS = 64
"""Number of texts, from all threads, that are embedded and stored in one batch."""
COLLECTION_TEXTS = 1 << 14
"""Minimum number of texts of a call that bypasses the memo, as the caller stores the vectors of a collection."""
BLOCK_TEXTS, STORED_BLOCK_TEXTS = 1 << 12, 1 << 13
"""Number of texts of a collection that are embedded at a time, in whole batches; the second for slow models."""


class EmbeddingMemo(CallMemo[Any]):
    """The cache of vectors of this process."""

    def __init__(self, context: CallContext, eviction: EvictionPolicy | None = None) -> None:
        super().__init__(context, eviction)
        self._collection_texts = 0
        self._batchers: dict[str, Batcher[str, Any]] = {}
        self._lock = threading.Lock()

    @property
    def distinct(self) -> int:
        """Number of embedded texts; a text counts once for each collection that contains it."""
        return self.memo.computed + self._collection_texts

    def embed(self, model: Embedder, texts: Sequence[str], *, as_queries: bool = False) -> Vectors:
        """Embed ``texts``, each once; vectors of slow models are computed in batches over threads, and stored."""
        kind, embed = select_embed_function(model, as_queries)

        def embed_missing(pending: Sequence[str]) -> Sequence[Any] | Vectors:
            if not is_stored(model):
                self._count("embedder", made=len(pending))
                return normalize_vectors(model.id, embed(pending), len(pending))
            target = make_target("embedder", model)
            batched = self._batcher(target, model, kind, embed)
            results = self.context.fetch(target, kind, pending, batched, encode_vector, decode_vector, BATCH_TEXTS)
            embedded = [value for value in results if not isinstance(value, ModelError)]
            vectors = iter(normalize_vectors(model.id, embedded, len(embedded)) if embedded else ())
            return [value if isinstance(value, ModelError) else next(vectors) for value in results]

        if not texts:
            return model.embed(texts)
        self._count("embedder", asked=len(texts))
        if len(texts) >= COLLECTION_TEXTS:
            return self._embed_collection(model, texts, embed_missing)
        keys = [(model.id, kind, text) for text in texts]
        return np.stack(self.memo.get_many(keys, lambda missing: list(embed_missing([text for *_, text in missing]))))

    def _embed_collection(
        self, model: Embedder, texts: Sequence[str], embed_missing: Callable[[Sequence[str]], Sequence[Any] | Vectors]
    ) -> Vectors:
        """Embed the texts of a whole collection in blocks, to limit memory.

        A `ModelError` that ``embed_missing`` returns instead of a vector is raised after its block.
        """
        first_positions: dict[str, int] = {}
        rows = np.array([first_positions.setdefault(text, position) for position, text in enumerate(texts)])
        distinct = list(first_positions)
        positions = np.fromiter(first_positions.values(), dtype=np.int64, count=len(distinct))
        repeated = np.flatnonzero(rows != np.arange(len(rows)))
        del first_positions
        vectors = np.empty((len(texts), 0), dtype=np.float32)
        progress = TaskProgress("embedding texts", len(distinct))
        step = STORED_BLOCK_TEXTS if is_stored(model) else BLOCK_TEXTS
        for start in range(0, len(distinct), step):
            block = embed_missing(distinct[start : start + step])
            failed = next((value for value in block if isinstance(value, ModelError)), None)
            if failed is not None:
                raise failed
            width = len(block[0])
            if not start:
                vectors = np.empty((len(texts), width), dtype=np.float32)
            if width != vectors.shape[1]:
                raise ModelError(
                    f"{model.id}: the embedder returned vectors of {width} dimensions, after vectors of "
                    f"{vectors.shape[1]}"
                )
            vectors[positions[start : start + len(block)]] = block
            with self._lock:
                self._collection_texts += len(block)
            progress.done(start + len(block))
        vectors[repeated] = vectors[rows[repeated]]
        return vectors

    def _batcher(
        self, target: RequestTarget, model: Embedder, kind: str, embed: Callable[[Sequence[str]], Vectors]
    ) -> Batcher[str, Any]:
        def send_batch(batch: Sequence[str]) -> list[Any] | ModelError:
            return call_model(self.context, target, kind, model, lambda: embed(batch), batch)

        with self._lock:
            run_batch = partial(bisect, send_batch)
            return self._batchers.setdefault(f"{kind} {model.id}", Batcher(run_batch, size=BATCH_TEXTS))


class ScoreMemo(CallMemo[float]):
    """The cache of rerankers' scores of this process."""

    def score(self, model: CrossEncoder, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Score ``texts`` against ``query``, each pair once."""

        def compute(missing: list[tuple[str, str, str]]) -> Sequence[float | ModelError]:
            pending = [text for _, _, text in missing]
            if not is_stored(model):
                self._count("cross_encoder", made=len(pending))
                return model.score(query, pending)
            target = make_target("cross_encoder", model)

            def send_batch(part: Sequence[str]) -> list[float | ModelError] | ModelError:
                return call_model(self.context, target, query, model, lambda: model.score(query, part), part, query)

            return self.context.fetch(
                target, query, pending, partial(bisect_pairs, send_batch), float, float, len(pending)
            )

        self._count("cross_encoder", asked=len(texts))
        return tuple(self.memo.get_many([(model.id, query, text) for text in texts], compute))


BatchCall = Callable[[Sequence[str]], list[V | ModelError] | ModelError]
"""Returns the results of a model for several texts, or the error of the whole request."""


def call_model(
    context: CallContext,
    target: RequestTarget,
    kind: str,
    model: Embedder | CrossEncoder,
    send: Callable[[], Iterable[V]],
    texts: Sequence[str],
    query: str = "",
) -> list[V | ModelError] | ModelError:
    """Return the results of ``send``, a paid request for ``texts``, or the error that it raises."""
    text = "".join(query + text for text in texts)
    try:
        with context.failures.attempt(target, kind, tuple(texts)), context.reserve_cost(model, text) as usages:
            results: list[V | ModelError] = list(send())
            usages.append(Usage(1, 0, 0, estimate_max_tokens(text)))
            return results
    except ModelError as error:
        return error


def bisect(call: BatchCall[V], texts: Sequence[str]) -> list[V | ModelError]:
    """Return the result or error of each text; a failed request is bisected until it has one text."""
    results = call(texts)
    if not isinstance(results, ModelError):
        return results
    if len(texts) == 1:
        return [results]
    half = len(texts) // 2
    return [*bisect(call, texts[:half]), *bisect(call, texts[half:])]


def bisect_pairs(call: BatchCall[V], texts: Sequence[str]) -> list[V | ModelError]:
    """Like `bisect`, for texts with one query; if both the first and the last text fail, the query is the cause."""
    results = call(texts)
    if not isinstance(results, ModelError):
        return results
    if len(texts) == 1:
        return [results]
    first, last = (bisect(call, [text])[0] for text in (texts[0], texts[-1]))
    middle = texts[1:-1]
    if isinstance(first, ModelError) and isinstance(last, ModelError):
        return [first, *(type(results)(str(results)) for _ in middle), last]  # each cost counts once
    return [first, *(bisect(call, middle) if middle else ()), last]
