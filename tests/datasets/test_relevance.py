from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.datasets.relevance import ChunkMap, count_overlap
from ragsmith.measures.case import Case
from ragsmith.measures.registry import measures
from ragsmith.types import Chunk, Hit, Scale, Span

GOLD = Span("d", 100, 200)


def chunk(key: str, start: int, end: int, doc: str = "d") -> Chunk:
    return Chunk(key, doc, 0, start, end, "x" * (end - start))


@pytest.mark.parametrize(
    ("start", "end", "relevant"),
    [(0, 150, True), (150, 300, True), (151, 300, False), (0, 400, True), (120, 170, True), (120, 169, False)],
)
def test_a_chunk_is_relevant_from_half_of_a_span(start: int, end: int, relevant: bool) -> None:
    found = ChunkMap([chunk("a", start, end)]).relevance([GOLD])
    assert found.partial == (() if relevant else (GOLD,))


def test_two_chunks_that_split_a_span_in_half_both_count() -> None:
    result = ChunkMap([chunk("a", 0, 150), chunk("b", 150, 300), chunk("c", 300, 400)]).relevance([GOLD])
    assert result.grades == {"a": 0.5, "b": 0.5}
    assert result.partial == result.missed == ()


def test_of_a_span_much_longer_than_the_chunks_all_count_that_lie_in_it_by_half() -> None:
    places = {"a": (0, 110), "b": (110, 150), "c": (150, 190), "d": (190, 210), "e": (195, 220)}
    chunks = [chunk(key, start, end) for key, (start, end) in places.items()]
    result = ChunkMap(chunks).relevance([GOLD, Span("d", 0, 20)])
    assert result.grades == {"b": 0.4, "c": 0.4, "d": 0.1, "a": 1.0}
    assert result.partial == (GOLD,)


def test_where_no_chunk_lies_in_a_long_span_by_half_what_covers_most_counts() -> None:
    chunks = [chunk("a", 0, 110), chunk("b", 180, 260), chunk("c", 80, 120)]
    assert ChunkMap(chunks[:2]).relevance([GOLD]).grades == {"b": 0.2}
    assert ChunkMap(chunks).relevance([GOLD]).grades == {"c": 0.2}


def test_an_empty_span_is_covered_by_nothing() -> None:
    empty = Span("d", 50, 50)
    assert ChunkMap([chunk("a", 0, 100)]).relevance([empty]).missed == (empty,)


SPAN = st.builds(
    lambda doc, start, size: Span(doc, start, start + size),
    st.sampled_from("de"),
    st.integers(0, 30),
    st.integers(1, 25),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(SPAN, max_size=10), st.lists(SPAN, min_size=1, max_size=4))
def test_the_map_agrees_with_looking_at_every_chunk(places: list[Span], evidence: list[Span]) -> None:
    chunks = [chunk(f"c{i}", place.start, place.end, place.doc) for i, place in enumerate(places)]
    result = ChunkMap(chunks).relevance(evidence)
    for gold in evidence:
        shared = {
            c.id: len(set(range(c.start, c.end)) & set(range(gold.start, gold.end)))
            for c in chunks
            if c.doc == gold.doc
        }
        half = {key for key, n in shared.items() if n / (gold.end - gold.start) >= 0.5}
        most = max(shared.values(), default=0)
        inside = {c.id for c in chunks if shared.get(c.id, 0) / (c.end - c.start) >= 0.5}
        expected = half or inside or {key for key, n in shared.items() if n == most > 0}
        assert expected <= result.relevant
        assert (gold in result.partial) == (not half and most > 0)
        assert (gold in result.missed) == (most == 0)
    assert all(any(count_overlap(c.span, gold) for gold in evidence) for c in chunks if c.id in result.relevant)
    halves = {c.id for c in chunks for gold in evidence if 2 * count_overlap(c.span, gold) >= gold.end - gold.start}
    assert halves <= result.relevant
    if not result.coarse:
        assert halves == result.relevant
    for c in chunks:
        best = max(count_overlap(c.span, gold) / (gold.end - gold.start) for gold in evidence)
        assert result.grades.get(c.id, best) == best or result.coarse


