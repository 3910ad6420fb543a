"""The bundled `workshop` data set is as described: mixed kinds of documents, exact evidence, and a clean split."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePath

import pytest

from ragsmith.datasets.bundled import bundled
from ragsmith.datasets.dataset import load_dataset, make_dataset, validate_dataset
from ragsmith.datasets.relevance import overlap
from ragsmith.datasets.splits import Leaks, leaks, split
from ragsmith.evaluation.experiment import Experiment
from ragsmith.measures.rankings import recall_at
from ragsmith.text.bm25 import BM25
from ragsmith.types import Example

KINDS = {"": 11, ".c": 1, ".h": 1, ".py": 1, ".sh": 1, ".sql": 1, ".ts": 1, ".csv": 5, ".pdf": 2}
"""Documents by the ending of their identifier; Markdown and plain text have none there."""

TYPES = {"table": 20, "code": 19, "factual": 14, "multi_hop": 14, "procedural": 12, "comparison": 11}
COPIED = 8
"""So many consecutive words in common make a question a copy of its evidence."""


@pytest.fixture(scope="module")
def workshop() -> Experiment:
    return Experiment(load_dataset("workshop"))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def runs(text: str) -> Iterator[tuple[str, ...]]:
    """Every ``COPIED`` consecutive words."""
    found = words(text)
    return (tuple(found[at : at + COPIED]) for at in range(len(found) - COPIED + 1))


def kind(id_: str) -> str:
    return PurePath(id_).suffix


def kinds(example: Example) -> set[str]:
    """The endings of the documents that answer a question."""
    return {kind(span.doc) for span in example.evidence}


def spans(workshop: Experiment, example: Example) -> list[str]:
    """The quoted texts."""
    texts = {document.id: document.text for document in workshop.dataset.documents}
    return [texts[span.doc][span.start : span.end] for span in example.evidence]


def test_it_is_valid() -> None:
    assert validate_dataset(bundled("datasets", "workshop")) == ()


def test_it_has_the_size_and_the_mix_of_kinds_it_promises(workshop: Experiment) -> None:
    documents = workshop.dataset.documents
    assert Counter(kind(document.id) for document in documents) == KINDS
    assert 60_000 <= sum(len(document.text) for document in documents) <= 110_000
    folder = bundled("datasets", "workshop") / "documents"
    assert Counter(path.suffix for path in folder.iterdir() if kind(path.name) in (".md", ".txt")) == {
        ".md": 8,
        ".txt": 3,
    }


def test_it_has_the_questions_it_promises(workshop: Experiment) -> None:
    examples = workshop.dataset.examples
    assert [example.id for example in examples] == [f"ws-{number:03d}" for number in range(1, 91)]
    assert Counter(example.type for example in examples) == TYPES
    assert sum(".pdf" in kinds(example) for example in examples) >= 8
    assert len({" ".join(words(example.question)) for example in examples}) == len(examples)


def test_every_type_asks_of_the_documents_it_names(workshop: Experiment) -> None:
    for example in workshop.dataset.examples:
        if example.type == "code":
            assert kinds(example) <= KINDS.keys() - {"", ".csv", ".pdf"}, example.id
        if example.type == "table":
            assert ".csv" in kinds(example) or "|" in spans(workshop, example)[0], example.id
        if example.type == "multi_hop":
            assert len({span.doc for span in example.evidence}) > 1, example.id


def test_evidence_is_short_and_each_piece_lies_apart_from_the_others(workshop: Experiment) -> None:
    for example in workshop.dataset.examples:
        assert 1 <= len(example.evidence) <= 4, example.id
        assert all(40 <= len(text) <= 400 and text == text.strip() for text in spans(workshop, example)), example.id
        assert not any(overlap(a, b) for a, b in pairwise(example.evidence)), example.id


def test_evidence_begins_and_ends_between_words(workshop: Experiment) -> None:
    texts = {document.id: document.text for document in workshop.dataset.documents}
    for example in workshop.dataset.examples:
        for span in example.evidence:
            text = texts[span.doc]
            for at in (span.start, span.end):
                assert not re.fullmatch(r"\w\w", text[max(0, at - 1) : at + 1]), (example.id, span)


def test_every_piece_of_evidence_lies_whole_or_by_half_in_a_chunk(workshop: Experiment) -> None:
    assert not any(relevance.missed or relevance.partial for relevance in workshop.relevance.values())


def test_every_document_answers_some_question(workshop: Experiment) -> None:
    used = {span.doc for example in workshop.dataset.examples for span in example.evidence}
    assert used == {document.id for document in workshop.dataset.documents}


def test_no_question_copies_its_evidence(workshop: Experiment) -> None:
    for example in workshop.dataset.examples:
        copied = {run for text in spans(workshop, example) for run in runs(text)}
        assert not copied & set(runs(example.question)), example.id


def test_every_type_is_on_both_sides_of_the_split(workshop: Experiment) -> None:
    test = Counter(example.type for example in workshop.dataset.examples if example.split == "test")
    assert all(0.2 <= test[type_] / number <= 0.45 for type_, number in TYPES.items())


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
    assert leaks(data, split(data)) == Leaks(29, 0, 0)


@pytest.mark.parametrize(
    ("id_", "sentence"),
    [
        ("service-bulletin-14.pdf", "The ring decides, not the serial number of the machine."),
        ("w180-datasheet.pdf", "The rated power may be drawn without end up to 28 degrees in the room."),
    ],
)
def test_the_pdfs_hold_text_in_whole_sentences(workshop: Experiment, id_: str, sentence: str) -> None:
    text = next(document.text for document in workshop.dataset.documents if document.id == id_)
    assert sentence in text
    assert len(text) > 3_000
    assert (bundled("datasets", "workshop") / "documents" / id_).stat().st_size < 40 * 1024


def test_bm25_finds_part_of_it(workshop: Experiment) -> None:
    chunks = workshop.corpus.chunks
    bm25 = BM25([chunk.text for chunk in chunks])
    recalls = []
    for example in workshop.dataset.examples:
        scores = bm25.scores(example.question)
        best = sorted(range(len(chunks)), key=lambda i: -scores[i])[:5]
        recalls.append(recall_at([chunks[i].id for i in best], workshop.relevance[example.id].relevant))
    assert 0.50 <= statistics.fmean(recalls) <= 0.80
