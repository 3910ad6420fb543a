"""The bundled `workshop` data set is as described: mixed kinds of documents, exact evidence, and a clean split."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import replace
from pathlib import PurePath

import pytest

from ragsmith.datasets.bundled import find_bundled
from ragsmith.datasets.dataset import load_dataset, make_dataset, validate_dataset
from ragsmith.datasets.splits import Leaks, count_leaks, split
from ragsmith.evaluation.experiment import Experiment
from ragsmith.measures.rankings import recall_at
from ragsmith.text.bm25 import BM25

KINDS = {"": 11, ".c": 1, ".h": 1, ".py": 1, ".sh": 1, ".sql": 1, ".ts": 1, ".csv": 5, ".pdf": 2}
"""Documents by the ending of their identifier; Markdown and plain text have none there."""

TYPES = {"table": 20, "code": 19, "factual": 14, "multi_hop": 14, "procedural": 12, "comparison": 11}


@pytest.fixture(scope="module")
def workshop() -> Experiment:
    return Experiment(load_dataset("workshop"))


def kind(id_: str) -> str:
    return PurePath(id_).suffix


def test_it_is_valid_and_what_it_was(workshop: Experiment) -> None:
    assert validate_dataset(find_bundled("datasets", "workshop")) == ()
    assert workshop.dataset.digest == "f52d0ee2b82f69d3ed21f9e8ecf19144"


def test_it_has_the_size_and_the_mix_of_kinds_it_promises(workshop: Experiment) -> None:
    documents = workshop.dataset.documents
    assert Counter(kind(document.id) for document in documents) == KINDS
    assert 60_000 <= sum(len(document.text) for document in documents) <= 110_000
    folder = find_bundled("datasets", "workshop") / "documents"
    assert Counter(path.suffix for path in folder.iterdir() if kind(path.name) in (".md", ".txt")) == {
        ".md": 8,
        ".txt": 3,
    }


def test_it_has_the_questions_it_promises(workshop: Experiment) -> None:
    examples = workshop.dataset.examples
    assert [example.id for example in examples] == [f"ws-{number:03d}" for number in range(1, 91)]
    assert Counter(example.type for example in examples) == TYPES


def test_every_piece_of_evidence_lies_whole_or_by_half_in_a_chunk(workshop: Experiment) -> None:
    assert not any(relevance.missed or relevance.partial for relevance in workshop.relevance.values())


def test_its_folds_are_of_about_one_size(workshop: Experiment) -> None:
    assert [len(part) for part in workshop.folds] == [16, 10, 10, 10, 10]


def test_its_split_is_what_the_rule_draws_and_nothing_leaks(workshop: Experiment) -> None:
    data = workshop.dataset
    unmarked = [replace(example, split=None) for example in data.examples]
    drawn = split(make_dataset({"name": "unmarked"}, data.documents, unmarked))
    for part, number in (("search", 56), ("test", 29), ("unused", 5)):
        marked = [example.id for example in data.examples if example.split == part]
        assert marked == [example.id for example in getattr(drawn, part)]
        assert len(marked) == number
    assert count_leaks(data, split(data)) == Leaks(29, 0, 0)


def test_bm25_finds_part_of_it(workshop: Experiment) -> None:
    chunks = workshop.corpus.chunks
    bm25 = BM25([chunk.text for chunk in chunks])
    recalls = []
    for example in workshop.dataset.examples:
        scores = bm25.scores(example.question)
        best = sorted(range(len(chunks)), key=lambda i: -scores[i])[:5]
        recalls.append(recall_at([chunks[i].id for i in best], workshop.relevance[example.id].relevant))
    assert 0.50 <= statistics.fmean(recalls) <= 0.80
