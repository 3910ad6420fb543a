"""``ragsmith dataset anchor`` and ``--repair``: questions get their evidence, and keep it when documents change."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.dataset import load_dataset
from ragsmith.labelling.reviewing.review import Review

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


QUOTED = "leaves from the north quay at seven in the morning"


@pytest.fixture
def written(tmp_path: Path, tiny_folder: Path) -> Path:
    """A list of questions beside a folder of documents."""
    (tmp_path / "list.csv").write_text(QUESTIONS, encoding="utf-8-sig")
    shutil.copytree(tiny_folder / "documents", tmp_path / "pages")
    return tmp_path


@pytest.fixture
def anchor(ragsmith: Command, written: Path) -> Command:
    """Anchor a list to the pages in a new folder, both named."""

    def command(questions: str, folder: str) -> Any:
        return ragsmith(
            "dataset", "anchor", written / questions, "--documents", written / "pages", "-o", written / folder
        )

    return command


def left_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "unanchored.jsonl").read_text("utf-8").splitlines()]


def test_a_list_and_a_folder_become_a_data_set(ragsmith: Command, anchor: Command, written: Path) -> None:
    out = written / "mine"
    shown = anchor("list.csv", out.name)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        f"{out}: 4 of 7 questions anchored (1 exact, 1 normalised, 1 fuzzy, 1 sentence)",
        f"{out}/unanchored.jsonl: 3 not anchored (1 ambiguous, 1 not found, 1 repeated)",
        "in its lines, copy a candidate or a quotation to `evidence`, or set `answerable` to false if the documents do "
        f"not answer the question; then  ragsmith dataset anchor {out}/unanchored.jsonl --documents {out}",
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


def test_edits_of_the_folder_reach_the_data_set_by_init_and_repair(
    ragsmith: Command, anchor: Command, written: Path
) -> None:
    out = written / "mine"
    anchor("list.csv", out.name)
    before = load_dataset(out).examples[0]
    page = written / "pages" / f"{before.evidence[0].doc}.md"
    page.write_text(f"Checked in May.\n\n{page.read_text('utf-8')}", encoding="utf-8")
    updated = ragsmith("dataset", "init", written / "pages", "-o", out)
    assert f"next: ragsmith dataset anchor --repair {out}  then" in updated.out
    assert ragsmith("dataset", "anchor", "--repair", out).code == 0
    data = load_dataset(out)
    texts = {document.id: document.text for document in data.documents}
    [span], [old] = data.examples[0].evidence, before.evidence
    assert texts[span.doc].startswith("Checked in May.")
    assert span.start == old.start + len("Checked in May.\n\n")
    assert QUOTED in texts[span.doc][span.start : span.end]


@pytest.mark.parametrize("file", ["ferry.txt", "documents/ferry.md", "documents/ferry.txt"])
def test_every_file_becomes_one_document_that_init_updates(ragsmith: Command, written: Path, file: str) -> None:
    out, page = written / "mine", written / "files" / file
    page.parent.mkdir(parents=True)
    page.write_text(f"The ferry {QUOTED}.\n")
    (page.parent / "a_copy_with_a_long_name.md").write_text(page.read_text())
    (written / "named.csv").write_text(
        f"question,answer,quote,file\nWhen?,At seven.,{QUOTED},a_copy_with_a_long_name.md\n"
    )
    ragsmith("dataset", "anchor", written / "named.csv", "--documents", written / "files", "-o", out)
    assert [path.name for path in (out / "documents").rglob("*")] == [page.name]
    page.write_text(f"Checked in May.\n\n{page.read_text()}")
    ragsmith("dataset", "init", page.parent, "-o", out)
    assert ragsmith("dataset", "anchor", "--repair", out).code == 0
    data = load_dataset(out)
    [[span]] = [example.evidence for example in data.examples]
    texts = {document.id: document.text for document in data.documents if span.doc == document.id}
    assert texts[span.doc] == page.read_text()
    assert QUOTED in texts[span.doc][span.start : span.end]


def test_unanchored_questions_are_reported_with_reason_and_candidates(anchor: Command, written: Path) -> None:
    out = written / "mine"
    anchor("list.csv", out.name)
    nowhere, ambiguous, repeated = left_of(out)
    assert (nowhere["question"], nowhere["status"], nowhere["line"]) == ("Where is the moon?", "not found", 6)
    assert (ambiguous["status"], ambiguous["reason"]) == ("ambiguous", "the quotation occurs 3 times")
    assert {candidate["doc"] for candidate in ambiguous["candidates"]} == {"lighthouse", "market", "school"}
    assert all(candidate["text"] == "of Marrow" for candidate in ambiguous["candidates"])
    assert (repeated["status"], repeated["reason"]) == ("repeated", "line 3 has the same question and answer")


def test_a_candidate_chosen_by_a_user_is_anchored_unchanged(anchor: Command, written: Path) -> None:
    anchor("list.csv", "mine")
    _, ambiguous, _ = left_of(written / "mine")
    chosen = {**ambiguous, "evidence": ambiguous["candidates"][2:3]}
    (written / "chosen.jsonl").write_text(json.dumps(chosen) + "\n")
    shown = anchor("chosen.jsonl", "2")
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
    assert (again["anchored"], again["not_anchored"]["there already"]) == (0, 5)
    assert (written / "mine" / "questions.jsonl").read_bytes() == before


def test_questions_that_are_there_already_are_told_apart_by_their_answers(ragsmith: Command, written: Path) -> None:
    (written / "mine").mkdir()
    (written / "pages").rename(written / "mine" / "documents")
    rows = "question,answer,quote\nWhen does the ferry leave?,{},{}\nWhere is the moon?,In the sky.,\n"
    quoted = "leaves from the north quay at seven in the morning"
    arguments = ("dataset", "anchor", written / "list.csv", "--documents", written / "mine")
    (written / "list.csv").write_text(rows.format("At seven.", quoted))
    assert ragsmith(*arguments).code == 0
    (written / "list.csv").write_text(rows.format("AT SEVEN", "this is not in the documents"))
    assert left_reasons(ragsmith(*arguments, "--json")) == {"there already": 1, "not found": 1}
    (written / "list.csv").write_text(rows.format("At eight.", quoted))
    shown = ragsmith(*arguments)
    assert (shown.code, "1 there already, with another answer" in shown.out) == (1, True)
    reasons = [left["reason"] for left in left_of(written / "mine")]
    assert reasons[0] == (
        "questions.jsonl has the same question (q001) with another answer: correct it there if this one is right"
    )


def left_reasons(shown: Any) -> dict[str, int]:
    return json.loads(shown.out)["not_anchored"]


def test_documents_can_be_named_in_a_column(anchor: Command, written: Path) -> None:
    rows = "question,answer,quote,file\nWho?,Marrow.,of Marrow,./pages/school.md\nWhere?,Marrow.,of Marrow,scool.md\n"
    (written / "list.csv").write_text(rows)
    shown = anchor("list.csv", "mine")
    assert "1 of 2 questions anchored (1 exact)" in shown.out
    [example] = load_dataset(written / "mine").examples
    assert example.evidence[0].doc == "school"
    [left] = left_of(written / "mine")
    assert left["reason"].startswith("there is no document 'scool.md'; did you mean")


def test_an_answer_with_another_number_than_its_document_is_anchored_with_a_warning(
    ragsmith: Command, anchor: Command, written: Path
) -> None:
    (written / "list.csv").write_text("question,answer\nWhat does it cost to bring a cart?,Nine shillings.\n")
    said = "the answer of q001 says 9 where its evidence in ferry says 3: if the document is right, correct the answer"
    shown = anchor("list.csv", "my")
    assert shown.code == 0
    assert f"take care: {said}" in shown.out.splitlines()
    checked = ragsmith("dataset", "check", written / "my", "--only", "spans")
    assert (checked.code, f"spans warns: {said}" in checked.out.splitlines()) == (0, True)
    arguments = ("dataset", "anchor", written / "list.csv", "--documents", written / "pages", "-o", written / "more")
    found = json.loads(ragsmith(*arguments, "--json").out)["other_numbers"]
    assert found == [{"id": "q001", "number": "9", "doc": "ferry", "found": "3"}]


def test_missing_quotations_are_reported_and_the_others_anchored(anchor: Command, written: Path) -> None:
    kept, lost = (
        "The choir sings in the chapel on the last Sunday of the month.",
        "The choir never sings at all in May.",
    )
    row = {"question": "Where does the choir sing?", "answer": "In the chapel.", "contexts": [kept, lost]}
    (written / "list.jsonl").write_text(json.dumps(row) + "\n")
    shown = anchor("list.jsonl", "my")
    assert "left out: q001: 'The choir never sings at all in May.': neither the quotation nor a similar" in shown.out
    assert len(load_dataset(written / "my").examples[0].evidence) == 1


def test_what_is_wrong_with_evidence_is_said_where_the_answer_is_not_found_either(
    anchor: Command, written: Path
) -> None:
    rows = [
        {"question": "Who?", "answer": "Zebra", "evidence": [{"doc": "ferry", "heading": "The quay"}]},
        {"question": "What?", "answer": "Lion", "evidence": "# The ferry"},
    ]
    (written / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    anchor("list.jsonl", "my")
    place, heading = left_of(written / "my")
    assert "; {'doc': 'ferry', 'heading': 'The quay'}: " in place["reason"]
    assert "is mostly a heading; mark the text below it" in heading["reason"]


def test_questions_that_nothing_answers_need_no_evidence(anchor: Command, written: Path) -> None:
    rows = [
        {
            "question": "Who founded the library?",
            "answer": "Oda Lenz",
            "quote": "Headmistress Oda Lenz founded the library",
        },
        {"question": "Who founded the museum?", "answerable": False},
    ]
    (written / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    shown = anchor("list.jsonl", "my")
    assert "2 of 2 questions anchored (1 exact, 1 unanswerable)" in shown.out
    assert [example.answerable for example in load_dataset(written / "my").examples] == [True, False]


@pytest.mark.parametrize("anchored", [f"When?,At seven in the morning.,{QUOTED}\n", ""])
def test_a_question_marked_as_unanswerable_is_anchored_by_the_printed_command(
    ragsmith: Command, anchor: Command, written: Path, anchored: str
) -> None:
    others = "" if anchored else "Who?,Zebra.,there is no zebra here at all\n"
    (written / "list.csv").write_text(f"question,answer,quote\n{anchored}{others}Is there an office in Madrid?,,\n")
    left = written / "mine" / "unanchored.jsonl"
    [advice] = [line for line in anchor("list.csv", "mine").out.splitlines() if "set `answerable` to false" in line]
    *first, last = left.read_text().splitlines()
    quoted = [line.replace('"evidence": []', f'"evidence": ["{QUOTED}"]') for line in first]
    left.write_text("\n".join([*quoted, last.replace('"answerable": true', '"answerable": false')]))
    command = shlex.split(advice.partition("  ragsmith ")[2])
    assert ragsmith(*command).code == 0
    assert [example.answerable for example in load_dataset(Path(command[-1])).examples] == [True, False]


def test_without_anchored_questions_only_the_list_of_reasons_is_written(anchor: Command, written: Path) -> None:
    (written / "list.csv").write_text("question,answer\nQuel animal vit là?,Zèbre\n")
    shown = anchor("list.csv", "my")
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
def test_invalid_requests_are_refused_before_anything_is_written(
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
    assert reasons == [f"questions.jsonl has the same question ({first['id']})", reasons[1]]
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


def test_moved_and_changed_evidence_is_repaired_and_missing_evidence_is_listed(ragsmith: Command, edited: Path) -> None:
    shown = ragsmith("dataset", "anchor", "--repair", edited)
    assert (shown.code, shown.err) == (1, "")
    assert shown.out.splitlines() == [
        f"{edited}: 23 of 24 pieces of evidence found (18 unchanged, 4 exact, 1 fuzzy), 1 of them with changed words; "
        "questions updated: 5",
        "fuzzy: questions.jsonl:4 (ferry-4), evidence 1: a number in it changed: check the answer",
        "  before: Captain Ilse Varn has steered the ferry since the winter of 1987.",
        "  now:    Captain Ilse Varn has steered the ferry since the winter of 1988.",
        f"{edited}/reworded.jsonl: the evidence with changed words; review it before you search, then remove the file",
        "not repaired: questions.jsonl:5 (ferry-5), evidence 1: neither the text nor a similar one was found",
        f"{edited}/unrepaired.jsonl: the evidence that was not repaired, with candidate positions if there are any; "
        "correct the evidence and the answer of these questions in questions.jsonl, or remove their lines, and repeat "
        "this command",
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


def test_a_repair_names_an_unanswerable_question_that_a_document_answers_now(ragsmith: Command, edited: Path) -> None:
    row = {"id": "nobody", "question": "Where are ferry tickets sold?", "type": "fact", "answerable": False}
    with (edited / "questions.jsonl").open("a") as questions:
        questions.write(json.dumps(row) + "\n")
    told = json.loads(ragsmith("dataset", "anchor", "--repair", edited, "--json").out)
    assert told["possible_answers"] == [{"id": "nobody", "doc": "ferry", "sentence": "Tickets are sold on board."}]
    assert 'take care: nobody is labelled as unanswerable, but ferry may answer it, "Tickets are sold on board.": ' in (
        ragsmith("dataset", "anchor", "--repair", edited).out
    )


def test_lines_without_errors_are_unchanged(ragsmith: Command, edited: Path) -> None:
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


def test_an_unedited_data_set_is_reported_as_unchanged(ragsmith: Command, tmp_path: Path, tiny_folder: Path) -> None:
    shutil.copytree(tiny_folder, tmp_path / "island")
    shown = ragsmith("dataset", "anchor", "--repair", tmp_path / "island")
    assert shown.code == 0
    assert "24 of 24 pieces of evidence found (24 unchanged); questions updated: 0" in shown.out
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
    assert "not repaired: questions.jsonl:3 (c), evidence 1: there is no document 'quay'" in shown.out
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


def test_all_unreadable_lines_are_reported_and_nothing_is_written(ragsmith: Command, edited: Path) -> None:
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
        "fuzzy: questions.jsonl:1 (q001), evidence 1: a number in it changed: check the answer",
        f"  before: {text.format(28)}",
        f"  now:    {text.format(30)}",
        f"{copied}/reworded.jsonl: the evidence with changed words; review it before you search, then remove the file",
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


def test_reworded_evidence_stays_listed_until_it_is_reviewed(ragsmith: Command, copied: Path) -> None:
    (copied / "documents" / "leave copy.md").unlink()
    page, listed = copied / "documents" / "leave.md", copied / "reworded.jsonl"
    [first] = json.loads(ragsmith("dataset", "anchor", "--repair", copied, "--json").out)["reworded"]
    assert first["changes_a_number"]
    page.write_text(page.read_text().replace("four weeks before it begins", "four weeks before it starts"))
    [second] = json.loads(ragsmith("dataset", "anchor", "--repair", copied, "--json").out)["reworded"]
    assert ragsmith("dataset", "anchor", "--repair", copied).code == 0  # finds nothing more, and forgets nothing
    assert [json.loads(line) for line in listed.read_text().splitlines()] == [first, second]
    assert (first["id"], second["id"]) == ("q001", "q002")
    said = "reworded.jsonl lists 2 pieces of evidence that a repair found with changed words: review it, then remove"
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
    assert "3 of 3 pieces of evidence found (3 exact); questions updated: 3" in shown.out
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
    said = "check the answer; it was reviewed with the old words: review it again"
    assert shown.out.splitlines()[1].endswith(said)
    assert shown.out.splitlines()[-1] == f"review it again  ragsmith dataset review {copied}"
    after = [json.loads(line)["origin"] for line in questions.read_text().splitlines()]
    assert after == [drafted, rows[1]["origin"], rows[2]["origin"]]
    found = Review.open(copied)
    assert [draft.id for draft in found.pending] == ["q001"]
