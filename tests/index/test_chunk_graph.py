"""The chunk graph: what joins chunks, by hand, and PageRank, against a dense matrix."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragsmith.index.chunk_edges import (
    MAX_COMPARED_CHUNKS,
    MAX_EXACT_CHUNKS,
    MAX_IDENTIFIER_CHUNKS,
    MAX_MARKER_CHUNKS,
    find_markers,
    find_semantic_edges,
    iter_neighbourhoods,
)
from ragsmith.index.chunk_graph import ChunkGraph, EdgeType, build_chunk_graph, get_chunk_graph
from ragsmith.index.index import Index
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.techniques.pre_embedding.none import none
from ragsmith.testing import example_chunks
from ragsmith.types import Chunk, Modality, Span


def edges_of_graph(graph: ChunkGraph) -> Iterator[tuple[int, int, EdgeType, float]]:
    """Every edge once: its ends, the smaller first, why they are joined, and its weight."""
    sources = np.repeat(np.arange(len(graph)), np.diff(graph.starts))
    parts = (sources, graph.ends, graph.kinds, graph.weights)
    for source, end, kind, weight in zip(*(part.tolist() for part in parts), strict=True):
        if source < end:
            yield source, end, EdgeType(kind), weight


def chunk(doc: str, index: int, text: str = "", modality: Modality = Modality.PROSE, heading: str = "") -> Chunk:
    return Chunk(f"{doc}:{index:03}", doc, index, index, index + 1, text, "", (heading,) * bool(heading), 0, modality)


def edges(chunks: Sequence[Chunk], vectors: object = None, **arguments: float) -> dict[tuple[int, int], EdgeType]:
    given = np.zeros((len(chunks), 2)) if vectors is None else np.array(vectors, dtype=np.float64)
    return {(a, b): kind for a, b, kind, _ in edges_of_graph(graph_of(chunks, given, **arguments))}


def graph_of(chunks: Sequence[Chunk], vectors: NDArray[np.float64], **arguments: float) -> ChunkGraph:
    return build_chunk_graph(chunks, vectors, **arguments)  # type: ignore[arg-type]


# --- edges -----------------------------------------------------------------------------------------------------------


def test_chunks_that_follow_each_other_in_a_document_are_joined() -> None:
    chunks = [chunk("a", 0), chunk("a", 1), chunk("a", 2), chunk("b", 3), chunk("b", 4), chunk("b", 6)]
    assert edges(chunks) == dict.fromkeys([(0, 1), (1, 2), (3, 4)], EdgeType.SEQUENTIAL)
    assert set(edges([chunk("a", 10), chunk("a", 11), chunk("a", 9)])) == {(0, 1), (0, 2)}  # not in the order of ids


def test_chunks_that_mean_the_same_are_joined_by_their_cosine() -> None:
    chunks = [chunk(doc, 0) for doc in "abcd"]
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], dtype=np.float64)
    found = list(edges_of_graph(graph_of(chunks, vectors, threshold=0.7)))
    assert found == [
        (0, 1, EdgeType.SEMANTIC, 0.8),
        (1, 3, EdgeType.SEMANTIC, 0.96),
        (2, 3, EdgeType.SEMANTIC, 0.8),
    ]
    assert set(edges(chunks, vectors, threshold=0.8)) == {(1, 3)}  # above the threshold, not at it


def test_a_node_has_its_nearest_and_those_that_have_it() -> None:
    chunks = [chunk(doc, 0) for doc in "abcd"]
    # all near the first; each other's cosine is lower
    angles = np.array([0.0, 0.3, -0.4, 0.6])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    # nearest: of 0 it is 1, of 1 it is 0 (a tie with 3, by position), of 2 it is 0, of 3 it is 1
    assert set(edges(chunks, vectors, threshold=0.1, neighbours=1)) == {(0, 1), (0, 2), (1, 3)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("As said in Section 3.1, and in Sections 4 and 5.", {"section 3.1", "section 4", "section 5"}),
        ("See § 12 or §§ 14, 15a.", {"section 12", "section 14", "section 15a"}),
        ("Fig. 2 and figure (3) and FIGURE 4.", {"figure 2", "figure 3", "figure 4"}),
        ("Table II of chapter IV; tab. 7", {"table II", "chapter IV", "table 7"}),
        ("by Eq. (3) and equations 4–6", {"equation 3", "equation 4", "equation 6"}),
        ("Article 5(1) and art. 6", {"article 5", "article 6"}),
        ("as [12] and [3, 4] show, [sic] in [1651 AD]", {"[12]", "[3]", "[4]"}),
        ("The figure I saw of article a; but Article I", {"article I"}),
        ("Configure 3 tables, partition 4, 5 sections", set()),
    ],
)
def test_markers(text: str, expected: set[str]) -> None:
    assert find_markers(chunk("a", 0, text)) == expected


def test_chunks_of_a_document_that_name_the_same_thing_are_joined() -> None:
    chunks = [
        chunk("a", 0, "as Figure 2 shows"),
        chunk("a", 2, "nothing"),
        chunk("a", 4, "Fig. 2: the harbour [7]"),
        chunk("a", 6, "Section 2 and [7]"),
        chunk("a", 8, "the rules", heading="Section 2"),
        chunk("b", 0, "Figure 2, [7]"),
    ]
    assert edges(chunks) == dict.fromkeys([(0, 2), (2, 3), (3, 4)], EdgeType.XREF)


def test_a_marker_that_is_everywhere_joins_nothing() -> None:
    few = [chunk("a", 2 * n, "see Section 1") for n in range(MAX_MARKER_CHUNKS)]
    assert len(edges(few)) == MAX_MARKER_CHUNKS * (MAX_MARKER_CHUNKS - 1) / 2
    assert edges([*few, chunk("a", 999, "see Section 1")]) == {}


def test_code_that_shares_a_rare_name_is_joined() -> None:
    def code(n: int, text: str, doc: str = "a") -> Chunk:
        return chunk(doc, 2 * n, text, Modality.CODE)

    chunks = [
        code(0, "def ring_bell(tide): pass"),
        code(1, "x = ring_bell(2)"),
        code(2, "abc = abc + 1"),
        code(3, "abc = 2"),  # three characters
        chunk("a", 8, "ring_bell is prose here"),
        code(5, "ring_bell()", doc="b"),
    ]
    assert edges(chunks) == {(0, 1): EdgeType.NAME}
    everywhere = [code(n, f"self.value{n}") for n in range(MAX_IDENTIFIER_CHUNKS)]
    assert len(edges(everywhere)) == MAX_IDENTIFIER_CHUNKS * (MAX_IDENTIFIER_CHUNKS - 1) / 2
    assert edges([*everywhere, code(99, "self")]) == {}


def test_chunks_are_joined_once_with_every_reason_and_the_largest_weight() -> None:
    chunks = [chunk("a", 0, "see Table 1"), chunk("a", 1, "Table 1")]
    [found] = edges_of_graph(graph_of(chunks, np.array([[1, 0], [0.8, 0.6]])))
    assert found == (0, 1, EdgeType.SEQUENTIAL | EdgeType.SEMANTIC | EdgeType.XREF, 1.0)


def test_summaries_are_joined_to_nothing() -> None:
    summary = Chunk("a:s", "a", 1, 0, 0, "Table 1", level=1, sources=(Span("a", 0, 1),))
    chunks = [chunk("a", 0, "Table 1"), summary, chunk("a", 2, "Table 1")]
    assert edges(chunks, [[1, 0]] * 3) == {(0, 2): EdgeType.SEMANTIC | EdgeType.XREF}


@pytest.mark.parametrize("chunks", [[], [chunk("a", 0)]])
def test_a_graph_may_have_no_edges(chunks: list[Chunk]) -> None:
    graph = graph_of(chunks, np.zeros((len(chunks), 2)))
    assert len(graph) == len(chunks)
    assert list(edges_of_graph(graph)) == []
    assert graph.pagerank(np.ones(len(chunks))).tolist() == [1.0] * len(chunks)


def nearest(vectors: NDArray[np.float64], threshold: float, neighbours: int) -> set[tuple[int, int]]:
    """Every row sorted whole."""
    cosine = np.round(vectors @ vectors.T, 6)
    found = set()
    for one in range(len(vectors)):
        others = [other for other in range(len(vectors)) if other != one and cosine[one, other] > threshold]
        found |= {(one, other) for other in sorted(others, key=lambda o: (-cosine[one, o], o))[:neighbours]}
    return found


@given(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(-2, 2)), max_size=12),
    st.sampled_from([-0.5, 0.0, 0.7]),
    st.integers(1, 4),
)
@settings(max_examples=60, deadline=None)
def test_the_nearest_are_those_of_a_full_sort(rows: list[tuple[int, int]], threshold: float, neighbours: int) -> None:
    vectors = np.array(rows, dtype=np.float64).reshape(-1, 2)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    pairs, alike = find_semantic_edges(vectors, np.arange(len(vectors)), threshold, neighbours)
    assert {(a, b) for a, b in pairs.tolist()} == nearest(vectors, threshold, neighbours)
    assert alike == pytest.approx(np.sum(vectors[pairs[:, 0]] * vectors[pairs[:, 1]], axis=1), abs=1e-6)


def directions(rows: int, dimensions: int = 3) -> NDArray[np.float64]:
    drawn = np.random.default_rng(7).normal(size=(rows, dimensions))
    vectors: NDArray[np.float64] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return vectors


def test_blocks_of_a_large_collection_are_searched_alike() -> None:
    vectors = directions(2100)  # more than fits into one block
    pairs, _ = find_semantic_edges(vectors, np.arange(2100), 0.999, 3)
    assert {(a, b) for a, b in pairs.tolist()} == nearest(vectors, 0.999, 3)


@pytest.mark.parametrize(
    "vectors",
    [directions(MAX_EXACT_CHUNKS + 1), np.ones((MAX_EXACT_CHUNKS + 1, 1)), np.zeros((MAX_EXACT_CHUNKS + 1, 2))],
)
def test_beyond_it_each_row_is_compared_with_itself_and_a_bounded_number_around_it(
    vectors: NDArray[np.float64],
) -> None:
    ((members, others),) = iter_neighbourhoods(vectors[1:])  # all pairs are compared up to the bound
    assert np.array_equal(members, np.arange(MAX_EXACT_CHUNKS))
    assert np.array_equal(others, members)
    met: list[int] = []
    for members, others in iter_neighbourhoods(vectors):
        assert len(others) <= MAX_COMPARED_CHUNKS
        assert np.isin(members, others).all()
        assert (np.diff(others) > 0).all()
        met += members.tolist()
    assert sorted(met) == list(range(len(vectors)))


def test_beyond_it_nearly_all_of_the_nearest_are_still_found() -> None:
    vectors = directions(MAX_EXACT_CHUNKS + 1)
    pairs, _ = find_semantic_edges(vectors, np.arange(len(vectors)), 0.99, 3)
    asked = np.arange(0, len(vectors), 100)
    cosines = np.round(vectors[asked] @ vectors.T, 6)
    cosines[np.arange(len(asked)), asked] = -1
    nearest_three = np.argsort(-cosines, axis=1, kind="stable")[:, :3]
    wanted = {(a, b) for a, row in zip(asked.tolist(), nearest_three.tolist(), strict=True) for b in row}
    found = {(a, b) for a, b in pairs.tolist() if a % 100 == 0}
    assert len(found) == len(wanted)
    assert len(found & wanted) > 0.95 * len(wanted)


# --- PageRank --------------------------------------------------------------------------------------------------------


def random_graph(seed: int, nodes: int, threshold: float = 0.3) -> ChunkGraph:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(nodes, 3))
    chunks = [chunk(str(rng.integers(nodes)), n) for n in range(nodes)]
    return graph_of(chunks, rows / np.linalg.norm(rows, axis=1, keepdims=True), threshold=threshold, neighbours=3)


def walks(graph: ChunkGraph, r: NDArray[np.float64]) -> NDArray[np.float64]:
    """The whole transition matrix, columns summing to 1; a node without edges leads to ``r``."""
    matrix = np.zeros((len(graph), len(graph)))
    for one, other, _, weight in edges_of_graph(graph):
        matrix[one, other] = matrix[other, one] = weight
    sums = matrix.sum(axis=0)
    return np.where(sums > 0, matrix / np.where(sums > 0, sums, 1), r[:, None])


@given(st.integers(0, 10_000), st.integers(2, 25), st.sampled_from([0.0, 0.15, 0.5, 1.0]), st.integers(0, 25))
@settings(max_examples=60, deadline=None)
def test_pagerank_is_the_dense_power_iteration(seed: int, nodes: int, restart: float, steps: int) -> None:
    graph = random_graph(seed, nodes)
    seeds = np.zeros(nodes)
    seeds[np.random.default_rng(seed).integers(nodes, size=3)] = [0.5, 2.0, 1.0]
    r = seeds / seeds.sum()
    matrix, p = walks(graph, r), r
    for _ in range(steps):
        p = (1 - restart) * matrix @ p + restart * r
    found = graph.pagerank(seeds, restart=restart, steps=steps)
    assert found == pytest.approx(p, abs=1e-8)
    assert found.sum() == pytest.approx(1)
    assert graph.pagerank(seeds, restart=restart, steps=steps, most=10**6) == pytest.approx(found, abs=2e-9)


def test_near_grows_step_by_step_until_it_has_too_many_neighbours() -> None:
    line = graph_of([chunk("a", n) for n in range(10)], np.zeros((10, 2)))
    seed = np.array([4])
    assert [line.near(seed, hops).tolist() for hops in range(3)] == [[4], [3, 4, 5], [2, 3, 4, 5, 6]]
    assert line.near(seed, 20).tolist() == list(range(10))
    assert line.near(seed, 20, most=11).tolist() == [2, 3, 4, 5, 6]  # 10 neighbours; one step on it were 14
    assert line.near(seed, 20, most=1).tolist() == [3, 4, 5]  # one step always
    assert line.near(np.array([0, 9]), 1).tolist() == [0, 1, 8, 9]


def test_a_confined_walk_keeps_all_its_weight_and_differs_little() -> None:
    graph = random_graph(3, 400, threshold=0.9)
    seeds = np.zeros(400)
    seeds[[5, 50]] = [1.0, 0.5]
    assert not graph.pagerank(0 * seeds).any()
    near, whole = graph.pagerank(seeds, most=100), graph.pagerank(seeds)
    assert near.sum() == pytest.approx(1)
    assert 0 < np.count_nonzero(near) < np.count_nonzero(whole)
    # what leaves can only come back to the seeds: nothing else gets more than it should, but for what they get
    assert np.abs(near - whole).sum() < 0.5
    assert set(np.argsort(-near)[:4]) == set(np.argsort(-whole)[:4])


# --- on an index -----------------------------------------------------------------------------------------------------


def test_the_graph_of_an_index_is_built_once_and_travels_with_it() -> None:
    embedder, index = WordLlamaEmbedder(), Index(none(example_chunks()))
    graph = get_chunk_graph(index, embedder, threshold=0.5)
    assert get_chunk_graph(index, embedder, threshold=0.5) is graph
    assert get_chunk_graph(index, embedder, threshold=0.6) is not graph
    copy = pickle.loads(pickle.dumps(index))
    assert copy.cached_names == index.cached_names
    assert list(edges_of_graph(get_chunk_graph(copy, embedder, threshold=0.5))) == list(edges_of_graph(graph))
    ids = [entry.chunk.id for entry in index.entries]
    sequential = {(ids[a], ids[b]) for a, b, kind, _ in edges_of_graph(graph) if EdgeType.SEQUENTIAL in kind}
    assert sequential == {
        *(("flood:0", "flood:1"), ("flood:1", "flood:2"), ("guild:0", "guild:1"), ("guild:1", "guild:2")),
        *(("harbour:0", "harbour:1"), ("harbour:1", "harbour:2"), ("harbour:2", "harbour:3")),
    }
