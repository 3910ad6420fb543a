"""Rankings as columns: what tells them from tuples of hits is what they cost."""

import pickle

from ragsmith.types import Chunk, Hit, LazyHits, Scale, chunks_of, ids_of

CHUNKS = tuple(Chunk(f"c{i}", "doc", i, 10 * i, 10 * i + 9, f"text {i}") for i in range(9))
ranking = LazyHits(CHUNKS, (4, 1, 7), (0.9, 0.5, 0.5), Scale.COSINE)
HITS = tuple(Hit(CHUNKS[i], score, Scale.COSINE) for i, score in ((4, 0.9), (1, 0.5), (7, 0.5)))


def test_it_is_equal_to_the_tuple_of_its_hits_in_every_way() -> None:
    assert ranking == HITS
    assert HITS == ranking  # noqa: SIM300  from both sides
    assert hash(ranking) == hash(HITS)
    assert {HITS: "known"}[ranking] == "known"  # type: ignore[index]
    assert repr(ranking) == repr(HITS)
    assert (*ranking,) == HITS
    assert ranking + HITS[:1] == HITS + HITS[:1] == HITS + ranking[:1]
    assert (len(ranking), ranking[0], ranking[-1], HITS[1] in ranking) == (3, HITS[0], HITS[2], True)
    assert ranking != HITS[:2]
    assert ranking != list(HITS)


def test_it_is_sliced_as_a_tuple_is() -> None:
    for at in (slice(2), slice(1, None), slice(-2, None), slice(None, None, -1), slice(0, 3, 2), slice(5, 9)):
        assert ranking[at] == HITS[at]
    assert ranking[:0] == ()
    assert not ranking[:0]


def test_equal_rankings_of_other_chunks_are_equal() -> None:
    assert ranking == LazyHits(CHUNKS[1:], (3, 0, 6), ranking.scores, Scale.COSINE)
    assert ranking != LazyHits(CHUNKS, ranking.positions, ranking.scores, Scale.BM25)
    assert ranking != LazyHits(CHUNKS, ranking.positions, (0.9, 0.5, 0.4), Scale.COSINE)
    assert ranking[:0] == LazyHits(CHUNKS, (), (), Scale.BM25)


def test_chunks_and_their_ids_are_those_of_the_hits() -> None:
    assert ids_of(ranking) == ids_of(HITS) == ("c4", "c1", "c7")
    assert chunks_of(ranking) == chunks_of(HITS) == (CHUNKS[4], CHUNKS[1], CHUNKS[7])


def test_another_process_is_sent_its_hits_and_not_all_chunks() -> None:
    sent = pickle.dumps(ranking)
    assert pickle.loads(sent) == HITS
    assert b"text 4" in sent
    assert b"text 0" not in sent
