"""Measures of the passages in the prompt: length, precision and redundancy.

Unlike most measures of rankings, they improve when irrelevant passages are removed. Redundancy depends on the embedder,
so that both should be reported.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragsmith.caches import bounded_cache
from ragsmith.measures.case import Case
from ragsmith.measures.rankings import CLEVERDON, count_covered
from ragsmith.measures.registry import measure
from ragsmith.models.protocols import Embedder
from ragsmith.types import get_chunks, places_of

ZIEGLER = "https://doi.org/10.1145/1060745.1060754"


@measure(label="Prompt, characters", subject="passages", range=(0.0, math.inf), direction=None)
def context_chars(case: Case) -> float:
    """The number of characters of the passages in the prompt."""
    return float(len(case.prompt))


@measure(label="Context precision", subject="passages", paper=CLEVERDON, needs="evidence")
def context_precision(case: Case) -> float:
    """The share of gold evidence in the context: characters of gold in the sources / characters of the passages.

    It is at most 1. The sources of a summary are those of the summarised texts.
    """
    total = sum(len(passage.text) for passage in case.passages)
    sources = {span for passage in case.passages for span in passage.sources}
    places = dict.fromkeys(place for span in case.evidence for place in places_of(span))
    gold = sum(count_covered(place, sources) for place in places)
    return min(1.0, gold / total) if total else 0.0


REDUNDANCY_THRESHOLD = 0.85
"""Cosine above which two passages count as redundant."""


def pairwise_cosines(vectors: ArrayLike) -> list[float]:
    """Return the cosine of each pair of ``vectors``, of shape ``(n, dimensions)``; none for fewer than two.

    A zero vector has cosine 0. Cosines are rounded to six decimals, as their last bits differ between machines.
    """
    matrix = np.asarray(vectors, dtype=np.float64)
    if len(matrix) < 2:
        return []
    products = matrix @ matrix.T
    lengths = np.sqrt(products.diagonal())
    lengths[lengths == 0] = np.inf
    cosines: list[float] = np.round(products / lengths / lengths[:, np.newaxis], 6)[_pair_indices(len(matrix))].tolist()
    return cosines


@bounded_cache(256, key="a number of passages")
def _pair_indices(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices of the upper triangle of an ``n`` × ``n`` matrix, without the diagonal."""
    rows, columns = np.triu_indices(n, 1)
    return rows, columns


def _hit_cosines(case: Case, embedder: Embedder) -> list[float]:
    """Return the cosine of each pair of distinct chunks of the filtered hits."""
    texts = list({chunk.id: chunk.text for chunk in get_chunks(case.hits)}.values())
    return pairwise_cosines(embedder.embed(texts)) if len(texts) > 1 else []


@measure(label="Redundancy ratio", subject="passages", paper=ZIEGLER, direction="lower")
def redundancy_ratio(case: Case, embedder: Embedder) -> float | None:
    """The share of pairs of filtered chunks with a cosine above 0.85; None for fewer than two chunks."""
    cosines = case.memoize(_hit_cosines, embedder)
    return round(sum([cosine > REDUNDANCY_THRESHOLD for cosine in cosines]) / len(cosines), 6) if cosines else None


@measure(label="Mean cosine", subject="passages", paper=ZIEGLER, range=(-1.0, 1.0), direction="lower")
def mean_pairwise_cosine(case: Case, embedder: Embedder) -> float | None:
    """The mean cosine of the pairs of filtered chunks; None for fewer than two chunks."""
    cosines = case.memoize(_hit_cosines, embedder)
    return round(math.fsum(cosines) / len(cosines), 6) if cosines else None
