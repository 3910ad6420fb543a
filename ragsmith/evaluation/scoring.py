"""What one answer is worth: the record of one candidate on one question.

Retrieval is scored on the chunks that pass the filter, generation on the answer that is delivered. The fitness is the
paper's: the mean of four retrieval metrics, the mean of judge and similarity, and the mean of both
(Kartal et al., arXiv 2511.01386).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragsmith.datasets.relevance import Relevance
from ragsmith.errors import UsageError
from ragsmith.evaluation.faithfulness import faithfulness_of
from ragsmith.evaluation.judge import judge, semantic_similarity
from ragsmith.gateway.gateway import Gateway
from ragsmith.measures.metrics import (
    average_precision,
    exact_match,
    graded_ndcg_at,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    redundancy,
    span_recall_at,
    success_at,
    token_f1,
)
from ragsmith.models.roles import Models
from ragsmith.models.usage import Meter
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.trace import Trace
from ragsmith.types import Answer, Example, Hits, Span

CUTOFF = 5
"""k of Recall, nDCG, success and span recall. Average precision and MRR read everything that passed the filter."""

WIDE_CUTOFF = 10
"""k of the graded nDCG and of the wider success, which Cranfield-like studies report."""

POOL = 50
"""How many candidates of the query expansion make the pool, whose recall bounds what reranking can bring up."""

RETRIEVAL_METRICS = ("recall", "map", "ndcg", "mrr")
GENERATION_METRICS = ("judge", "similarity")


@dataclass(frozen=True, slots=True)
class Weights:
    """How much retrieval and generation count in the fitness; they are normalised to 1."""

    retrieval: float = 0.5
    generation: float = 0.5

    def __post_init__(self) -> None:
        if not (self.retrieval >= 0 and self.generation >= 0 and 0 < self.retrieval + self.generation < math.inf):
            raise UsageError(f"weights {self.retrieval} and {self.generation}: give numbers from 0 up, not both 0")


def record(
    engine: Engine, trace: Trace, example: Example, relevance: Relevance, *, faithfulness: bool = False
) -> dict[str, Any]:
    """Everything kept of one question: metrics, what was retrieved and answered, and what it cost.

    ``metrics`` has a number for every question; ``measures`` None where there is nothing to measure. ``faithfulness``
    is among them when asked for: it costs two calls of the judge an answer. Nothing in a record is measured in seconds,
    so equal runs give equal records.
    """
    total = Meter()
    for usage in trace.usage.values():
        total.add(usage)
    passages = trace.prompt.passages
    return {
        "metrics": {
            **retrieval_metrics(trace, example, relevance),
            **generation_metrics(engine.gateway, engine.models, trace.answer, example),
            "context_chars": float(len(trace.prompt.text)),
        },
        "measures": {
            **redundancy_measures(engine.gateway, engine.models, trace.hits),
            **(faithfulness_measure(engine.gateway, engine.models, trace, example) if faithfulness else {}),
        },
        "retrieved": [hit.chunk.id for hit in trace.hits],
        "answer": trace.answer.text,
        "cited": [[s.doc, s.start, s.end] for i in trace.answer.cited for s in passages[i].sources],
        "stages": {family: engine.fingerprint(output) for family, output in trace.outputs.items()},
        "usage": {
            "calls": total.calls,
            "texts_embedded": total.texts_embedded,
            "pairs_scored": total.pairs_scored,
            "input_tokens": total.input_tokens,
            "output_tokens": total.output_tokens,
        },
    }


def retrieval_metrics(trace: Trace, example: Example, relevance: Relevance) -> dict[str, float]:
    """Scores of what passed the filter: Recall@5, average precision, nDCG@5, reciprocal rank, Success@5 and @10, graded
    nDCG@10, span recall@5; and ``recall_50``, the recall of the pool.

    The pool is what the query expansion found, before reranking and filter: its first 50, or as many as the expansion
    and the retrieval fetch, if that is fewer. Their depth bounds it.
    """
    ranking = [hit.chunk.id for hit in trace.hits]
    pool: Hits = trace.outputs["query_expansion"].value
    relevant = relevance.relevant
    return {
        "recall": recall_at(ranking, relevant, CUTOFF),
        "map": average_precision(ranking, relevant),
        "ndcg": ndcg_at(ranking, relevant, CUTOFF),
        "mrr": reciprocal_rank(ranking, relevant),
        "success": success_at(ranking, relevant, CUTOFF),
        "span_recall": span_recall_at(_spans(trace.hits, CUTOFF), example.evidence, CUTOFF),
        "success_10": success_at(ranking, relevant, WIDE_CUTOFF),
        "ndcg_10": graded_ndcg_at(ranking, relevance.grades, WIDE_CUTOFF),
        "recall_50": recall_at([hit.chunk.id for hit in pool], relevant, POOL),
    }


def _spans(hits: Hits, k: int) -> list[Span]:
    """Where the first ``k`` chunks lie. A summary takes a place in the ranking, but lies nowhere."""
    first = list({hit.chunk.id: hit.chunk for hit in hits}.values())[:k]
    return [chunk.span for chunk in first if not chunk.level]


def redundancy_measures(gateway: Gateway, models: Models, hits: Hits) -> dict[str, float | None]:
    """How alike the chunks are that passed the filter, by the run's embedder; None for fewer than two.

    Chunks that no index has embedded yet are embedded for this, once.
    """
    texts = list({hit.chunk.id: hit.chunk.text for hit in hits}.values())
    found = redundancy(gateway.embedder(models.embedder, Meter()).embed(texts)) if len(texts) > 1 else None
    return {
        "redundancy_ratio": found.ratio if found else None,
        "mean_pairwise_cosine": found.mean_cosine if found else None,
    }


def faithfulness_measure(gateway: Gateway, models: Models, trace: Trace, example: Example) -> dict[str, float | None]:
    """The share of the answer's claims that the passages shown support, by the judge; None if it claims nothing."""
    passages = tuple(passage.text for passage in trace.prompt.passages)
    judging = gateway.language_model(models.judge, Meter())
    return {
        "faithfulness": faithfulness_of(example.question, trace.answer.text, passages, language_model=judging),
    }


def generation_metrics(gateway: Gateway, models: Models, answer: Answer, example: Example) -> dict[str, float]:
    """Judge, semantic similarity, exact match and token F1 of the answer; what they cost is not the pipeline's."""
    meter = Meter()
    verdict = judge(
        example.question, example.answer, answer.text, language_model=gateway.language_model(models.judge, meter)
    )
    return {
        "judge": verdict,
        "similarity": semantic_similarity(gateway.embedder(models.embedder, meter), example.answer, answer.text),
        "exact_match": exact_match(answer.text, example.answer),
        "token_f1": token_f1(answer.text, example.answer),
    }


def retrieval_score(metrics: Mapping[str, float]) -> float:
    """R: mean of Recall@5, mAP, nDCG@5 and MRR."""
    return sum(metrics[name] for name in RETRIEVAL_METRICS) / len(RETRIEVAL_METRICS)


def generation_score(metrics: Mapping[str, float]) -> float:
    """G: mean of judge and similarity."""
    return sum(metrics[name] for name in GENERATION_METRICS) / len(GENERATION_METRICS)


def fitness(metrics: Mapping[str, float], weights: Weights = Weights()) -> float:
    """F: weighted mean of R and G."""
    total = weights.retrieval + weights.generation
    return (weights.retrieval * retrieval_score(metrics) + weights.generation * generation_score(metrics)) / total
