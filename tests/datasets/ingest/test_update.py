"""Ingesting a folder again converts only changed files and preserves edits by people."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

import ragsmith as library
from ragsmith.datasets.dataset import load_dataset, load_documents
from ragsmith.datasets.ingest.ingest import FileOutcome, IngestResult, ingest_folder
from ragsmith.datasets.ingest.readers.part import READERS, FilePart, reader
from ragsmith.datasets.locking import LOCK_FILE
from ragsmith.datasets.sources import read_sources
from ragsmith.errors import DatasetError, UsageError


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "more").mkdir(parents=True)
    (folder / "rules.md").write_text("# Rules\n\nThe gate is shut at nine.\n")
    (folder / "more" / "pump.txt").write_text("The pump is red.\n")
    (folder / "prices.csv").write_text("part;crowns\nseal;3\n")
    return folder


@pytest.fixture
def made(files: Path, tmp_path: Path) -> Path:
    ingest_folder(files, tmp_path / "made")
    return tmp_path / "made"


def outcomes(taken: IngestResult) -> dict[str, FileOutcome]:
    return {file.source: file.outcome for file in taken.files}


def question(made: Path, doc: str, text: str) -> None:
    whole = next(document.text for document in load_documents(made).documents if document.id == doc)
    start = whole.index(text)
    span = {"doc": doc, "start": start, "end": start + len(text), "text": text}
    row = {"id": "q1", "question": "When is it shut?", "answer": "At nine.", "type": "factual", "evidence": [span]}
    (made / "questions.jsonl").write_text(json.dumps(row) + "\n")


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != LOCK_FILE]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_nothing_is_written_where_nothing_changed(files: Path, made: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (made / "documents").rglob("*") if path.is_file()}
    was = contents(made)
    taken = ingest_folder(files, made)
    assert set(outcomes(taken).values()) == {FileOutcome.UNCHANGED}
    assert contents(made) == was
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_only_changed_files_are_converted_again(files: Path, made: Path) -> None:
    read: list[str] = []

    @reader("counted", suffixes=(".md", ".csv", ".txt"))
    def read_counted(data: bytes, name: str) -> tuple[FilePart, ...]:
        read.append(name)
        return (FilePart(data.decode()),)

    ingest_folder(files, made)
    read.clear()
    (files / "rules.md").write_text("# Rules\n\nThe gate is shut at ten.\n")
    (files / "new.md").write_text("New.\n")
    taken = ingest_folder(files, made)
    READERS.remove("counted")
    assert read == ["new.md", "rules.md"]
    assert outcomes(taken) == {
        "more/pump.txt": FileOutcome.UNCHANGED,
        "new.md": FileOutcome.ADDED,
        "prices.csv": FileOutcome.UNCHANGED,
        "rules.md": FileOutcome.CHANGED,
    }
    assert (made / "documents" / "rules.md").read_text() == "# Rules\n\nThe gate is shut at ten.\n"


def test_an_update_ends_as_a_new_intake_would(files: Path, made: Path, tmp_path: Path) -> None:
    (files / "rules.md").write_text("# Other rules\n\nNone.\n")
    (files / "prices.csv").unlink()
    (files / "more" / "valve.txt").write_text("The valve is blue.\n")
    ingest_folder(files, made)
    ingest_folder(files, tmp_path / "fresh" / "made")
    updated = {name: data for name, data in contents(made).items() if not name.startswith("removed/")}
    assert updated == contents(tmp_path / "fresh" / "made")


def test_a_document_whose_file_is_gone_moves_out_of_the_way(files: Path, made: Path) -> None:
    (files / "more" / "pump.txt").unlink()
    taken = ingest_folder(files, made)
    (gone,) = taken.removed
    assert (gone.doc, gone.source, gone.kept) == ("more/pump", "more/pump.txt", False)
    assert (made / "removed" / "documents" / "more" / "pump.txt").read_text() == "The pump is red.\n"
    assert not (made / "documents" / "more").exists()
    assert [document.id for document in load_documents(made).documents] == ["prices.csv", "rules"]


@pytest.mark.parametrize("by_text_alone", [False, True])
def test_a_document_that_a_question_needs_stays_and_that_is_said_each_time(
    files: Path, made: Path, by_text_alone: bool
) -> None:
    question(made, "rules", "The gate is shut at nine.")
    if by_text_alone:
        row = json.loads((made / "questions.jsonl").read_text())
        row["evidence"] = [{"text": "The gate is shut at nine."}]
        (made / "questions.jsonl").write_text(json.dumps(row) + "\n")
    written = (made / "questions.jsonl").read_bytes()
    (files / "rules.md").unlink()
    for _ in range(2):
        (gone,) = ingest_folder(files, made).removed
        assert (gone.doc, gone.questions, gone.kept) == ("rules", 1, True)
    assert load_dataset(made).examples[0].evidence[0].doc == "rules"
    assert (made / "questions.jsonl").read_bytes() == written


def test_a_question_may_name_its_document_in_either_unicode_form(files: Path, made: Path) -> None:
    (files / "für alle.md").write_text("The lock is new.\n")
    ingest_folder(files, made)
    question(made, "für alle", "The lock is new.")
    written = (made / "questions.jsonl").read_text()
    row = json.loads(written)
    row["evidence"][0]["doc"] = normalize("NFD", "für alle")
    (made / "questions.jsonl").write_text(json.dumps(row) + "\n")
    (files / "für alle.md").unlink()
    (gone,) = ingest_folder(files, made).removed
    assert (gone.questions, gone.kept) == (1, True)


def test_a_question_may_name_its_document_by_path(files: Path, made: Path) -> None:
    question(made, "rules", "The gate is shut at nine.")
    written = (made / "questions.jsonl").read_text()
    (made / "questions.jsonl").write_text(written.replace('"rules"', '"rules.md"'))
    (files / "rules.md").unlink()
    (gone,) = ingest_folder(files, made).removed
    assert (gone.doc, gone.questions, gone.kept) == ("rules", 1, True)


def test_a_removed_document_with_one_of_several_places_is_kept(files: Path, made: Path) -> None:
    (files / "copy.md").write_text("The gate is shut at nine.\n")
    ingest_folder(files, made)
    question(made, "rules", "The gate is shut at nine.")
    row = json.loads((made / "questions.jsonl").read_text())
    copy = {"doc": "copy", "text": "The gate is shut at nine."}
    (made / "questions.jsonl").write_text(json.dumps({**row, "evidence": [{"any": [*row["evidence"], copy]}]}) + "\n")
    (files / "copy.md").unlink()
    (gone,) = ingest_folder(files, made).removed
    assert (gone.questions, gone.kept) == (1, True)


def test_questions_whose_evidence_lies_in_a_changed_document_are_counted(
    files: Path, made: Path, ragsmith: Callable[..., Any]
) -> None:
    question(made, "rules", "The gate is shut at nine.")
    (files / "rules.md").write_text("# Rules\n\nBeware. The gate is shut at nine.\n")
    ended = ragsmith("dataset", "init", files, "-o", made)
    assert "changed: rules.md" in ended.out
    assert "take care: rules changed, which has evidence of 1 question: " in ended.out


def test_an_unanswerable_question_that_a_new_paragraph_may_answer_is_named_once(
    files: Path, made: Path, ragsmith: Callable[..., Any]
) -> None:
    row = {"id": "q1", "question": "Who oils the hinges of the gate?", "type": "factual", "answerable": False}
    (made / "questions.jsonl").write_text(json.dumps(row) + "\n")
    (files / "oil.md").write_text("Each spring the smith oils all hinges.\n\nThe gate is red.\n")
    update = ("dataset", "init", files, "-o", made)
    told = (
        'q1 is labelled as unanswerable, but oil may answer it, "Each spring the smith oils all hinges.": if it does, '
    )
    assert f"take care: {told}" in ragsmith(*update).out
    assert told not in ragsmith(*update).out
    (files / "gate.md").write_text("The gate creaks.\n")
    assert json.loads(ragsmith(*update, "--json").out)["possible_answers"] == []


def test_a_malformed_line_of_the_questions_is_named_and_the_others_are_compared_with_new_paragraphs(
    files: Path, made: Path, ragsmith: Callable[..., Any]
) -> None:
    row = {"id": "q1", "question": "Who oils the hinges of the gate?", "answerable": False}
    (made / "questions.jsonl").write_text(f'{{"id": "q0",\n{json.dumps(row)}\n')
    (files / "oil.md").write_text("Each spring the smith oils all hinges.\n\nThe gate is red.\n")
    shown = ragsmith("dataset", "init", files, "-o", made)
    assert shown.code == 0
    assert "take care: questions.jsonl:1: " in shown.out
    assert "take care: q1 is labelled as unanswerable, but oil may answer it" in shown.out
    [named] = json.loads(ragsmith("dataset", "init", files, "-o", made, "--json").out)["malformed_questions"]
    assert f"take care: {named}" in shown.out


def test_a_text_that_a_person_edited_is_left_alone(files: Path, made: Path) -> None:
    mine = "# Rules\n\nThe gate is shut at nine, sharp.\n"
    (made / "documents" / "rules.md").write_text(mine)
    taken = ingest_folder(files, made)
    assert outcomes(taken)["rules.md"] is FileOutcome.EDITED
    assert taken.with_outcome(FileOutcome.EDITED)[0].reason == "rules was edited in the data set and is not overwritten"
    (files / "rules.md").write_text("# Rules\n\nThe gate is shut at ten.\n")
    for _ in range(2):
        (edited,) = ingest_folder(files, made).with_outcome(FileOutcome.EDITED)
        assert "its file changed, too: remove the document and run this again to convert it" in edited.reason
        assert (made / "documents" / "rules.md").read_text() == mine
    (made / "documents" / "rules.md").unlink()
    assert outcomes(ingest_folder(files, made))["rules.md"] is FileOutcome.CHANGED
    assert "at ten" in (made / "documents" / "rules.md").read_text()


def test_a_text_that_was_edited_is_not_lost_when_its_file_is(files: Path, made: Path) -> None:
    (made / "documents" / "rules.md").write_text("# Mine\n")
    (files / "rules.md").unlink()
    ingest_folder(files, made)
    assert (made / "removed" / "documents" / "rules.md").read_text() == "# Mine\n"


def test_documents_titles_and_words_of_ones_own_stay(files: Path, made: Path) -> None:
    (made / "documents" / "own.md").write_text("# My own\n\nA page of mine.\n")
    manifest = (made / "dataset.yaml").read_text().replace('"pump"', '"The red pump"')
    (made / "dataset.yaml").write_text(f"# about the works\n{manifest}".replace('name: "made"', 'name: "works"'))
    (files / "new_file.txt").write_text("New.")
    (files / "own.md").write_text("Another page of this name.\n")
    taken = ingest_folder(files, made)
    titles = {document.id: document.title for document in load_documents(made).documents}
    assert titles["more/pump"] == "The red pump"
    assert titles["new_file"] == "new file"
    assert (titles["own"], "own.md" in titles) == ("My own", False)  # its file is refused, and the reason said
    assert (made / "dataset.yaml").read_text().startswith('# about the works\nname: "works"\n')
    assert {document.id: document.title for document in taken.documents} == titles


def test_what_is_said_of_a_document_that_is_gone_goes_with_it(files: Path, made: Path) -> None:
    with (made / "dataset.yaml").open("a") as manifest:
        manifest.write("languages:\n  more/pump: de  # in truth\n  rules: fr\n# the end\n")
    (files / "more" / "pump.txt").unlink()
    ingest_folder(files, made)
    found = load_documents(made)
    assert {document.id: document.language for document in found.documents} == {"prices.csv": "fr", "rules": "fr"}
    assert "# the end" in (made / "dataset.yaml").read_text()


def test_a_file_that_moved_keeps_its_document(files: Path, made: Path) -> None:
    question(made, "rules", "The gate is shut at nine.")
    (files / "kept").mkdir()
    (files / "rules.md").rename(files / "kept" / "rules of the gate.md")
    taken = ingest_folder(files, made)
    assert outcomes(taken)["kept/rules of the gate.md"] is FileOutcome.MOVED
    assert taken.removed == ()
    assert load_dataset(made).examples[0].evidence[0].doc == "rules"
    assert set(outcomes(ingest_folder(files, made)).values()) == {FileOutcome.UNCHANGED}


def test_a_file_that_becomes_one_of_another_kind_is_another_document(files: Path, made: Path) -> None:
    """Text and a table are read in other ways, though what is in them is the same."""
    (files / "parts.txt").write_text("part,crowns\nvalve,8\n")
    ingest_folder(files, made)
    (files / "parts.txt").rename(files / "parts.csv")
    taken = ingest_folder(files, made)
    assert outcomes(taken)["parts.csv"] is FileOutcome.ADDED
    assert [(gone.doc, gone.kept) for gone in taken.removed] == [("parts", False)]
    texts = {document.id: document.text for document in load_documents(made).documents}
    assert "part: valve; crowns: 8" in texts["parts.csv"]


def test_a_copy_takes_the_place_of_what_it_repeated(files: Path, made: Path) -> None:
    (files / "more" / "copy of the rules.md").write_bytes((files / "rules.md").read_bytes())
    assert outcomes(ingest_folder(files, made))["more/copy of the rules.md"] is FileOutcome.DUPLICATE
    (files / "rules.md").unlink()
    assert outcomes(ingest_folder(files, made))["more/copy of the rules.md"] is FileOutcome.MOVED
    assert "rules" in {document.id for document in load_documents(made).documents}


def test_a_file_of_another_edition_of_its_reader_is_converted_again(files: Path, made: Path) -> None:
    lines = (made / "sources.jsonl").read_text().replace("ragsmith Markdown 1", "ragsmith Markdown 0")
    (made / "sources.jsonl").write_text(lines)
    assert outcomes(ingest_folder(files, made))["rules.md"] is FileOutcome.UNCHANGED  # the same text came of it
    assert {row.converter for row in read_sources(made) if row.doc == "rules"} == {"ragsmith Markdown 1"}


def test_an_interrupted_update_is_completed(files: Path, made: Path, tmp_path: Path) -> None:
    rows = (made / "sources.jsonl").read_text()
    (files / "rules.md").write_text("# Rules\n\nThe gate is shut at ten.\n")
    (files / "new.md").write_text("New.\n")
    ingest_folder(files, made)
    (made / "sources.jsonl").write_text(rows)  # as if the power had gone before it was written
    assert not ingest_folder(files, made).with_outcome(FileOutcome.EDITED)
    ingest_folder(files, tmp_path / "fresh" / "made")
    assert contents(made) == contents(tmp_path / "fresh" / "made")


def test_a_row_that_cannot_be_read_is_named(files: Path, made: Path) -> None:
    with (made / "sources.jsonl").open("a") as rows:
        rows.write("{]\n")
    with pytest.raises(DatasetError, match=r"sources.jsonl:4: is not a valid row; remove the line"):
        ingest_folder(files, made)


def test_a_folder_being_written_is_refused(files: Path, made: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="locks of folders are not known on Windows")
    handle = os.open(made, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="is being written by another  ragsmith dataset init ; wait until it ends"):
            ingest_folder(files, made)
    finally:
        os.close(handle)
    ingest_folder(files, made)


def test_of_two_concurrent_runs_the_first_to_end_wins(files: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    began: list[str] = []

    def overtaken(name: str, number: int) -> None:
        if not began:
            began.append(name)
            ingest_folder(files, made)

    with pytest.raises(UsageError, match="was written by another process meanwhile; run the same command again"):
        ingest_folder(files, made, overtaken)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "made"]
    assert set(outcomes(ingest_folder(files, made)).values()) == {FileOutcome.UNCHANGED}


@pytest.mark.parametrize("fresh", [True, False])
def test_an_interruption_leaves_everything_as_it_was(files: Path, made: Path, tmp_path: Path, fresh: bool) -> None:
    (files / "rules.md").write_text("# Rules\n\nThe gate is shut at ten.\n")
    was = contents(tmp_path)

    def interrupted(name: str, number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest_folder(files, tmp_path / "other" if fresh else made, interrupted)
    assert contents(tmp_path) == was
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "made"]


def test_a_full_disk_is_one_sentence_and_nothing_has_changed(files: Path, made: Path, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits of file sizes are not known on Windows")
    del resource
    (files / "rules.md").write_text("# Rules\n\n" + "The gate is shut at ten. " * 10_000)
    was = contents(made)
    code = (
        "import resource, signal, sys\n"
        "from ragsmith.cli import run\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        f"sys.exit(run(['dataset', 'init', {str(files)!r}, '-o', {str(made)!r}]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert ended.stderr.strip().splitlines()[-1].startswith(f"error: {made} cannot be read or written: File too large")
    assert "Traceback" not in ended.stderr
    assert contents(made) == was


def test_temporary_files_of_a_killed_process_are_removed(files: Path, made: Path) -> None:
    left = made / ".ragsmith-killed"
    left.mkdir()
    (left / "sources.jsonl").write_text("half a li")
    ingest_folder(files, made)
    assert not left.exists()


def test_from_python_the_result_says_what_to_type_next(files: Path, tmp_path: Path) -> None:
    made = library.init_dataset(files, tmp_path / "made")
    assert made.next_steps == (
        f"ragsmith recommend {tmp_path / 'made'}",
        f"ragsmith dataset draft {tmp_path / 'made'} --llm MODEL",
    )
    question(tmp_path / "made", "rules", "The gate is shut at nine.")
    updated = library.init_dataset(files, tmp_path / "made").next_steps
    assert updated[1:] == (
        f"ragsmith search --dataset {tmp_path / 'made'}",
        f'ragsmith ask WINNER "..." --documents {tmp_path / "made"}',
    )
    assert json.loads(json.dumps(made.to_dict()))["outcomes"] == {"added": 3}
