r"""What joins two chunks: order, meaning, a reference both make, or an identifier of code both use.

==========  ======================================================================================  =======
kind        joins                                                                                   weight
==========  ======================================================================================  =======
sequential  chunks that follow each other in a document                                             1
semantic    chunks whose cosine is above a threshold, for each of them the nearest few              cosine
xref        chunks of a document that name the same section, figure, table, ... or source in [n]    1
ast         code chunks of a document with a common identifier that few of them have                1
==========  ======================================================================================  =======

Two chunks are joined once; the weight is the largest that one of the kinds gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntFlag
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from ragsmith.types import Chunk, Modality


class Kind(IntFlag):
    """Why two chunks are joined; several reasons add up."""

    SEQUENTIAL = 1
    SEMANTIC = 2
    XREF = 4
    AST = 8


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges without direction, each once: ``low[i] < high[i]``, ordered by both."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    weights: NDArray[np.float64]
    kinds: NDArray[np.uint8]


Pair = tuple[int, int]

MOST_IDENTIFIER = 12
"""Chunks that may share an identifier of code; one that more have is a keyword or the like."""
MOST_MARKER = 50
"""Chunks that may share a marker: all pairs are joined, so the edges grow with its square."""

_NUMBER = r"\(?(?:\d+(?:\.\d+)*[a-z]?|[IVXLCDM]+)\b\)?"
_MARKER = re.compile(
    r"(?:(?i:\b(section|sec|figure|fig|table|tab|chapter|chap|equation|eq|article|art)s?\b\.?)|(§)§?)\s*"
    rf"({_NUMBER}(?:\s*(?:,|;|&|-|–|,?\s*\b(?:and|or|to)\b)\s*{_NUMBER})*)"
)
_EACH_NUMBER = re.compile(_NUMBER)
_CITATION = re.compile(r"\[(\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*)\]")
_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w{3,}")

_BLOCK = 1 << 22
"""Cosines held at once: 32 MB."""


def edges_of(chunks: Sequence[Chunk], vectors: NDArray[np.float64], threshold: float, neighbours: int) -> Edges:
    """Every edge among ``chunks``; summaries have none."""
    documents: dict[str, list[int]] = {}
    for position, chunk in enumerate(chunks):
        if not chunk.level:
            documents.setdefault(chunk.doc, []).append(position)
    each = documents.values()
    joined: list[tuple[Kind, list[Pair]]] = [
        (Kind.SEQUENTIAL, [pair for one in each for pair in _sequential(chunks, one)]),
        (Kind.XREF, [pair for one in each for pair in _sharing(chunks, one, markers, MOST_MARKER)]),
        (Kind.AST, [pair for one in each for pair in _sharing(chunks, one, identifiers, MOST_IDENTIFIER)]),
    ]
    leaves = np.array([position for one in each for position in one], dtype=np.int64)
    pairs, alike = semantic(vectors, np.sort(leaves), threshold, neighbours)
    parts = [pairs, *(np.array(found, dtype=np.int64).reshape(-1, 2) for _, found in joined)]
    weights = [alike, *(np.ones(len(found)) for _, found in joined)]
    kinds = np.repeat([Kind.SEMANTIC, *(kind for kind, _ in joined)], [len(part) for part in parts])
    return _merged(np.concatenate(parts), np.concatenate(weights), kinds, len(chunks))


def semantic(
    vectors: NDArray[np.float64], positions: NDArray[np.int64], threshold: float, neighbours: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of ``positions`` of which one has the other among its ``neighbours`` nearest above ``threshold``; cosines.

    The nearest are taken by cosine to 6 decimals, then by position. A pair that has each other is there twice.
    """
    vectors = vectors[positions]
    size = len(positions)
    pairs, alike = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0)]
    rows = max(1, _BLOCK // max(1, size))
    for first in range(0, size, rows):
        block = np.round(vectors[first : first + rows] @ vectors.T, 6)
        here = np.arange(len(block))
        block[here, first + here] = -np.inf
        floor = np.partition(block, size - neighbours, axis=1)[:, size - neighbours] if size > neighbours else -np.inf
        near, far = np.nonzero((block > threshold) & (block >= np.reshape(floor, (-1, 1))))
        cosine = block[near, far]
        order = np.lexsort((far, -cosine, near))
        near, far, cosine = near[order], far[order], cosine[order]
        kept = np.arange(len(near)) - np.searchsorted(near, near) < neighbours  # at the floor there may be ties
        pairs.append(positions[np.stack([first + near[kept], far[kept]], axis=1)])
        alike.append(cosine[kept])
    return np.concatenate(pairs), np.concatenate(alike)


def markers(chunk: Chunk) -> frozenset[str]:
    """What a chunk and the heading over it refer to by number: ``section 3.1``, ``figure 2``, ``[12]``.

    Of a range only the ends count. Section signs are sections, and abbreviations are what they stand for.
    """
    text = "\n".join((*chunk.headings[-1:], chunk.text))
    found = {f"[{n}]" for cited in _CITATION.findall(text) for n in re.findall(r"\d+", cited)}
    for word, sign, numbers in _MARKER.findall(text):
        kind = "se" if sign else word[:2].lower()  # two letters tell the kinds apart
        each = {number.strip("()") for number in _EACH_NUMBER.findall(numbers)}
        if word.islower():
            each.discard("I")  # the figure I saw
        found.update(f"{_KINDS[kind]} {number}" for number in each)
    return frozenset(found)


_KINDS = {name[:2]: name for name in ("section", "figure", "table", "chapter", "equation", "article")}


def identifiers(chunk: Chunk) -> frozenset[str]:
    """Names of 4 characters and more in a chunk of code; none in other text."""
    return frozenset(_IDENTIFIER.findall(chunk.text)) if chunk.modality is Modality.CODE else frozenset()


def _sequential(chunks: Sequence[Chunk], positions: Sequence[int]) -> Iterator[Pair]:
    for one, other in pairwise(sorted(positions, key=lambda position: chunks[position].index)):
        if chunks[other].index == chunks[one].index + 1:
            yield one, other


def _sharing(
    chunks: Sequence[Chunk], positions: Sequence[int], names: Callable[[Chunk], Iterable[str]], most: int
) -> Iterator[Pair]:
    """Pairs of positions with a common name that at most ``most`` of them have."""
    having: dict[str, list[int]] = {}
    for position in positions:
        for name in names(chunks[position]):
            having.setdefault(name, []).append(position)
    for shared in having.values():
        if len(shared) <= most:
            yield from combinations(shared, 2)


def _merged(pairs: NDArray[np.int64], weights: NDArray[np.float64], kinds: NDArray[np.uint8], nodes: int) -> Edges:
    """Each pair once, with its largest weight and all its kinds."""
    low, high = pairs.min(axis=1, initial=nodes), pairs.max(axis=1, initial=0)
    keys, number = np.unique(low * max(1, nodes) + high, return_inverse=True)
    best, why = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.uint8)
    np.maximum.at(best, number, weights)
    np.bitwise_or.at(why, number, kinds.astype(np.uint8))
    return Edges(keys // max(1, nodes), keys % max(1, nodes), best, why)
