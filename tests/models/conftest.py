import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.protocols import Vectors


class WordVectors:
    """A text is the mean of its words' given vectors, case-sensitive; other words have none."""

    def __init__(self, vectors: Mapping[str, Sequence[float]], name: str = "toy") -> None:
        self.id = name
        self._vectors = {word: np.array(vector, dtype=np.float64) for word, vector in vectors.items()}
        self._dimensions = len(next(iter(vectors.values())))

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self._dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            known = [self._vectors[word] for word in re.findall(r"\w+", text) if word in self._vectors]
            total = np.sum(known, axis=0) if known else np.zeros(self._dimensions)
            if total.any():
                rows[row] = total / np.linalg.norm(total)
        return rows


@pytest.fixture(scope="session")
def embedder() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


@pytest.fixture(scope="session")
def word_vectors() -> type[WordVectors]:
    return WordVectors
