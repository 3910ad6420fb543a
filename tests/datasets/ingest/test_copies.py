"""Copies of documents and passages that many documents repeat are named; copies become one document with its places."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragsmith as library
from ragsmith.datasets.dataset import load_dataset, load_documents, validate_dataset
from ragsmith.datasets.documents import copies_of
from ragsmith.datasets.ingest.ingest import FileOutcome, IngestResult, ingest_folder
from ragsmith.datasets.sources import read_sources
from ragsmith.types import Document

LEAVE = "# Leave\n\nEvery employee has 28 days of paid leave a year. Up to five may be taken until the end of March.\n"
PRINTED = "Leave\n\nEvery employee has 28 days\nof paid leave a year. Up to five may be taken until the end of March!\n"
NUMBERED = LEAVE.replace("28", "30")
FOOTER = "Internal: do not pass on to customers."


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The same words in three files, in one of them also the same characters, and other numbers in a fourth."""
    folder = tmp_path / "files"
    contents = {"leave": LEAVE, "intranet/leave": LEAVE, "print/leave": PRINTED, "leave_2026": NUMBERED}
    for name, text in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(text)
    return folder


def documents(made: IngestResult) -> dict[str, Document]:
    return {document.id: document for document in load_documents(made.output).documents}


def ask(folder: Path, *evidence: dict[str, object]) -> None:
    row = {"id": "q1", "question": "How much leave is there?", "answer": "28 days.", "evidence": list(evidence)}
    (folder / "questions.jsonl").write_text(json.dumps(row) + "\n")


def test_files_with_the_same_words_become_one_document_that_knows_its_places(files: Path, tmp_path: Path) -> None:
    made = ingest_folder(files, tmp_path / "made", fold_copies=True)
    assert documents(made).keys() == {"leave", "leave_2026"}  # another number is another statement
    assert copies_of(documents(made)["leave"]) == ("intranet/leave.md", "print/leave.md")
    assert copies_of(documents(made)["leave_2026"]) == ()
    assert {file.source: file.reason for file in made.with_outcome(FileOutcome.DUPLICATE)} == {
        "intranet/leave.md": "has the same text as leave",
        "print/leave.md": "has the same words as leave",
    }


def test_files_with_the_same_words_stay_apart_by_default(files: Path, tmp_path: Path) -> None:
    made = ingest_folder(files, tmp_path / "made")
    assert documents(made).keys() == {"leave", "print/leave", "leave_2026"}
    assert copies_of(documents(made)["leave"]) == ("intranet/leave.md",)


def test_an_update_folds_as_before_until_it_is_told_otherwise(files: Path, tmp_path: Path) -> None:
    first = ingest_folder(files, tmp_path / "made", fold_copies=True)
    sources = (first.output / "sources.jsonl").read_bytes()
    again = ingest_folder(files, first.output)
    assert (again.output / "sources.jsonl").read_bytes() == sources
    assert not any(again.with_outcome(outcome) for outcome in (FileOutcome.ADDED, FileOutcome.CHANGED))
    apart = ingest_folder(files, first.output, fold_copies=False)
    assert documents(apart).keys() == {"leave", "print/leave", "leave_2026"}
    assert [row.source for row in read_sources(apart.output) if row.folded] == []


def test_folding_a_data_set_removes_no_document_with_evidence_or_edits(files: Path, tmp_path: Path) -> None:
    (files / "slides").mkdir()
    (files / "slides" / "leave.md").write_text(LEAVE.replace("# Leave", "Leave:"))
    made = ingest_folder(files, tmp_path / "made")
    ask(made.output, {"doc": "print/leave", "text": "Up to five may be taken until the end of March!"})
    edited = made.output / "documents" / "slides" / "leave.md"
    edited.write_text(edited.read_text() + "See the intranet.\n")
    folded = ingest_folder(files, made.output, fold_copies=True)
    assert documents(folded).keys() == {"print/leave", "slides/leave", "leave_2026"}
    assert [removed.doc for removed in folded.removed] == ["leave"]
    assert load_dataset(made.output).examples[0].evidence[0].doc == "print/leave"
    settled = (made.output / "sources.jsonl").read_bytes()
    ingest_folder(files, made.output)
    assert (made.output / "sources.jsonl").read_bytes() == settled


def test_evidence_may_name_the_path_of_a_copy(files: Path, tmp_path: Path) -> None:
    made = ingest_folder(files, tmp_path / "made", fold_copies=True)
    ask(made.output, {"doc": "print/leave.md", "text": "28 days"})
    assert load_dataset(made.output).examples[0].evidence[0].doc == "leave"
    ask(made.output, {"doc": "print/leave.md", "text": "31 days"})
    assert "the text '31 days' is not found in document 'leave'" in validate_dataset(made.output)[0]


