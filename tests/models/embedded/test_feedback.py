import math

import pytest

from ragsmith.models.embedded.feedback import RelevanceFeedback
from ragsmith.models.embedded.lexicon import Lexicon
from ragsmith.text.bm25 import BM25

TEXTS = (
    "copyright protects authors and copyright protects publishers",
    "authors write books",
    "authors and publishers sign contracts",
    "the weather in the north",
    "copyright expires",
    "copyright expires",
)
FEEDBACK = RelevanceFeedback(TEXTS, Lexicon(TEXTS))


def test_the_best_texts_are_those_of_bm25_and_equals_go_by_position() -> None:
    scores = BM25(TEXTS).scores("copyright expires")
    found = FEEDBACK.best("copyright expires", 3)
    assert [position for position, _ in found] == [4, 5, 0]
    assert [score for _, score in found] == pytest.approx([scores[i] for i in (4, 5, 0)], abs=1e-6)


def test_texts_without_a_term_of_the_query_are_not_found() -> None:
    assert [position for position, _ in FEEDBACK.best("weather", 6)] == [3]
    assert FEEDBACK.best("unheard", 3) == ()
    assert FEEDBACK.best("", 3) == ()
    assert FEEDBACK.best("weather", -1) == ()
    assert RelevanceFeedback((), Lexicon(())).best("weather", 3) == ()


def test_expansion_terms_are_the_relevance_model_against_the_corpus() -> None:
    # "contracts" finds text 2 alone: author, publish, sign, contract, each with P(w|R) = 1/4, of 19 terms in all
    total = 6 + 3 + 4 + 2 + 2 + 2
    gain = {
        word: 0.25 * math.log(0.25 / (count / total)) for word, count in {"author": 3, "publish": 2, "sign": 1}.items()
    }
    assert sorted(gain, key=lambda word: -gain[word]) == ["sign", "publish", "author"]
    assert FEEDBACK.expansion_terms("contracts", 5, 3) == ("sign", "publishers", "authors")
    assert FEEDBACK.expansion_terms("contracts", 1, 3) == ("sign",)


def test_documents_count_by_their_share_of_the_score() -> None:
    # both texts say one thing each besides the query, equally often in the corpus; the better text decides
    texts = ("tort tort alpha", "tort padding padding padding beta", *("nothing here",) * 6)
    assert RelevanceFeedback(texts, Lexicon(texts)).expansion_terms("tort", 3, 2)[0] == "alpha"
    assert RelevanceFeedback(texts, Lexicon(texts)).expansion_terms("tort", 3, 1) == ("alpha",)


def test_words_of_the_query_and_numbers_are_never_offered() -> None:
    texts = ("Authors writing in 1976 met lawyers", "something else entirely")
    assert set(RelevanceFeedback(texts, Lexicon(texts)).expansion_terms("the author writes", 9, 3)) == {
        "met",
        "lawyers",
    }


def test_words_that_the_corpus_has_as_often_are_not_offered() -> None:
    texts = ("law court", "law court")
    assert RelevanceFeedback(texts, Lexicon(texts)).expansion_terms("court", 5, 2) == ()
