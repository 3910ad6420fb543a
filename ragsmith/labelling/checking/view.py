"""The data set that gates check, with derived values that are computed on first use and shared by all gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE
from ragsmith.datasets.groups import gold_places
from ragsmith.datasets.relevance import Relevance
from ragsmith.datasets.splits import Split, stratify
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import RETRIEVAL, composite
from ragsmith.evaluation.scoring import score_ranking
from ragsmith.grouping import group_values
from ragsmith.labelling.checking.finding import Offender
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.bm25 import BM25
from ragsmith.text.words import tokeniser_for
from ragsmith.types import Chunk, Dataset, Document, Example, Span

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
"""Pipelines that differ from the previous one by one change: lexical, dense, hybrid, with headings, reranked."""

DEFAULT_TECHNIQUES = {"passage_filter": "top_k", "prompt_maker": "listing"}


@dataclass(frozen=True, slots=True)
class Ranks:
    """Recall@5 and R, the mean of four measures of a ranking, of each question by its id."""

    recall: Mapping[str, float]
    quality: Mapping[str, float]

    @property
    def mean(self) -> float:
        """Mean R."""
        return sum(self.quality.values()) / len(self.quality)


def make_candidate(pipeline: str) -> Candidate:
    """Return the pipeline with this name in `PIPELINES`."""
    load_techniques()
    chosen = {**DEFAULT_TECHNIQUES, **PIPELINES[pipeline]}
    return tuple(make_gene(family.name, chosen.get(family.name, "none")) for family in FAMILIES)


MIN_COUNT = 20
"""Minimum number of questions or other items for a share to be meaningful; a split needs as many."""

MAX_RANKED_QUESTIONS = 500
"""Maximum number of questions that pipelines rank chunks for; more only take longer."""


class DatasetView:
    """A data set whose spans may be invalid: ``broken`` lists the invalid ones, whose questions ``dataset`` lacks."""

    def __init__(self, dataset: Dataset, chunk_size: int = DEFAULT_SIZE) -> None:
        self.chunk_size = chunk_size
        self._terms = tokeniser_for([document.language for document in dataset.documents])
        self.original = dataset
        self.documents: Mapping[str, Document] = {document.id: document for document in dataset.documents}
        self.broken = tuple(
            Offender(example.id, problem)
            for example in dataset.examples
            for span in gold_places(example)
            if (problem := self._problem(span))
        )
        wrong = {offender.id for offender in self.broken}
        self.dataset = replace(dataset, examples=tuple(e for e in dataset.examples if e.id not in wrong))
        self.setup = Experiment(self.dataset, ModelNames(), chunk_size)
        self._scores: dict[tuple[str, str], tuple[float, float | None]] = {}

    @property
    def chunks(self) -> Sequence[Chunk]:
        """Chunks of all documents."""
        return self.setup.corpus.chunks

    @cached_property
    def chunks_of(self) -> Mapping[str, Sequence[Chunk]]:
        """Chunks by document, in reading order; documents without chunks are left out."""
        return group_values((chunk.doc, chunk) for chunk in self.chunks)

    @cached_property
    def located(self) -> tuple[Example, ...]:
        """Questions with a relevant chunk, sorted by id."""
        return tuple(e for e in self.dataset.examples if e.evidence and self.setup.relevance[e.id].relevant)

    @cached_property
    def answered(self) -> tuple[Example, ...]:
        """Questions with a reference answer."""
        return tuple(example for example in self.original.examples if example.answer.strip())

    @cached_property
    def ranked(self) -> tuple[Example, ...]:
        """Located questions, or a sample of the maximum size, stratified by type and document."""
        if len(self.located) <= MAX_RANKED_QUESTIONS:
            return self.located
        return tuple(sorted(stratify(self.located)[:MAX_RANKED_QUESTIONS], key=lambda example: example.id))

    def relevance(self, example: Example) -> Relevance:
        """Return the relevant chunks of a question and their gains."""
        return self.setup.relevance[example.id]

    def relevant(self, example: Example) -> frozenset[str]:
        """Return the ids of the relevant chunks of a question."""
        return self.relevance(example).relevant

    def text(self, span: Span) -> str:
        """Return the text of a span."""
        return self.documents[span.doc].text[span.start : span.end]

    def terms(self, text: str) -> tuple[str, ...]:
        """Return the stems of the content words of a text in any language of the documents."""
        return self._terms(text)

    @cached_property
    def bm25(self) -> BM25:
        """BM25 index of the texts of the chunks."""
        return self.build_bm25([chunk.text for chunk in self.chunks])

    def build_bm25(self, texts: Sequence[str]) -> BM25:
        """Return a BM25 index of one text for each chunk, in the language of its document."""
        return BM25(texts, languages=[chunk.language for chunk in self.chunks])

    @cached_property
    def bm25_top(self) -> Mapping[str, NDArray[np.int64]]:
        """Positions of the first 20 chunks in the BM25 ranking for each ranked question."""
        return {example.id: self.bm25.best(example.question, 20)[0] for example in self.ranked}

    @cached_property
    def split(self) -> Split:
        """Split of the questions into search and test."""
        return self.setup.split

    @cached_property
    def _engine(self) -> Engine:
        return self.setup.engine()

    def ranks(self, pipeline: str, examples: Sequence[Example] | None = None) -> Ranks:
        """Return the scores of the rankings of one of the inexpensive pipelines for ``examples``, or `ranked`.

        Raises:
            StageFailed: a technique raised.
        """
        recall, quality, chosen = {}, {}, make_candidate(pipeline)
        for example in self.ranked if examples is None else examples:
            key = pipeline, example.id
            if key not in self._scores:
                trace = self._engine.rank(chosen, example.as_question)
                measures = score_ranking(self._engine, self.setup, trace, example)["measures"]
                self._scores[key] = measures["recall"], composite(RETRIEVAL, measures)
            found, score = self._scores[key]
            if score is not None:  # it has evidence
                recall[example.id], quality[example.id] = found, score
        return Ranks(recall, quality)

    def _problem(self, span: Span) -> str:
        """Return the problem with a span; "" if it covers text."""
        at = f"[{span.start}, {span.end})"
        if span.doc not in self.documents:
            return f"there is no document {span.doc!r}"
        length = len(self.documents[span.doc].text)
        if not 0 <= span.start < span.end <= length:
            return f"{at} is outside document {span.doc!r} of {length} characters"
        return "" if self.text(span).strip() else f"{at} of document {span.doc!r} is blank"


K = 5
"""Cut-off of recall, in units of relevance."""

MIN_RECALL_RATIO = 3.0
"""Minimum ratio of the recall of a question's own evidence to the recall of the evidence of other questions."""


