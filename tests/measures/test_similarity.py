"""The cosine of two answers."""

import numpy as np
import pytest

from ragsmith.measures.case import Case
from ragsmith.measures.without_judge import similarity
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder


class Fixed:
    """Gives two prepared vectors."""

    id = "fixed"

    def __init__(self, *rows):
        self.rows = np.array(rows, dtype=np.float32)

    def embed(self, texts):
        return self.rows[: len(texts)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [([[0.6, 0.8], [1.0, 0.0]], 0.6), ([[0.6, 0.8], [-1.0, 0.0]], 0.0), ([[0.6, 0.8], [0.6, 0.8]], 1.0)],
)
def test_it_is_the_cosine_without_its_negative_half(rows, expected):
    assert similarity(Case(reference="a", answer="b"), Fixed(*rows)) == expected


def test_an_empty_answer_is_similar_to_nothing():
    assert similarity(Case(reference="salt", answer=""), WordLlamaEmbedder()) == 0.0
