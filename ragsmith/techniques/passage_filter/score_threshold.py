"""Score threshold: keep the candidates that reach a fixed similarity (similarity threshold, Kartal et al. 2025)."""

from typing import Annotated

from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Count, Range
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import rank
from ragsmith.techniques.passage_filter.nr import cosines_with
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
    """Keep candidates of which the similarity with the question is at least ``threshold``, whatever the others have.

    Helps when some questions have little to find: where nothing is similar, next to nothing is read. Costs an embedding
    of the question and of each candidate. What is held against the threshold is the cosine of question and chunk, which
    means the same behind every retrieval and reranking, as long as the embedder is the same; with ``score``, as in the
    original system, it is the last score, which is a cosine only where vector search gave it: fusions by rank stay near
    0, and BM25 has no upper end. What is kept keeps score and order; the most similar ``keep_at_least`` stay always.
    ``similarity_threshold`` is relative: it asks how near a candidate comes to the best one of its list.

    Against the paper: its code keeps scores of 0.6 and more, whatever they are. Of 0.1, 0.2, ... 0.5 the first is the
    default: it costs next to nothing on the search questions of six data sets with the embedded vectors, and each
    higher one costs more, most on tables and code. Another embedder needs another number. Up to 20 are kept, so that
    the threshold decides and not their number.
    """
    if keep_at_least > keep_at_most:
        raise ValueError(
            f"passage_filter.score_threshold: keep_at_least is {keep_at_least} and keep_at_most {keep_at_most}; "
            "give keep_at_least up to keep_at_most"
        )
    order = rank(hits)
    similar = (
        cosines_with(embedder, question.text, [hit.chunk.text for hit in order])
        if measured == "cosine"
        else [hit.score for hit in order]
    )
    most = set(sorted(range(len(order)), key=lambda i: -similar[i])[:keep_at_least])
    kept = [i for i in range(len(order)) if similar[i] >= threshold or i in most]
    # room is left for the most similar ones, however low they rank
    others = [i for i in kept if i not in most][: keep_at_most - len(most)]
    return tuple(order[i] for i in sorted([*others, *most]))
