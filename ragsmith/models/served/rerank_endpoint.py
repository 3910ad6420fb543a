"""A reranker behind a server: Jina's ``/v1/rerank`` (Jina, vLLM, Infinity, LocalAI, LiteLLM), or ``/rerank`` of TEI.

Which of them a server speaks is found out with the first request, and is in no identifier: a model's scores are the
same over both (text-embeddings-inference, TEI, is asked for the sigmoid, which the others send).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ragsmith.errors import ModelError, ModelUnavailable
from ragsmith.models.options import BatchSize, ContextWindow
from ragsmith.models.registry import Service, model_id, provider
from ragsmith.models.served.json_endpoint import EndpointModel, JsonEndpoint, batches
from ragsmith.models.served.remote_ranking import TextWindow, read_scores

BATCH_TEXTS = 32
"""The most that TEI takes in a request unless it is told otherwise."""
_NOT_SPOKEN = re.compile(r": HTTP (?:400|404|405|415|422)\b")
"""What a server says to a request in the language of another."""


@dataclass(frozen=True, slots=True)
class RerankDialect:
    """How a kind of server is asked: the body of a request, and where its reply has the scores."""

    body: Callable[[str, str, Sequence[str]], dict[str, Any]]
    texts: str
    rows: Callable[[Any], Any]
    score: str


def _jina_body(model: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
    said = {"model": model, "query": query, "documents": list(texts)}
    return {**said, "top_n": len(texts), "return_documents": False}


def _tei_body(_: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
    return {"query": query, "texts": list(texts), "raw_scores": False, "truncate": False, "return_text": False}


def _results(reply: Any) -> Any:
    return reply.get("results") if isinstance(reply, dict) else None


JINA = RerankDialect(_jina_body, "documents", _results, "relevance_score")
TEI = RerankDialect(_tei_body, "texts", lambda reply: reply, "score")


@provider("cross_encoder", "rerank", service=Service(self_hosted=True))
@provider("cross_encoder", "jina", service=Service("https://api.jina.ai/v1", keys=("JINA_API_KEY",)))
class RerankEndpoint(EndpointModel):
    """Scores texts against a query with the reranker ``model`` at ``endpoint``. Safe to use from many threads.

    A base URL that ends with ``/rerank`` is asked as it is, any other at ``/v1/rerank`` and, if nothing is there, at
    ``/rerank``. Texts longer than ``context_window`` tokens, by an estimate, are cut at the end and counted.
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
        self._possible = addresses(endpoint.base_url)
        self._spoken: tuple[str, RerankDialect] | None = None

    @property
    def id(self) -> str:
        """Kind, model and window; never the URL or the key."""
        return model_id(self._kind, self._model, context_window=self._window.tokens)

    @property
    def truncated(self) -> int:
        """How many texts were cut at the end because they are longer than the window."""
        return self._window.cut

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Score each of ``texts`` against ``query``, to six decimals.

        Raises:
            ModelError: a request was rejected, or no attempt gave a valid ranking.
            ModelUnavailable: the server refuses the key or the model, or is down.
        """
        parts = batches(self._window.fit(texts), self._batch_size)
        found: list[list[float]] = []
        if parts and self._spoken is None:
            found, parts = [self._first(query, parts[0])], parts[1:]
        if parts and self._spoken is not None:
            found += self._send(*self._spoken, query, parts)
        return tuple(score for part in found for score in part)

    def _first(self, query: str, texts: Sequence[str]) -> list[float]:
        """Find out which language the server speaks; if none, what it says to the first is what is wrong."""
        problem: ModelError | ModelUnavailable | None = None
        for url, language in self._possible:
            try:
                scores = self._send(url, language, query, [texts])[0]
            except (ModelError, ModelUnavailable) as error:
                if not _NOT_SPOKEN.search(str(error)):
                    raise
                problem = problem or error
            else:
                self._spoken = url, language
                return scores
        raise problem or ModelError(f"{self.id}: there is nowhere to ask")

    def _send(self, url: str, language: RerankDialect, query: str, parts: Sequence[Sequence[str]]) -> list[list[float]]:
        def read(body: dict[str, Any], reply: Any, _: float) -> list[float]:
            return read_scores(language.rows(reply), language.score, len(body[language.texts]))

        bodies = [language.body(self._model, query, part) for part in parts]
        return self._endpoint.send(url, bodies, read, what=self.id)


def addresses(base_url: str) -> list[tuple[str, RerankDialect]]:
    """Where to ask and how, the likeliest first."""
    base = base_url.rstrip("/")
    if base.endswith("/rerank"):
        order = (JINA, TEI) if re.search(r"/v\d+/rerank$", base) else (TEI, JINA)
        return [(base, language) for language in order]
    root = base.removesuffix("/v1")
    return [(f"{root}/v1/rerank", JINA), (f"{root}/rerank", TEI), (f"{root}/rerank", JINA)]
