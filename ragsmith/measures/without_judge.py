"""Measures of answers without a judge: refusal rates, cosine similarity, and SQuAD's exact match and token F1.

As in SQuAD 2.0 (Rajpurkar et al. 2018), questions may be unanswerable. Refusals of unanswerable and of answerable
questions are separate measures, as a constant answer optimises either one. `ragsmith.text.declining` detects refusals.
"""

from collections import Counter

import numpy as np

from ragsmith.measures.case import Case
from ragsmith.measures.registry import measure
from ragsmith.models.protocols import Embedder
from ragsmith.text.declining import declines
from ragsmith.text.words import normalise_answer

SQUAD = "https://arxiv.org/abs/1606.05250"
SQUAD_2 = "https://arxiv.org/abs/1806.03822"


@measure(label="Refusal", subject="answer", paper=SQUAD_2, needs="unanswerable")
def refusal(case: Case) -> float:
    """1 if an unanswerable question is declined, else 0; the generation score G of such questions."""
    return float(declines(case.answer))


@measure(label="False refusal", subject="answer", paper=SQUAD_2, direction="lower", needs="answerable")
def false_refusal(case: Case) -> float:
    """1 if an answerable question is declined, else 0; only for data sets with unanswerable questions."""
    return float(declines(case.answer))


@measure(label="Similarity", subject="answer", paper="https://arxiv.org/abs/2108.06130")
def similarity(case: Case, embedder: Embedder) -> float:
    """The cosine of answer and reference, clipped at 0."""
    reference, answer = embedder.embed([case.reference, case.answer]).astype(np.float64)
    # six decimals: float32 vectors may differ in the last bits between machines
    return min(1.0, max(0.0, round(float(reference @ answer), 6)))


def _normalise_answers(case: Case) -> tuple[str, str]:
    return normalise_answer(case.answer), normalise_answer(case.reference)


@measure(label="Exact match", subject="answer", paper=SQUAD)
def exact_match(case: Case) -> float:
    """1 if answer and reference agree after SQuAD's normalisation, else 0."""
    given, wanted = case.memoize(_normalise_answers)
    return float(given == wanted)


@measure(label="Token F1", subject="answer", paper=SQUAD)
def token_f1(case: Case) -> float:
    """The harmonic mean of precision and recall of words; 1 if both texts are empty, 0 if one is."""
    given, wanted = (text.split() for text in case.memoize(_normalise_answers))
    if not given or not wanted:
        return float(given == wanted)
    shared = (Counter(given) & Counter(wanted)).total()
    return 2 * shared / (len(given) + len(wanted))  # = 2PR / (P + R) with P = shared/given, R = shared/wanted
