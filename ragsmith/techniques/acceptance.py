"""Thresholds on scores, one for each scale, fitted or published (SSCC, Singh et al.), and on judgements of evidence.

Chat models return 0 or 1, or a score from 1 to 100; the embedded model returns a share. The calibration of judgements
differs between models and corpora, so the threshold is fitted on questions with gold evidence.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

LabelledScore = tuple[float, bool]
"""The score of a candidate, and whether it is relevant."""

BETA = 2.0
"""Weight of recall relative to precision: the generator can ignore an irrelevant passage but not restore a lost one."""

GIVEN, FITTED = "given", "fitted"
"""The source of a threshold on judgements: a parameter, or the search questions."""

MIN_RECALL = 0.95
"""Minimum share of the relevant candidates above the threshold under the objective ``recall``."""

OBJECTIVES = ("balanced_accuracy", "f_beta", "recall")

PUBLISHED = {"cosine": 0.5, "cross_encoder": 0.0}
"""Thresholds in the paper's code by scale; there 0.5 is 1 / (1 + squared L2), at which unit vectors have cosine 0.5."""


def fit_thresholds(observations: Sequence[Sequence[Sequence[Any]]], objective: str) -> dict[str, float]:
    """Fit a threshold for each scale; scales without a useful threshold are omitted.

    An observation is a list of ``[scale, score, relevant]``.
    """
    by_scale: defaultdict[str, list[LabelledScore]] = defaultdict(list)
    for observation in observations:
        for scale, score, relevant in observation:
            by_scale[scale].append((score, relevant))
    fitted = {scale: fit_threshold(scored, objective) for scale, scored in sorted(by_scale.items())}
    return {scale: tau for scale, tau in fitted.items() if tau is not None}


def fit_threshold(scored: Sequence[LabelledScore], objective: str) -> float | None:
    """Return the lowest threshold with the best objective; None if no threshold improves on accepting all candidates.

    Thresholds are midpoints between adjacent distinct scores. The objective ``recall`` selects the highest threshold
    with a recall of at least `MIN_RECALL`.
    """
    relevant = sum(is_relevant for _, is_relevant in scored)
    others = len(scored) - relevant
    if not relevant or not others:
        return None
    compute_objective = _OBJECTIVES[objective]
    best, best_value = None, compute_objective(relevant, others, relevant, others)  # without a threshold
    for tau, true_positives, false_positives in _candidate_thresholds(scored):
        value = compute_objective(true_positives, false_positives, relevant, others)
        if value > best_value or (objective == "recall" and value == best_value):
            best, best_value = tau, value
    return best


def fit_judgement_threshold(judgements: Sequence[LabelledScore], lowest: float, beyond: float) -> float:
    """Fit the threshold of best balanced accuracy to labelled judgements.

    Return ``lowest`` if all labels are positive or no threshold separates them, and ``beyond``, which is above every
    judgement, if no label is positive.
    """
    if not any(is_positive for _, is_positive in judgements):
        return beyond
    threshold = fit_threshold(judgements, "balanced_accuracy")
    return lowest if threshold is None else round(threshold, 6)


def _candidate_thresholds(scored: Sequence[LabelledScore]) -> Iterator[tuple[float, int, int]]:
    """Yield increasing thresholds with the numbers of relevant and of other scores that reach them."""
    relevant = sum(is_relevant for _, is_relevant in scored)
    others = len(scored) - relevant
    labels: defaultdict[float, list[bool]] = defaultdict(list)
    for score, is_relevant in scored:
        labels[score].append(is_relevant)
    for low, high in pairwise(sorted(labels)):
        relevant -= sum(labels[low])
        others -= len(labels[low]) - sum(labels[low])
        middle = low + (high - low) / 2
        yield middle if middle > low else high, relevant, others


def _balanced_accuracy(true_positives: int, false_positives: int, relevant: int, others: int) -> float:
    """Return (TPR + TNR) / 2, computed with one division so that equal values are equal floats."""
    return (true_positives * others + (others - false_positives) * relevant) / (2 * relevant * others)


def _f_beta(true_positives: int, false_positives: int, relevant: int, others: int) -> float:
    """Return (1 + b^2) P R / (b^2 P + R)."""
    return (1 + BETA**2) * true_positives / (BETA**2 * relevant + true_positives + false_positives)


def _reaches_min_recall(true_positives: int, false_positives: int, relevant: int, others: int) -> float:
    return float(true_positives >= round(MIN_RECALL * relevant, 9))


_OBJECTIVES: dict[str, Callable[[int, int, int, int], float]] = {
    "balanced_accuracy": _balanced_accuracy,
    "f_beta": _f_beta,
    "recall": _reaches_min_recall,
}
