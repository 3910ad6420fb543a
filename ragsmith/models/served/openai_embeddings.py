"""Embedders at OpenAI-compatible endpoints: OpenAI, Ollama, vLLM, llama.cpp, text-embeddings-inference."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.models.options import BatchSize, Dimensions
from ragsmith.models.protocols import Vectors
from ragsmith.models.registry import model_id, provider
from ragsmith.models.served.json_endpoint import JsonEndpoint, OpenAIModel, batches, values_by_index
from ragsmith.models.served.openai_chat import OPENAI
from ragsmith.models.served.policy import TransientFailure
from ragsmith.models.unit_vectors import UnitVectors

BATCH_TEXTS = 128
"""Texts per request."""
BATCH_CHARACTERS = 100_000
"""Characters per request, about 25,000 tokens; OpenAI accepts 300,000 in a request, self-hosted servers far fewer."""


@provider("embedder", "openai", service=OPENAI)
class OpenAIEmbeddings(OpenAIModel):
    """Embeds texts as unit vectors. Thread-safe; a blank text is not sent and has the zero vector.

    ``document_prefix`` and ``query_prefix`` precede every text and query, for models that were trained with them.
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
        self.vectors = UnitVectors(dimensions)

    @property
    def id(self) -> str:
        """Provider, model and options that affect vectors; never the URL or the key."""
        document, query = self._prefixes
        return model_id(
            "openai", self._model, dimensions=self._dimensions, document_prefix=document, query_prefix=query
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed ``texts``: shape ``(len(texts), dimensions)``, rows of length 1, or 0 for a blank text.

        Raises:
            ModelError: a request was rejected, or no attempt gave valid vectors.
            ModelUnavailable: the server refuses the key or the model, or is down.
        """
        return self._embed(texts, self._prefixes[0])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries; see `embed`."""
        return self._embed(texts, self._prefixes[1])

    def _embed(self, texts: Sequence[str], prefix: str) -> Vectors:
        def embed_nonblank(nonblank: Sequence[str]) -> list[Vectors]:
            """Send all batches concurrently."""
            prefixed = [prefix + text for text in nonblank]
            requests = [self._request(batch) for batch in batches(prefixed, self._batch_size, BATCH_CHARACTERS)]
            return self._endpoint.send(self.post_to("/embeddings"), requests, self._read, what=self.id)

        return self.vectors.embed(texts, embed_nonblank)

    def _request(self, texts: Sequence[str]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        return request if self._dimensions is None else {**request, "dimensions": self._dimensions}

    def _read(self, request: dict[str, Any], reply: Any, _: float) -> Vectors:
        # runs only in the loop's thread, so that the first vectors determine the dimensions of all
        rows = read_vectors(reply.get("data") if isinstance(reply, dict) else None, len(request["input"]))
        return self.vectors.normalize(rows, TransientFailure, self.id)


def read_vectors(data: Any, n: int) -> NDArray[np.float64]:
    """Return the ``n`` vectors of a reply in the order of their ``index``.

    Raises:
        TransientFailure: vectors are missing, surplus, repeated, of different lengths or not numeric.
    """
    vectors = values_by_index(data, "embedding", n, "vectors")
    lengths = {len(vector) if isinstance(vector, list) else 0 for vector in vectors}
    if len(lengths) != 1 or 0 in lengths:
        raise TransientFailure(f"the vectors of one reply have different lengths, or none: {sorted(lengths)[:5]}")
    try:
        rows = np.asarray(vectors)
    except ValueError:  # lists within lists
        rows = np.asarray("")
    if rows.ndim != 2 or rows.dtype.kind not in "fi":
        raise TransientFailure("the vectors contain values that are not numbers")
    return rows.astype(np.float64)
