"""A data set as gates read it: what several of them need is computed once, on first use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE
from ragsmith.datasets.groups import Group, units
from ragsmith.datasets.relevance import Relevance
from ragsmith.datasets.splits import Split, stratified
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import RETRIEVAL, composite
from ragsmith.evaluation.scoring import scored_ranking
from ragsmith.labelling.checking.finding import Offender
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.bm25 import BM25
from ragsmith.text.words import terms_among
from ragsmith.types import Chunk, Dataset, Document, Example, Question, Span

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


def candidate(pipeline: str) -> Candidate:
    """The pipeline of this name."""
    load_techniques()
    chosen = {**PLAIN, **PIPELINES[pipeline]}
    return tuple(make_gene(family.name, chosen.get(family.name, "none")) for family in FAMILIES)


FEWEST = 20
"""Questions, or what else is counted, below which a share says nothing: so many are needed to be split, too."""

MOST_RANKED = 500
"""Questions that pipelines are ranked on; more would only cost time."""

FEWEST_GROUPS = 10
"""Groups of questions below which their variance is not known well enough to be reckoned with."""


class View:
    """The data set ``dataset``, whose spans need not be right: what points nowhere is in ``broken``."""

    def __init__(self, dataset: Dataset, chunk_size: int = DEFAULT_SIZE) -> None:
        self.chunk_size = chunk_size
        self._terms = terms_among([document.language for document in dataset.documents])
        self.given = dataset
        self.documents: Mapping[str, Document] = {document.id: document for document in dataset.documents}
        self.broken = tuple(self._broken())
        wrong = {offender.id for offender in self.broken}
        self.dataset = replace(dataset, examples=tuple(e for e in dataset.examples if e.id not in wrong))
        self.setup = Experiment(self.dataset, ModelNames(), chunk_size)
        self._ranks: dict[str, Ranks] = {}

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks of all documents."""
        return self.setup.corpus.chunks

    @cached_property
    def chunks_of(self) -> Mapping[str, Sequence[Chunk]]:
        """The chunks of each document that has any, in the order of its text."""
        found: dict[str, list[Chunk]] = {}
        for chunk in self.chunks:
            found.setdefault(chunk.doc, []).append(chunk)
        return found

    @cached_property
    def located(self) -> tuple[Example, ...]:
        """The questions with evidence that some chunk holds, in the order of their ids."""
        return tuple(e for e in self.dataset.examples if e.evidence and self.setup.relevance[e.id].relevant)

    @cached_property
    def answered(self) -> tuple[Example, ...]:
        """The questions with a reference answer."""
        return tuple(example for example in self.given.examples if example.answer.strip())

    @cached_property
    def ranked(self) -> tuple[Example, ...]:
        """The located questions, or so many of them, in proportion by type and document, as are ranked at most."""
        if len(self.located) <= MOST_RANKED:
            return self.located
        return tuple(sorted(stratified(self.located)[:MOST_RANKED], key=lambda example: example.id))

    def relevance(self, example: Example) -> Relevance:
        """Which chunks are relevant to a question, and what they count as in a ranking."""
        return self.setup.relevance[example.id]

    def relevant(self, example: Example) -> frozenset[str]:
        """The ids of the chunks that are relevant to a question."""
        return self.relevance(example).relevant

    def text(self, span: Span) -> str:
        """The text of a span."""
        return self.documents[span.doc].text[span.start : span.end]

    def terms(self, text: str) -> tuple[str, ...]:
        """The stems of the words of a text that mean something, in whichever language of the documents it is."""
        return self._terms(text)

    @cached_property
    def words(self) -> BM25:
        """BM25 over the texts of the chunks."""
        return self.words_of([chunk.text for chunk in self.chunks])

    def words_of(self, texts: Sequence[str]) -> BM25:
        """BM25 over a text for each chunk, in the language of its document."""
        return BM25(texts, languages=[chunk.language for chunk in self.chunks])

    @cached_property
    def best_by_words(self) -> Mapping[str, NDArray[np.int64]]:
        """For each ranked question the places, among the chunks, of the 20 best by BM25."""
        return {example.id: self.words.best(example.question, 20)[0] for example in self.ranked}

    @cached_property
    def split(self) -> Split:
        """The questions of the search and of the test."""
        return self.setup.split

    @cached_property
    def groups(self) -> Sequence[Group]:
        """The located questions by what makes them alike: the widest unit of which there are enough groups.

        Each question alone where there is none.
        """
        for found in units(self.dataset, self.located):
            if len(found) >= FEWEST_GROUPS:
                return found
        return [Group(example.id, (example,)) for example in self.located]

    @cached_property
    def _engine(self) -> Engine:
        return self.setup.engine()

    def ranks(self, pipeline: str) -> Ranks:
        """What one of the cheap pipelines finds for the ranked questions.

        Raises:
            StageFailed: a technique raised.
        """
        if pipeline not in self._ranks:
            recall, quality, chosen = {}, {}, candidate(pipeline)
            for example in self.ranked:
                trace = self._engine.rank(chosen, Question(example.question))
                measures = scored_ranking(self._engine, self.setup, trace, example)["measures"]
                if (found := composite(RETRIEVAL, measures)) is not None:  # it has evidence
                    recall[example.id], quality[example.id] = measures["recall"], found
            self._ranks[pipeline] = Ranks(recall, quality)
        return self._ranks[pipeline]

    def _broken(self) -> Sequence[Offender]:
        found = []
        for example in self.given.examples:
            for span in example.evidence:
                if problem := self._problem(span):
                    found.append(Offender(example.id, problem))
        return found

    def _problem(self, span: Span) -> str:
        """What is wrong with where a span points; nothing if it points at text."""
        at = f"[{span.start}, {span.end})"
        if span.doc not in self.documents:
            return f"there is no document {span.doc!r}"
        length = len(self.documents[span.doc].text)
        if not 0 <= span.start < span.end <= length:
            return f"{at} is no part of document {span.doc!r} of {length} characters"
        if not self.text(span).strip():
            return f"{at} of document {span.doc!r} is blank"
        return ""


