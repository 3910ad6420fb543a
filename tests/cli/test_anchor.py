"""``ragsmith dataset anchor``: a list of questions and a folder of documents become a data set."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.dataset import load_dataset

Command = Callable[..., Any]

QUESTIONS = """\
question,answer,quote
When does the ferry to Marrow leave?,At seven in the morning.,leaves from the north quay at seven in the morning
Who wrote a diary of storms?,Keeper Tomas Rell.,"keeper tomas rell  wrote a “diary of storms”"
What did the lamp burn before electricity?,Whale oil.,Whale oil fed the big lamp until electricity came in 1931
What does it cost to bring a cart?,Three shillings.,
Where is the moon?,In the sky.,The moon is in the sky tonight
Who is it?,Marrow.,of Marrow
Who wrote a diary of storms?,Keeper Tomas Rell.,
"""


@pytest.fixture
def written(tmp_path: Path, tiny_folder: Path) -> Path:
    """A list of questions beside a folder of documents."""
    (tmp_path / "list.csv").write_text(QUESTIONS, encoding="utf-8-sig")
    shutil.copytree(tiny_folder / "documents", tmp_path / "pages")
    return tmp_path


def left_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "unanchored.jsonl").read_text("utf-8").splitlines()]


def test_a_list_and_a_folder_become_a_data_set(ragsmith: Command, written: Path) -> None:
    out = written / "mine"
    shown = ragsmith("dataset", "anchor", written / "list.csv", "--documents", written / "pages", "-o", out)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        f"{out}: 4 of 7 questions anchored (1 exact, 1 normalised, 1 fuzzy, 1 sentence)",
        f"{out}/unanchored.jsonl: 3 not anchored (1 ambiguous, 1 not found, 1 repeated)",
        f"check it  ragsmith dataset validate {out}",
    ]
    assert ragsmith("dataset", "validate", out).code == 0
    data = load_dataset(out)
    texts = {document.id: document.text for document in data.documents}
    assert [texts[s.doc][s.start : s.end] for e in data.examples for s in e.evidence] == [
        "leaves from the north quay at seven in the morning",
        "Keeper Tomas Rell wrote a diary of storms",
        "Whale oil fed the lamp until electricity arrived in 1931",
        "Bicycles travel free of charge, but a cart costs three shillings.",
    ]


def test_what_was_not_anchored_says_why_and_where_it_may_be(ragsmith: Command, written: Path) -> None:
    out = written / "mine"
    ragsmith("dataset", "anchor", written / "list.csv", "--documents", written / "pages", "-o", out)
    nowhere, ambiguous, repeated = left_of(out)
    assert (nowhere["question"], nowhere["status"], nowhere["line"]) == ("Where is the moon?", "not found", 6)
    assert (ambiguous["status"], ambiguous["reason"]) == ("ambiguous", "the quotation occurs 3 times")
    assert {candidate["doc"] for candidate in ambiguous["candidates"]} == {"lighthouse", "market", "school"}
    assert all(candidate["text"] == "of Marrow" for candidate in ambiguous["candidates"])
    assert (repeated["status"], repeated["reason"]) == ("repeated", "line 3 asks and answers the same")


def test_a_candidate_that_somebody_chose_is_anchored_as_given(ragsmith: Command, written: Path) -> None:
    ragsmith("dataset", "anchor", written / "list.csv", "--documents", written / "pages", "-o", written / "mine")
    _, ambiguous, _ = left_of(written / "mine")
    chosen = {**ambiguous, "evidence": ambiguous["candidates"][2:3]}
    (written / "chosen.jsonl").write_text(json.dumps(chosen) + "\n")
    shown = ragsmith(
        "dataset", "anchor", written / "chosen.jsonl", "--documents", written / "pages", "-o", written / "2"
    )
    assert "1 of 1 questions anchored (1 given)" in shown.out
    [example] = load_dataset(written / "2").examples
    assert example.id == ambiguous["id"]
    assert example.evidence[0].doc == ambiguous["candidates"][2]["doc"]
    assert not (written / "2" / "unanchored.jsonl").exists()


def test_questions_join_a_data_set_that_has_none(ragsmith: Command, written: Path) -> None:
    (written / "mine").mkdir()
    (written / "pages").rename(written / "mine" / "documents")
    arguments = ("dataset", "anchor", written / "list.csv", "--documents", written / "mine")
    found = json.loads(ragsmith(*arguments, "--json").out)
    assert found["anchored"] == 4
    assert found["how"] == {"exact": 1, "normalised": 1, "fuzzy": 1, "sentence": 1}
    assert found["not_anchored"] == {"ambiguous": 1, "not found": 1, "repeated": 1}
    assert ragsmith("dataset", "validate", written / "mine").code == 0
    before = (written / "mine" / "questions.jsonl").read_bytes()
    again = json.loads(ragsmith(*arguments, "--json").out)
    assert (again["anchored"], again["not_anchored"]["there already"]) == (0, 4)
    assert (written / "mine" / "questions.jsonl").read_bytes() == before


def test_documents_can_be_named_in_a_column(ragsmith: Command, written: Path) -> None:
    rows = "question,answer,quote,file\nWho?,Marrow.,of Marrow,./pages/school.md\nWhere?,Marrow.,of Marrow,scool.md\n"
    (written / "list.csv").write_text(rows)
    shown = ragsmith(
        "dataset", "anchor", written / "list.csv", "--documents", written / "pages", "-o", written / "mine"
    )
    assert "1 of 2 questions anchored (1 exact)" in shown.out
    [example] = load_dataset(written / "mine").examples
    assert example.evidence[0].doc == "school"
    [left] = left_of(written / "mine")
    assert left["reason"].startswith("there is no document 'scool.md'; did you mean")


def test_quotations_that_are_lost_are_said_and_the_others_kept(ragsmith: Command, written: Path) -> None:
    kept, lost = (
        "The choir sings in the chapel on the last Sunday of the month.",
        "The choir never sings at all in May.",
    )
    row = {"question": "Where does the choir sing?", "answer": "In the chapel.", "contexts": [kept, lost]}
    (written / "list.jsonl").write_text(json.dumps(row) + "\n")
    shown = ragsmith(
        "dataset", "anchor", written / "list.jsonl", "--documents", written / "pages", "-o", written / "my"
    )
    assert "left out: q001: 'The choir never sings at all in May.': neither the quotation nor a similar" in shown.out
    assert len(load_dataset(written / "my").examples[0].evidence) == 1


def test_what_is_wrong_with_evidence_is_said_where_the_answer_is_not_found_either(
    ragsmith: Command, written: Path
) -> None:
    rows = [
        {"question": "Who?", "answer": "Zebra", "evidence": [{"doc": "ferry", "heading": "The quay"}]},
        {"question": "What?", "answer": "Lion", "evidence": "# The ferry"},
    ]
    (written / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ragsmith("dataset", "anchor", written / "list.jsonl", "--documents", written / "pages", "-o", written / "my")
    place, heading = left_of(written / "my")
    assert "; {'doc': 'ferry', 'heading': 'The quay'}: " in place["reason"]
    assert "is mostly a heading; mark the text below it" in heading["reason"]


def test_questions_that_nothing_answers_need_no_evidence(ragsmith: Command, written: Path) -> None:
    rows = [
        {
            "question": "Who founded the library?",
            "answer": "Oda Lenz",
            "quote": "Headmistress Oda Lenz founded the library",
        },
        {"question": "Who founded the museum?", "answerable": False},
    ]
    (written / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = ragsmith(
        "dataset", "anchor", written / "list.jsonl", "--documents", written / "pages", "-o", written / "my"
    )
    assert "2 of 2 questions anchored (1 exact, 1 unanswerable)" in shown.out
    assert [example.answerable for example in load_dataset(written / "my").examples] == [True, False]


def test_where_nothing_is_anchored_the_list_of_why_is_all_that_is_written(ragsmith: Command, written: Path) -> None:
    (written / "list.csv").write_text("question,answer\nQuel animal vit là?,Zèbre\n")
    shown = ragsmith("dataset", "anchor", written / "list.csv", "--documents", written / "pages", "-o", written / "my")
    assert shown.code == 1
    assert "0 of 1 questions anchored" in shown.out
    assert [path.name for path in (written / "my").iterdir()] == ["unanchored.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list.csv"], "--documents is missing: give the folder of documents that answer the questions"),
        (["nothing.csv", "--documents", "pages", "-o", "my"], "there is no such file"),
        (["list.csv", "--documents", "nowhere", "-o", "my"], "there is no such folder"),
        (["list.csv", "--documents", "pages"], "is not a data set (it has no documents/): give --output"),
        (["list.csv", "--documents", "pages", "-o", "pages"], "is not an empty folder; give a new one"),
        (["list.csv", "--documents", "pages", "-o", "my", "--at-least", "2"], "--at-least is 2.0: give a probability"),
        (
            ["list.csv", "--documents", "pages", "-o", "my", "--answer-column", "anser"],
            "has no column 'anser' for --answer-column; did you mean 'answer'",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    ragsmith: Command, written: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(written)
    shown = ragsmith("dataset", "anchor", *arguments)
    assert (shown.code, shown.out, len(shown.err.splitlines())) == (2, "", 1)
    assert said in shown.err
    assert not (written / "my").exists()


def test_questions_join_those_that_were_drafted_and_are_the_test(ragsmith: Command, written: Path) -> None:
    mine = written / "mine"
    mine.mkdir()
    (written / "pages").rename(mine / "documents")
    first = {
        "id": "draft-1",
        "question": "How do bicycles travel?",
        "answer": "Without being charged.",
        "evidence": [{"text": "Bicycles travel free of charge"}],
        "origin": {"by": "drafted", "method": "factual"},
    }
    drafted = f"{json.dumps(first)}\n"
    (mine / "questions.jsonl").write_text(drafted)
    rows = [
        {"id": first["id"], "question": "Who wrote a diary of storms?", "answer": "Keeper Tomas Rell."},
        {"question": first["question"].upper(), "answer": first["answer"], "quote": "Bicycles travel free of charge"},
        {"question": "What do bicycles cost?", "quote": "Bicycles travel free of charge"},
    ]
    rows[0]["quote"] = "Keeper Tomas Rell wrote a diary of storms"
    (written / "own.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    shown = ragsmith("dataset", "anchor", written / "own.jsonl", "--documents", mine)
    assert shown.out.splitlines()[0] == f"{mine}: 1 of 3 questions anchored (1 exact)"
    after = (mine / "questions.jsonl").read_text("utf-8")
    assert after.startswith(drafted)
    assert len(after.splitlines()) == len(drafted.splitlines()) + 1
    data = load_dataset(mine)
    own = {example.id: example.drafted for example in data.examples if not example.drafted}
    assert own == {f"{first['id']}-2": False}
    reasons = [left["reason"] for left in left_of(mine)]
    assert reasons == [f"questions.jsonl asks the same ({first['id']})", reasons[1]]
    assert "no answer" in reasons[1]


def test_a_new_folder_is_named_after_itself_and_init_knows_its_documents(ragsmith: Command, written: Path) -> None:
    first, second = written / "first", written / "second"
    assert ragsmith("dataset", "init", written / "pages", "-o", first).code == 0
    assert ragsmith("dataset", "anchor", written / "list.csv", "--documents", first, "-o", second).code == 0
    assert load_dataset(second).name == "second"
    before = sorted(path.name for path in (second / "documents").iterdir())
    again = json.loads(ragsmith("dataset", "init", written / "pages", "-o", second, "--json").out)
    assert {file["outcome"] for file in again["files"]} == {"unchanged"}
    assert sorted(path.name for path in (second / "documents").iterdir()) == before
    assert ragsmith("dataset", "validate", second).code == 0


@pytest.mark.parametrize("column", ["answer", "split"])
def test_what_the_questions_there_do_not_have_is_not_dropped(ragsmith: Command, written: Path, column: str) -> None:
    mine = written / "mine"
    mine.mkdir()
    (written / "pages").rename(mine / "documents")
    text = "Keeper Tomas Rell wrote a diary of storms"
    (written / "a.jsonl").write_text(json.dumps({"question": "Who wrote?", "quote": text}) + "\n")
    given = {"answer": "Tomas Rell.", "split": "test"}[column]
    (written / "b.jsonl").write_text(json.dumps({"question": "Who?", "quote": text, column: given}) + "\n")
    assert ragsmith("dataset", "anchor", written / "a.jsonl", "--documents", mine).code == 0
    before = (mine / "questions.jsonl").read_bytes()
    shown = ragsmith("dataset", "anchor", written / "b.jsonl", "--documents", mine)
    assert shown.code == 2
    assert f"questions.jsonl has no {column}s, and the list does" in shown.err
    assert (mine / "questions.jsonl").read_bytes() == before
