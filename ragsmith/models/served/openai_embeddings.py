"""An embedder behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, text-embeddings-inference.

Vectors of the wrong number, order or length, and such as hold NaN, are errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.models.options import BatchSize, Dimensions
from ragsmith.models.protocols import Vectors
from ragsmith.models.registry import model_id, provider
from ragsmith.models.served.json_endpoint import JsonEndpoint, batches, by_index
from ragsmith.models.served.openai_chat import OPENAI
from ragsmith.models.served.packages import OpenAIModel
from ragsmith.models.served.policy import TransientFailure
from ragsmith.models.unit_vectors import UnitVectors

BATCH_TEXTS = 128
BATCH_CHARACTERS = 100_000
"""About 25,000 tokens; OpenAI takes 300,000 in a request, servers of one's own far fewer."""


@provider("embedder", "openai", service=OPENAI)
class OpenAIEmbeddings(OpenAIModel):
    """Embeds texts as unit vectors. Safe to use from many threads; a blank text is not sent and has the zero vector.

    ``document_prefix`` and ``query_prefix`` are put before every text and query, for models that were trained so.
    """

    def __init__(
        self,
        model: str,
        *,
        endpoint: JsonEndpoint,
        dimensions: Dimensions | None = None,
        document_prefix: str = "",
        query_prefix: str = "",
        batch_size: BatchSize = BATCH_TEXTS,
    ) -> None:
        super().__init__(model, endpoint)
        self._dimensions = dimensions
        self._prefixes = (document_prefix, query_prefix)
        self._batch_size = batch_size
        self._vectors = UnitVectors(dimensions)

    @property
    def id(self) -> str:
        """Provider, model and all that determines a vector; never the URL or the key."""
        document, query = self._prefixes
        shaping = {"dimensions": self._dimensions, "document_prefix": document, "query_prefix": query}
        return model_id("openai", self._model, **shaping)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed ``texts``: shape ``(len(texts), dimensions)``, rows of length 1, or 0 for a blank text.

        Raises:
            ModelError: a request was rejected, or no attempt gave valid vectors.
            ModelUnavailable: the server refuses the key or the model, or is down.
        """
        return self._embed(texts, self._prefixes[0])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Like `embed`, with the prefix of queries."""
        return self._embed(texts, self._prefixes[1])

    def _embed(self, texts: Sequence[str], prefix: str) -> Vectors:
        def ask(written: Sequence[str]) -> list[Vectors]:
            """All batches are in flight at once."""
            prefixed = [prefix + text for text in written]
            requests = [self._request(batch) for batch in batches(prefixed, self._batch_size, BATCH_CHARACTERS)]
            create = self.client.embeddings.with_raw_response.create
            return self._endpoint.send(self.posting(create), requests, self._read, what=self.id)

        return self._vectors.of(texts, ask)

    def _request(self, texts: Sequence[str]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        return request if self._dimensions is None else {**request, "dimensions": self._dimensions}

    def _read(self, request: dict[str, Any], reply: Any, _: float) -> Vectors:
        """Runs on the loop's thread alone, so that the first vectors settle the length for all."""
        rows = read_vectors(reply.get("data") if isinstance(reply, dict) else None, len(request["input"]))
        return self._vectors.checked(rows, TransientFailure, self.id)


def read_vectors(data: Any, n: int) -> NDArray[np.float64]:
    """The ``n`` vectors of a reply by their ``index``, as the server scaled them.

    Raises:
        Transient: they are too few or too many, named twice, of different lengths, or no numbers.
    """
    vectors = by_index(data, "embedding", n, "vectors")
    lengths = {len(vector) if isinstance(vector, list) else 0 for vector in vectors}
    if len(lengths) != 1 or 0 in lengths:
        raise TransientFailure(f"the vectors of one reply have different lengths, or none: {sorted(lengths)[:5]}")
    try:
        rows = np.asarray(vectors)
    except ValueError:  # lists within lists
        rows = np.asarray("")
    if rows.ndim != 2 or rows.dtype.kind not in "fi":
        raise TransientFailure("the vectors hold something else than numbers")
    return rows.astype(np.float64)