K = 5
MORE_OFTEN = 3.0


@dataclass(frozen=True, slots=True)
class Belonging:
    """Recall@5 of BM25 by question, as far as 5 units can reach it; its mean, ``own``; and ``others``, the mean of the
    recall of the evidence of every other question among what is found for one.
    """

    recall: Mapping[str, float]
    own: float
    others: float

    @classmethod
    def of(cls, view: View) -> Belonging:
        """Of the ranked questions, of which there is one at least."""
        found = view.ranks("bm25").recall
        units = {e.id: len(view.relevance(e).units) for e in view.ranked}
        reachable = {id_: min(K, count) / count for id_, count in units.items()}
        recall = {id_: value / reachable[id_] for id_, value in found.items()}
        return cls(recall, sum(recall.values()) / len(recall), _of_others(view))

    @property
    def lowest(self) -> float:
        """What ``own`` is at least where evidence belongs to its question."""
        return MORE_OFTEN * self.others

    @property
    def mixed_up(self) -> bool:
        """Whether evidence does not belong to its question."""
        return self.own < self.lowest or not self.own


def _of_others(view: View) -> float:
    """Each ranking is judged as one for another question: in the units of that one (see `ragsmith.datasets.relevance`).

    Evidence that two questions share is that of the question.
    """
    asking: defaultdict[str, list[Example]] = defaultdict(list)
    for example in view.ranked:
        for chunk in view.relevant(example):
            asking[chunk].append(example)
    total = 0.0
    for example in view.ranked:
        best = [view.chunks[int(place)].id for place in view.best_by_words[example.id]]
        for other in {one.id: one for chunk in best for one in asking[chunk]}.values():
            gold = view.relevance(other)
            shared = {gold.unit(chunk) for chunk in gold.relevant & view.relevant(example)}
            first = list(dict.fromkeys(map(gold.unit, best)))[:K]
            found = sum(unit in gold.units and unit not in shared for unit in first)
            total += found / min(K, len(gold.units))
    return total / len(view.ranked) / max(1, len(view.ranked) - 1)
