"""Hybrid reranking: the mean of a cross-encoder's and a listwise language model's ranking (Kartal et al. 2025)."""

from ragsmith.models.protocols import CrossEncoder, LanguageModel
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import reranking
from ragsmith.techniques.fusion import convex_combination
from ragsmith.techniques.reranking.cross_encoder import cross_encoder as by_cross_encoder
from ragsmith.techniques.reranking.llm import llm as by_language_model
from ragsmith.types import Hits, Question


@reranking(paper="https://arxiv.org/abs/2511.01386", choices={"cross_encoder_weight": (0.5, 0.7)})
def hybrid(
    question: Question,
    hits: Hits,
    *,
    cross_encoder: CrossEncoder,
    language_model: LanguageModel,
    depth: Count = 20,
    cross_encoder_weight: Share = 0.7,
    first_stage_weight: Share = 0.5,
    max_characters: Count = 1000,
) -> Hits:
    """Order the first ``depth`` candidates by the weighted mean of a cross-encoder's and a language model's ranking.

    Helps when the two make different mistakes. Costs the sum of both: ``depth`` scored pairs and 1 call, which are
    cached and shared with `cross_encoder` and `llm`. Both scores are min-max scaled over the candidates, and the
    language model has the weight ``1 - cross_encoder_weight``.
    """
    pairwise = by_cross_encoder(
        question, hits, cross_encoder=cross_encoder, depth=depth, first_stage_weight=first_stage_weight
    )
    listwise = by_language_model(
        question, hits, language_model=language_model, depth=depth, max_characters=max_characters
    )
    return convex_combination((pairwise, listwise), (cross_encoder_weight, 1 - cross_encoder_weight), "minmax")
