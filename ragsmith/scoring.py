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

from ragsmith.errors import UsageError
from ragsmith.gateway import Gateway
from ragsmith.judge import judge, semantic_similarity
from ragsmith.metrics import (
    average_precision,
    exact_match,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    span_recall_at,
    success_at,
    token_f1,
)
from ragsmith.pipeline import Engine, Models, Trace
from ragsmith.relevance import Relevance
from ragsmith.types import Answer, Example
from ragsmith.usage import Meter

CUTOFF = 5
"""k of Recall, nDCG, success and span recall. Average precision and MRR read everything that passed the filter."""

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


def record(engine: Engine, trace: Trace, example: Example, relevance: Relevance) -> dict[str, Any]:
    """Everything kept of one question: metrics, what was retrieved and answered, and what it cost.

    Nothing in it is measured in seconds, so equal runs give equal records.
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
    """Recall@5, average precision, nDCG@5, reciprocal rank, Success@5, span recall@5 of what passed the filter."""
    ranking = [hit.chunk.id for hit in trace.hits]
    relevant = relevance.relevant
    return {
        "recall": recall_at(ranking, relevant, CUTOFF),
        "map": average_precision(ranking, relevant),
        "ndcg": ndcg_at(ranking, relevant, CUTOFF),
        "mrr": reciprocal_rank(ranking, relevant),
        "success": success_at(ranking, relevant, CUTOFF),
        "span_recall": span_recall_at([hit.chunk.span for hit in trace.hits], example.evidence, CUTOFF),
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
