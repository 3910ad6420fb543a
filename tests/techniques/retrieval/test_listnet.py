"""Learned retrieval: signals against plain loops over the texts, and the order that weights make of them."""

import math
import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passages import PASSAGES

from ragsmith.index.index import Index
from ragsmith.techniques.retrieval.listnet import SIGNALS, listnet, observe, signals
from ragsmith.testing import example_chunks
from ragsmith.text.words import terms
from ragsmith.types import Chunk, Fitted, Gold, IndexEntry, LazyHits, Scale


class Words:
    """A text's vector: which of a few words it has, length 1."""

    VOCABULARY = ("salt", "bell", "dues", "wall")

    def __init__(self):
        self.id = "words"
        self.embedded = []

    def embed(self, texts):
        self.embedded += texts
        rows = np.array([[float(word in text.lower()) for word in self.VOCABULARY] for text in texts], dtype=np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


class Elsewhere:
    """Vectors that lie outside the index: they are asked for key by key, and compared one by one."""

    def __init__(self, keys, make):
        self.keys = keys
        self.rows = [make(n, n + 1)[0].astype(np.float64) for n in range(keys.count)]

    def search(self, query_vectors, k):
        ends = [*self.keys.starts.tolist()[1:], self.keys.count]
        cosines = [
            [
                round(max(float(query @ row) for row in self.rows[a:b]), 6)
                for a, b in zip(self.keys.starts, ends, strict=True)
            ]
            for query in query_vectors.astype(np.float64)
        ]
        best = [sorted(range(len(row)), key=lambda n: (-row[n], n))[:k] for row in cosines]
        return np.array(best), np.array([[row[n] for n in places] for row, places in zip(cosines, best, strict=True)])


def chunk(doc, index, text, title="", headings=(), **more):
    return replace(Chunk(f"{doc}:{index}", doc, index, 0, len(text), text, title, headings), **more)


def entries(*chunks):
    return tuple(IndexEntry((one.text,), one) for one in chunks)


def found(index, query, pool=40):
    return {key: dict(row) for key, row in signals(index, (query,), embedder=Words(), pool=pool).items()}


def ordered(index, query, weights, **parameters):
    [hits] = listnet(index, (query,), embedder=Words(), fitted=weighted(**weights), **parameters)
    return hits


def weighted(**weights):
    """These weights, and 0 for all other signals."""
    return Fitted({"weights": {**dict.fromkeys(SIGNALS, 0.0), **weights}})


def ids(hits):
    return [hit.chunk.id for hit in hits]


# --- by hand ---------------------------------------------------------------------------------------------------------


def by_hand(listed, query, pool):
    """The signals before they are standardised, as their descriptions say."""
    listed = tuple(sorted(listed, key=lambda entry: entry.chunk.id))
    language = listed[0].chunk.language
    asked = terms(query, language)
    distinct = list(dict.fromkeys(asked))
    read = [[terms(key, language) for key in entry.keys] for entry in listed]
    keys = [key for of_entry in read for key in of_entry]
    mean = sum(map(len, keys)) / len(keys)
    held = {term: sum(term in key for key in keys) for term in distinct}
    idf = {term: math.log(1 + (len(keys) - n + 0.5) / (n + 0.5)) for term, n in held.items()}
    share = {term: value / sum(idf.values()) for term, value in idf.items()}

    def gain(key):
        return sum(
            idf[term] * key.count(term) / (key.count(term) + 1.2 * (0.25 + 0.75 * len(key) / mean))
            for term in asked
            if term in key
        )

    words = [round(max(map(gain, of_entry)), 6) for of_entry in read]
    [wanted] = Words().embed([query]).astype(np.float64)
    cosines = [
        round(max(float(row @ wanted) for row in Words().embed(one.keys).astype(np.float64)), 6) for one in listed
    ]
    sides = {
        "bm25": (words, sorted((n for n in range(len(listed)) if words[n] > 0), key=lambda n: (-words[n], n))[:pool]),
        "cosine": (cosines, sorted(range(len(listed)), key=lambda n: (-cosines[n], n))[:pool]),
    }
    named = set()
    for number, word in enumerate(query.split()):
        if any(c.isdigit() for c in word) or (number and word[0].isupper()) or (len(word) > 1 and word.isupper()):
            named |= set(terms(word, language))
    pairs = set(pairwise(asked))
    of_document = {}
    for n, entry in enumerate(listed):
        of_document.setdefault(entry.chunk.id if entry.chunk.level else f"whole {entry.chunk.doc}", []).append(n)
    rows = {}
    for n in sorted({n for _, side in sides.values() for n in side}):
        it = listed[n].chunk
        row = {}
        for name, (scores, side) in sides.items():
            low, high = (min(scores[m] for m in side), max(scores[m] for m in side)) if side else (0.0, 0.0)
            row[name] = ((scores[n] - low) / (high - low) if high > low else 1.0) if n in side else 0.0
            row[f"{name}_rank"] = 1 / (6 + side.index(n)) if n in side else 0.0
        [document] = [places for places in of_document.values() if n in places]
        best = max(words) or 1.0
        beside = {listed[m].chunk.index - it.index: words[m] for m in document}
        row |= {
            "document_bm25": max(words[m] for m in document) / best,
            "document_length": math.log(len(document)),
            "previous_bm25": beside.get(-1, 0.0) / best,
            "next_bm25": beside.get(1, 0.0) / best,
            "length": math.log(1 + len(it.text)),
            "shared_words": max(len({*key} & {*distinct}) for key in read[n]) / max(1, len(distinct)),
            "word_pairs": max(len({*pairwise(key)} & pairs) for key in read[n]) / max(1, len(pairs)),
            "names": max(sum(share[t] for t in distinct if t in key and t in named) for key in read[n]),
            "numbers": max(sum(t in key and any(c.isdigit() for c in t) for t in distinct) for key in read[n]),
            "title": sum(share[t] for t in distinct if t in terms(it.title, language)),
            "headings": sum(share[t] for t in distinct if t in terms(" ".join(it.headings), language)),
        }
        rows[it.id] = row
    return rows


def standard(rows):
    columns = {}
    for name in SIGNALS:
        values = [row[name] for row in rows.values()]
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
        columns[name] = [(value - mean) / spread if spread > 1e-9 else 0.0 for value in values]
    return {key: {name: columns[name][n] for name in SIGNALS} for n, key in enumerate(rows)}


def agrees(listed, query, pool=40):
    expected, rows = standard(by_hand(listed, query, pool)), found(Index(listed), query, pool)
    assert rows.keys() == expected.keys()
    for key, row in rows.items():
        assert row == pytest.approx(expected[key], abs=2e-4), key


text = st.lists(st.sampled_from(["salt", "bell", "dues", "wall", "mud", "1620", "Brandt", "rings"]), max_size=5).map(
    " ".join
)


@st.composite
def corpora(draw):
    made = []
    places = draw(st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), min_size=1, max_size=8))
    for doc, index in sorted(places):
        headings = tuple(draw(st.lists(text, max_size=2)))
        one = chunk(doc, index, draw(text), draw(text), headings, level=draw(st.sampled_from([0, 0, 0, 1])))
        made.append(IndexEntry(tuple(draw(st.lists(text, min_size=1, max_size=3))), one))
    return tuple(made)


