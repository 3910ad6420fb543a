"""Clusters of questions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragsmith.comparison.questions import MIN_GROUPS, Clusters
from ragsmith.datasets.bundled import bundled_domains
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.groups import group_by_document, group_by_section
from ragsmith.datasets.splits import split
from ragsmith.types import Dataset, Document, Example, Span

TEXT = "".join(f"# Part {part}\n\n{'word ' * 300}\n\n" for part in range(5))
STARTS = [TEXT.index(f"# Part {part}") for part in range(5)]


def asking(places: list[tuple[int, int]]) -> Dataset:
    """One question for each document and section named."""
    documents = tuple(Document(f"d{number}", f"d{number}", TEXT) for number in range(10))
    examples = tuple(
        Example(f"q{i:02}", f"What is {i}?", f"{i}", "factual", (Span(f"d{doc}", start + 20, start + 60),))
        for i, (doc, start) in enumerate((doc, STARTS[part]) for doc, part in places)
    )
    return Dataset("made", "Made up", "", "CC0", "en", documents, examples, "digest")


def test_documents_are_the_groups_where_there_are_enough_of_them() -> None:
    data = asking([(doc, part) for doc in range(MIN_GROUPS) for part in (0, 4)])
    found = Clusters.from_examples(data, data.examples)
    assert (found.unit, len(found.groups), found.documents) == ("document", 8, 8)
    assert str(found) == "16 questions from 8 documents (8 groups)"
    assert found.group_numbers(["q00", "q01", "q02", "unknown", "q03"]) == [0, 0, 1, 2, 1]


def test_sections_are_the_groups_where_documents_are_few() -> None:
    data = asking([(doc, part) for doc in range(3) for part in (0, 2, 4)])
    found = Clusters.from_examples(data, data.examples)
    assert (found.unit, len(found.groups), found.documents) == ("neighbourhood", 9, 3)
    assert found.linked_by == "questions whose gold lies in the same section, or near each other"


def test_too_few_of_any_kind_are_said_by_section() -> None:
    data = asking([(0, 0), (0, 1), (0, 2)])
    found = Clusters.from_examples(data, data.examples)
    assert found.unit == "section"
    assert len(found.groups) == len(group_by_section(data, data.examples)) < MIN_GROUPS


@pytest.mark.parametrize(("name", "part"), [("law", "search"), ("workshop", "test")])
def test_bundled_questions_about_few_documents_count_by_section(name: str, part: str) -> None:
    data = load_dataset(name)
    questions = getattr(split(data), part)
    found = Clusters.from_examples(data, questions)
    located = [example for example in questions if example.answerable]
    assert len(group_by_document(located)) < MIN_GROUPS <= len(found.groups)
    assert found.questions == len(located)


@pytest.mark.parametrize("name", bundled_domains())
def test_a_bundled_domain_is_tested_on_documents_enough(name: str) -> None:
    data = load_dataset(name)
    test = split(data).test
    found = Clusters.from_examples(data, test)
    assert found.unit == "document"
    assert len(found.groups) >= MIN_GROUPS
    assert found.questions + len(found.without_gold) == len(test) == {"law": 92}.get(name, 100)
    assert found.without_gold == tuple(sorted(example.id for example in test if not example.answerable)) != ()


@pytest.mark.parametrize("unanswerable", range(9))
def test_questions_without_gold_change_neither_unit_nor_groups(unanswerable: int) -> None:
    data = asking([(doc, part) for doc in range(3) for part in (0, 2, 4)])
    others = tuple(Example(f"u{i}", f"Who is {i}?", "", "factual", (), answerable=False) for i in range(unanswerable))
    found = Clusters.from_examples(data, (*others, *data.examples))
    assert replace(found, without_gold=()) == Clusters.from_examples(data, data.examples)
    assert found.tested(["q00", "u0", "q01"]) == (("q00", "q01") if unanswerable else ("q00", "u0", "q01"))
    assert str(found).endswith(f"and {unanswerable} without gold") is bool(unanswerable)


def test_questions_are_groups_if_hardly_any_of_them_has_gold() -> None:
    data = asking([(doc, 0) for doc in range(2)])
    others = [Example(f"w{i}", f"Who is {i}?", f"{i}", "factual", ()) for i in range(10)]
    others.append(Example("u", "Who?", "", "factual", (), answerable=False))
    found = Clusters.from_examples(data, (*others, *data.examples))
    assert (found.unit, len(found.groups), found.without_gold) == ("question", 12, ("u",))


def test_nothing_known_is_each_question_by_itself() -> None:
    found = Clusters.singletons(["b", "a"])
    assert (found.group_numbers(["b", "a"]), found.linked_by[:7]) == ([0, 1], "nothing")
    assert str(Clusters.singletons(["a"])) == "1 question (1 group)"
