"""From documents to rows: what is written, what stays, and what is not drafted again."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from made import Scripted

from ragsmith.errors import DatasetError, WrongOption
from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.drafting import draft_dataset
from ragsmith.labelling.reviewing.decisions import Edit, Quote, Reject
from ragsmith.labelling.reviewing.review import Review
from ragsmith.types import Chunk, Span

FERRY = (
    "# Ferry\n\nA tide table is a list of the hours at which the water is highest in the harbour. "
    "The crossing takes forty minutes in calm weather and an hour when the wind stands against the ebb.\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "ferry.md").write_text(FERRY)
    (tmp_path / "dataset.yaml").write_text("name: ferry\n")
    return tmp_path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def scripted(*drafts: tuple[str, str, str], meanwhile: Callable[[], object] = lambda: None) -> Scripted:
    """Drafts of (question, answer, quotation), all of the one passage; ``meanwhile`` happens before the first."""
    passage = Span("ferry", 0, len(FERRY))

    def made(passages: list[Chunk]) -> list[Draft]:
        meanwhile()
        return [Draft(q, a, (Quote("ferry", quote),), "factual", "scripted", passage) for q, a, quote in drafts]

    return Scripted(made)


CROSSING = ("How long is the crossing by ferry?", "Forty minutes.", "takes forty minutes in calm weather")
TIDE = ("Where do I find the hours of high water?", "In the tide table.", "A tide table is a list of the hours")


def test_a_row_says_where_it_came_from(folder: Path) -> None:
    draft_dataset(folder, scripted(CROSSING))
    (row,) = rows(folder / "questions.jsonl")
    (evidence,) = row["evidence"]
    assert FERRY[evidence["start"] : evidence["end"]] == evidence["text"] == CROSSING[2]
    assert row["origin"]["by"] == "drafted"
    assert row["origin"]["method"] == "scripted"
    assert row["origin"]["passage"]["doc"] == "ferry"


def test_drafting_again_adds_what_is_missing_and_changes_no_row(folder: Path) -> None:
    written = '{"id": "mine", "question": "Who steers?", "answer": "Ann.",  "type": "x", "evidence": []}'
    (folder / "questions.jsonl").write_text(written)
    draft_dataset(folder, scripted(CROSSING, TIDE), questions=1)
    once = (folder / "questions.jsonl").read_text()
    assert once.startswith(written + "\n")
    assert len(draft_dataset(folder, scripted(CROSSING, TIDE), questions=1).added) == 0
    assert (folder / "questions.jsonl").read_text() == once
    assert [d.question for d in draft_dataset(folder, scripted(CROSSING, TIDE), questions=2).added] == [TIDE[0]]
    assert (folder / "questions.jsonl").read_text().startswith(once)


def test_what_was_refused_is_kept_with_its_reason_and_does_not_come_back(folder: Path) -> None:
    lost = ("How wide is the ferry?", "Nine metres.", "nine metres wide")
    first = draft_dataset(folder, scripted(lost, CROSSING))
    assert dict(first.refused) == {"quote_found": 1}
    (row,) = rows(folder / "rejected.jsonl")
    assert (row["filter"], row["question"]) == ("quote_found", lost[0])
    assert "does not occur" in row["reason"]
    reworded = ("What is the width of the ferry?", *lost[1:])
    again = draft_dataset(folder, scripted(lost, reworded))
    assert (again.known, again.refusals) == (2, ())
    assert len(rows(folder / "rejected.jsonl")) == 1


def test_a_draft_that_is_not_located_or_was_not_wanted_is_no_row(folder: Path) -> None:
    drafted = draft_dataset(folder, scripted(CROSSING, TIDE), questions=1)
    assert [draft.question for draft in drafted.added] == [CROSSING[0]]
    assert len(rows(folder / "questions.jsonl")) == 1


def test_nothing_is_written_over_a_file_with_mistakes(folder: Path) -> None:
    (folder / "questions.jsonl").write_text("no json\n")
    with pytest.raises(DatasetError, match=r"questions\.jsonl:1"):
        draft_dataset(folder, scripted())
    assert (folder / "questions.jsonl").read_text() == "no json\n"


def test_one_unanswerable_question_does_not_stand_for_all(folder: Path) -> None:
    asks = [f"For what sum does the {who} cross the river at night?" for who in ("baker", "weaver", "tailor")]
    passage = Span("ferry", 0, len(FERRY))
    none = [Draft(ask, "Unknown.", (), "unanswerable", "scripted", passage, answerable=False) for ask in asks]
    refused = draft_dataset(folder, Scripted(lambda _: none), questions=20)
    assert (refused.known, refused.made) == (0, {"scripted": 3})


def test_fewer_than_one_question_is_refused(folder: Path) -> None:
    with pytest.raises(WrongOption, match="at least 1"):
        draft_dataset(folder, scripted(), questions=0)


def test_what_a_person_mended_is_not_drafted_again(folder: Path) -> None:
    draft_dataset(folder, scripted(CROSSING))
    review = Review.open(folder)
    (draft,) = review.pending
    review.decide(draft.id, Edit("How many minutes is one at sea?", "Forty, in calm weather."), reviewer="ada")
    again = draft_dataset(folder, scripted(CROSSING, TIDE))
    assert again.known == 1
    assert [row["question"] for row in rows(folder / "questions.jsonl")] == ["How many minutes is one at sea?", TIDE[0]]


def test_what_is_reviewed_while_others_are_drafted_stays_reviewed(folder: Path) -> None:
    draft_dataset(folder, scripted(CROSSING))
    review = Review.open(folder)
    (draft,) = review.pending

    reject = partial(review.decide, draft.id, Reject("nobody asks this"), reviewer="ada")
    draft_dataset(folder, scripted(TIDE, meanwhile=reject))
    assert [row["question"] for row in rows(folder / "questions.jsonl")] == [TIDE[0]]
    assert [row["reason"] for row in rows(folder / "rejected.jsonl")] == ["nobody asks this"]
    assert [(one.question, one.state) for one in review.pending] == [(TIDE[0], "pending")]


def test_of_two_who_draft_at_once_the_second_adds_only_what_is_missing_then(folder: Path) -> None:
    def second() -> Scripted:
        return scripted(CROSSING, TIDE, meanwhile=lambda: draft_dataset(folder, scripted(CROSSING), questions=1))

    assert [draft.question for draft in draft_dataset(folder, second(), questions=2).added] == [TIDE[0]]
    assert [row["question"] for row in rows(folder / "questions.jsonl")] == [CROSSING[0], TIDE[0]]
    (folder / "questions.jsonl").unlink()
    assert draft_dataset(folder, second(), questions=1).added == ()
    assert [row["question"] for row in rows(folder / "questions.jsonl")] == [CROSSING[0]]


def test_what_two_refused_at_once_is_kept_once(folder: Path) -> None:
    lost = ("How wide is the ferry?", "Nine metres.", "nine metres wide")

    draft_dataset(folder, scripted(lost, meanwhile=lambda: draft_dataset(folder, scripted(lost))))
    assert len(rows(folder / "rejected.jsonl")) == 1


def test_a_draft_does_not_come_back_in_other_words_to_questions_without_answers(folder: Path) -> None:
    (folder / "questions.jsonl").write_text('{"id": "mine", "question": "Who steers?", "evidence": []}\n')
    draft_dataset(folder, scripted(CROSSING))
    once = (folder / "questions.jsonl").read_text()
    reworded = ("How many minutes does one cross?", *CROSSING[1:])
    assert draft_dataset(folder, scripted(CROSSING, reworded)).known == 2
    assert (folder / "questions.jsonl").read_text() == once


def test_a_question_that_somebody_reworded_by_hand_is_known_by_its_identifier(folder: Path) -> None:
    draft_dataset(folder, scripted(CROSSING))
    (row,) = rows(folder / "questions.jsonl")
    del row["origin"]  # whoever wrote it anew takes it for his own
    (folder / "questions.jsonl").write_text(json.dumps({**row, "question": "How long is one at sea?"}) + "\n")
    assert draft_dataset(folder, scripted(CROSSING)).known == 1
