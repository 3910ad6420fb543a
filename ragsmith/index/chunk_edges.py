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

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntFlag
from itertools import combinations, pairwise, product

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.syntax import uses_of_definitions
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

_BLOCK = 1 << 22
"""Number of cosines per block: 16 MB in single precision."""
_PAIRS = 1 << 14
"""Number of pairs per block of cosines in double precision."""
_MANY = 8
_SAMPLED = 1 << 14
"""Number of rows from which the centres of cells are computed."""


def find_edges(chunks: Sequence[Chunk], vectors: NDArray[np.float64], threshold: float, neighbours: int) -> Edges:
    """Return all edges among ``chunks``; summaries have none."""
    documents: dict[str, list[int]] = {}
    for position, chunk in enumerate(chunks):
        if not chunk.level:
            documents.setdefault(chunk.doc, []).append(position)
    each = documents.values()
    joined: list[tuple[EdgeType, list[Pair]]] = [
        (EdgeType.SEQUENTIAL, [pair for one in each for pair in _sequential(chunks, one)]),
        (EdgeType.XREF, [pair for one in each for pair in _sharing(chunks, one, markers, MAX_MARKER_CHUNKS)]),
        *_in_code(chunks, each),
    ]
    leaves = np.array([position for one in each for position in one], dtype=np.int64)
    pairs, alike = semantic(vectors, np.sort(leaves), threshold, neighbours)
    parts = [pairs, *(np.array(found, dtype=np.int64).reshape(-1, 2) for _, found in joined)]
    weights = [alike, *(np.ones(len(found)) for _, found in joined)]
    kinds = np.repeat([EdgeType.SEMANTIC, *(kind for kind, _ in joined)], [len(part) for part in parts])
    return _merged(np.concatenate(parts), np.concatenate(weights), kinds, len(chunks))


