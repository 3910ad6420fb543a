"""Entropy router: choose how to search by how undecided the first search is ("Beyond the Reranker", Singh et al.)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np

from ragsmith.index.index import queries_of
from ragsmith.models.protocols import Embedder, LanguageModel
from ragsmith.plugins import Amount, Count, Range
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.query_expansion.keyword_router import searched_by
from ragsmith.types import Hits, Question, Search


@query_expansion(
    paper="Singh et al., Beyond the Reranker",
    choices={"temperature": (0.05, 0.02, 1.0)},
)
def entropy_router(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    embedder: Embedder,
    temperature: Annotated[float, Range(0.001)] = 0.05,
    low: Amount = 1.8,
    high: Amount = 2.6,
    nearest: Count = 20,
    depth: Count = 20,
) -> Hits:
    """Search plainly; where the distances of the best hits leave it undecided which is meant, search otherwise.

    Helps when an ambiguous question can be told by its hits, of which there is no evidence: in the paper's own data the
    entropy says next to nothing about which strategy wins (rank correlation 0.1). Costs one search, one embedding a
    hit, and the call of ``dual_path`` or ``step_back`` where it goes there. The entropy (nats) of the softmax of
    ``-distance / temperature`` over the ``nearest`` hits (squared L2) is below ``low``: the plain hits; below ``high``:
    ``dual_path``; else, or without any hit: ``step_back``. It is at most the logarithm of the number of hits, so a
    search that finds fewer than 14 never reaches the default ``high``.

    Against the paper: ``temperature=1.0`` is as published. Distances of unit vectors differ so little that every
    question is then near the maximum, log 20 = 3.0, and goes to ``step_back``. At 0.05 all three are chosen.
    """
    if temperature <= 0 or low > high or nearest < 1:
        raise ValueError(
            f"query_expansion.entropy_router: temperature is {temperature}, low {low}, high {high}, nearest {nearest}; "
            "give a temperature above 0, low up to high, and 1 or more nearest"
        )
    hits = search((question.text,))[0]
    entropy = softmax_entropy(distances(question, hits[:nearest], embedder), temperature)
    if hits and entropy < low:
        return hits[:depth]
    strategy = "dual_path" if hits and entropy < high else "step_back"
    return searched_by(strategy, question, search, language_model=language_model, depth=depth)


def distances(question: Question, hits: Hits, embedder: Embedder) -> tuple[float, ...]:
    """Return the squared L2 distance between the vectors of the question and of each hit's text."""
    if not hits:
        return ()
    [asked] = queries_of(embedder, [question.text]).astype(np.float64)
    found = embedder.embed([hit.chunk.text for hit in hits]).astype(np.float64)
    # |a - b|^2 = 2 - 2 cos(a, b); rounded, as the last bits differ between machines
    return tuple(float(value) for value in np.round(2 - 2 * (found @ asked), 6))


def softmax_entropy(values: Sequence[float], temperature: float) -> float:
    """Return the entropy, in nats, of the softmax of ``-values / temperature``: 0 to ``log(len(values))``."""
    nearest = min(values, default=0.0)
    powers = [math.exp((nearest - value) / temperature) for value in values]  # p_i = softmax(-d_i / T)
    total = math.fsum(powers)
    # H = -sum p log p; rounded, so that no last bit decides at a threshold
    return round(-math.fsum(power / total * math.log(power / total) for power in powers if power), 9) + 0.0