@settings(max_examples=150)
@given(corpora(), text, st.sampled_from([1, 3, 40]))
def test_signals_are_what_their_descriptions_say(listed, query, pool):
    if not any(terms(key) for entry in listed for key in entry.keys):  # there is no mean length to divide by
        return
    agrees(listed, query, pool)


def test_of_several_keys_the_best_counts_for_each_signal():
    keys = ("mud salt bell", "1620", "dues")
    apart, plain = (IndexEntry(keys, chunk("a", 0, "x")), IndexEntry(("mud",), chunk("b", 0, "x")))
    rows = found(Index((apart, plain)), "salt bell 1620")
    for name in ("bm25", "cosine", "shared_words", "word_pairs", "names", "numbers"):
        assert (rows["a:0"][name], rows["b:0"][name]) == (1, -1), name


def test_a_summary_stands_alone():
    leaves = [chunk("a", n, word) for n, word in enumerate(("salt", "bell", "mud"))]
    summary = replace(chunk("a", 1, "wall"), id="summary", level=1)
    listed = entries(*leaves, summary)
    rows = by_hand(listed, "salt bell", 40)
    assert [rows["summary"][name] for name in ("document_bm25", "document_length", "previous_bm25", "next_bm25")] == [
        0
    ] * 4
    assert rows["a:2"]["previous_bm25"] == 1
    agrees(listed, "salt bell")


