"""Dual path: fuse the rankings of the question and of an imagined answer by reciprocal rank (DPHF, Singh et al.)."""

from functools import partial

from ragsmith.models.protocols import LanguageModel
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import fused_search, reciprocal_rank_fusion
from ragsmith.techniques.query_expansion.hyde import IMAGINE
from ragsmith.types import Hits, Question, Search


@query_expansion(paper="https://doi.org/10.1145/1571941.1572114", choices={"constant": (10, 60)})
def dual_path(
    question: Question, search: Search, *, language_model: LanguageModel, constant: Count = 60, depth: Count = 20
) -> Hits:
    """Search with the question and with one passage imagined as its answer, and fuse the two rankings.

    A chunk scores the sum of ``1 / (constant + rank)`` over the paths that found it (Cormack et al. 2009), so what both
    find comes first. Helps when questions and documents share few words but the imagined passage may be off: either
    path makes up for the other. Costs 1 call and 2 searches.

    Against the paper: the same, but the score has a scale of its own, ``rrf``, where the study's code went on to sort
    it together with similarities. `hyde` with ``keep_question`` and ``rrf`` is the same under another name; with
    ``convex`` it is not; the space `seeds` has both.
    """
    imagined = language_model.run(IMAGINE, question=question.text)
    fuse = partial(reciprocal_rank_fusion, constant=constant)
    return fused_search(search, (question.text, imagined), fuse)[:depth]