def semantic(
    vectors: NDArray[np.float64], positions: NDArray[np.int64], threshold: float, neighbours: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return pairs of ``positions`` of which one is among the ``neighbours`` nearest above ``threshold``, and cosines.

    The nearest are taken by cosine to 6 decimals, then by position. A mutual pair is returned twice. Of more
    than ``ALL_PAIRS`` positions, each is compared with ``COMPARED`` at most, see `neighbourhoods`.
    """
    vectors = vectors[positions]
    rough = vectors.astype(np.float32)
    # a product in single precision is wrong by (dimensions + 2) 2^-24 at most; and cosines have 6 decimals
    margin = (vectors.shape[1] + 8) * 2**-23 + 1e-6
    pairs, alike = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0)]
    for members, others in neighbourhoods(vectors):
        beside = rough[others].T
        rows = max(1, _BLOCK // max(1, len(others)))
        for first in range(0, len(members), rows):
            here = members[first : first + rows]
            screened = rough[here] @ beside
            screened[np.arange(len(here)), np.searchsorted(others, here)] = -np.inf
            near, far = _promising(screened, threshold, neighbours, margin)
            if len(near) > _MANY * neighbours * len(here):  # one product costs less than many pairs
                cosine = np.round(vectors[here] @ vectors[others].T, 6)[near, far]
            else:
                cosine = np.round(_cosines(vectors, here[near], others[far]), 6)
            above = np.flatnonzero(cosine > threshold)
            order = above[np.lexsort((far[above], -cosine[above], near[above]))]
            near, far, cosine = near[order], far[order], cosine[order]
            kept = np.arange(len(near)) - np.searchsorted(near, near) < neighbours  # there may be ties at the threshold
            pairs.append(positions[np.stack([here[near[kept]], others[far[kept]]], axis=1)])
            alike.append(cosine[kept])
    return np.concatenate(pairs), np.concatenate(alike)


def neighbourhoods(vectors: NDArray[np.float64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield blocks of rows of ``vectors`` with the rows they are compared with, including themselves, both ascending.

    Up to ``ALL_PAIRS`` rows these are all. More are put into cells, each row where the centre is nearest, and those of
    a cell are compared with each other and with the cells nearest to it, whole ones, while these are ``COMPARED`` rows
    at most (an inverted file, Sivic & Zisserman 2003). Cells, ``4 sqrt(n)`` of them, begin at rows in even steps, and
    their centres move once, to the mean of those of a sample that are nearest to them.
    """
    size = len(vectors)
    if size <= MAX_EXACT_CHUNKS:
        yield np.arange(size), np.arange(size)
        return
    centres = vectors[np.linspace(0, size - 1, 4 * math.isqrt(size)).astype(np.int64)]
    sample = vectors[:: max(1, size // _SAMPLED)]
    around = _members(_nearest(sample, centres), len(centres))
    means = [sample[near].mean(axis=0) if len(near) else here for near, here in zip(around, centres, strict=True)]
    centres = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    cells, centre_of = [], []
    for number, members in enumerate(_members(_nearest(vectors, centres), len(centres))):
        parts = np.array_split(members, -(-len(members) // (MAX_COMPARED_CHUNKS // 2))) if len(members) else []
        cells += parts  # cells that are too large, as of duplicates, are split by position
        centre_of += [number] * len(parts)
    centres = centres[centre_of]
    sizes = np.array([len(cell) for cell in cells])
    for number, cell in enumerate(cells):
        alike = np.round(centres @ centres[number], 6)
        alike[number] = np.inf
        order = np.argsort(-alike, kind="stable")
        taken = order[: max(1, int(np.searchsorted(np.cumsum(sizes[order]), MAX_COMPARED_CHUNKS, side="right")))]
        yield cell, np.sort(np.concatenate([cells[other] for other in taken]))


def _nearest(vectors: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the nearest centre of each row; ties to 6 decimals go to the first."""
    rows = max(1, _BLOCK // len(centres))
    blocks = (vectors[first : first + rows] for first in range(0, len(vectors), rows))
    return np.concatenate([np.round(block @ centres.T, 6).argmax(axis=1) for block in blocks])


def _members(numbers: NDArray[np.int64], cells: int) -> list[NDArray[np.int64]]:
    """Return the rows of each cell, ascending."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.cumsum(np.bincount(numbers, minlength=cells))[:-1])


def _promising(
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


def _cosines(vectors: NDArray[np.float64], these: NDArray[np.int64], those: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the cosine of each pair of rows."""
    found = np.empty(len(these))
    for first in range(0, len(these), _PAIRS):
        part = slice(first, first + _PAIRS)
        np.einsum("ij,ij->i", vectors[these[part]], vectors[those[part]], out=found[part])
    return found


def markers(chunk: Chunk) -> frozenset[str]:
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
        found.update(f"{_KINDS[kind]} {number}" for number in each)
    return frozenset(found)


_KINDS = {name[:2]: name for name in ("section", "figure", "table", "chapter", "equation", "article")}


def identifiers(chunk: Chunk) -> frozenset[str]:
    """Return the identifiers of at least 4 characters in a chunk of code; none for other text."""
    return frozenset(_IDENTIFIER.findall(chunk.text)) if chunk.modality is Modality.CODE else frozenset()


def _in_code(chunks: Sequence[Chunk], documents: Iterable[Sequence[int]]) -> Iterator[tuple[EdgeType, list[Pair]]]:
    """Yield the edges in code of each document: definitions and uses if it parses, otherwise shared identifiers."""
    for positions in documents:
        if all(chunks[position].modality is not Modality.CODE for position in positions):
            continue
        names = uses_of_definitions([chunks[position] for position in positions])
        if names is None:
            yield EdgeType.NAME, list(_sharing(chunks, positions, identifiers, MAX_IDENTIFIER_CHUNKS))
            continue
        found = {
            (min(pair), max(pair))
            for defining, using in names.values()
            if len(defining | using) <= MAX_IDENTIFIER_CHUNKS
            for pair in product((positions[place] for place in defining), (positions[place] for place in using))
            if pair[0] != pair[1]
        }
        yield EdgeType.AST, sorted(found)


def _sequential(chunks: Sequence[Chunk], positions: Sequence[int]) -> Iterator[Pair]:
    for one, other in pairwise(sorted(positions, key=lambda position: chunks[position].index)):
        if chunks[other].index == chunks[one].index + 1:
            yield one, other


def _sharing(
    chunks: Sequence[Chunk], positions: Sequence[int], names: Callable[[Chunk], Iterable[str]], most: int
) -> Iterator[Pair]:
    """Yield pairs of positions that share a name which at most ``most`` positions have."""
    having: dict[str, list[int]] = {}
    for position in positions:
        for name in names(chunks[position]):
            having.setdefault(name, []).append(position)
    for shared in having.values():
        if len(shared) <= most:
            yield from combinations(shared, 2)


def _merged(pairs: NDArray[np.int64], weights: NDArray[np.float64], kinds: NDArray[np.uint8], nodes: int) -> Edges:
    """Return each pair once, with its maximum weight and all its kinds."""
    low, high = pairs.min(axis=1, initial=nodes), pairs.max(axis=1, initial=0)
    keys, number = np.unique(low * max(1, nodes) + high, return_inverse=True)
    best, why = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.uint8)
    np.maximum.at(best, number, weights)
    np.bitwise_or.at(why, number, kinds.astype(np.uint8))
    return keys // max(1, nodes), keys % max(1, nodes), best, why
