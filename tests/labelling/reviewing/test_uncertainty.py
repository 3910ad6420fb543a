"""How uncertain a draft is."""

from __future__ import annotations

import pytest

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.labelling.reviewing.uncertainty import UncertaintyModel
from ragsmith.types import Document, Span

TEXT = "The gate opens at six.\n\nGrain is weighed twice.\n\nA lantern burns all night on the pier."
OTHER = "The keeper of the lantern is paid in grain."
DOUBTER = UncertaintyModel(
    chunk_documents([Document("yard", "The yard", TEXT), Document("keeper", "Keepers", OTHER)], size=45)
)


def span(quote: str) -> Span:
    return Span("yard", start := TEXT.index(quote), start + len(quote))


def test_doubt_is_the_mean_of_what_speaks_against_a_draft() -> None:
    quote = "Grain is weighed twice."
    # answer: "grocer" is not quoted; question: "sold" of three words is not; rank 1; six words
    doubt = DOUBTER.of_answerable("Is the grain weighed or sold?", "Twice, grocer.", [quote], [span(quote)])
    assert doubt.value == pytest.approx((1 / 2 + 1 / 3 + 0 + 0) / 4)
    assert doubt.why == ("50% of the answer's words are not in the quote",)


def test_a_passage_that_word_search_does_not_find_and_an_odd_length_are_doubtful() -> None:
    quote = "The gate opens at six."
    doubt = DOUBTER.of_answerable("Zebras?", "six", [quote], [span(quote)])
    assert doubt.value == pytest.approx((0 + 1 + 1 + 1) / 4)
    assert doubt.why == (
        "100% of the question's words are not in the quote",
        "word search does not find its passage",
        "the question has 1 word",
    )


def test_a_rank_below_the_first_counts_by_its_reciprocal() -> None:
    quote = "A lantern burns all night on the pier."
    doubt = DOUBTER.of_answerable("Who is the paid keeper of the lantern?", "night", [quote], [span(quote)])
    assert "word search finds its passage at rank 2" in doubt.why


def test_what_is_said_to_be_unanswerable_is_doubtful_where_a_passage_has_its_words() -> None:
    near = DOUBTER.of_unanswerable("Does the lantern burn in the night?")
    far = DOUBTER.of_unanswerable("Does the lantern sink in deep water?")
    nothing = DOUBTER.of_unanswerable("Where do zebras live today?")
    assert near.value > far.value > nothing.value == 0
    assert near.why[0].startswith("one passage has 100% of its words")


def test_a_question_without_blanks_between_words_is_no_word() -> None:
    text = "渡轮每天早上七点从北码头出发，前往小岛。"
    doubter = UncertaintyModel(chunk_documents([Document("ferry", "渡轮", text, language="zh")]))
    doubt = doubter.of_answerable("渡轮什么时候从北码头出发？", "早上七点", [text], [Span("ferry", 0, len(text))])
    assert not any("the question has" in why for why in doubt.why)
    assert doubt.value < 0.5
