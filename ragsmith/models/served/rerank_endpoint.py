"""Rerankers at an endpoint: Jina's ``/v1/rerank`` (Jina, vLLM, Infinity, LocalAI, LiteLLM), or ``/rerank`` of TEI.

The first request determines the API of a server. Scores are the same with both, because text-embeddings-inference
(TEI) is requested to apply the sigmoid.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ragsmith.errors import ModelError, ModelUnavailable
from ragsmith.models.options import BatchSize, ContextWindow
from ragsmith.models.registry import Service, model_id, provider
from ragsmith.models.served.json_endpoint import EndpointModel, JsonEndpoint, TextWindow, batches, read_scores

BATCH_TEXTS = 32
"""The default limit of TEI."""
_OTHER_API = re.compile(r": HTTP (?:400|404|405|415|422)\b")
"""The start of the error of a server with another API."""


@dataclass(frozen=True, slots=True)
class RerankDialect:
    """An API for reranking: the body of a request, and the location of the scores in a reply."""

    body: Callable[[str, str, Sequence[str]], dict[str, Any]]
    texts: str
    rows: Callable[[Any], Any]
    score: str


def _jina_body(model: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
    fields = {"model": model, "query": query, "documents": list(texts)}
    return {**fields, "top_n": len(texts), "return_documents": False}


def _tei_body(_: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
    return {"query": query, "texts": list(texts), "raw_scores": False, "truncate": False, "return_text": False}


def _results(reply: Any) -> Any:
    return reply.get("results") if isinstance(reply, dict) else None


JINA = RerankDialect(_jina_body, "documents", _results, "relevance_score")
TEI = RerankDialect(_tei_body, "texts", lambda reply: reply, "score")


@provider("cross_encoder", "rerank", service=Service(self_hosted=True))
@provider("cross_encoder", "jina", service=Service("https://api.jina.ai/v1", keys=("JINA_API_KEY",)))
class RerankEndpoint(EndpointModel):
    """Scores texts against a query with the reranker ``model`` at ``endpoint``. Thread-safe.

    A base URL that ends with ``/rerank`` is used as it is; otherwise requests go to ``/v1/rerank`` or else ``/rerank``.
    Texts longer than ``context_window`` tokens, by an estimate, are truncated and counted.
    """

    def __init__(
        self,
        model: str,
        *,
        endpoint: JsonEndpoint,
        kind: str = "rerank",
        context_window: ContextWindow | None = None,
        batch_size: BatchSize = BATCH_TEXTS,
    ) -> None:
        super().__init__(model, endpoint)
        self._kind = kind
        self._window = TextWindow(context_window)
        self._batch_size = batch_size
        self._candidates = list_candidate_urls(endpoint.base_url)
        self._api: tuple[str, RerankDialect] | None = None

    @property
    def id(self) -> str:
        """Kind, model and window; never the URL or the key."""
        return model_id(self._kind, self._model, context_window=self._window.tokens)

    @property
    def truncated(self) -> int:
        """Number of texts that were truncated."""
        return self._window.truncated

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Score each of ``texts`` against ``query``, to six decimals.

        Raises:
            ModelError: a request was rejected, or no attempt gave a valid ranking.
            ModelUnavailable: the server refuses the key or the model, or is down.
        """
        parts = batches(self._window.fit(texts), self._batch_size)
        scores: list[list[float]] = []
        if parts and self._api is None:
            scores, parts = [self._score_first(query, parts[0])], parts[1:]
        if parts and self._api is not None:
            scores += self._send(*self._api, query, parts)
        return tuple(score for part in scores for score in part)

    def _score_first(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score ``texts`` with the first API that the server has, or raise the error of the likeliest one."""
        problem: ModelError | ModelUnavailable | None = None
        for url, dialect in self._candidates:
            try:
                scores = self._send(url, dialect, query, [texts])[0]
            except (ModelError, ModelUnavailable) as error:
                if not _OTHER_API.search(str(error)):
                    raise
                problem = problem or error
            else:
                self._api = url, dialect
                return scores
        assert problem is not None
        raise problem

    def _send(self, url: str, dialect: RerankDialect, query: str, parts: Sequence[Sequence[str]]) -> list[list[float]]:
        def read(body: dict[str, Any], reply: Any, _: float) -> list[float]:
            return read_scores(dialect.rows(reply), dialect.score, len(body[dialect.texts]))

        bodies = [dialect.body(self._model, query, part) for part in parts]
        return self._endpoint.send(url, bodies, read, what=self.id)


def list_candidate_urls(base_url: str) -> list[tuple[str, RerankDialect]]:
    """Return URLs with their APIs, the likeliest first."""
    base = base_url.rstrip("/")
    if base.endswith("/rerank"):
        order = (JINA, TEI) if re.search(r"/v\d+/rerank$", base) else (TEI, JINA)
        return [(base, dialect) for dialect in order]
    root = base.removesuffix("/v1")
    return [(f"{root}/v1/rerank", JINA), (f"{root}/rerank", TEI), (f"{root}/rerank", JINA)]
