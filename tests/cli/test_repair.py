"""``ragsmith dataset anchor --repair``: the questions of a data set follow their text when documents are edited."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.dataset import load_dataset

Command = Callable[..., Any]


@pytest.fixture
def edited(tmp_path: Path, tiny_folder: Path) -> Path:
    """The island after its ferry page was rewritten: one line is new, one gone, one changed, one moved elsewhere."""
    folder = tmp_path / "island"
    shutil.copytree(tiny_folder, folder)
    ferry, market = folder / "documents" / "ferry.md", folder / "documents" / "market.md"
    text = ferry.read_text()
    moved = "Bicycles travel free of charge, but a cart costs three shillings.\n\n"
    text = text.replace(moved, "").replace("winter of 1987", "winter of 1988")
    text = text.replace("No boat sails when the yellow flag hangs from the signal mast.\n\n", "")
    ferry.write_text(text.replace("# The ferry\n\n", "# The ferry\n\nTickets are sold on board.\n\n"))
    market.write_text(market.read_text() + f"\n{moved}")
    return folder


def test_what_moved_or_changed_is_found_and_what_is_gone_is_listed(ragsmith: Command, edited: Path) -> None:
    shown = ragsmith("dataset", "anchor", "--repair", edited)
    assert (shown.code, shown.err) == (1, "")
    assert shown.out.splitlines() == [
        f"{edited}: 23 of 24 pieces of evidence stand (18 unchanged, 4 exact, 1 fuzzy); 5 questions written anew",
        "left as it is: questions.jsonl:5 (ferry-5), evidence 1: the text stands nowhere, nor anything like it",
        f"{edited}/unrepaired.jsonl: what was left, with the places that come into question",
    ]
    [left] = [json.loads(line) for line in (edited / "unrepaired.jsonl").read_text().splitlines()]
    assert (left["id"], left["line"], left["number"], left["candidates"]) == ("ferry-5", 5, 1, [])
    rows = [json.loads(line) for line in (edited / "questions.jsonl").read_text().splitlines()]
    assert left["evidence"] == rows[4]["evidence"][0]
    assert rows[2]["evidence"][0]["doc"] == "market"
    assert rows[3]["evidence"][0]["text"] == "Captain Ilse Varn has steered the ferry since the winter of 1988."
    del rows[4]
    (edited / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(load_dataset(edited).examples) == 23  # every span stands where it says


def test_lines_that_need_nothing_are_kept_to_the_letter(ragsmith: Command, edited: Path) -> None:
    questions = edited / "questions.jsonl"
    spaced = questions.read_text().replace('"id": "market-1"', '"id":   "market-1"')
    questions.write_text(spaced)
    before = spaced.splitlines()
    ragsmith("dataset", "anchor", "--repair", edited)
    after = questions.read_text().splitlines()
    assert [number for number, line in enumerate(before) if line != after[number]] == [0, 1, 2, 3, 5]


def test_repairing_again_changes_nothing(ragsmith: Command, edited: Path) -> None:
    ragsmith("dataset", "anchor", "--repair", edited)
    before = (edited / "questions.jsonl").read_bytes()
    found = json.loads(ragsmith("dataset", "anchor", "--repair", edited, "--json").out)
    assert (found["found"], found["questions_changed"]) == ({"unchanged": 23}, 0)
    assert [left["id"] for left in found["left"]] == ["ferry-5"]
    assert (edited / "questions.jsonl").read_bytes() == before


def test_a_data_set_that_was_not_edited_is_said_to_stand(ragsmith: Command, tmp_path: Path, tiny_folder: Path) -> None:
    shutil.copytree(tiny_folder, tmp_path / "island")
    shown = ragsmith("dataset", "anchor", "--repair", tmp_path / "island")
    assert shown.code == 0
    assert "24 of 24 pieces of evidence stand (24 unchanged); 0 questions written anew" in shown.out
    assert not (tmp_path / "island" / "unrepaired.jsonl").exists()


def test_evidence_that_names_a_place_is_left_to_what_it_names(
    ragsmith: Command, tmp_path: Path, tiny_folder: Path
) -> None:
    folder = tmp_path / "island"
    shutil.copytree(tiny_folder, folder)
    rows = [
        {"id": "a", "question": "Q?", "answer": "A", "evidence": [{"doc": "ferry", "heading": "The ferry"}]},
        {"id": "b", "question": "R?", "answer": "B", "evidence": [{"text": "A foghorn sounds from the cliff"}]},
        {"id": "c", "question": "S?", "answer": "C", "evidence": [{"doc": "quay"}]},
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = (folder / "questions.jsonl").read_bytes()
    shown = ragsmith("dataset", "anchor", "--repair", folder)
    assert shown.code == 1
    assert "left as it is: questions.jsonl:3 (c), evidence 1: there is no document 'quay'" in shown.out
    assert (folder / "questions.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere: there is no such folder; give a data set's"),
        (["island", "-o", "other"], "--repair takes a data set's folder, and no other option but --json"),
    ],
)
def test_what_cannot_be_repaired_is_refused(
    ragsmith: Command, edited: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(edited.parent)
    shown = ragsmith("dataset", "anchor", "--repair", *arguments)
    assert (shown.code, shown.out, len(shown.err.splitlines())) == (2, "", 1)
    assert said in shown.err


def test_lines_that_cannot_be_read_are_all_said_and_nothing_is_written(ragsmith: Command, edited: Path) -> None:
    questions = edited / "questions.jsonl"
    questions.write_text("{\n" + questions.read_text() + "[]\n")
    before = questions.read_bytes()
    shown = ragsmith("dataset", "anchor", "--repair", edited)
    assert shown.code == 2
    assert [line.split(": ")[1] for line in shown.err.splitlines()] == ["questions.jsonl:1", "questions.jsonl:26"]
    assert questions.read_bytes() == before
