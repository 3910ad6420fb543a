"""Semantic similarity of two answers: the cosine of their vectors (in the manner of Risch et al. 2021)."""

import numpy as np

from ragsmith.measures.case import Case
from ragsmith.measures.registry import measure
from ragsmith.models.protocols import Embedder


@measure(label="Similarity", subject="answer", paper="https://arxiv.org/abs/2108.06130")
def similarity(case: Case, embedder: Embedder) -> float:
    """The cosine of answer and reference, 0 where it is negative."""
    one, other = embedder.embed([case.reference, case.answer]).astype(np.float64)
    # six decimals: float32 vectors may differ in the last bits between machines
    return min(1.0, max(0.0, round(float(one @ other), 6)))
