"""``ragsmith dataset anchor --repair``: the questions of a data set follow their text when documents are edited."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.dataset import load_dataset
from ragsmith.labelling.reviewing.review import Review

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
        f"{edited}: 23 of 24 pieces of evidence stand (18 unchanged, 4 exact, 1 fuzzy), 1 of them in other words; "
        "5 questions written anew",
        "fuzzy: questions.jsonl:4 (ferry-4), evidence 1: a number in it changed: look at its answer",
        "  before: Captain Ilse Varn has steered the ferry since the winter of 1987.",
        "  now:    Captain Ilse Varn has steered the ferry since the winter of 1988.",
        f"{edited}/reworded.jsonl: what is in other words; look at it before you search, then remove the file",
        "left as it is: questions.jsonl:5 (ferry-5), evidence 1: neither the text nor a similar one was found",
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


LEAVE = """\
# Leave

Every employee of the house has a right to {days} days of paid leave in a calendar year, on full pay.

Leave is asked for in the calendar of the team at least four weeks before it begins.

Days that are left over at the end of a year have to be taken until the last day of March.
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A page about leave that was rewritten and grew at its top, beside a copy of how it was."""
    folder = tmp_path / "moeller"
    (folder / "documents").mkdir(parents=True)
    (folder / "dataset.yaml").write_text("name: moeller\n")
    before = LEAVE.format(days=28)
    lines = [line for line in before.splitlines() if line and not line.startswith("#")]
    rows = [
        {
            "id": f"q{number:03}",
            "question": f"What does line {number} say?",
            "answer": line,
            "evidence": [
                {"doc": "leave", "start": before.index(line), "end": before.index(line) + len(line), "text": line}
            ],
        }
        for number, line in enumerate(lines, start=1)
    ]
    (folder / "questions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    added = "This page was reviewed in spring, and what is new in it holds from the first of May.\n\n" * 3
    after = LEAVE.format(days=30).replace("# Leave\n\n", f"# Leave\n\n{added}")
    (folder / "documents" / "leave.md").write_text(after)
    (folder / "documents" / "leave copy.md").write_text(before)
    return folder


def test_what_was_left_is_left_by_the_same_command_again(ragsmith: Command, copied: Path) -> None:
    first = json.loads(ragsmith("dataset", "anchor", "--repair", copied, "--json").out)
    assert (first["found"], [left["id"] for left in first["left"]]) == ({"exact": 2}, ["q001"])
    questions, unrepaired = (copied / "questions.jsonl").read_bytes(), (copied / "unrepaired.jsonl").read_bytes()
    again = ragsmith("dataset", "anchor", "--repair", copied, "--json")
    assert again.code == 1
    assert json.loads(again.out)["left"] == first["left"]
    assert (copied / "questions.jsonl").read_bytes() == questions
    assert (copied / "unrepaired.jsonl").read_bytes() == unrepaired


def test_a_stale_copy_is_not_taken_though_nothing_tells_what_moved(ragsmith: Command, copied: Path) -> None:
    first = json.loads(ragsmith("dataset", "anchor", "--repair", copied, "--json").out)
    (copied / "unrepaired.jsonl").unlink()
    again = json.loads(ragsmith("dataset", "anchor", "--repair", copied, "--json").out)
    assert again["left"] == first["left"]


def test_what_is_listed_as_left_goes_when_nothing_is(ragsmith: Command, copied: Path) -> None:
    ragsmith("dataset", "anchor", "--repair", copied)
    assert (copied / "unrepaired.jsonl").exists()
    (copied / "documents" / "leave copy.md").unlink()
    shown = ragsmith("dataset", "anchor", "--repair", copied)
    assert shown.code == 0
    assert not (copied / "unrepaired.jsonl").exists()
    text = "Every employee of the house has a right to {} days of paid leave in a calendar year, on full pay."
    assert shown.out.splitlines()[1:] == [
        "fuzzy: questions.jsonl:1 (q001), evidence 1: a number in it changed: look at its answer",
        f"  before: {text.format(28)}",
        f"  now:    {text.format(30)}",
        f"{copied}/reworded.jsonl: what is in other words; look at it before you search, then remove the file",
    ]


def test_words_that_were_added_at_the_end_of_a_sentence_belong_to_it(ragsmith: Command, copied: Path) -> None:
    (copied / "documents" / "leave copy.md").unlink()
    page = copied / "documents" / "leave.md"
    page.write_text(page.read_text().replace("30", "28").replace("on full pay.", "on full pay, and part of it in May."))
    [found] = json.loads(ragsmith("dataset", "anchor", "--repair", copied, "--json").out)["reworded"]
    assert (found["id"], found["how"], found["changes_a_number"]) == ("q001", "fuzzy", False)
    assert found["now"] == [
        "Every employee of the house has a right to 28 days of paid leave in a calendar year, on full pay, and part of "
        "it in May."
    ]


def test_what_is_in_other_words_stays_listed_until_somebody_looked(ragsmith: Command, copied: Path) -> None:
    (copied / "documents" / "leave copy.md").unlink()
    page, listed = copied / "documents" / "leave.md", copied / "reworded.jsonl"
    [first] = json.loads(ragsmith("dataset", "anchor", "--repair", copied, "--json").out)["reworded"]
    assert first["changes_a_number"]
    page.write_text(page.read_text().replace("four weeks before it begins", "four weeks before it starts"))
    [second] = json.loads(ragsmith("dataset", "anchor", "--repair", copied, "--json").out)["reworded"]
    assert ragsmith("dataset", "anchor", "--repair", copied).code == 0  # finds nothing more, and forgets nothing
    assert [json.loads(line) for line in listed.read_text().splitlines()] == [first, second]
    assert (first["id"], second["id"]) == ("q001", "q002")
    said = "reworded.jsonl lists 2 pieces of evidence that a repair found in other words: look at it, then remove"
    assert said in ragsmith("dataset", "validate", copied).err
    warned = json.loads(ragsmith("dataset", "validate", copied, "--json").out)["warnings"]
    assert sum(said in one for one in warned) == 1
    listed.unlink()
    assert "reworded" not in ragsmith("dataset", "validate", copied).err


def test_evidence_that_only_moved_is_not_listed(ragsmith: Command, copied: Path) -> None:
    (copied / "documents" / "leave copy.md").unlink()
    page = copied / "documents" / "leave.md"
    page.write_text(page.read_text().replace("30", "28"))
    shown = ragsmith("dataset", "anchor", "--repair", copied)
    assert (shown.code, len(shown.out.splitlines())) == (0, 1)
    assert "3 of 3 pieces of evidence stand (3 exact); 3 questions written anew" in shown.out
    assert not (copied / "reworded.jsonl").exists()


def test_a_review_of_the_old_words_is_none_of_the_new(ragsmith: Command, copied: Path) -> None:
    (copied / "documents" / "leave copy.md").unlink()
    questions = copied / "questions.jsonl"
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    drafted = {"by": "drafted", "method": "headings"}
    for row in rows:
        row["origin"] = {**drafted, "reviewed": "accepted", "reviewer": "Jo"}
    questions.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    shown = ragsmith("dataset", "anchor", "--repair", copied)
    said = "look at its answer; it was reviewed with the old words, and is to be reviewed again"
    assert shown.out.splitlines()[1].endswith(said)
    assert shown.out.splitlines()[-1] == f"review it again  ragsmith dataset review {copied}"
    after = [json.loads(line)["origin"] for line in questions.read_text().splitlines()]
    assert after == [drafted, rows[1]["origin"], rows[2]["origin"]]
    found = Review.open(copied)
    assert [draft.id for draft in found.pending] == ["q001"]
