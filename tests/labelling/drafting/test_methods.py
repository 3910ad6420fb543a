"""Each method on a small text: what it asks, what it answers, and that it quotes exactly."""

from __future__ import annotations

import re

import pytest
from made import documents, made, material, questions

from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods import METHODS
from ragsmith.labelling.drafting.quotes import located
from ragsmith.types import Document


@pytest.mark.parametrize("method", [method.__name__ for method in METHODS])
def test_every_quotation_stands_where_the_method_says(method: str) -> None:
    texts = {document.id: document.text for document in documents()}
    drafts = made(method)
    assert drafts
    for draft in drafts:
        assert not isinstance(located(draft, material()), str)
        for quote in draft.quotes:
            assert texts[quote.doc][quote.span.start : quote.span.end] == quote.text


def test_definitions_ask_what_a_thing_is() -> None:
    assert "What is a mooring buoy?" in questions("definitions")


def test_subjects_ask_who_or_what_does_it() -> None:
    asked = {draft.question: draft.answer for draft in made("subjects")}
    assert asked["Who must report to the harbour office within two hours of arrival?"] == "The skipper."
    assert asked["What lifts eleven tonnes?"] == "The crane."


def test_objects_ask_what_is_done() -> None:
    asked = {draft.question: draft.answer for draft in made("objects")}
    assert asked["What does the lamp mark at night?"] == "The northern shoal at night."


def test_circumstances_ask_for_time_reason_and_way() -> None:
    asked = {draft.question: draft.answer for draft in made("circumstances")}
    assert asked["Within what time of arrival must the skipper report to the harbour office?"] == (
        "Within two hours of arrival."
    )
    assert asked["How did the fishermen of Ostry pay for the lamp of the outer quay?"] == "By selling dried cod."
    assert "When was the Brenton crane built because the old derrick had collapsed?" in asked


def test_a_phrase_in_front_of_a_statement_is_put_behind_it() -> None:
    assert "When did the council buy the Brenton crane for ninety crowns?" in questions("circumstances")


def test_conditions_ask_what_happens() -> None:
    (draft,) = made("conditions")
    assert draft.question == "What happens if the wind exceeds forty knots?"
    assert draft.answer == "The outer quay is closed to small boats."


def test_headings_are_answered_by_how_their_section_begins() -> None:
    mooring = next(draft for draft in made("headings") if "mooring" in draft.question.lower())
    assert mooring.answer.startswith("The skipper must report")
    assert mooring.type == "long_answer"


def test_enumerations_quote_the_list_with_its_announcement() -> None:
    (draft,) = made("enumerations")
    assert draft.answer == "the certificate of the boat; the list of the crew."
    assert draft.quotes[0].text.startswith("The following papers")


def test_tables_ask_for_cells_by_the_name_of_the_row_and_for_extremes() -> None:
    asked = {draft.question: (draft.answer, draft.quotes[0].text) for draft in made("tables")}
    assert asked  # at most four of a passage
    for question, (answer, row) in asked.items():
        name = next((boat for boat in ("Dinghy", "Cutter", "Barge") if boat in question), None)
        assert answer.rstrip(".") in row if name else answer.split(",")[0] in row
        assert ("highest" in question) <= row.startswith("| Barge")
        assert ("lowest" in question) <= row.startswith("| Dinghy")


def test_a_table_without_names_of_rows_is_not_asked_about() -> None:
    text = "# T\n\n| A | B |\n|---|---|\n| x | 1 |\n| x | 2 |\n"
    assert made("tables", Material([Document("t", "T", text)])) == []


def test_code_asks_what_functions_and_constants_are() -> None:
    asked = {draft.question: draft.answer for draft in made("code")}
    assert asked["To what value does tides.py set the highest water?"] == "412 (centimetres above the datum)."
    assert asked["Which function of tides.py returns how many minutes the tide is late at the outer quay?"] == "lag."


def test_compounds_quote_a_passage_for_each_of_their_questions() -> None:
    drafts = made("compounds")
    assert drafts
    for draft in drafts:
        assert ", and " in draft.question
        assert len(draft.quotes) == 2
        assert draft.quotes[0].span != draft.quotes[1].span


def test_near_misses_have_no_evidence_and_name_nobody_of_the_documents() -> None:
    (draft,) = made("near_misses")
    assert (draft.answerable, draft.quotes) == (False, ())
    asked = re.fullmatch(r"Within what time of a storm must the ([a-z ]+) test the hook\?", draft.question)
    assert asked
    assert asked[1] not in " ".join(document.text for document in documents())


def test_cross_references_say_what_the_other_document_says_the_name_is() -> None:
    asked = {draft.question: {quote.doc for quote in draft.quotes} for draft in made("cross_references")}
    assert asked["Who sold the old derrick to the village behind the northern shoal?"] == {"history", "cranes"}


@pytest.mark.parametrize("method", [method.__name__ for method in METHODS if method.__name__ != "code"])
def test_other_languages_are_left_to_a_model(method: str) -> None:
    text = "# Hafen\n\nDie Boje ist ein Schwimmer.\n\n| A | B |\n|---|---|\n| x | 1 |\n| y | 2 |\n"
    assert made(method, Material([Document("hafen", "Hafen", text, language="de")])) == []
