"""ListNet reranking: a learned linear score over a cross-encoder's score and eight other signals (Cao et al. 2007)."""

from itertools import pairwise
from typing import Any

import numpy as np

from ragsmith.caches import bounded_cache
from ragsmith.models.protocols import CrossEncoder
from ragsmith.plugins import Count
from ragsmith.techniques.families import reranking
from ragsmith.techniques.fusion import rank
from ragsmith.techniques.listwise import PAPER, Array, make_observation, score_rows, solve, standardize
from ragsmith.techniques.registry import Fitting, Signals
from ragsmith.text.words import terms
from ragsmith.types import Chunk, Fitted, Gold, Hits, Question, Scale

SIGNALS = {
    "first_stage": "score of the stage before",
    "first_stage_rank": "1 / (5 + its rank in the stage before)",
    "cross_encoder": "the cross-encoder's score of its text below title and headings",
    "shared_words": "share of the question's distinct words that are in its text",
    "word_pairs": "share of the question's pairs of adjacent words that are adjacent in its text",
    "numbers": "how many of the question's words with digits are in its text",
    "title": "share of the question's words that are in its title",
    "headings": "share of the question's words that are in its headings",
    "length": "logarithm of its characters",
}
"""The signals of a candidate; each is standardised among the candidates of a question."""


def observe(question: Question, hits: Hits, *, cross_encoder: CrossEncoder, gold: Gold, depth: int) -> dict[str, Any]:
    """Return the signals of the first ``depth`` candidates, and which of them are relevant."""
    first = rank(hits)[:depth]
    relevant = [hit.chunk.id in gold.relevant for hit in first]
    group = next((hit.chunk.doc for hit, is_relevant in zip(first, relevant, strict=True) if is_relevant), "")
    return make_observation(question.text, _compute_signals(question, first, cross_encoder), relevant, group)


def signals(question: Question, hits: Hits, *, cross_encoder: CrossEncoder, depth: int) -> Signals:
    """Return the signals of the first ``depth`` candidates by chunk id."""
    first = rank(hits)[:depth]
    rows = _compute_signals(question, first, cross_encoder).tolist()
    return {hit.chunk.id: dict(zip(SIGNALS, row, strict=True)) for hit, row in zip(first, rows, strict=True)}


@reranking(
    paper=PAPER,
    choices={"weights": ("general", "fitted"), "without": ("", *SIGNALS), "depth": (10, 20, 40)},
    fitting=Fitting(observe, solve, when={"weights": ("fitted",)}, names=SIGNALS, signals=signals),
)
def listnet(
    question: Question,
    hits: Hits,
    *,
    cross_encoder: CrossEncoder,
    fitted: Fitted,
    weights: str = "general",
    without: str = "",
    depth: Count = 20,
) -> Hits:
    """Order the first ``depth`` candidates by a learned linear score.

    Helps after any retrieval and with any cross-encoder. Costs ``depth`` scored pairs and no call. The cross-encoder
    reads the text below its title and headings, which often name a subject that the chunk does not.
    ``weights="general"`` were learned on other data sets with the embedded cross-encoder, without questions of this
    one; ``"fitted"`` adds the search questions, repeated as often as is best in cross-validation, which may be zero
    times. ``without`` omits a signal. Candidates below ``depth`` are dropped, as their scores cannot be compared with
    the new ones.

    Differences from the paper: its scoring function is a neural network, which its experiments also reduce to a linear
    one, and it is learned for one collection; here every signal is standardised within its question, so that weights
    transfer.
    """
    first = rank(hits)[:depth]
    scores = score_rows(
        _compute_signals(question, first, cross_encoder), SIGNALS, fitted.numbers["weights"], without
    ).tolist()
    return rank(hit.rescored(score, Scale.LEARNED) for hit, score in zip(first, scores, strict=True))


def _compute_signals(question: Question, hits: Hits, cross_encoder: CrossEncoder) -> Array:
    """Return the signals of ``hits``, in their order: shape ``(hits, signals)``."""
    if not hits:
        return np.zeros((0, len(SIGNALS)))
    prepared = [_prepare_chunk(question.text, hit.chunk) for hit in hits]
    columns = [
        [hit.score for hit in hits],
        [1 / (5 + rank) for rank in range(1, len(hits) + 1)],
        cross_encoder.score(question.text, [text for text, _ in prepared]),
        *zip(*(shared for _, shared in prepared), strict=True),
    ]
    return standardize([np.array(column, dtype=np.float64) for column in columns])


@bounded_cache(1 << 14, key="a question and a chunk")  # about 1 KB each
def _prepare_chunk(query: str, chunk: Chunk) -> tuple[str, tuple[float, ...]]:
    """Return the text that a cross-encoder reads of a chunk, and the signals from ``shared_words`` on."""
    path = chunk.path
    query_terms = terms(query, chunk.language)
    distinct, pairs = set(query_terms), set(pairwise(query_terms))
    text = terms(chunk.text, chunk.language)
    in_text = distinct.intersection(text)
    title = distinct.intersection(terms(chunk.title, chunk.language))
    headings = distinct.intersection(terms(" ".join(chunk.headings), chunk.language))
    size = max(1, len(distinct))
    values = (
        len(in_text) / size,
        len(pairs.intersection(pairwise(text))) / max(1, len(pairs)),
        float(sum(any(map(str.isdigit, term)) for term in in_text)),
        len(title) / size,
        len(headings) / size,
        float(np.log1p(len(chunk.text))),
    )
    return f"{path}\n\n{chunk.text}" if path else chunk.text, values
