import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.models.embedded.lexicon import Lexicon
from ragsmith.models.embedded.sentence_ranking import SentenceRanking

VECTORS = {"cat": [1, 0], "dog": [0, 1], "lion": [0.6, 0.8], "rock": [-1, 0], "tiger": [0.8, 0.6]}
CORPUS = ("cat dog", "dog", "dog rock", "lion")
IDF_CAT = math.log(1 + 3.5 / 1.5)
IDF_DOG = math.log(1 + 1.5 / 3.5)
SHARE = IDF_CAT / (IDF_CAT + IDF_DOG)


@pytest.fixture(scope="module")
def ranking(word_vectors) -> SentenceRanking:
    return SentenceRanking(Lexicon(CORPUS), word_vectors(VECTORS))


def test_relevance_is_half_covered_idf_and_half_cosine(ranking: SentenceRanking) -> None:
    diagonal = math.sqrt(0.5)  # the query's vector is (1, 1) / sqrt 2
    expected = [
        (SHARE + diagonal) / 2,  # cat: covers its share
        (1 - SHARE + diagonal) / 2,
        1.0,
        (0 + 1.4 * diagonal) / 2,  # lion: only the cosine
        0.0,  # rock: a negative cosine counts as none
        0.0,
    ]
    found = ranking.relevance("cat dog", ["cat", "dog", "dog and cats cat", "lion", "rock", ""])
    assert found == pytest.approx(expected, abs=1e-6)
    assert found.dtype == np.float64


def test_relevance_without_texts_or_words(ranking: SentenceRanking) -> None:
    assert ranking.relevance("cat", []).shape == (0,)
    assert ranking.relevance("", ["cat"]).tolist() == [0.0]


def test_similarity_is_a_clipped_cosine(ranking: SentenceRanking) -> None:
    assert ranking.similarity("lion", "lion") == 1.0
    assert ranking.similarity("lion", "tiger") == ranking.similarity("tiger", "lion") == pytest.approx(0.96)
    assert ranking.similarity("cat", "rock") == 0.0
    assert ranking.similarity("", "cat") == 0.0


def test_selection_prefers_what_is_new(ranking: SentenceRanking) -> None:
    texts = ["cat", "cat cat", "tiger", "lion"]
    # relevance to "cat": 1, 1, .4, .3; cosine with the first: 1, .8, .6
    assert ranking.select("cat", texts, 2, 0.0) == (0, 1)
    assert ranking.select("cat", texts, 2, 0.3) == (0, 1)  # .7 - .3 against .28 - .24
    # .3 - .7 = -.4; .12 - .56 = -.44; .09 - .42 = -.33
    assert ranking.select("cat", texts, 4, 0.7) == (0, 3, 1, 2)


def test_selection_ends_with_the_texts(ranking: SentenceRanking) -> None:
    assert ranking.select("cat", ["cat", "dog"], 5, 0.3) == (0, 1)
    assert ranking.select("cat", ["cat"], 0, 0.3) == ()
    assert ranking.select("cat", [], 3, 0.3) == ()
    assert ranking.select("cat", ["rock", "rock"], 2, 1.0) == (0, 1)


def test_diversity_is_a_share(ranking: SentenceRanking) -> None:
    with pytest.raises(ValueError, match=r"diversity is 1\.5: give a number from 0"):
        ranking.select("cat", ["cat"], 1, 1.5)


def naive_mmr(ranking: SentenceRanking, query: str, texts: list[str], n: int, diversity: float) -> tuple[int, ...]:
    relevance = ranking.relevance(query, texts)
    chosen: list[int] = []
    while len(chosen) < min(n, len(texts)):

        def gain(i: int) -> float:
            nearest = max((ranking.similarity(texts[i], texts[j]) for j in chosen), default=0.0)
            return round((1 - diversity) * float(relevance[i]) - diversity * nearest, 5)

        chosen.append(max((i for i in range(len(texts)) if i not in chosen), key=gain))
    return tuple(chosen)


@settings(max_examples=40)
@given(
    query=st.sampled_from(["cat", "dog lion", "tiger", ""]),
    texts=st.lists(st.lists(st.sampled_from(sorted(VECTORS)), max_size=4).map(" ".join), max_size=7),
    n=st.integers(0, 8),
    diversity=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
)
def test_selection_computes_its_definition(ranking, query, texts, n, diversity) -> None:
    assert ranking.select(query, texts, n, diversity) == naive_mmr(ranking, query, texts, n, diversity)
