"""SSCC: keep what reaches the threshold that was learned for its scale ("Beyond the Reranker", Singh et al.)."""

from collections.abc import Sequence
from typing import Any

from ragsmith.plugins import Count
from ragsmith.techniques.acceptance import OBJECTIVES, PUBLISHED, fit_thresholds
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import normalize, rank
from ragsmith.techniques.registry import Fitting
from ragsmith.types import Fitted, Gold, Hits, Question

LIST = "minmax"
"""The scale of scores that were min-max scaled within their list."""


def observe(question: Question, hits: Hits, *, gold: Gold, per_scale: bool) -> list[list[Any]]:
    """Return ``[scale, score, relevant]`` of every candidate."""
    return [
        [scale, score, hit.chunk.id in gold.relevant]
        for hit, (scale, score) in zip(rank(hits), _comparable(rank(hits), per_scale), strict=True)
    ]


def solve(observations: Sequence[Sequence[Sequence[Any]]], *, objective: str) -> dict[str, Any]:
    """Fit one threshold for each scale; a scale of which nothing should be dropped has none."""
    return {"thresholds": fit_thresholds(observations, objective)}


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

    Helps when a score means the same for every question, as that of a cross-encoder or a cosine does. BM25 depends on
    the question's words and fusions on ranks; for these ``per_scale=False`` min-max scales each list and fits one
    threshold for all, the baseline that the paper names but does not test. Costs only labelled questions to fit on. The
    ``objective`` is balanced accuracy, F2, or the highest threshold that keeps 95 % of the relevant candidates.

    A list has one scale, that of the last stage that scored it, so several thresholds are used only across questions,
    after a router. ``sscc_pool`` compares several sources with their thresholds.

    Differences from the paper: its published runs use constants (``objective="published"``, not fitted): 0.5 for 1 / (1
    + squared L2), a cosine of 0.5, which rejected nothing there, and 0 for its cross-encoder; other scales have none
    and are kept whole. Its gain is over a CRAG that does harm: without a corrector the nDCG of every question is the
    same. Here thresholds are fitted over all cuts between two scores; a scale without both relevant and other
    candidates is kept whole, where the paper takes the median. ``min_keep`` candidates are always kept, and nothing is
    searched again, as in ``sscc_pool`` or ``crag``.
    """
    if objective == "published" and not per_scale:
        raise ValueError("passage_filter.sscc: the published thresholds are for scales; give per_scale=True with them")
    if not 1 <= min_keep <= keep_at_most:
        raise ValueError(
            f"passage_filter.sscc: min_keep is {min_keep} and keep_at_most {keep_at_most}; "
            "give 1 <= min_keep <= keep_at_most"
        )
    order = rank(hits)
    thresholds = PUBLISHED if objective == "published" else fitted.numbers["thresholds"]
    accepted = sum(score >= thresholds.get(scale, score) for scale, score in _comparable(order, per_scale))
    return order[: min(keep_at_most, max(min_keep, accepted))]  # a list has one scale, so the accepted come first


def _comparable(order: Hits, per_scale: bool) -> list[tuple[str, float]]:
    """Return the scale of each hit, which selects its threshold, and the score that is compared with it."""
    if per_scale:
        return [(str(hit.scale), hit.score) for hit in order]
    return [(LIST, score) for score in normalize(order, "minmax")]
