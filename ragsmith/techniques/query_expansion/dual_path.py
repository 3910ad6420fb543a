"""Dual path: fuse the rankings of the question and of a hypothetical answer by reciprocal rank (DPHF, Singh et al.)."""

from functools import partial

from ragsmith.models.protocols import LanguageModel
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import reciprocal_rank_fusion, search_and_fuse
from ragsmith.techniques.query_expansion.hyde import IMAGINE_PASSAGE
from ragsmith.types import Hits, Question, Search


@query_expansion(paper="https://doi.org/10.1145/1571941.1572114", choices={"constant": (10, 60)})
def dual_path(
    question: Question, search: Search, *, language_model: LanguageModel, constant: Count = 60, depth: Count = 20
) -> Hits:
    """Search with the question and with one hypothetical passage that answers it, and fuse the two rankings.

    The score of a chunk is the sum of ``1 / (constant + rank)`` over the rankings that contain it (Cormack et al.
    2009), so chunks in both rankings come first. Helps when questions and documents share few words but the
    hypothetical passage may be wrong. Costs 1 call and 2 searches.

    Differences from the paper: only the score has a separate scale, ``rrf``; the study's code sorted it together with
    similarities. `hyde` with ``keep_question`` and ``rrf`` is equivalent, with ``convex`` it is not; the space `seeds`
    has both.
    """
    passage = language_model.run(IMAGINE_PASSAGE, question=question.text)
    fuse = partial(reciprocal_rank_fusion, constant=constant)
    return search_and_fuse(search, (question.text, passage), fuse)[:depth]
