import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.errors import ScaleError
from ragsmith.index.index import Corpus
from ragsmith.techniques.passage_augment.relevant_segments import compute_hit_values, find_segments, relevant_segments
from ragsmith.testing import hits_of
from ragsmith.types import Chunk, Document, Hit, Question, Scale

QUESTION = Question("?")
WORDS = {doc: [f"{doc}{index}." for index in range(10)] for doc in "AB"}
CHUNKS = {
    (doc, index): Chunk(f"{doc}:{index}", doc, index, index * 4, index * 4 + 3, word)
    for doc, words in WORDS.items()
    for index, word in enumerate(words)
}
CORPUS = Corpus([Document(doc, doc, " ".join(words)) for doc, words in WORDS.items()], tuple(CHUNKS.values()))


def hits_at(**scores):
    """``A3=0.9`` is a hit on chunk 3 of A; best first."""
    found = [Hit(CHUNKS[name[0], int(name[1:])], score, Scale.COSINE) for name, score in scores.items()]
    return tuple(sorted(found, key=lambda hit: -hit.score))


def test_a_hit_is_worth_its_relevance_less_with_its_rank():
    hits = hits_at(A0=0.8, A1=0.6, A2=0.4)
    assert compute_hit_values(hits) == pytest.approx([1.0, math.exp(-1 / 30) * 0.75, math.exp(-2 / 30) * 0.5])


def test_a_gap_is_read_when_what_follows_is_worth_more():
    hits = hits_at(A2=0.9, A4=0.8, B7=0.1)
    (passage, *_) = relevant_segments(CORPUS, QUESTION, hits)
    assert passage.text == "A2. A3. A4."
    assert passage.score == pytest.approx(1 + math.exp(-1 / 30) * (1 + 7 / 8) / 2 - 3 * 0.18)


def test_a_gap_that_costs_too_much_stays_out():
    passages = relevant_segments(CORPUS, QUESTION, hits_at(A2=0.9, A4=0.8), penalty=0.6, minimum_value=-1.0)
    assert [passage.text for passage in passages] == ["A2.", "A4."]


def test_worthless_segments_are_rejected():
    hits = hits_at(A0=0.9, B0=0.5, B9=0.1)  # B9 is worth exp(-2/30) / 2 - .18 = .29
    assert [p.text for p in relevant_segments(CORPUS, QUESTION, hits, minimum_value=0.3)] == ["A0.", "B0."]
    assert [p.text for p in relevant_segments(CORPUS, QUESTION, hits, minimum_value=0.2)] == ["A0.", "B0.", "B9."]


def test_the_last_chunk_of_a_document_can_be_read():
    assert [p.text for p in relevant_segments(CORPUS, QUESTION, hits_at(A9=0.9, A8=0.8))] == ["A8. A9."]


def test_lengths_are_limited():
    hits = hits_at(**{f"A{i}": 1 - i / 100 for i in range(10)})
    assert max(len(p.text.split()) for p in relevant_segments(CORPUS, QUESTION, hits, max_length=3)) == 3
    total = [word for p in relevant_segments(CORPUS, QUESTION, hits, max_total=7) for word in p.text.split()]
    assert len(total) == len(set(total)) == 7


@given(st.dictionaries(st.tuples(st.sampled_from("AB"), st.integers(0, 9)), st.integers(0, 20), max_size=8))
@settings(max_examples=60)
def test_greedy_over_all_windows_gives_the_same(scores):
    hits = tuple(
        Hit(CHUNKS[place], score, Scale.COSINE)
        for place, score in sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    )
    value = {(h.chunk.doc, h.chunk.index): w for h, w in zip(hits, compute_hit_values(hits), strict=True)}
    windows = [(doc, a, b) for doc in "AB" for a, b in combinations(range(11), 2) if b - a <= 5]
    worth = {w: sum(value.get((w[0], i), 0) - 0.18 for i in range(w[1], w[2])) for w in windows}
    best = max(worth.values())
    found = find_segments(hits, 0.18, 5)
    assert (found[0].value if found and best > 0 else 0) == pytest.approx(max(best, 0))
    passages = relevant_segments(CORPUS, QUESTION, hits)
    assert all(corpus_text == p.text for p in passages for corpus_text in [CORPUS.text(p.sources[0])])
    read = [word for p in passages for word in p.text.split()]
    assert len(read) == len(set(read))
    assert [p.score for p in passages] == sorted((p.score for p in passages), reverse=True)


def test_no_hits_give_nothing_and_mixed_scales_are_refused(chunks, corpus):
    assert relevant_segments(corpus, QUESTION, ()) == ()
    with pytest.raises(ScaleError):
        relevant_segments(
            corpus, QUESTION, hits_of(chunks, [0.2], Scale.COSINE) + hits_of(chunks[1:], [7.0], Scale.RRF)
        )
