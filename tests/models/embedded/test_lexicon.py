"""Words and sentences of a corpus: statistics, relevance, expansion terms and related words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.models.embedded.lexicon import Lexicon, RelevanceFeedback, SentenceRanking, Thesaurus, is_wordlike
from ragsmith.text.bm25 import BM25
from ragsmith.text.words import terms

TEXTS = ("Courts decide. The court decides again.", "A court in England", "the England team of england", "")
LEXICON = Lexicon(TEXTS)


def test_idf_is_that_of_bm25_and_greatest_for_an_unknown_term() -> None:
    assert LEXICON.idf("court") == pytest.approx(math.log(1 + (4 - 2 + 0.5) / 2.5))
    assert LEXICON.idf("team") == pytest.approx(math.log(1 + (4 - 1 + 0.5) / 1.5))
    assert LEXICON.idf("unheard") == pytest.approx(math.log(10))
    assert LEXICON.idf("unheard") > LEXICON.idf("team") > LEXICON.idf("court") > 0


def test_a_surface_is_the_most_frequent_spelling() -> None:
    assert LEXICON.surfaces["court"] == "court"  # twice, against "Courts" once
    assert LEXICON.surfaces["england"] == "England"


def test_among_equal_spellings_lower_case_and_then_the_alphabet_decide() -> None:
    assert Lexicon(["Writ writ"]).surfaces["writ"] == "writ"
    assert Lexicon(["wills willing willed"]).surfaces["will"] == "willed"


@settings(max_examples=50)
@given(st.lists(st.text(max_size=40), max_size=4))
def test_every_term_has_a_surface_of_its_own_stem(texts: list[str]) -> None:
    lexicon = Lexicon(texts)
    assert set(lexicon.surfaces) == {term for text in texts for term in terms(text)}


def test_an_empty_corpus_knows_nothing() -> None:
    assert Lexicon(()).idf("court") == pytest.approx(math.log(2))
    assert not Lexicon(()).surfaces


def test_numbers_and_abbreviations_are_no_words() -> None:
    assert [is_wordlike(word) for word in ("law", "UK", "1976", "3rd", "")] == [True, False, False, False, False]


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


CHUNKS = (
    "copyright protects authors and copyright protects publishers",
    "authors write books",
    "authors and publishers sign contracts",
    "the weather in the north",
    "copyright expires",
    "copyright expires",
)
FEEDBACK = RelevanceFeedback(Lexicon(CHUNKS))


def test_the_best_texts_are_those_of_bm25_and_equals_go_by_position() -> None:
    scores = BM25(CHUNKS).scores("copyright expires")
    found = FEEDBACK.best("copyright expires", 3)
    assert [position for position, _ in found] == [4, 5, 0]
    assert [score for _, score in found] == pytest.approx([scores[i] for i in (4, 5, 0)], abs=1e-6)


def test_texts_without_a_term_of_the_query_are_not_found() -> None:
    assert [position for position, _ in FEEDBACK.best("weather", 6)] == [3]
    assert FEEDBACK.best("unheard", 3) == ()
    assert FEEDBACK.best("", 3) == ()
    assert FEEDBACK.best("weather", -1) == ()
    assert RelevanceFeedback(Lexicon(())).best("weather", 3) == ()


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
    assert RelevanceFeedback(Lexicon(texts)).expansion_terms("tort", 3, 2)[0] == "alpha"
    assert RelevanceFeedback(Lexicon(texts)).expansion_terms("tort", 3, 1) == ("alpha",)


def test_words_of_the_query_and_numbers_are_never_offered() -> None:
    texts = ("Authors writing in 1976 met lawyers", "something else entirely")
    assert set(RelevanceFeedback(Lexicon(texts)).expansion_terms("the author writes", 9, 3)) == {
        "met",
        "lawyers",
    }


def test_words_that_the_corpus_has_as_often_are_not_offered() -> None:
    texts = ("law court", "law court")
    assert RelevanceFeedback(Lexicon(texts)).expansion_terms("court", 5, 2) == ()


NEIGHBOURS = {
    "judge": [1.0, 0, 0],
    "judges": [0.99, 0.14, 0],
    "court": [0.8, 0.6, 0],
    "law": [0.5, 0, 0.87],
    "weather": [0, 0, 1.0],
    "1976": [1.0, 0, 0],
    "arbiter": [0.9, 0.43, 0],
    "umpire": [0.2, 0, 0.98],
    "Paris": [0, 1.0, 0],
}
SENTENCES = ("A judge in court, with two judges.", "The law of 1976 and the weather in Paris")


def thesaurus(word_vectors, texts=SENTENCES) -> Thesaurus:
    return Thesaurus(Lexicon(texts), word_vectors(NEIGHBOURS))


def test_words_of_the_corpus_come_nearest_first_down_to_the_floor(word_vectors) -> None:
    assert thesaurus(word_vectors).related("judge", 9) == ("court", "law")  # .8 and .5; 1976 is no word
    assert thesaurus(word_vectors).related("judge", 1) == ("court",)
    assert thesaurus(word_vectors).related("judge", 0) == ()


def test_a_form_of_the_word_itself_is_never_related(word_vectors) -> None:
    assert thesaurus(word_vectors).related("judges", 9) == ("court", "law")
    assert thesaurus(word_vectors).related("Judging", 9) == ()  # the toy has no vector for this spelling


def test_a_word_that_the_corpus_lacks_needs_nearer_neighbours(word_vectors) -> None:
    assert thesaurus(word_vectors).related("arbiter", 9) == ("court", "judge")  # .978 and .9; law is at .45
    assert thesaurus(word_vectors).related("umpire", 9) == ("weather", "law")  # .98 and .95; judge is at .2


def test_unknown_words_and_stop_words_have_no_relations(word_vectors) -> None:
    assert thesaurus(word_vectors).related("zzzz", 9) == ()
    assert thesaurus(word_vectors).related("the", 9) == ()
    assert thesaurus(word_vectors).related("", 9) == ()
    assert thesaurus(word_vectors, ()).related("judge", 9) == ()


def test_a_name_is_looked_up_as_the_corpus_spells_it(word_vectors) -> None:
    assert thesaurus(word_vectors).related("paris", 9) == ("court",) == thesaurus(word_vectors).related("Paris", 9)


def test_equals_go_by_the_alphabet_of_their_stems(word_vectors) -> None:
    vectors = word_vectors({"judge": [1, 0], "zebra": [1, 0], "apple": [1, 0]})
    assert Thesaurus(Lexicon(["zebra judge apple"]), vectors).related("judge", 5) == ("apple", "zebra")
