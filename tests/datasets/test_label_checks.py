"""Questions whose label the documents may contradict are named, and few others."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ragsmith.datasets.bundled import bundled_names
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.label_checks import find_new_answers, find_other_numbers, find_possible_answers
from ragsmith.text.filters import parse_filter
from ragsmith.types import Dataset, Document, Example, Span

SETS = ["law", "finance", "defense"]


def texts(data: Dataset) -> list[str]:
    return [document.text for document in data.documents]


def nothing_answers(question: str, **changes: object) -> Example:
    asked = Example("q", question, "", "fact", (), answerable=False)
    return replace(asked, **changes)  # type: ignore[arg-type]


def without(data: Dataset, evidence: tuple[Span, ...]) -> list[str]:
    """The texts of the documents without the paragraphs that have ``evidence``."""
    cut = []
    for document in data.documents:
        kept, start = [], 0
        for part in document.text.split("\n\n"):
            end = start + len(part)
            if not any(gold.doc == document.id and gold.start < end and start < gold.end for gold in evidence):
                kept.append(part)
            start = end + 2
        cut.append("\n\n".join(kept))
    return cut


@pytest.mark.parametrize("name", SETS)
def test_of_an_untouched_data_set_no_question_is_named(name: str) -> None:
    data = load_dataset(name)
    assert sum(not example.answerable for example in data.examples) == 16
    assert [str(each) for each in find_possible_answers(data.examples, data.documents)] == []
    assert list(find_new_answers(data.examples, texts(data), data.documents)) == []


@pytest.mark.parametrize("name", SETS)
def test_every_question_is_named_that_a_sentence_in_its_words_answers(name: str) -> None:
    data, draw = load_dataset(name), random.Random(0)
    for asked in (example for example in data.examples if not example.answerable):
        sentence = f"As to {asked.question.rstrip('?.')}: the answer is forty-two."
        at = draw.randrange(len(data.documents))
        parts = data.documents[at].text.split("\n\n")
        parts.insert(draw.randrange(1, len(parts) + 1), sentence)
        edited = list(data.documents)
        edited[at] = replace(edited[at], text="\n\n".join(parts))
        for found in find_possible_answers([asked], edited), find_new_answers([asked], texts(data), edited):
            assert [(each.id, each.doc, each.sentence) for each in found] == [(asked.id, edited[at].id, sentence)]


@pytest.mark.parametrize("name", SETS)
def test_a_new_paragraph_that_answers_in_its_own_words_is_found_for_a_quarter_of_questions(name: str) -> None:
    data = load_dataset(name)
    answered = [example for example in data.examples if example.evidence]
    named = 0
    for example in answered:
        asked = replace(example, evidence=(), answerable=False)
        found = list(find_new_answers([asked], without(data, example.evidence), data.documents))
        named += bool(found) and found[0].doc in {span.doc for span in example.evidence}
    assert named >= len(answered) / 4


@pytest.mark.parametrize("name", SETS)
def test_an_added_document_that_answers_nothing_names_one_question_at_most_on_average(name: str) -> None:
    data = load_dataset(name)
    named = [
        len(list(find_new_answers(data.examples, [text for text in texts(data) if text != added.text], [added])))
        for added in data.documents
    ]
    assert sum(named) <= len(named)


@pytest.mark.parametrize("name", SETS)
def test_typos_and_moved_paragraphs_name_none(name: str) -> None:
    data, draw = load_dataset(name), random.Random(1)
    edited = []
    for document in data.documents:
        parts = [part.replace("tion", "toin", 1) for part in document.text.split("\n\n")]
        draw.shuffle(parts)
        edited.append(replace(document, text="\n\n".join(parts)))
    assert list(find_new_answers(data.examples, texts(data), edited)) == []


def test_the_new_sentence_of_an_edited_paragraph_is_quoted() -> None:
    old = "The crane lifts crates in the harbour of Lund."
    now = [Document("crane", "Crane", f"{old} Its tallest mast has ninety rungs.")]
    [found] = find_new_answers([nothing_answers("How many rungs has the mast of the crane in Lund?")], [old], now)
    assert str(found) == (
        'q is labelled as unanswerable, but crane may answer it, "Its tallest mast has ninety rungs.": if it does, '
        'replace "answerable": false in questions.jsonl by the answer and its evidence'
    )


def test_where_nothing_was_before_or_nothing_is_new_no_question_is_named() -> None:
    now = [Document("crane", "Crane", "The crane lifts eleven tonnes.")]
    asked = nothing_answers("What does the crane lift?")
    assert list(find_new_answers([asked], [], now)) == []
    assert list(find_new_answers([asked], ["The crane lifts eleven tonnes."], now)) == []
    assert list(find_new_answers([replace(asked, answerable=True)], ["The crane."], now)) == []
    assert [each.id for each in find_new_answers([asked], ["The crane."], now)] == ["q"]


def test_a_question_without_content_words_is_not_named() -> None:
    now = [Document("crane", "Crane", "The crane lifts eleven tonnes.")]
    assert list(find_possible_answers([nothing_answers("What is it?")], now)) == []
    assert [each.id for each in find_possible_answers([nothing_answers("What does the crane lift?")], now)] == ["q"]


@pytest.mark.parametrize(("year", "named"), [("2024", []), ("2025", ["q"])])
def test_a_document_that_the_filter_of_a_question_excludes_does_not_answer_it(year: str, named: list[str]) -> None:
    now = [Document("crane", "Crane", "The crane lifts eleven tonnes.", fields={"year": 2025.0})]
    asked = nothing_answers("What does the crane lift?", filter=parse_filter(f"year = {year}", {"year": float}))
    assert [each.id for each in find_possible_answers([asked], now)] == named
    assert [each.id for each in find_new_answers([asked], ["The crane."], now)] == named


@pytest.mark.parametrize(
    ("question", "answer", "evidence", "said"),
    [
        ("How long are backups kept?", "35 days.", "Backups are kept for 70 days.", "35, 70"),
        (
            "How long are backups kept?",
            "For 35 days, at no charge.",
            "A day lost is a pity. Keep them 70 days.",
            "35, 70",
        ),
        ("How many lamps hang there?", "Two lamps.", "There hang 3 lamps.", "2, 3"),
        ("How long are backups kept?", "70 days.", "Backups are kept for seventy days.", ""),
        ("How long are backups kept?", "Ten weeks.", "Backups are kept for 70 days.", ""),
        ("How much longer are they kept?", "30 days.", "Kept for 70 days, and before 2019 for 40 days.", ""),
        ("How long are two terms?", "140 days.", "A term has 70 days.", ""),
        ("How long are they kept?", "140 days: twice 70.", "A term has 70 days, and they are kept for two.", ""),
        ("How long are backups kept?", "Quite long.", "Backups are kept for 70 days.", ""),
    ],
)
def test_an_answer_with_another_number_than_its_evidence_is_named_unless_it_is_computed(
    question: str, answer: str, evidence: str, said: str
) -> None:
    asked = Example("q", question, answer, "fact", (Span("rules", 4, 4 + len(evidence)),))
    found = [*find_other_numbers([asked], [Document("rules", "Rules", f"Old {evidence} 35 more.")])]
    assert [f"{each.number}, {each.found}" for each in found] == [said][: bool(said)]
    assert {(each.id, each.doc) for each in found} <= {("q", "rules")}


@pytest.mark.parametrize("name", bundled_names("datasets"))
def test_no_answer_of_the_bundled_data_sets_is_named(name: str) -> None:
    data = load_dataset(name)
    assert [*find_other_numbers(data.examples, data.documents)] == []
