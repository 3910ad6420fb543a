"""Thresholds on scores, one for each scale, fitted or published (SSCC, Singh et al.), and on judgements of evidence.

Chat models judge with 0 or 1, or a score from 1 to 100, the embedded model with a share. Their meaning differs between
models and corpora, so the threshold is fitted on questions whose evidence is known.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

Scored = tuple[float, bool]
"""A score, and whether its candidate is relevant."""

BETA = 2.0
"""Recall weighs twice as much as precision: a lost passage cannot be read, an irrelevant one can be ignored."""

GIVEN, FITTED = "given", "fitted"
"""The source of a threshold on judgements: a parameter, or the search questions."""

MIN_RECALL = 0.95
OBJECTIVES = ("balanced_accuracy", "f_beta", "recall")

PUBLISHED = {"cosine": 0.5, "cross_encoder": 0.0}
"""The constants of the paper's code; 0.5 is 1 / (1 + squared L2), which equals the cosine of unit vectors there."""


def fit_thresholds(observations: Sequence[Sequence[Sequence[Any]]], objective: str) -> dict[str, float]:
    """Fit a threshold for each scale; scales of which all should be kept are left out.

    An observation is a list of ``[scale, score, relevant]``.
    """
    by_scale: defaultdict[str, list[Scored]] = defaultdict(list)
    for observation in observations:
        for scale, score, relevant in observation:
            by_scale[scale].append((score, relevant))
    fitted = {scale: fit_threshold(scored, objective) for scale, scored in sorted(by_scale.items())}
    return {scale: tau for scale, tau in fitted.items() if tau is not None}


def fit_threshold(scored: Sequence[Scored], objective: str) -> float | None:
    """Return the lowest of the best thresholds; None to keep all.

    Candidates are the midpoints of neighbouring distinct scores; ``recall`` takes the highest that keeps enough.
    """
    relevant = sum(is_relevant for _, is_relevant in scored)
    others = len(scored) - relevant
    if not relevant or not others:
        return None
    value = _OBJECTIVES[objective]
    best, best_value = None, value(relevant, others, relevant, others)  # of keeping all
    for tau, true_positives, false_positives in _cuts(scored):
        found = value(true_positives, false_positives, relevant, others)
        if found > best_value or (objective == "recall" and found == best_value):
            best, best_value = tau, found
    return best


def fit_least(seen: Sequence[tuple[float, bool]], lowest: float, beyond: float) -> float:
    """Fit the threshold of best balanced accuracy to judgements ``seen`` and whether each should have been high.

    Return ``lowest`` if all should, or no threshold separates them, and ``beyond``, which no judgement reaches, if none
    should.
    """
    if not any(right for _, right in seen):
        return beyond
    found = fit_threshold(seen, "balanced_accuracy")
    return lowest if found is None else round(found, 6)


def _cuts(scored: Sequence[Scored]) -> Iterator[tuple[float, int, int]]:
    """Yield increasing thresholds, and how many relevant and other scores reach each."""
    relevant = sum(is_relevant for _, is_relevant in scored)
    others = len(scored) - relevant
    at: defaultdict[float, list[bool]] = defaultdict(list)
    for score, is_relevant in scored:
        at[score].append(is_relevant)
    for low, high in pairwise(sorted(at)):
        relevant -= sum(at[low])
        others -= len(at[low]) - sum(at[low])
        middle = low + (high - low) / 2
        yield middle if middle > low else high, relevant, others


def _balanced_accuracy(true_positives: int, false_positives: int, relevant: int, others: int) -> float:
    """(TPR + TNR) / 2, as one division so that equal values are equal floats."""
    return (true_positives * others + (others - false_positives) * relevant) / (2 * relevant * others)


def _f_beta(true_positives: int, false_positives: int, relevant: int, others: int) -> float:
    """(1 + b^2) P R / (b^2 P + R)."""
    return (1 + BETA**2) * true_positives / (BETA**2 * relevant + true_positives + false_positives)


def _keeps_enough(true_positives: int, false_positives: int, relevant: int, others: int) -> float:
    return float(true_positives >= round(MIN_RECALL * relevant, 9))


_OBJECTIVES: dict[str, Callable[[int, int, int, int], float]] = {
    "balanced_accuracy": _balanced_accuracy,
    "f_beta": _f_beta,
    "recall": _keeps_enough,
}
