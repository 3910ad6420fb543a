"""SSCC: keep what reaches the threshold that was learned for its scale ("Beyond the Reranker", Singh et al.)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from ragsmith.plugins import Count
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import normalised, ranked
from ragsmith.techniques.registry import Fitting
from ragsmith.types import Fitted, Gold, Hits, Question

Scored = tuple[float, bool]
"""A score, and whether what has it is relevant."""

BETA = 2.0
"""Recall counts twice as much as precision: a lost passage cannot be read, a useless one can be passed over."""

RECALL = 0.95
OBJECTIVES = ("balanced_accuracy", "f_beta", "recall")

PUBLISHED = {"cosine": 0.5, "cross_encoder": 0.0}
"""The constants of the paper's code; 0.5 is for 1 / (1 + squared L2), which unit vectors of cosine 0.5 have, too."""

LIST = "minmax"
"""The one threshold of scores that were scaled within their list."""


def observe(question: Question, hits: Hits, *, gold: Gold, per_scale: bool) -> list[list[Any]]:
    """Return ``[scale, score, relevant]`` of every candidate."""
    return [
        [scale, score, hit.chunk.id in gold.relevant]
        for hit, (scale, score) in zip(ranked(hits), _comparable(ranked(hits), per_scale), strict=True)
    ]


def solve(observations: Sequence[Sequence[Sequence[Any]]], *, objective: str) -> dict[str, Any]:
    """Fit one threshold for each scale; a scale of which nothing should be dropped has none."""
    by_scale: defaultdict[str, list[Scored]] = defaultdict(list)
    for observation in observations:
        for scale, score, relevant in observation:
            by_scale[scale].append((score, relevant))
    fitted = {scale: threshold(scored, objective) for scale, scored in sorted(by_scale.items())}
    return {"thresholds": {scale: tau for scale, tau in fitted.items() if tau is not None}}


@passage_filter(
    paper="Singh et al., Beyond the Reranker",
    choices={"objective": (*OBJECTIVES, "published"), "per_scale": (True, False)},
    fitting=Fitting(observe, solve, when={"objective": OBJECTIVES}),
)
def sscc(
    question: Question,
    hits: Hits,
    *,
    fitted: Fitted,
    objective: str = "balanced_accuracy",
    per_scale: bool = True,
    min_keep: Count = 1,
    keep_at_most: Count = 10,
) -> Hits:
    """Keep candidates that score at least the threshold fitted for their scale on calibration questions.

    Helps when a score means the same for every question, as a cross-encoder's or a cosine does. BM25 depends on the
    question's words and fusions on ranks; for these ``per_scale=False`` min-max scales each list and fits one threshold
    for all, the baseline that the paper names and leaves untested. Costs nothing but labelled questions to fit on, and
    only drops: it shortens what is read, and never finds more. The ``objective`` is balanced accuracy, F2, or the
    highest threshold that keeps 95 % of the relevant candidates.

    A list here has one scale, that of the last stage that scored it, so several thresholds are met only across
    questions, after a router; otherwise there is one. ``sscc_pool`` holds several sources against theirs.

    Against the paper: its code fits on a grid of 100 but nothing calls it; its published runs use constants
    (``objective="published"``, not fitted): 0.5 for 1 / (1 + squared L2), which is a cosine of 0.5 and rejected nothing
    there, and 0 for its cross-encoder; other scales have none, and are kept whole. Its gain is over a CRAG that does
    harm: without any corrector the nDCG of every question is the same. Here thresholds are fitted, over all cuts
    between two scores; a scale without both relevant and other candidates is kept whole, where the paper takes the
    median. ``min_keep`` stay always, and nothing is searched again: that is ``sscc_pool``, or ``crag``.
    """
    if objective == "published" and not per_scale:
        raise ValueError("passage_filter.sscc: the published thresholds are for scales; give per_scale=True with them")
    if not 1 <= min_keep <= keep_at_most:
        raise ValueError(
            f"passage_filter.sscc: min_keep is {min_keep} and keep_at_most {keep_at_most}; "
            "give 1 <= min_keep <= keep_at_most"
        )
    order = ranked(hits)
    thresholds = PUBLISHED if objective == "published" else fitted.numbers["thresholds"]
    accepted = sum(score >= thresholds.get(scale, score) for scale, score in _comparable(order, per_scale))
    return order[: min(keep_at_most, max(min_keep, accepted))]  # a list has one scale, so the accepted come first


def threshold(scored: Sequence[Scored], objective: str) -> float | None:
    """Return the lowest of the best thresholds; None to keep all.

    Candidates are the midpoints of neighbouring distinct scores; ``recall`` takes the highest that keeps enough.
    """
    relevant = sum(is_relevant for _, is_relevant in scored)
    others = len(scored) - relevant
    if not relevant or not others:
        return None
    value = _OBJECTIVES[objective]
    best, best_value = None, value(relevant, others, relevant, others)  # what keeping all is worth
    for tau, true_positives, false_positives in _cuts(scored):
        found = value(true_positives, false_positives, relevant, others)
        if found > best_value or (objective == "recall" and found == best_value):
            best, best_value = tau, found
    return best


def _comparable(order: Hits, per_scale: bool) -> list[tuple[str, float]]:
    """The threshold each hit is held against, and what is held against it."""
    if per_scale:
        return [(str(hit.scale), hit.score) for hit in order]
    return [(LIST, score) for score in normalised(order, "minmax")]


def _cuts(scored: Sequence[Scored]) -> Iterator[tuple[float, int, int]]:
    """Every threshold that drops something, rising, and how many relevant and other scores pass it."""
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
    """(TPR + TNR) / 2, as one division: equal values have to be equal floats."""
    return (true_positives * others + (others - false_positives) * relevant) / (2 * relevant * others)


def _f_beta(true_positives: int, false_positives: int, relevant: int, others: int) -> float:
    """(1 + b^2) P R / (b^2 P + R)."""
    return (1 + BETA**2) * true_positives / (BETA**2 * relevant + true_positives + false_positives)


def _keeps_enough(true_positives: int, false_positives: int, relevant: int, others: int) -> float:
    return float(true_positives >= round(RECALL * relevant, 9))


_OBJECTIVES: dict[str, Callable[[int, int, int, int], float]] = {
    "balanced_accuracy": _balanced_accuracy,
    "f_beta": _f_beta,
    "recall": _keeps_enough,
}