@dataclass(frozen=True, slots=True)
class EvidenceMatching:
    """Whether BM25 finds the evidence of a question more often with this question than with others.

    ``recall`` is its Recall@5 by question, relative to the maximum with 5 units; ``own`` is the mean; ``others`` is the
    mean recall of the evidence of all other questions in the ranking for a question.
    """

    recall: Mapping[str, float]
    own: float
    others: float

    @classmethod
    def from_view(cls, view: DatasetView) -> EvidenceMatching:
        """Compute the values for the ranked questions, of which there must be at least one."""
        found = view.ranks("bm25").recall
        units = {e.id: len(view.relevance(e).units) for e in view.ranked}
        reachable = {id_: min(K, count) / count for id_, count in units.items()}
        recall = {id_: value / reachable[id_] for id_, value in found.items()}
        return cls(recall, sum(recall.values()) / len(recall), _mean_recall_of_others(view))

    @property
    def lowest(self) -> float:
        """Minimum of ``own`` if evidence belongs to its question."""
        return MIN_RECALL_RATIO * self.others

    @property
    def mixed_up(self) -> bool:
        """Whether evidence does not belong to its question."""
        return self.own < self.lowest or not self.own


def _mean_recall_of_others(view: DatasetView) -> float:
    """Return the mean recall of rankings for the evidence of other questions, in their units.

    Units are defined in `ragsmith.datasets.relevance`. Evidence that two questions share is left out.
    """
    asking = group_values((chunk, example) for example in view.ranked for chunk in view.relevant(example))
    total = 0.0
    for example in view.ranked:
        best = [view.chunks[int(place)].id for place in view.bm25_top[example.id]]
        for other in {one.id: one for chunk in best for one in asking.get(chunk, ())}.values():
            gold = view.relevance(other)
            shared = set(gold.rank_units(gold.relevant & view.relevant(example)))
            first = gold.rank_units(best)[:K]
            found = sum(unit in gold.units and unit not in shared for unit in first)
            total += found / min(K, len(gold.units))
    return total / len(view.ranked) / max(1, len(view.ranked) - 1)
