"""The sentence or row behind an answer is found, and two equally likely ones are ambiguous."""

import pytest

from ragsmith.datasets.anchoring.answers import AnswerFinder
from ragsmith.datasets.anchoring.matches import EvidenceMatch, MatchType, NoMatch, NoMatchReason
from ragsmith.datasets.dataset import load_dataset
from ragsmith.types import Document

FERRIES = """\
# Ferries

The ferry Alma was built in 1987 and carries ninety passengers.

The ferry Berta was built in 1994 and carries sixty passengers.

## Fares

| Route | Adults, crowns | Children, crowns |
| --- | --- | --- |
| Marrow | 14 | 6 |
| Thistle Bay | 21 | 9 |
| Cold Point | 9 | 4 |
"""
STORMS = """\
# Storms

The storm of 1987 took the roof of the chapel. Nobody was hurt, as the service had been moved to the school the day
before.
"""
DOCUMENTS = (Document("ferries", "Ferries", FERRIES), Document("storms", "Storms", STORMS))


@pytest.fixture(scope="module")
def answers():
    return AnswerFinder(DOCUMENTS)


@pytest.mark.parametrize(
    ("question", "answer", "how", "begins"),
    [
        ("When was the ferry Alma built?", "1987", MatchType.SENTENCE, "The ferry Alma"),
        ("In which year did a storm take the roof of the chapel?", "1987", MatchType.SENTENCE, "The storm of 1987"),
        ("What does a ticket of an adult to Thistle Bay cost?", "21", MatchType.ROW, "| Thistle Bay"),
        (
            "Why was nobody hurt when the chapel lost its roof?",
            "Because the service had been moved to the school the day before the storm.",
            MatchType.WORDS,
            "Nobody was hurt",
        ),
    ],
)
def test_the_part_that_both_fit_is_the_likeliest(answers, question, answer, how, begins):
    found = answers.find(question, answer, at_least=0.5)
    assert isinstance(found, EvidenceMatch)
    text = {document.id: document.text for document in DOCUMENTS}[found.span.doc]
    assert (found.match_type, text[found.span.start :].startswith(begins)) == (how, True)
    assert 0.5 <= found.score <= 1


def test_what_two_parts_answer_alike_is_ambiguous_with_both_as_candidates():
    text = "The gate closes at noon on Monday.\n\nThe museum has rooms.\n\nThe gate closes at noon on Friday.\n"
    found = AnswerFinder([Document("gate", "Gate", text)]).find("When does the gate close?", "At noon")
    assert isinstance(found, NoMatch)
    assert found.status is NoMatchReason.AMBIGUOUS
    texts = [text[place.span.start : place.span.end] for place in found.candidates[:2]]
    assert texts == ["The gate closes at noon on Monday.", "The gate closes at noon on Friday."]


def test_what_shares_no_word_is_not_found(answers):
    found = answers.find("Quel animal vit là?", "Zèbre")
    assert isinstance(found, NoMatch)
    assert (found.status, found.candidates) == (NoMatchReason.NOT_FOUND, ())


def test_an_answer_that_matches_no_part_well_is_not_found_though_two_parts_match_it_equally(answers):
    found = answers.find(
        "Are dogs allowed on the ferry in the summer?", "The documents do not say it, and the crew decides."
    )
    assert isinstance(found, NoMatch)
    assert found.status is NoMatchReason.NOT_FOUND
    assert "set its `answerable` to false" in found.reason
    assert found.candidates[0].score == pytest.approx(found.candidates[1].score, rel=0.5)


def test_documents_that_are_not_named_are_not_looked_at(answers):
    found = answers.find("In which year did a storm take the roof?", "1987", {"ferries"}, at_least=0.01)
    assert isinstance(found, EvidenceMatch)
    assert found.span.doc == "ferries"


def test_a_heading_is_never_evidence():
    text = "# Opening hours of the archive\n\nFrom nine to five.\n"
    found = AnswerFinder([Document("a", "A", text)]).find("What are the opening hours of the archive?", "Nine to five")
    places = [found] if isinstance(found, EvidenceMatch) else found.candidates
    assert {text[place.span.start : place.span.end] for place in places} == {"From nine to five."}


def test_most_evidence_of_a_data_set_is_found_again_by_its_answers(tiny_folder):
    data = load_dataset(tiny_folder)
    answers = AnswerFinder(data.documents)
    found = {e.id: answers.find(e.question, e.answer) for e in data.examples}
    wrong = [
        e.id for e in data.examples if isinstance(place := found[e.id], EvidenceMatch) and place.span != e.evidence[0]
    ]
    placed = [id_ for id_, place in found.items() if isinstance(place, EvidenceMatch)]
    assert wrong == []
    assert len(placed) >= len(data.examples) // 2


@pytest.mark.parametrize(
    ("language", "text", "question", "answer", "stands"),
    [
        (
            "de",
            "Die Häuser am Hafen wurden 1987 gestrichen.\n\nDie Schiffe liegen im Winter an der Mole.\n",
            "Wo liegt ein Schiff im Winter?",
            "An der Mole",
            "Die Schiffe liegen im Winter an der Mole.",
        ),
        (
            "zh",
            "港口的房子在一九八七年粉刷。\n\n船只冬天停在防波堤旁。\n",
            "冬天船只停在哪里？",
            "防波堤旁",
            "船只冬天停在防波堤旁。",
        ),
    ],
)
def test_words_are_compared_in_the_language_of_the_documents(language, text, question, answer, stands):
    found = AnswerFinder([Document("d", "D", text, language=language)]).find(question, answer, at_least=0.5)
    assert isinstance(found, EvidenceMatch)
    assert text[found.span.start : found.span.end] == stands
