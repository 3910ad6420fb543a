"""Cross-encoder reranking: score pairs of question and passage (Nogueira and Cho 2019)."""

from ragsmith.models.protocols import CrossEncoder
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import reranking
from ragsmith.techniques.fusion import normalize, rank
from ragsmith.types import Hits, Question, Scale


@reranking(
    paper="https://arxiv.org/abs/1901.04085",
    choices={"depth": (10, 20, 40), "first_stage_weight": (0.0, 0.5)},
)
def cross_encoder(
    question: Question,
    hits: Hits,
    *,
    cross_encoder: CrossEncoder,
    depth: Count = 20,
    first_stage_weight: Share = 0.5,
) -> Hits:
    """Order the first ``depth`` candidates by a cross-encoder's score, blended with the score of the first stage.

    Helps when the right chunk is retrieved but not ranked first. Costs ``depth`` scored pairs. Both scores are min-max
    scaled over the candidates and averaged, with ``first_stage_weight`` on the first stage; if it is 0, the scores of
    the cross-encoder are unchanged. All scored candidates are returned; candidates below ``depth`` are dropped, as
    their scores of the first stage cannot be compared with the new ones. The original system discarded the new scores.
    """
    first = rank(hits)[:depth]
    scores = cross_encoder.score(question.text, [hit.chunk.text for hit in first])
    rescored = tuple(hit.rescored(score, Scale.CROSS_ENCODER) for hit, score in zip(first, scores, strict=True))
    if first_stage_weight == 0:
        return rank(rescored)
    w = first_stage_weight
    blended = [
        w * before + (1 - w) * after
        for before, after in zip(normalize(first, "minmax"), normalize(rescored, "minmax"), strict=True)
    ]
    return rank(hit.rescored(score, Scale.CROSS_ENCODER) for hit, score in zip(first, blended, strict=True))
