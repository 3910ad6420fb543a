import math
import random
import tracemalloc
from itertools import pairwise

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from ragsmith.text.bm25 import BM25
from ragsmith.text.words import terms

SENTENCE = st.lists(st.sampled_from(["ab", "bc", "cd", "de"]), max_size=6)


class LuceneBM25(BM25Okapi):
    """rank_bm25 with the idf ln(1 + ...), which has no negative values to correct."""

    def _calc_idf(self, nd):
        self.idf = {word: math.log(1 + (self.corpus_size - n + 0.5) / (n + 0.5)) for word, n in nd.items()}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(SENTENCE, min_size=1, max_size=8),
    SENTENCE,
    st.sampled_from([0.9, 1.2, 2.0]),
    st.sampled_from([0, 0.4, 0.9]),
)
def test_scores_equal_those_of_rank_bm25(corpus, query, k1, b):
    if not any(corpus):  # rank_bm25 divides by the mean length
        corpus = [*corpus, ["ab"]]
    # rank_bm25 multiplies every score by k1 + 1, a constant that Lucene leaves out
    expected = LuceneBM25(corpus, k1=k1, b=b).get_scores(query) / (k1 + 1)
    index = BM25([" ".join(tokens) for tokens in corpus], k1=k1, b=b, tokenise=str.split)
    np.testing.assert_allclose(index.scores(" ".join(query)), expected, rtol=1e-12, atol=0)


def test_texts_are_cut_in_one_way():
    with pytest.raises(ValueError, match="give one of them"):
        BM25(["cat"], tokenise=str.split, languages=["de"])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdef"), max_size=8), max_size=30),
    st.lists(st.sampled_from("abcdefx"), max_size=4),
    st.integers(0, 12),
)
def test_the_best_are_those_of_all_scores_in_their_order(corpus, query, n):
    index = BM25([" ".join(tokens) for tokens in corpus], tokenise=str.split)
    scores = np.round(index.scores(" ".join(query)), 6).tolist()
    expected = sorted((-score, position) for position, score in enumerate(scores) if score > 0)[:n]
    positions, found = index.best(" ".join(query), n)
    assert list(zip((-found).tolist(), positions.tolist(), strict=True)) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(SENTENCE, st.integers(0, 3)), min_size=1, max_size=8), SENTENCE)
def test_texts_put_together_are_scored_as_if_they_had_been_one(parts, query):
    numbers = {group: number for number, group in enumerate(sorted({group for _, group in parts}))}
    groups = [numbers[group] for _, group in parts]
    texts = [" ".join(tokens) for tokens, _ in parts]
    wholes = [" ".join(texts[i] for i, one in enumerate(groups) if one == group) for group in sorted(set(groups))]
    joined = BM25(texts, tokenise=str.split).joined(np.array(groups))
    assert len(joined) == len(wholes)
    expected = BM25(wholes, tokenise=str.split).scores(" ".join(query))
    assert joined.scores(" ".join(query)).tolist() == expected.tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9)), min_size=1), st.sampled_from([0.9, 1.2, 2.0]), st.sampled_from([0, 0.75]))
def test_scores_are_those_of_bm25s_to_the_last_bit(corpus, k1, b):
    vocabulary = sorted({token for text in corpus for token in text})
    if not vocabulary:  # bm25s divides by the mean length
        return
    ids = [[vocabulary.index(token) for token in text] for text in corpus]
    theirs = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float64", backend="numpy")
    matrix = theirs.build_index_from_ids(
        unique_token_ids=range(len(vocabulary)), corpus_token_ids=ids, show_progress=False
    )
    ours = BM25([" ".join(map(str, text)) for text in corpus], k1=k1, b=b, tokenise=str.split)
    for position, token in enumerate(vocabulary):
        expected = np.zeros(len(corpus))
        column = slice(matrix["indptr"][position], matrix["indptr"][position + 1])
        expected[matrix["indices"][column]] = matrix["data"][column]
        assert ours.scores(str(token)).tolist() == expected.tolist()


