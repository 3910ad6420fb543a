"""Score threshold: keep candidates with a minimum similarity (similarity threshold, Kartal et al. 2025)."""

from typing import Annotated

from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Count, Range
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import rank
from ragsmith.techniques.passage_filter.nr import query_cosines
from ragsmith.types import Hits, Question


@passage_filter(
    paper="https://arxiv.org/abs/2511.01386",
    choices={"measured": ("cosine", "score"), "threshold": (0.1, 0.2, 0.3)},
)
def score_threshold(
    question: Question,
    hits: Hits,
    *,
    embedder: Embedder,
    measured: str = "cosine",
    threshold: Annotated[float, Range(-1000, 1000)] = 0.1,
    keep_at_least: Count = 1,
    keep_at_most: Count = 20,
) -> Hits:
    """Keep candidates with a similarity to the question of at least ``threshold``, an absolute value.

    Helps when some questions have few relevant passages. Costs an embedding of the question and of each candidate. The
    similarity is the cosine of question and chunk, which is comparable after any retrieval and reranking with the same
    embedder. With ``score``, as in the original system, it is the last score, which is a cosine only after vector
    search: rank fusion has scores near 0, and BM25 has no upper bound. Scores and order of the candidates are
    unchanged; the ``keep_at_least`` most similar ones are always kept. ``similarity_threshold`` is relative to the best
    candidate of the list.

    Differences from the paper: its code keeps scores of at least 0.6 on any scale. Of the thresholds 0.1, 0.2, ... 0.5,
    the default of 0.1 loses almost no recall on the search questions of six data sets with the embedded vectors, and
    each higher one loses more, most on tables and code. Other embedders need other thresholds. Up to 20 candidates are
    kept, so that the threshold rather than the limit determines their number.
    """
    if keep_at_least > keep_at_most:
        raise ValueError(
            f"passage_filter.score_threshold: keep_at_least is {keep_at_least} and keep_at_most {keep_at_most}; "
            "give keep_at_least up to keep_at_most"
        )
    order = rank(hits)
    similar = (
        query_cosines(embedder, question.text, [hit.chunk.text for hit in order])
        if measured == "cosine"
        else [hit.score for hit in order]
    )
    most_similar = set(sorted(range(len(order)), key=lambda i: -similar[i])[:keep_at_least])
    kept = [i for i in range(len(order)) if similar[i] >= threshold or i in most_similar]
    # the most similar ones are within the limit at any rank
    others = [i for i in kept if i not in most_similar][: keep_at_most - len(most_similar)]
    return tuple(order[i] for i in sorted([*others, *most_similar]))
