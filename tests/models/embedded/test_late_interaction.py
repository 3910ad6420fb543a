import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.models.embedded.late_interaction import LateInteractionScorer
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.protocols import Vectors

FORMS = ("<unk>", "<s>", "</s>", "▁cat", "▁dog", "▁law", "▁the", "▁.", "▁cats")
ROWS = [[0, 1], [0, 1], [0, 1], [1, 0], [0.6, 0.8], [0, -1], [0, 1], [1, 0], [0.8, 0.6]]


class Tokens:
    """Words of `FORMS`, two dimensions."""

    id = "toy"

    def tokens(self, text: str) -> list[int]:
        return [FORMS.index(f"▁{word}") for word in text.split()]

    def vocabulary(self) -> tuple[str, ...]:
        return FORMS

    def vocabulary_vectors(self) -> Vectors:
        return np.array(ROWS, dtype=np.float32)


CORPUS = ("cat dog", "dog law", "law law", "dog")
IDF_CAT = math.log(1 + (4 - 1 + 0.5) / 1.5)
IDF_DOG = math.log(1 + (4 - 3 + 0.5) / 3.5)
TOY = LateInteractionScorer(Tokens(), CORPUS)


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("cat", "cat", 1.0),
        ("cat", "dog law", 0.6),  # the best token counts, not the last or the mean
        ("cat", "law", 0.0),
        ("dog", "law", -0.8),
        ("cat dog", "cats", (IDF_CAT * 0.8 + IDF_DOG * 0.96) / (IDF_CAT + IDF_DOG)),
        ("cat dog dog", "cat", (IDF_CAT + 2 * IDF_DOG * 0.6) / (IDF_CAT + 2 * IDF_DOG)),
    ],
)
def test_worked_numbers(query: str, text: str, expected: float) -> None:
    assert TOY.score(query, [text])[0] == pytest.approx(expected, abs=5e-4)  # fixed point: multiples of 2^-11


def test_stop_words_and_punctuation_of_the_query_do_not_count() -> None:
    assert TOY.score("the cat .", ["dog"]) == TOY.score("cat", ["dog"])
    assert TOY.score("cat", ["dog ."]) == TOY.score("cat", ["dog"])  # the vector of "." equals that of "cat"


def test_a_query_of_stop_words_alone_is_taken_at_its_word() -> None:
    assert TOY.score("the", ["the", "law"]) == (1.0, -1.0)


def test_nothing_to_compare_scores_zero() -> None:
    assert TOY.score(".", ["cat"]) == (0.0,)
    assert TOY.score("", ["cat", "dog"]) == (0.0, 0.0)
    assert TOY.score("cat", ["", "cat", "."]) == (0.0, 1.0, 0.0)
    assert TOY.score("cat", []) == ()
    assert LateInteractionScorer(Tokens(), ()).score("cat", ["cat"]) == (1.0,)


PASSAGES = (
    "The limitation period starts when the claimant knows of the damage.",
    "Copyright protects original expression, not ideas.",
    "A mediator helps the parties to negotiate a settlement.",
    "In 1873 the courts of law and equity were merged.",
)


WORDLLAMA = LateInteractionScorer(WordLlamaEmbedder(), PASSAGES)


@settings(max_examples=15, deadline=None)
@given(query=st.text(max_size=40), texts=st.lists(st.text(max_size=50), max_size=6))
def test_a_score_depends_on_query_and_text_alone(query: str, texts: list[str]) -> None:
    texts = [*texts, *PASSAGES]
    alone = [WORDLLAMA.score(query, [text])[0] for text in texts]
    assert list(WORDLLAMA.score(query, texts)) == alone
    assert list(WORDLLAMA.score(query, texts[::-1])) == alone[::-1]
    assert all(-1 <= score <= 1 and score == round(score, 6) for score in alone)


def test_identity_covers_code_embedder_and_corpus() -> None:
    assert TOY.id.startswith("late-interaction:")
    assert ":toy:" in TOY.id
    assert TOY.id == LateInteractionScorer(Tokens(), CORPUS).id
    assert TOY.id != LateInteractionScorer(Tokens(), CORPUS[:3]).id


def test_it_travels_to_another_process(embedder: WordLlamaEmbedder) -> None:
    scorer = LateInteractionScorer(embedder, PASSAGES)
    copy = pickle.loads(pickle.dumps(scorer))
    assert copy.id == scorer.id
    assert copy.score("copyright", PASSAGES) == scorer.score("copyright", PASSAGES)
