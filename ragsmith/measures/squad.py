"""Exact match and token F1, as SQuAD compares answers (Rajpurkar et al. 2016)."""

from collections import Counter

from ragsmith.measures.case import Case
from ragsmith.measures.registry import measure
from ragsmith.text.words import normalise_answer

PAPER = "https://arxiv.org/abs/1606.05250"


def _normalised(case: Case) -> tuple[str, str]:
    return normalise_answer(case.answer), normalise_answer(case.reference)


@measure(label="Exact match", subject="answer", paper=PAPER)
def exact_match(case: Case) -> float:
    """1 if answer and reference agree after SQuAD's normalisation, else 0."""
    given, wanted = case.once(_normalised)
    return float(given == wanted)


@measure(label="Token F1", subject="answer", paper=PAPER)
def token_f1(case: Case) -> float:
    """The harmonic mean of precision and recall of words; 1 if both texts are empty, 0 if one is."""
    given, wanted = (text.split() for text in case.once(_normalised))
    if not given or not wanted:
        return float(given == wanted)
    shared = (Counter(given) & Counter(wanted)).total()
    return 2 * shared / (len(given) + len(wanted))  # = 2PR / (P + R) with P = shared/given, R = shared/wanted