def test_worked_example():
    # 2 texts of lengths 1 and 3, mean 2; "cat" is in both, "sat" in the second
    scores = BM25(["cat", "cat cat sat"], tokenise=str.split).scores("cat sat")
    cat, sat = math.log(1 + 0.5 / 2.5), math.log(1 + 1.5 / 1.5)
    short, long = 1.2 * (0.25 + 0.75 * 1 / 2), 1.2 * (0.25 + 0.75 * 3 / 2)
    assert scores == pytest.approx([cat / (1 + short), cat * 2 / (2 + long) + sat / (1 + long)])


def test_a_repeated_query_term_counts_as_often():
    index = BM25(["law of torts", "law of trusts", "equity"])
    np.testing.assert_allclose(index.scores("torts torts law"), 2 * index.scores("torts") + index.scores("law"))


@pytest.mark.parametrize("query", ["", "the", "unheard"])
def test_a_query_that_matches_nothing_scores_zero(query):
    scores = BM25(["one text", "another text", ""]).scores(query)
    assert scores.dtype == np.float64
    assert scores.tolist() == [0, 0, 0]


@pytest.mark.parametrize("texts", [[], [""], ["", "the"]])
def test_a_corpus_without_terms_is_no_error(texts):
    index = BM25(texts)
    assert len(index) == len(texts)
    assert index.scores("anything").tolist() == [0] * len(texts)


def test_scores_are_the_same_in_however_many_blocks_they_are_worked_out(monkeypatch):
    rng = random.Random(1)
    texts = [
        " ".join(rng.choices(["salt", "bell", "mud", "oath", "ferry", "toll"], k=rng.randrange(9))) for _ in range(60)
    ]
    whole = BM25(texts)
    monkeypatch.setattr("ragsmith.text.bm25._BLOCK_ENTRIES", 7)
    in_blocks = BM25(texts)
    for query in ("salt", "bell mud bell", "oath ferry toll", "nothing"):
        assert in_blocks.scores(query).tolist() == whole.scores(query).tolist()


@settings(max_examples=150)
@given(
    st.lists(st.lists(st.sampled_from(["running", "the", "salt", "parseHTTP", "Ärger", "42"]), max_size=6), max_size=6),
    st.lists(st.sampled_from(["runs", "salt", "salts", "http", "zeppelin", "of", "42"]), max_size=6),
    st.data(),
)
def test_occurrences_are_those_of_a_search_over_the_terms(corpus, query, data):
    texts, asked = [" ".join(words) for words in corpus], " ".join(query)
    positions = data.draw(st.lists(st.sampled_from(range(len(texts))), max_size=8)) if texts else []
    found = BM25(texts).occurrences(asked, np.array(positions, dtype=np.int64))
    read = terms(asked)
    assert [(found.terms[one], found.terms[other]) for one, other in found.pairs] == list(dict.fromkeys(pairwise(read)))
    assert found.terms == tuple(dict.fromkeys(read))
    held = [sum(term in terms(text) for text in texts) for term in found.terms]
    assert found.idf.tolist() == pytest.approx([math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for n in held])
    expected = [
        (number, place, term)
        for number, position in enumerate(positions)
        for place, term in enumerate(terms(texts[position]))
        if term in read
    ]
    numbers = (found.text.tolist(), found.place.tolist(), [found.terms[number] for number in found.term])
    assert list(zip(*numbers, strict=True)) == expected


def test_occurrences_in_texts_that_were_put_together():
    joined = BM25(["salt", "mud", "bell salt"]).joined(np.array([1, 0, 0]))
    found = joined.occurrences("salt bell", np.array([0, 1]))
    assert [(text, found.terms[term]) for text, term in zip(found.text, found.term, strict=True)] == [
        (0, "bell"),
        (0, "salt"),
        (1, "salt"),
    ]


def test_occurrences_are_looked_up_in_what_there_is_without_a_copy_of_it():
    """Positions of another type would have the numbers of all texts copied to that type, for each query."""
    index, texts, length = BM25(["salt bell"]), 40_000, 100
    vars(index).update(_size=texts, _tokens=np.zeros(texts * length, dtype=np.int32))
    vars(index).update(_texts=np.repeat(np.arange(texts, dtype=np.int32), length))
    wanted = np.array([7, 39_999], dtype=np.int64)
    tracemalloc.start()
    found = index.occurrences("salt", wanted)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.text.tolist() == [0] * length + [1] * length
    assert found.place.tolist() == [*range(length)] * 2
    assert peak < 1 << 20  # the numbers of all texts have 16 MiB