# --- the order -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIGNALS)
def test_a_weight_orders_by_its_signal(name):
    index = Index(entries(*example_chunks()))
    query = "Who rings the bell when the Harbour water falls in 1612?"
    rows, hits = found(index, query), ordered(index, query, {name: -2.0})
    assert [hit.score for hit in hits] == pytest.approx([-2 * rows[hit.chunk.id][name] for hit in hits])
    assert ids(hits) == sorted(rows, key=lambda key: (2 * rows[key][name], key))
    assert {hit.scale for hit in hits} == {Scale.LEARNED}


def test_as_many_are_returned_as_asked_for_out_of_the_best_of_both_sides():
    index = Index(entries(*example_chunks()))
    query, weights = "salt dues of the guild", {"bm25": 1.0, "length": 0.3}
    full = ordered(index, query, weights, k=10)
    assert len(full) == 10
    for k in (1, 4, 99):
        assert ordered(index, query, weights, k=k) == full[:k]
    [words], [vectors] = index.by_words([query], 2), index.by_vector([query], 2, Words())
    assert {*ids(ordered(index, query, weights, pool=2))} == {*ids(words), *ids(vectors)}


def test_entries_of_one_chunk_are_candidates_of_their_own():
    twice = chunk("a", 0, "salt")
    index = Index((IndexEntry(("salt",), twice), IndexEntry(("bell",), twice), *entries(chunk("b", 0, "mud"))))
    hits = ordered(index, "salt bell", {"shared_words": 1.0})
    assert ids(hits) == ["a:0", "a:0", "b:0"]


def test_there_is_one_ranking_for_each_query():
    index, fitted = Index(entries(*example_chunks())), weighted(bm25=1.0, cosine=0.5)
    queries = ("bell", "salt", "bell")
    together = listnet(index, queries, embedder=Words(), fitted=fitted)
    for query, hits in zip(queries, together, strict=True):
        fresh = Index(entries(*example_chunks()))
        assert listnet(fresh, (query,), embedder=Words(), fitted=fitted) == (hits,)
        assert isinstance(hits, LazyHits)
    assert listnet(index, (), embedder=Words(), fitted=fitted) == ()


def test_a_query_is_embedded_for_everyone_who_asks_so_that_all_pay_for_it():
    index, embedder = Index(entries(*example_chunks())), Words()
    for weights in ({"bm25": 1.0}, {"cosine": 1.0}):
        listnet(index, (), embedder=embedder, fitted=weighted(**weights))
        embedder.embedded.clear()
        listnet(index, ("salt",), embedder=embedder, fitted=weighted(**weights))
        assert embedder.embedded == ["salt"]


@pytest.mark.parametrize("query", ["zeppelin", "", "?!", "the of and"])
def test_a_query_without_a_known_word_is_answered_by_vectors(query):
    listed = entries(*example_chunks())
    [by_vector] = Index(listed).by_vector([query], 3, Words())
    hits = ordered(Index(listed), query, {"cosine_rank": 1.0, "bm25": 1.0, "names": 1.0, "title": 1.0}, pool=3)
    assert ids(hits) == ids(by_vector)
    assert all(row["bm25"] == row["names"] == row["document_bm25"] == 0 for row in found(Index(listed), query).values())


def test_an_index_of_texts_without_words_is_searched():
    assert len(ordered(Index(entries(chunk("a", 0, "!"), chunk("a", 1, "?"))), "salt", {"bm25": 1.0})) == 2