def test_an_answer_names_the_places_of_its_document(files: Path, tmp_path: Path, ragsmith: Callable[..., Any]) -> None:
    made = ingest_folder(files, tmp_path / "made", fold_copies=True)
    library.recommend(made.output, calls=1, output=tmp_path / "winner.yaml")
    asked = ragsmith("ask", tmp_path / "winner.yaml", "Who has 28 days of paid leave a year?")
    lines = asked.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("leave ["))
    assert lines[at + 1 : at + 3] == ["  also in intranet/leave.md", "  also in print/leave.md"]


def test_a_refused_file_is_named_and_fails_the_command_only_if_nothing_else_is_there(
    files: Path, tmp_path: Path, ragsmith: Callable[..., Any]
) -> None:
    (files / "x.bin").write_bytes(b"\0\1")
    ended = ragsmith("dataset", "init", files, "-o", tmp_path / "made")
    assert (ended.code, "refused: x.bin: is binary data" in ended.out) == (0, True)
    ended = ragsmith("dataset", "init", files / "x.bin", "-o", tmp_path / "other")
    assert (ended.code, "is not a folder; give the folder with your files" in ended.err) == (2, True)


def test_code_with_other_characters_is_no_copy(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.py").write_text("total = price + tax\n")
    (folder / "b.py").write_text("total = price - tax\n")
    assert documents(ingest_folder(folder, tmp_path / "made", fold_copies=True)).keys() == {"a.py", "b.py"}


def test_passages_of_many_documents_are_named_and_those_of_copies_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number, subject in enumerate(("gate", "lamp", "well", "roof")):
        own = f"The {subject} of house {number} is looked after by the keeper of the {subject}."
        (folder / f"{subject}.md").write_text(f"# {subject}\n\n{own}\n\n{FOOTER}\n")
    for number in range(4):
        copied = "".join(f"Paragraph {n} is in each copy of this document.\n\n" for n in range(20))
        (folder / f"copy-{number}.md").write_text(f"{copied}Copy number {number}.\n")
    made = ingest_folder(folder, tmp_path / "made")
    assert made.repeated == {FOOTER: ("gate", "lamp", "roof", "well")}


def test_the_command_names_documents_that_differ_only_in_numbers(tmp_path: Path, ragsmith: Callable[..., Any]) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for year in (2023, 2024):
        (folder / f"prices_{year}.md").write_text(f"# Prices\n\nThe ferry costs {year - 2000} crowns in {year}.\n")
    lines = ragsmith("dataset", "init", folder, "-o", tmp_path / "made").out.splitlines()
    [at] = [n for n, line in enumerate(lines) if line.startswith("differ only in numbers or dates")]
    assert lines[at].endswith('for  ragsmith ask WINNER "..." --filter year=2026  (docs/filters.md)')
    assert lines[at + 1] == "  prices_2023, prices_2024"


@pytest.mark.parametrize(("years", "versions"), [((2023, 2024), 0), ((2023, 2023), 1)])
def test_documents_that_a_field_tells_apart_are_no_versions(
    tmp_path: Path, years: tuple[int, int], versions: int
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for number, year in enumerate(years):
        text = f"---\nyear: {year}\n---\n# Prices\n\nThe ferry costs {number} crowns on each of the days.\n"
        (folder / f"prices_{number}.md").write_text(text)
    assert len(ingest_folder(folder, tmp_path / "made").versions) == versions


def test_the_command_counts_copies_and_names_the_first_or_all(
    files: Path, tmp_path: Path, ragsmith: Callable[..., Any]
) -> None:
    for number in range(11):
        (files / f"copy-{number:02}.md").write_text(LEAVE)
    lines = ragsmith("dataset", "init", files, "-o", tmp_path / "made").out.splitlines()
    at = lines.index("copies, left out: 12 files")
    assert lines[at + 1] == "  copy-00.md has the same text as leave"
    assert lines[at + 11] == "  and 2 more: --list names them"
    assert [line for line in lines if line.startswith("near-duplicates, both kept: ") and "--fold-copies" in line]
    listed = ragsmith("dataset", "init", files, "-o", tmp_path / "made", "--list", "--fold-copies").out
    assert "copies, left out: 13 files" in listed
    assert "  print/leave.md has the same words as leave" in listed.splitlines()
    assert "removed: print/leave: print/leave.md is a copy of another file; " in listed
