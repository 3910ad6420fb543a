"""Embedders (``/v2/embed``) and rerankers (``/v2/rerank``) of Cohere, through the package ``cohere``."""

from collections.abc import Sequence
from typing import Any

from ragsmith.models.options import BatchSize, ContextWindow, Dimensions
from ragsmith.models.protocols import Vectors
from ragsmith.models.registry import Service, model_id, provider
from ragsmith.models.served.json_endpoint import CohereModel, JsonEndpoint, TextWindow, batches, read_scores
from ragsmith.models.served.openai_embeddings import read_vectors
from ragsmith.models.served.policy import TransientFailure
from ragsmith.models.unit_vectors import UnitVectors

COHERE = Service("https://api.cohere.com", keys=("CO_API_KEY", "COHERE_API_KEY"))
EMBED_BATCH = 96
"""The server's limit of texts per request."""
RERANK_BATCH = 100
"""Texts per request, which are billed as one search."""
RERANK_WINDOW = 4096
"""The server's default window in tokens."""
EMBED_WINDOWS = (("-v3", 512), ("-v2", 512))
"""Substrings of model names, and the windows of those models in tokens."""
EMBED_WINDOW = 128_000
"""The window of other models, in tokens."""


class _CohereClient(CohereModel):
    """Base of embedder and reranker."""

    def __init__(self, model: str, endpoint: JsonEndpoint, window: int) -> None:
        super().__init__(model, endpoint)
        self._window = TextWindow(window)

    @property
    def id(self) -> str:
        """Provider, model and options that affect results; never the URL or the key."""
        return model_id("cohere", self._model, context_window=self._window.tokens)

    @property
    def truncated(self) -> int:
        """Number of texts that were truncated because they are longer than the window, by an estimate."""
        return self._window.truncated


@provider("cross_encoder", "cohere", service=COHERE, extra="cohere")
class CohereReranker(_CohereClient):
    """Scores texts against a query. Thread-safe.

    Texts longer than ``context_window`` tokens, by an estimate, are truncated and counted.
    """

    def __init__(
        self,
        model: str,
        *,
        endpoint: JsonEndpoint,
        context_window: ContextWindow = RERANK_WINDOW,
        batch_size: BatchSize = RERANK_BATCH,
    ) -> None:
        super().__init__(model, endpoint, context_window)
        self._batch_size = batch_size

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Score each of ``texts`` against ``query``: relevance in [0, 1], to six decimals.

        Raises:
            ModelError: a request was rejected, or no attempt gave a valid ranking.
            ModelUnavailable: the server refuses the key or the model, or is down.
        """
        parts = batches(self._window.fit(texts), self._batch_size)
        requests = [self._request(query, part) for part in parts]
        post = self.post_with(self.client.with_raw_response.rerank)
        scores = self._endpoint.send(post, requests, _read_ranking, what=self.id)
        return tuple(score for part in scores for score in part)

    def _request(self, query: str, texts: Sequence[str]) -> dict[str, Any]:
        fields = {"model": self._model, "query": query, "documents": list(texts)}
        return {**fields, "top_n": len(texts), "max_tokens_per_doc": self._window.tokens}


@provider("embedder", "cohere", service=COHERE, extra="cohere")
class CohereEmbedder(_CohereClient):
    """Embeds texts as unit vectors. Thread-safe; a blank text is not sent and has the zero vector.

    Texts longer than ``context_window`` tokens (by default the model's), by an estimate, are truncated and counted;
    truncation by the server is off.
    """

    def __init__(
        self,
        model: str,
        *,
        endpoint: JsonEndpoint,
        dimensions: Dimensions | None = None,
        context_window: ContextWindow | None = None,
        batch_size: BatchSize = EMBED_BATCH,
    ) -> None:
        window = context_window or next((tokens for part, tokens in EMBED_WINDOWS if part in model), EMBED_WINDOW)
        super().__init__(model, endpoint, window)
        self._dimensions = dimensions
        self._batch_size = min(batch_size, EMBED_BATCH)
        self.vectors = UnitVectors(dimensions)

    @property
    def id(self) -> str:
        """Provider, model and options that affect vectors; never the URL or the key."""
        return model_id("cohere", self._model, context_window=self._window.tokens, dimensions=self._dimensions)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed documents: shape ``(len(texts), dimensions)``, rows of length 1, or 0 for a blank text.

        Raises:
            ModelError: a request was rejected, or no attempt gave valid vectors.
            ModelUnavailable: the server refuses the key or the model, or is down.
        """
        return self._embed(texts, "search_document")

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries; see `embed`."""
        return self._embed(texts, "search_query")

    def _embed(self, texts: Sequence[str], kind: str) -> Vectors:
        def embed_nonblank(nonblank: Sequence[str]) -> list[Vectors]:
            requests = [self._request(part, kind) for part in batches(self._window.fit(nonblank), self._batch_size)]
            post = self.post_with(self.client.with_raw_response.embed)
            return self._endpoint.send(post, requests, self._read, what=self.id)

        return self.vectors.embed(texts, embed_nonblank)

    def _request(self, texts: Sequence[str], kind: str) -> dict[str, Any]:
        fields = {"model": self._model, "texts": list(texts), "input_type": kind}
        request = {**fields, "embedding_types": ["float"], "truncate": "NONE"}
        return request if self._dimensions is None else {**request, "output_dimension": self._dimensions}

    def _read(self, request: dict[str, Any], reply: Any, _: float) -> Vectors:
        # runs only in the loop's thread, so that the first vectors determine the dimensions of all
        embeddings = reply.get("embeddings") if isinstance(reply, dict) else None
        rows = embeddings.get("float") if isinstance(embeddings, dict) else None
        indexed_rows = (
            [{"index": i, "embedding": row} for i, row in enumerate(rows)] if isinstance(rows, list) else None
        )
        return self.vectors.normalize(read_vectors(indexed_rows, len(request["texts"])), TransientFailure, self.id)


def _read_ranking(request: dict[str, Any], reply: Any, _: float) -> list[float]:
    rows = reply.get("results") if isinstance(reply, dict) else None
    return read_scores(rows, "relevance_score", len(request["documents"]))