def test_wherever_vectors_lie_the_same_is_found():
    listed = tuple(IndexEntry((one.text, one.title), one) for one in example_chunks())
    weights = {name: 1.0 + n for n, name in enumerate(SIGNALS)}
    for query in ("salt dues", "Who rings the bell?", "zeppelin"):
        for pool in (2, 40):
            here, there = (
                ordered(index, query, weights, pool=pool) for index in (Index(listed), Index(listed, Elsewhere))
            )
            assert here == there
            assert len(here) > 1


# --- what is asked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["de", "tr", "zh", "ar"])
def test_other_languages_have_the_same_signals(language):
    passages = [
        chunk("d", n, passage, title=passage[:20], headings=(passage[20:40],), language=language)
        for n, passage in enumerate(PASSAGES[language])
    ]
    for one in passages:
        query = one.text[: len(one.text) // 2]
        agrees(entries(*passages), query)
        assert ids(ordered(Index(entries(*passages)), query, {"shared_words": 1.0, "word_pairs": 1.0}))[0] == one.id


@pytest.mark.parametrize("language", ["en", "de"])
def test_words_that_a_query_repeats_stay_where_they_stand(language):
    passages = (chunk("d", n, text, language=language) for n, text in enumerate(("Miete Ware", "Miete Miete")))
    agrees(entries(*passages), "Miete zahlt Mieter Miete Ware")


def test_a_query_in_one_of_several_languages_keeps_its_pairs():
    english = entries(chunk("a", 0, "the harbour master pays"), chunk("b", 0, "the master of each harbour pays"))
    german = entries(chunk("c", 0, "Der Mieter zahlt die Miete.", language="de"))
    query = "harbour master"
    alone, among = (found(Index(listed), query) for listed in (english, (*english, *german)))
    assert alone["a:0"]["word_pairs"] > alone["b:0"]["word_pairs"]
    assert among["a:0"]["word_pairs"] > among["b:0"]["word_pairs"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("Where is the Brandt bell?", ["brandt"]),
        ("Bell of Brandt", ["brandt"]),
        ("BELL of brandt", ["bell"]),
        ("bell 1620 x1620y", ["1620"]),
        ("A bell", []),
    ],
)
def test_names_are_words_with_a_capital_that_is_not_the_questions_and_words_with_digits(query, named):
    words = ("brandt", "bell", "1620", "mud")
    index = Index(entries(*(chunk(word, 0, word) for word in words)))
    rows = found(index, query)
    low = min(row["names"] for row in rows.values())
    assert [key.split(":")[0] for key, row in rows.items() if row["names"] > low] == sorted(named)


def test_a_very_long_query_needs_little_memory():
    words = [f"word{n}" for n in range(2000)]
    index = Index(entries(*(chunk("d", n, " ".join(words[n : n + 60])) for n in range(0, 1900, 10))))
    query = " ".join(words)
    ordered(index, "word1", {"bm25": 1.0})
    tracemalloc.start()
    rows = found(index, query)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(rows) >= 40
    assert peak < 8 << 20


# --- learning --------------------------------------------------------------------------------------------------------


def test_what_is_observed_are_the_signals_and_which_candidates_are_relevant():
    index = Index(entries(*example_chunks()))
    gold = Gold(frozenset({"harbour:1", "guild:2", "elsewhere:0"}))
    seen = observe(index, ("Who rings the bell?",), embedder=Words(), gold=gold, pool=40)
    rows = found(index, "Who rings the bell?")
    assert seen["question"] == "Who rings the bell?"
    assert seen["signals"] == [list(row.values()) for row in rows.values()]
    assert [key for key, relevant in zip(rows, seen["relevant"], strict=True) if relevant] == ["guild:2", "harbour:1"]
    assert seen["group"] == "guild"
    nothing = observe(index, ("bell",), embedder=Words(), gold=Gold(frozenset()), pool=40)
    assert (set(nothing["relevant"]), nothing["group"]) == ({False}, "")
