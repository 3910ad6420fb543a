r"""Edges between chunks: order, semantic similarity, shared references, and definitions and uses in code.

==========  ======================================================================================  =======
kind        joins                                                                                   weight
==========  ======================================================================================  =======
sequential  chunks that follow each other in a document                                             1
semantic    chunks whose cosine is above a threshold, for each of them the nearest few              cosine
xref        chunks of a document that name the same section, figure, table, ... or source in [n]    1
ast         chunks of a Python file of which one uses what the other defines, by its syntax tree    1
name        chunks of other code, in a document, with a common identifier that few of them have     1
==========  ======================================================================================  =======

Two chunks have at most one edge, whose weight is the maximum over its kinds.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntFlag
from itertools import combinations, pairwise, product

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.syntax import find_uses
from ragsmith.types import Chunk, Modality


class EdgeType(IntFlag):
    """The kinds of an edge, as flags."""

    SEQUENTIAL = 1
    SEMANTIC = 2
    XREF = 4
    AST = 8
    NAME = 16


Edges = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.uint8]]
"""Edges without direction, each once: the lower and the higher node, ordered by both, the weights and the kinds."""

Pair = tuple[int, int]

MAX_IDENTIFIER_CHUNKS = 12
"""Maximum number of chunks that share an identifier; a more frequent one is a keyword, an import or the like."""
MAX_MARKER_CHUNKS = 50
"""Maximum number of chunks that share a marker, as the number of their edges is quadratic."""

_NUMBER = r"\(?(?:\d+(?:\.\d+)*[a-z]?|[IVXLCDM]+)\b\)?"
_MARKER = re.compile(
    r"(?:(?i:\b(section|sec|figure|fig|table|tab|chapter|chap|equation|eq|article|art)s?\b\.?)|(§)§?)\s*"
    rf"({_NUMBER}(?:\s*(?:,|;|&|-|–|,?\s*\b(?:and|or|to)\b)\s*{_NUMBER})*)"
)
_EACH_NUMBER = re.compile(_NUMBER)
_CITATION = re.compile(r"\[(\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*)\]")
_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w{3,}")

MAX_EXACT_CHUNKS = 10_000
"""Maximum number of chunks of which all pairs are compared, in 1 to 2 seconds; the time is quadratic."""
MAX_COMPARED_CHUNKS = 5_000
"""Maximum number of near chunks that each of more chunks is compared with, so that the time is linear. Among 100,000
chunks, 4 % of the pairs above the threshold are missed."""

_BLOCK_COSINES = 1 << 22
"""Number of cosines per block: 16 MB in single precision."""
_BLOCK_PAIRS = 1 << 14
"""Number of pairs per block of cosines in double precision."""
_MAX_SPARSE_RATIO = 8
"""Maximum ratio of preselected pairs to requested neighbours for which pairs are computed separately."""
_MAX_SAMPLE_ROWS = 1 << 14
"""Number of rows from which the centres of cells are computed."""


def find_edges(chunks: Sequence[Chunk], vectors: NDArray[np.float64], threshold: float, neighbours: int) -> Edges:
    """Return all edges among ``chunks``; summaries have none."""
    documents: dict[str, list[int]] = {}
    for position, chunk in enumerate(chunks):
        if not chunk.level:
            documents.setdefault(chunk.doc, []).append(position)
    each = documents.values()
    joined: list[tuple[EdgeType, list[Pair]]] = [
        (EdgeType.SEQUENTIAL, [pair for one in each for pair in _find_sequential_edges(chunks, one)]),
        (
            EdgeType.XREF,
            [pair for one in each for pair in _find_sharing_edges(chunks, one, find_markers, MAX_MARKER_CHUNKS)],
        ),
        *_find_code_edges(chunks, each),
    ]
    leaves = np.array([position for one in each for position in one], dtype=np.int64)
    pairs, alike = find_semantic_edges(vectors, np.sort(leaves), threshold, neighbours)
    parts = [pairs, *(np.array(found, dtype=np.int64).reshape(-1, 2) for _, found in joined)]
    weights = [alike, *(np.ones(len(found)) for _, found in joined)]
    kinds = np.repeat([EdgeType.SEMANTIC, *(kind for kind, _ in joined)], [len(part) for part in parts])
    return _merge_edges(np.concatenate(parts), np.concatenate(weights), kinds, len(chunks))


def find_semantic_edges(
    vectors: NDArray[np.float64], positions: NDArray[np.int64], threshold: float, neighbours: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return pairs of ``positions`` of which one is among the ``neighbours`` nearest above ``threshold``, and cosines.

    The nearest are determined by cosine to 6 decimals, then by position. A mutual pair is returned twice. Of more than
    `MAX_EXACT_CHUNKS` positions, each is compared with at most `MAX_COMPARED_CHUNKS`, see `iter_neighbourhoods`.
    """
    vectors = vectors[positions]
    single = vectors.astype(np.float32)
    # the error of a product in single precision is at most (dimensions + 2) 2^-24; cosines have 6 decimals
    margin = (vectors.shape[1] + 8) * 2**-23 + 1e-6
    pairs, cosines = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0)]
    for members, others in iter_neighbourhoods(vectors):
        candidates = single[others].T
        rows = max(1, _BLOCK_COSINES // max(1, len(others)))
        for first in range(0, len(members), rows):
            block = members[first : first + rows]
            screened = single[block] @ candidates
            screened[np.arange(len(block)), np.searchsorted(others, block)] = -np.inf
            near, far = _preselect_pairs(screened, threshold, neighbours, margin)
            if len(near) > _MAX_SPARSE_RATIO * neighbours * len(block):  # one matrix product is cheaper than many pairs
                cosine = np.round(vectors[block] @ vectors[others].T, 6)[near, far]
            else:
                cosine = np.round(_compute_cosines(vectors, block[near], others[far]), 6)
            above = np.flatnonzero(cosine > threshold)
            order = above[np.lexsort((far[above], -cosine[above], near[above]))]
            near, far, cosine = near[order], far[order], cosine[order]
            is_nearest = (
                np.arange(len(near)) - np.searchsorted(near, near) < neighbours
            )  # there may be ties at the threshold
            pairs.append(positions[np.stack([block[near[is_nearest]], others[far[is_nearest]]], axis=1)])
            cosines.append(cosine[is_nearest])
    return np.concatenate(pairs), np.concatenate(cosines)


def iter_neighbourhoods(vectors: NDArray[np.float64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield blocks of rows of ``vectors`` with the rows they are compared with, including themselves, both ascending.

    Up to `MAX_EXACT_CHUNKS` rows are all compared. More are assigned to the cell with the nearest centre, and the rows
    of a cell are compared with each other and with those of the nearest cells, up to `MAX_COMPARED_CHUNKS` rows (an
    inverted file, Sivic & Zisserman 2003). The centres of the ``4 sqrt(n)`` cells are evenly spaced rows, updated once
    to the mean of the nearest rows of a sample.
    """
    size = len(vectors)
    if size <= MAX_EXACT_CHUNKS:
        yield np.arange(size), np.arange(size)
        return
    centres = vectors[np.linspace(0, size - 1, 4 * math.isqrt(size)).astype(np.int64)]
    sample = vectors[:: max(1, size // _MAX_SAMPLE_ROWS)]
    members_of = _group_by_cell(_assign_cells(sample, centres), len(centres))
    means = [sample[near].mean(axis=0) if len(near) else here for near, here in zip(members_of, centres, strict=True)]
    centres = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    cells, centre_of = [], []
    for number, members in enumerate(_group_by_cell(_assign_cells(vectors, centres), len(centres))):
        parts = np.array_split(members, -(-len(members) // (MAX_COMPARED_CHUNKS // 2))) if len(members) else []
        cells += parts  # cells that are too large, for example of duplicates, are split by position
        centre_of += [number] * len(parts)
    centres = centres[centre_of]
    sizes = np.array([len(cell) for cell in cells])
    for number, cell in enumerate(cells):
        cosines = np.round(centres @ centres[number], 6)
        cosines[number] = np.inf
        order = np.argsort(-cosines, kind="stable")
        nearest = order[: max(1, int(np.searchsorted(np.cumsum(sizes[order]), MAX_COMPARED_CHUNKS, side="right")))]
        yield cell, np.sort(np.concatenate([cells[other] for other in nearest]))


def _assign_cells(vectors: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the nearest centre of each row; ties to 6 decimals go to the first."""
    rows = max(1, _BLOCK_COSINES // len(centres))
    blocks = (vectors[first : first + rows] for first in range(0, len(vectors), rows))
    return np.concatenate([np.round(block @ centres.T, 6).argmax(axis=1) for block in blocks])


def _group_by_cell(numbers: NDArray[np.int64], cells: int) -> list[NDArray[np.int64]]:
    """Return the rows of each cell, ascending."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.cumsum(np.bincount(numbers, minlength=cells))[:-1])


def _preselect_pairs(
    screened: NDArray[np.float32], threshold: float, neighbours: int, margin: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions in a block that may be above ``threshold`` and among the nearest of their row."""
    above = screened > threshold - margin
    crowded = np.flatnonzero(above.sum(axis=1) > neighbours)
    if len(crowded):
        rows, last = screened[crowded], screened.shape[1] - neighbours
        above[crowded] &= rows >= np.partition(rows, last, axis=1)[:, last : last + 1] - 2 * margin
    near, far = np.nonzero(above)
    return near.astype(np.int64, copy=False), far.astype(np.int64, copy=False)


def _compute_cosines(
    vectors: NDArray[np.float64], rows: NDArray[np.int64], others: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the cosine of each pair of rows."""
    cosines = np.empty(len(rows))
    for first in range(0, len(rows), _BLOCK_PAIRS):
        part = slice(first, first + _BLOCK_PAIRS)
        np.einsum("ij,ij->i", vectors[rows[part]], vectors[others[part]], out=cosines[part])
    return cosines


def find_markers(chunk: Chunk) -> frozenset[str]:
    """Return the numbered references in a chunk and its heading: ``section 3.1``, ``figure 2``, ``[12]``.

    Only the ends of a range count. Section signs and abbreviations are normalised.
    """
    text = "\n".join((*chunk.headings[-1:], chunk.text))
    found = {f"[{n}]" for cited in _CITATION.findall(text) for n in re.findall(r"\d+", cited)}
    for word, sign, numbers in _MARKER.findall(text):
        kind = "se" if sign else word[:2].lower()  # two letters identify the kind
        each = {number.strip("()") for number in _EACH_NUMBER.findall(numbers)}
        if word.islower():
            each.discard("I")  # as in "the figure I saw"
        found.update(f"{_MARKER_NAMES[kind]} {number}" for number in each)
    return frozenset(found)


_MARKER_NAMES = {name[:2]: name for name in ("section", "figure", "table", "chapter", "equation", "article")}


def find_identifiers(chunk: Chunk) -> frozenset[str]:
    """Return the identifiers of at least 4 characters in a chunk of code; none for other text."""
    return frozenset(_IDENTIFIER.findall(chunk.text)) if chunk.modality is Modality.CODE else frozenset()


def _find_code_edges(
    chunks: Sequence[Chunk], documents: Iterable[Sequence[int]]
) -> Iterator[tuple[EdgeType, list[Pair]]]:
    """Yield the edges in code of each document: definitions and uses if it parses, otherwise shared identifiers."""
    for positions in documents:
        if all(chunks[position].modality is not Modality.CODE for position in positions):
            continue
        names = find_uses([chunks[position] for position in positions])
        if names is None:
            yield EdgeType.NAME, list(_find_sharing_edges(chunks, positions, find_identifiers, MAX_IDENTIFIER_CHUNKS))
            continue
        found = {
            (min(pair), max(pair))
            for defining, using in names.values()
            if len(defining | using) <= MAX_IDENTIFIER_CHUNKS
            for pair in product((positions[place] for place in defining), (positions[place] for place in using))
            if pair[0] != pair[1]
        }
        yield EdgeType.AST, sorted(found)


def _find_sequential_edges(chunks: Sequence[Chunk], positions: Sequence[int]) -> Iterator[Pair]:
    """Yield pairs of consecutive chunks of a document."""
    for one, other in pairwise(sorted(positions, key=lambda position: chunks[position].index)):
        if chunks[other].index == chunks[one].index + 1:
            yield one, other


def _find_sharing_edges(
    chunks: Sequence[Chunk], positions: Sequence[int], names: Callable[[Chunk], Iterable[str]], most: int
) -> Iterator[Pair]:
    """Yield pairs of positions that share a name which at most ``most`` positions have."""
    positions_by_name: dict[str, list[int]] = {}
    for position in positions:
        for name in names(chunks[position]):
            positions_by_name.setdefault(name, []).append(position)
    for shared in positions_by_name.values():
        if len(shared) <= most:
            yield from combinations(shared, 2)


def _merge_edges(pairs: NDArray[np.int64], weights: NDArray[np.float64], kinds: NDArray[np.uint8], nodes: int) -> Edges:
    """Return each pair once, with its maximum weight and all its kinds."""
    low, high = pairs.min(axis=1, initial=nodes), pairs.max(axis=1, initial=0)
    keys, number = np.unique(low * max(1, nodes) + high, return_inverse=True)
    best, why = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.uint8)
    np.maximum.at(best, number, weights)
    np.bitwise_or.at(why, number, kinds.astype(np.uint8))
    return keys // max(1, nodes), keys % max(1, nodes), best, why
