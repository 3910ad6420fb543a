"""The bundled `law` data set is as described and discriminates: BM25 finds part of the evidence, shortcuts none."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from ragsmith.datasets.dataset import load_dataset, make_dataset
from ragsmith.datasets.groups import group_by_neighbourhood
from ragsmith.datasets.splits import Leaks, count_leaks, split
from ragsmith.evaluation.experiment import Experiment
from ragsmith.measures.rankings import recall_at
from ragsmith.text.bm25 import BM25
from ragsmith.text.words import terms
from ragsmith.types import Chunk, Example


@pytest.fixture(scope="module")
def law() -> Experiment:
    return Experiment(load_dataset("law"))


def recall(law: Experiment, rank: Callable[[Example], list[Chunk]]) -> float:
    """Mean Recall@5 of a ranking over the questions that have evidence."""
    examples = [example for example in law.dataset.examples if example.evidence]
    return statistics.fmean(recall_at([chunk.id for chunk in rank(e)], law.relevance[e.id].relevant) for e in examples)


def test_it_has_the_size_and_the_mix_it_promises(law: Experiment) -> None:
    data = law.dataset
    assert len(data.documents) == 25
    assert 30_000 <= sum(len(document.text.split()) for document in data.documents) <= 50_000
    for part in ("search", "test"):
        types = Counter(e.type for e in data.examples if e.split == part and e.answerable)
        tested = {"factual": 21, "interpretation": 41, "long_answer": 22}
        assert types == ({"factual": 23, "interpretation": 49, "long_answer": 28} if part == "search" else tested)
        assert Counter(e.type for e in data.examples if e.split == part and not e.answerable) == {
            "factual": 1,
            "interpretation": 4,
            "long_answer": 3,
        }
    assert sum(len({span.doc for span in e.evidence}) > 1 for e in data.examples) >= 50


def test_no_document_has_evidence_of_both_sides(law: Experiment) -> None:
    data = law.dataset
    searched, tested = (
        {span.doc for example in data.examples if example.split == part for span in example.evidence}
        for part in ("search", "test")
    )
    assert (len(searched), len(tested), searched & tested) == (11, 14, set())
    assert count_leaks(data, split(data)) == Leaks(92, 0, 0)


def test_another_split_of_the_first_hundred_would_leave_questions_out(law: Experiment) -> None:
    """The card says so: within 900 characters 98 of them hang together, so that one side has them all."""
    data = law.dataset
    first = [
        replace(example, split=None) for example in data.examples if example.split == "search" and example.answerable
    ]
    assert sorted(len(group.examples) for group in group_by_neighbourhood(data, first)) == [2, 98]
    assert split(make_dataset({"name": "first"}, data.documents, first)).unused


def test_bm25_finds_part_of_it(law: Experiment) -> None:
    chunks = law.corpus.chunks
    bm25 = BM25([chunk.text for chunk in chunks])

    def by_words(example: Example) -> list[Chunk]:
        scores = bm25.scores(example.question)
        return [chunks[i] for i in sorted(range(len(chunks)), key=lambda i: -scores[i])[:5]]

    assert 0.50 <= recall(law, by_words) <= 0.80


def test_position_length_and_title_are_no_shortcut(law: Experiment) -> None:
    chunks = law.corpus.chunks
    first = sorted(chunks, key=lambda chunk: (chunk.index, chunk.id))
    longest = sorted(chunks, key=lambda chunk: (-len(chunk.text), chunk.id))

    def by_title(example: Example) -> list[Chunk]:
        asked = set(terms(example.question))
        return sorted(chunks, key=lambda chunk: (-len(asked & set(terms(chunk.title))), chunk.index, chunk.id))

    assert recall(law, lambda example: first) < 0.15
    assert recall(law, lambda example: longest) < 0.15
    assert recall(law, by_title) < 0.15
