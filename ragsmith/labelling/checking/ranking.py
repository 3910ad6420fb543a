"""A handful of cheap pipelines, ranked by what they find: nothing is generated, and nothing is paid for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import RETRIEVAL, composite
from ragsmith.evaluation.scoring import scored_ranking
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques
from ragsmith.types import Example, Question

PIPELINES: Mapping[str, Mapping[str, str]] = {
    "bm25": {"retrieval": "bm25"},
    "vector": {"retrieval": "vector"},
    "hybrid": {"retrieval": "hybrid"},
    "hybrid, headers": {"pre_embedding": "contextual_chunk_headers", "retrieval": "hybrid"},
    "hybrid, headers, reranked": {
        "pre_embedding": "contextual_chunk_headers",
        "retrieval": "hybrid",
        "reranking": "cross_encoder",
    },
}
"""By words, by meaning, by both, with what a chunk stands under, and read again: each differs from the one before."""

PLAIN = {"passage_filter": "top_k", "prompt_maker": "listing"}


@dataclass(frozen=True, slots=True)
class Ranks:
    """Recall@5 and R, the mean of four measures of a ranking, of each question by its id."""

    recall: Mapping[str, float]
    quality: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Mean R."""
        return sum(self.quality.values()) / len(self.quality)

    @property
    def mean_recall(self) -> float:
        """Mean Recall@5."""
        return sum(self.recall.values()) / len(self.recall)


class Ranker:
    """Runs the cheap pipelines on ``examples``, each once."""

    def __init__(self, setup: Experiment, examples: Sequence[Example]) -> None:
        self._setup = setup
        self._examples = examples
        self._known: dict[str, Ranks] = {}

    @cached_property
    def _engine(self) -> Engine:
        return self._setup.engine()

    def ranks(self, pipeline: str) -> Ranks:
        """What the pipeline of this name finds.

        Raises:
            StageFailed: a technique raised.
        """
        if pipeline not in self._known:
            self._known[pipeline] = self._ranked(candidate(pipeline))
        return self._known[pipeline]

    def _ranked(self, chosen: Candidate) -> Ranks:
        recall, quality = {}, {}
        for example in self._examples:
            trace = self._engine.rank(chosen, Question(example.question))
            measures = scored_ranking(self._engine, self._setup, trace, example)["measures"]
            if (found := composite(RETRIEVAL, measures)) is not None:  # it has evidence
                recall[example.id], quality[example.id] = measures["recall"], found
        return Ranks(recall, quality)


def candidate(pipeline: str) -> Candidate:
    """The pipeline of this name."""
    load_techniques()
    chosen = {**PLAIN, **PIPELINES[pipeline]}
    return tuple(make_gene(family.name, chosen.get(family.name, "none")) for family in FAMILIES)
