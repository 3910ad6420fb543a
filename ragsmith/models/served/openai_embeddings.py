"""An embedder behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, text-embeddings-inference.

Vectors of the wrong number, order or length, and such as hold NaN, are errors (the package ``openai`` passes them on).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.models.options import BatchSize, Dimensions
from ragsmith.models.protocols import Vectors
from ragsmith.models.registry import model_id, provider
from ragsmith.models.served.json_endpoint import EndpointModel, JsonEndpoint
from ragsmith.models.served.openai_chat import OPENAI
from ragsmith.models.served.policy import Transient

BATCH_TEXTS = 128
BATCH_CHARACTERS = 100_000
"""About 25,000 tokens; OpenAI takes 300,000 in a request, servers of one's own far fewer."""
PROBE = "a"
"""What is embedded to learn the length of vectors, when no text does."""


@provider("embedder", "openai", service=OPENAI)
class OpenAIEmbeddings(EndpointModel):
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
        self._length = dimensions

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
        rows = [row for row, text in enumerate(texts) if text.strip()]
        found = self._asked([prefix + texts[row] for row in rows])
        if found is None:
            if texts and self._length is None:
                self._asked([PROBE])
            return np.zeros((len(texts), self._length or 0), dtype=np.float32)
        vectors = np.zeros((len(texts), found.shape[1]), dtype=np.float32)
        vectors[rows] = found
        return vectors

    def _asked(self, texts: Sequence[str]) -> Vectors | None:
        """Vectors of texts that are not blank, all batches in flight at once; None for no text."""
        requests = [self._request(batch) for batch in batches(texts, self._batch_size, BATCH_CHARACTERS)]
        found = self._endpoint.send("/embeddings", requests, self._read, what=self.id)
        return np.concatenate(found) if found else None

    def _request(self, texts: Sequence[str]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        return request if self._dimensions is None else {**request, "dimensions": self._dimensions}

    def _read(self, request: dict[str, Any], reply: Any, _: float) -> Vectors:
        """Runs on the loop's thread alone, so that the first vectors settle the length for all."""
        vectors = read_vectors(reply, len(request["input"]))
        length = vectors.shape[1]
        if self._length is not None and length != self._length:
            raise Transient(f"the vectors have {length} numbers; expected {self._length}, as before or as asked for")
        self._length = length
        return vectors


def batches(texts: Sequence[str], most: int, characters: int) -> Iterator[Sequence[str]]:
    """Cut ``texts`` into runs of at most ``most`` texts and ``characters`` in sum; a longer text goes alone."""
    start = size = 0
    for i, text in enumerate(texts):
        if i > start and (i - start == most or size + len(text) > characters):
            yield texts[start:i]
            start, size = i, 0
        size += len(text)
    if start < len(texts):
        yield texts[start:]


def read_vectors(reply: Any, n: int) -> Vectors:
    """The ``n`` vectors of a reply by their ``index``, scaled to length 1.

    Raises:
        Transient: they are too few or too many, named twice, of different lengths, no numbers, not finite, or zero.
    """
    data = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise Transient("the reply has no vectors")
    if len(data) != n:
        raise Transient(f"the reply has {len(data)} vectors for {n} texts")
    by_index = {item.get("index"): item.get("embedding") for item in data if type(item.get("index")) is int}
    if by_index.keys() != set(range(n)):
        raise Transient("the indices of the vectors are not those of the texts, each once")
    lengths = {len(vector) if isinstance(vector, list) else 0 for vector in by_index.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise Transient(f"the vectors of one reply have different lengths, or none: {sorted(lengths)[:5]}")
    try:
        rows = np.asarray([by_index[i] for i in range(n)])
    except ValueError:  # lists within lists
        rows = np.asarray("")
    if rows.ndim != 2 or rows.dtype.kind not in "fi":
        raise Transient("the vectors hold something else than numbers")
    return _unit(rows.astype(np.float64))


def _unit(rows: NDArray[np.float64]) -> Vectors:
    if not np.isfinite(rows).all():
        raise Transient("a vector holds NaN or infinity")
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if not largest.all():
        raise Transient("a vector is zero, though its text is not blank")
    rows = rows / largest  # squares of large numbers would overflow
    unit: Vectors = (rows / np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, np.newaxis]).astype(np.float32)
    return unit
