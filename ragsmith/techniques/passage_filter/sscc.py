"""SSCC: keep candidates above a threshold fitted for their scale ("Beyond the Reranker", Singh et al.)."""

from collections.abc import Sequence
from typing import Any

from ragsmith.plugins import Count
from ragsmith.techniques.acceptance import OBJECTIVES, PUBLISHED, fit_thresholds
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import normalize, rank
from ragsmith.techniques.registry import Fitting
from ragsmith.types import Fitted, Gold, Hits, Question

LIST_SCALE = "minmax"
"""Name of the scale of scores that are min-max scaled within a list."""


def observe(question: Question, hits: Hits, *, gold: Gold, per_scale: bool) -> list[list[Any]]:
    """Return ``[scale, score, relevant]`` for each candidate."""
    return [
        [scale, score, hit.chunk.id in gold.relevant]
        for hit, (scale, score) in zip(rank(hits), _scores_by_scale(rank(hits), per_scale), strict=True)
    ]


def solve(observations: Sequence[Sequence[Sequence[Any]]], *, objective: str) -> dict[str, Any]:
    """Fit a threshold for each scale; scales without a useful threshold are omitted."""
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

    Helps when scores are comparable between questions, as those of cross-encoders and cosines are. BM25 depends on the
    words of the question and fusion on ranks; for these, ``per_scale=False`` min-max scales each list and fits one
    common threshold, a baseline that the paper names but does not test. Costs only labelled questions to fit on. The
    ``objective`` is balanced accuracy, F2, or the highest threshold that keeps 95 % of the relevant candidates.

    A list has one scale, that of the last stage that scored it, so several thresholds are used only across questions,
    after a router. ``sscc_pool`` compares several sources with their thresholds.

    Differences from the paper: its published runs use constants (``objective="published"``, not fitted): 0.5 for 1 / (1
    + squared L2), a cosine of 0.5, which rejected nothing there, and 0 for its cross-encoder; candidates on other
    scales are all kept. Its gain is relative to a CRAG that reduces quality: without CRAG, it does not change the nDCG
    of any question. Here thresholds are fitted over all midpoints of scores; if a scale lacks relevant or irrelevant
    candidates, all are kept, where the paper uses the median. ``min_keep`` candidates are always kept, and there is no
    second search, unlike in ``sscc_pool`` and ``crag``.
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
    accepted = sum(score >= thresholds.get(scale, score) for scale, score in _scores_by_scale(order, per_scale))
    return order[: min(keep_at_most, max(min_keep, accepted))]  # with one scale, the accepted hits are a prefix


def _scores_by_scale(order: Hits, per_scale: bool) -> list[tuple[str, float]]:
    """Return the scale of each hit, which selects the threshold, and its score on that scale."""
    if per_scale:
        return [(str(hit.scale), hit.score) for hit in order]
    return [(LIST_SCALE, score) for score in normalize(order, "minmax")]
