"""Measures of the passages that the generator reads: their length, what of it is gold, and how much they repeat.

Measures of rankings cannot rise when something is dropped from the end: to see what reading costs, a measure has to
look at what is read for nothing. Redundancy depends on the embedder: report it alongside.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragsmith.caches import bounded_cache
from ragsmith.measures.case import Case
from ragsmith.measures.rankings import CLEVERDON, covered
from ragsmith.measures.registry import measure
from ragsmith.models.protocols import Embedder
from ragsmith.types import get_chunks

ZIEGLER = "https://doi.org/10.1145/1060745.1060754"


@measure(label="Prompt, characters", subject="passages", range=(0.0, math.inf), direction=None)
def context_chars(case: Case) -> float:
    """The characters of the prompt's passages, as the generator reads them."""
    return float(len(case.prompt))


@measure(label="Context precision", subject="passages", paper=CLEVERDON, needs="evidence")
def context_precision(case: Case) -> float:
    """The characters of gold evidence that the passages come from, as a share of the characters shown; at most 1.

    Text around a hit, repetitions and text without gold count as shown; of a summary all gold that it was made of
    counts.
    """
    shown = sum(len(passage.text) for passage in case.passages)
    sources = {span for passage in case.passages for span in passage.sources}
    gold = sum(covered(span, sources) for span in dict.fromkeys(case.evidence))
    return min(1.0, gold / shown) if shown else 0.0


ALIKE = 0.85
"""Two passages with a cosine above it are alike."""


def pair_cosines(vectors: ArrayLike) -> list[float]:
    """Return the cosine of each pair of ``vectors``, of shape ``(n, dimensions)``; none for fewer than two.

    A vector of zeros has cosine 0 with everything. Six decimals, so that the last bits of a cosine, which differ
    between machines, decide nothing.
    """
    matrix = np.asarray(vectors, dtype=np.float64)
    if len(matrix) < 2:
        return []
    products = matrix @ matrix.T
    lengths = np.sqrt(products.diagonal())
    lengths[lengths == 0] = np.inf
    cosines: list[float] = np.round(products / lengths / lengths[:, np.newaxis], 6)[_pairs(len(matrix))].tolist()
    return cosines


@bounded_cache(256, key="a number of passages")
def _pairs(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions above the diagonal of an ``n`` × ``n`` matrix: each pair once."""
    rows, columns = np.triu_indices(n, 1)
    return rows, columns


def _cosines(case: Case, embedder: Embedder) -> list[float]:
    """Return the cosine of each pair of chunks that passed the filter; embeds those that no index has embedded."""
    texts = list({chunk.id: chunk.text for chunk in get_chunks(case.hits)}.values())
    return pair_cosines(embedder.embed(texts)) if len(texts) > 1 else []


@measure(label="Redundancy ratio", subject="passages", paper=ZIEGLER, direction="lower")
def redundancy_ratio(case: Case, embedder: Embedder) -> float | None:
    """The share of the pairs of chunks that passed the filter with a cosine above 0.85; it needs two chunks."""
    cosines = case.once(_cosines, embedder)
    return round(sum([cosine > ALIKE for cosine in cosines]) / len(cosines), 6) if cosines else None


@measure(label="Mean cosine", subject="passages", paper=ZIEGLER, range=(-1.0, 1.0), direction="lower")
def mean_pairwise_cosine(case: Case, embedder: Embedder) -> float | None:
    """The mean cosine of all pairs of chunks that passed the filter; it needs two chunks."""
    cosines = case.once(_cosines, embedder)
    return round(math.fsum(cosines) / len(cosines), 6) if cosines else None