# --- coarse gold -----------------------------------------------------------------------------------------------------


def cut(doc: str, length: int, size: int, sections: int = 1) -> list[Chunk]:
    """Chunks of ``size`` of a document, whose sections are equally long."""
    each = length // sections
    return [
        Chunk(f"{doc}:{start}", doc, 0, start, min(start + size, length), "x", section=start // each)
        for start in range(0, length, size)
    ]


def test_fine_gold_is_ranked_by_chunks() -> None:
    chunks = cut("d", 1000, 100) + cut("e", 1000, 100)
    found = ChunkMap(chunks).relevance([Span("d", 120, 180), Span("e", 0, 199)])
    assert [found.unit(chunk.id) for chunk in chunks] == [chunk.id for chunk in chunks]
    assert found.units == found.grades


@pytest.mark.parametrize("size", [100, 300, 500, 600, 1000])
def test_gold_of_a_document_is_one_unit_whatever_it_is_cut_into(size: int) -> None:
    chunks = cut("d", 1000, size, sections=2) + cut("e", 1000, size, sections=2)
    found = ChunkMap(chunks).relevance([Span("d", 0, 1000)])
    units = {doc: {found.unit(chunk.id) for chunk in chunks if chunk.doc == doc} for doc in "de"}
    assert len(units["d"]) == len(units["e"]) == 1
    assert dict(found.units) == dict.fromkeys(units["d"], 1.0)
    assert found.relevant == {chunk.id for chunk in chunks if chunk.doc == "d"}


def test_gold_of_a_section_ranks_sections() -> None:
    chunks = cut("d", 1000, 100, sections=2) + cut("e", 1000, 100, sections=2)
    found = ChunkMap(chunks).relevance([Span("d", 0, 500)])
    assert len({found.unit(chunk.id) for chunk in chunks}) == 4
    assert len(found.units) == 1


def test_fine_gold_beside_coarse_stays_a_chunk() -> None:
    chunks = cut("d", 1000, 100) + cut("e", 1000, 100)
    found = ChunkMap(chunks).relevance([Span("d", 0, 1000), Span("e", 310, 380)])
    assert found.unit("e:300") == "e:300"
    assert found.unit("e:400") == found.unit("e:500") != found.unit("d:0")
    assert found.units == {found.unit("d:0"): 1.0, "e:300": 1.0}


@settings(max_examples=150, deadline=None)
@given(count=st.integers(2, 6), order=st.permutations(range(6)), parts=st.lists(st.integers(2, 12), min_size=6))
def test_a_ranking_of_whole_documents_is_worth_the_same_however_they_are_cut(
    count: int, order: list[int], parts: list[int]
) -> None:
    """The chunks of each document one after the other: nothing but where documents stand is told by such a ranking."""
    docs = [f"{number}" for number in range(count)]
    ranked = [docs[i] for i in order if i < count]
    gold = tuple(Span(doc, 0, 60) for doc in docs[: 1 + count // 3])
    whole = {doc: [Chunk(doc, doc, 0, 0, 60, "x")] for doc in docs}
    in_parts = {
        doc: [Chunk(f"{doc}:{n}", doc, n, 60 * n // pieces, 60 * (n + 1) // pieces, "x") for n in range(pieces)]
        for doc, pieces in zip(docs, parts, strict=False)
    }

    def case(cut: dict[str, list[Chunk]]) -> Case:
        hits = tuple(Hit(chunk, 1.0, Scale.BM25) for doc in ranked for chunk in cut[doc])
        return Case(relevance=ChunkMap(chain(*cut.values())).relevance(gold), hits=hits, evidence=gold)

    for name in ("recall", "map", "ndcg", "mrr", "success", "ndcg_10"):
        found, expected = (measures()[name](case(cut), {}) for cut in (in_parts, whole))
        assert found == pytest.approx(expected)
    assert len(case(in_parts).ranking) == count
