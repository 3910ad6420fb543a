"""What a decision makes of a row."""

from __future__ import annotations

from pathlib import Path

import pytest
from drafted import FACTS, drafted_dataset, drafted_row, text_of
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.datasets.evidence import EvidenceChecker
from ragsmith.labelling.reviewing.decisions import (
    NO_REASON,
    Accept,
    DecisionState,
    Edit,
    Quote,
    Reject,
    UneditableDraft,
    apply_decision,
    as_drafted,
    locate_quote,
    state_digest,
    state_of,
)
from ragsmith.types import Document, Span

DOCUMENTS = {place: Document(place, f"The {place}", text_of(place)) for place in ("harbour", "mill")}
CHECKER = EvidenceChecker(DOCUMENTS)


def test_accepting_adds_who_did_so_and_nothing_else() -> None:
    row = drafted_row(1)
    after = apply_decision(row, Accept(), "ada", CHECKER)
    assert after == {**row, "origin": {**row["origin"], "reviewed": "accepted", "reviewer": "ada"}}
    assert as_drafted(after) == row


def test_mending_changes_what_is_given_and_keeps_the_order_of_keys() -> None:
    row = drafted_row(1)
    after = apply_decision(row, Edit(question=" When? ", evidence=(0, Quote("mill", "carry fire"))), "ada", CHECKER)
    start = text_of("mill").index("carry fire")
    new = {"doc": "mill", "start": start, "end": start + 10, "text": "carry fire"}
    assert (after["question"], after["answer"]) == ("When?", row["answer"])
    assert after["evidence"] == [row["evidence"][0], new]
    assert state_of(after) is DecisionState.MENDED
    assert list(after) == list(row)


def test_mending_that_changes_nothing_accepts() -> None:
    row = drafted_row(1)
    same = Edit(row["question"], row["answer"], (0,))
    assert state_of(apply_decision(row, same, "ada", CHECKER)) is DecisionState.ACCEPTED


def test_accepting_what_was_mended_leaves_it_mended() -> None:
    mended = apply_decision(drafted_row(1), Edit("Another question?"), "ada", CHECKER)
    assert apply_decision(mended, Accept(), "ben", CHECKER)["origin"] == {**mended["origin"], "reviewer": "ben"}  # type: ignore[dict-item]


def test_a_rejected_row_says_why_and_by_whom() -> None:
    row = drafted_row(1)
    assert apply_decision(row, Reject("too\n vague"), "ada", CHECKER) == {
        **row,
        "filter": "review",
        "reason": "too vague",
        "reviewer": "ada",
    }
    assert apply_decision(row, Reject("  "), "ada", CHECKER)["reason"] == NO_REASON


def test_everything_that_is_wrong_with_a_mending_is_listed() -> None:
    wrong = Edit(
        " ",
        "",
        (
            Quote("mill", "The bell is rung."),
            Quote("mil", "fire"),
            Quote("mill", "no such words"),
            7,
            Quote("mill", "fire", 3),
        ),
    )
    with pytest.raises(UneditableDraft) as raised:
        apply_decision(drafted_row(1), wrong, "ada", CHECKER)
    said = "\n".join(raised.value.problems)
    for words in (
        "'question' is blank",
        "occurs 2 times in document 'mill'",
        "there is no document 'mil'; did you mean 'mill'?",
        "does not occur in document 'mill'",
        "there is no evidence 8 to keep",
        "is not at character 3",
        "the answer is blank",
    ):
        assert words in said


def test_a_quote_of_a_heading_alone_and_a_repeated_one_are_refused() -> None:
    start = text_of("mill").index("The mill")
    with pytest.raises(UneditableDraft, match="mostly a heading"):
        apply_decision(drafted_row(1), Edit(evidence=(Quote("mill", "The mill", start),)), "ada", CHECKER)
    with pytest.raises(UneditableDraft, match="quoted twice"):
        apply_decision(drafted_row(1), Edit(evidence=(0, Quote("mill", FACTS[1]))), "ada", CHECKER)


def test_without_evidence_a_question_cannot_stay_answerable() -> None:
    with pytest.raises(UneditableDraft, match="no evidence is left"):
        apply_decision(drafted_row(1), Edit(evidence=()), "ada", CHECKER)


def test_a_question_said_to_be_unanswerable_becomes_answerable_by_a_quote_and_an_answer() -> None:
    row = drafted_row(1, answer=None, answerable=False, evidence=[])
    assert "answer" not in apply_decision(row, Edit("Is there a moat?", ""), "ada", CHECKER)
    with pytest.raises(UneditableDraft, match="the answer is blank"):
        apply_decision(row, Edit(evidence=(Quote("mill", FACTS[3]),)), "ada", CHECKER)
    after = apply_decision(row, Edit(answer="No.", evidence=(Quote("mill", FACTS[3]),)), "ada", CHECKER)
    assert "answerable" not in after
    assert after["answer"] == "No."


def test_no_answer_is_asked_for_where_no_question_has_one() -> None:
    row = drafted_row(1, answer=None)
    after = apply_decision(row, Edit("Another?", ""), "ada", CHECKER, answered=False)
    assert "answer" not in after


def test_what_is_seen_changes_with_the_row_and_with_its_state() -> None:
    row = drafted_row(1)
    names = {
        state_digest(row, DecisionState.PENDING),
        state_digest(row, DecisionState.REJECTED),
        state_digest({**row, "question": "Other?"}, DecisionState.PENDING),
    }
    assert len(names) == 3
    assert state_digest(row, DecisionState.PENDING) == state_digest(dict(reversed(row.items())), DecisionState.PENDING)


def test_a_quote_may_have_other_white_space_than_its_document() -> None:
    document = Document("d", "d", "one two\r\nthree  four; one two")
    assert locate_quote(Quote("d", "two three\nfour"), document) == Span("d", 4, 20)


@given(st.text("ab \n😀", max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_what_is_located_stands_there_and_nowhere_else(text: str, start: int, end: int) -> None:
    document = Document("d", "d", text)
    quote = text[start:end]
    exact = locate_quote(Quote("d", quote, start), document)
    assert (exact == Span("d", start, start + len(quote))) if quote else isinstance(exact, str)
    found = locate_quote(Quote("d", quote), document)
    if isinstance(found, Span):
        assert text[found.start : found.end].split() == quote.split()
        assert text.count(quote.strip()) == 1
    elif quote.strip():
        assert sum(text.startswith(quote.strip(), at) for at in range(len(text))) > 1


def test_a_mended_data_set_is_valid(tmp_path: Path) -> None:
    from ragsmith.datasets.dataset import validate_dataset  # noqa: PLC0415
    from ragsmith.labelling.reviewing.review import Review  # noqa: PLC0415

    folder = drafted_dataset(tmp_path / "yard")
    review = Review.open(folder)
    review.decide("draft-001", Edit("When?", evidence=(Quote("mill", "carry fire"),)), reviewer="ada")
    review.decide("draft-002", Accept(), reviewer="ada")
    review.decide("draft-003", Reject(), reviewer="ada")
    assert validate_dataset(folder) == ()


def test_evidence_that_is_kept_twice_is_refused() -> None:
    with pytest.raises(UneditableDraft, match="evidence 1 is there twice; keep one of them"):
        apply_decision(drafted_row(1), Edit("When?", evidence=(0, 0)), "ada", CHECKER)
