"""Answers in nested and flat SQuAD layout become exact spans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dataset_folder import spans_of

from ragsmith.datasets.dataset import load_dataset, write_dataset
from ragsmith.datasets.importers import import_dataset, recognise_format
from ragsmith.errors import UsageError

FIRST = " The mill was built in 1804. It burnt down in 1910."
SECOND = "The bridge is made of oak, and the mill of stone."


def qa(id_: str, question: str, answer: str, start: int) -> dict[str, Any]:
    return {"id": id_, "question": question, "answers": [{"text": answer, "answer_start": start}]}


UNANSWERABLE = {"id": "b", "question": "Who built it?", "is_impossible": True, "answers": []}
PARAGRAPHS = [
    {"context": FIRST, "qas": [qa("a", "When was it built?", "1804", 23), UNANSWERABLE]},
    {"context": SECOND, "qas": [qa("c", "Of what is it made?", "stone", 0), qa("d", "How long is it?", "miles", 0)]},
]
NESTED = {"version": "x", "data": [{"title": "Old_mill", "paragraphs": PARAGRAPHS}]}
FLAT: list[dict[str, Any]] = [
    {"id": "a", "context": FIRST, "question": "When?", "answers": {"text": ["1804"], "answer_start": [23]}},
    {"id": "b", "context": SECOND, "question": "Which wood?", "answers": {"text": ["oak"], "answer_start": [22]}},
]
FLAT[0]["title"] = "Old mill"


def test_an_article_is_a_document_and_its_answers_are_spans(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text(json.dumps(NESTED))
    assert recognise_format(tmp_path / "dev.json").name == "squad"
    imported = import_dataset(tmp_path / "dev.json")
    [document] = imported.dataset.documents
    assert (document.id, document.text) == ("Old_mill", f"# Old mill\n\n{FIRST}\n\n{SECOND}\n")
    assert (imported.located, imported.total) == (2, 3)
    assert imported.match_counts == {"exact": 1, "exact, nearest to the place that was given": 1}
    assert "d: the answer 'miles' does not occur in its paragraph" in imported.notes
    write_dataset(imported.dataset, tmp_path / "mine")
    assert spans_of(tmp_path / "mine") == {"a": ["1804"], "b": [], "c": ["stone"]}
    assert [e.answerable for e in load_dataset(tmp_path / "mine").examples] == [True, False, True]


@pytest.mark.parametrize("name", ["flat.json", "flat.jsonl"])
def test_flat_questions_bring_their_paragraphs(tmp_path: Path, name: str) -> None:
    text = json.dumps(FLAT) if name == "flat.json" else "".join(json.dumps(row) + "\n" for row in FLAT)
    (tmp_path / name).write_text(text)
    assert recognise_format(tmp_path / name).name == "squad"
    imported = import_dataset(tmp_path / name)
    assert (imported.located, imported.total) == (2, 2)
    write_dataset(imported.dataset, tmp_path / "mine")
    assert spans_of(tmp_path / "mine") == {"a": ["1804"], "b": ["oak"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"answers": {"text": ["x"], "answer_start": []}}, "must have lists 'text' and 'answer_start' of one length"),
        ({"answers": "x"}, "'answers' is a text, not a list"),
        ({"context": " "}, "'context' is blank"),
        ({"id": "b"}, "the question 'b' occurs 2 times"),
    ],
)
def test_what_is_not_in_the_layout_is_said(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    (tmp_path / "flat.json").write_text(json.dumps([{**FLAT[0], **change}, FLAT[1]]))
    with pytest.raises(UsageError) as caught:
        import_dataset(tmp_path / "flat.json", "squad")
    assert said in str(caught.value)
