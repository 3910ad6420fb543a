from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.index.index import Corpus
from ragsmith.techniques.passage_augment.prev_next import prev_next
from ragsmith.types import Chunk, Document, Hit, Question, Scale

QUESTION = Question("?")


def corpus_of(**sizes):
    """Documents of numbered sentences, one a chunk: ``A=3`` is "A0. A1. A2."."""
    documents, chunks = [], []
    for doc, size in sizes.items():
        words = [f"{doc}{index}." for index in range(size)]
        documents.append(Document(doc, doc, " ".join(words)))
        start = 0
        for index, word in enumerate(words):
            chunks.append(Chunk(f"{doc}:{index:02}", doc, index, start, start + len(word), word))
            start += len(word) + 1
    return Corpus(documents, tuple(chunks))


def hits_at(corpus, *places):
    by_place = {(chunk.doc, chunk.index): chunk for chunk in corpus.chunks}
    return tuple(Hit(by_place[place], 1 - rank / 10, Scale.COSINE) for rank, place in enumerate(places))


def test_windows_merge_and_stand_at_the_rank_of_their_best_hit():
    corpus = corpus_of(A=12, B=4)
    passages = prev_next(corpus, QUESTION, hits_at(corpus, ("A", 7), ("A", 2), ("A", 9), ("B", 0)))
    assert [passage.text for passage in passages] == ["A6. A7. A8. A9. A10.", "A1. A2. A3.", "B0. B1."]
    assert [passage.score for passage in passages] == [1.0, 0.9, 0.7]


def test_touching_windows_merge_and_separate_ones_do_not():
    corpus = corpus_of(A=12)
    touching = prev_next(corpus, QUESTION, hits_at(corpus, ("A", 4), ("A", 1)))
    assert [passage.text for passage in touching] == ["A0. A1. A2. A3. A4. A5."]
    apart = prev_next(corpus, QUESTION, hits_at(corpus, ("A", 5), ("A", 1)))
    assert [passage.text for passage in apart] == ["A4. A5. A6.", "A0. A1. A2."]


def test_a_window_that_joins_two_takes_the_better_rank():
    corpus = corpus_of(A=12, B=3)
    passages = prev_next(corpus, QUESTION, hits_at(corpus, ("A", 1), ("B", 1), ("A", 7), ("A", 4)))
    assert [passage.text for passage in passages] == ["A0. A1. A2. A3. A4. A5. A6. A7. A8.", "B0. B1. B2."]


def test_windows_end_with_the_document():
    corpus = corpus_of(A=3)
    assert [p.text for p in prev_next(corpus, QUESTION, hits_at(corpus, ("A", 2)), n=5)] == ["A0. A1. A2."]
    assert [p.text for p in prev_next(corpus, QUESTION, hits_at(corpus, ("A", 1)), n=0)] == ["A1."]


@given(st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 9)), unique=True, max_size=8), st.integers(0, 3))
@settings(max_examples=60)
def test_every_chunk_of_every_window_is_read_exactly_once(places, n):
    corpus = corpus_of(A=10, B=10)
    passages = prev_next(corpus, QUESTION, hits_at(corpus, *places), n=n)
    wanted = {f"{doc}{i}." for doc, index in places for i in range(index - n, index + n + 1) if 0 <= i < 10}
    read = [word for passage in passages for word in passage.text.split()]
    assert sorted(read) == sorted(wanted)
    assert all(corpus.text(span) == passage.text for passage in passages for span in passage.sources)
