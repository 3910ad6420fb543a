"""From a folder to a pipeline, and what is said when the folder's files change or cannot be read as they are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.dataset import load_dataset, load_documents, load_documents_option
from ragsmith.errors import DatasetError, WrongOption

Command = Callable[..., Any]

MILL = "The mill on the Aller was built in 1742 by Henrik Moor, and it ground rye until the spring of 1911."
LOCK = "Boats wait at the lower gate until the keeper rings the copper bell twice."
BUILT, RUNG = "When was the mill on the Aller built?", "What does the keeper of the lock ring?"


def page(title: str, *paragraphs: str) -> str:
    inner = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f"<html><head><title>{title}</title></head><body><h1>{title}</h1>{inner}</body></html>"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a page of the web and a page of text; paths are from where it lies."""
    pytest.importorskip("markdownify", reason="needs the extra documents, to read a page of the web")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "mill.html").write_text(page("The mill", MILL))
    (folder / "lock.md").write_text(f"# The lock\n\n{LOCK}\n")
    return folder


@pytest.fixture
def stale(ragsmith: Command, files: Path) -> Path:
    """A data set whose mill's page grew at its top after a pipeline was named for it; its lock is as it was."""
    rows = [{"question": BUILT, "answer": "1742", "evidence": MILL}, {"question": RUNG, "answer": "A copper bell"}]
    rows[1]["evidence"] = LOCK
    Path("list.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert ragsmith("dataset", "init", "files", "-o", "set").code == 0
    assert ragsmith("dataset", "anchor", "list.jsonl", "--documents", "set").code == 0
    assert ragsmith("recommend", "set").code == 0
    assert ragsmith("ask", "winner.yaml", BUILT).code == 0
    (files / "mill.html").write_text(page("The mill", "Closed on Mondays.", MILL))
    again = ragsmith("dataset", "init", "files", "-o", "set")
    assert again.out.splitlines()[-1] == (
        "next: ragsmith dataset anchor --repair set  then  ragsmith dataset validate set  or  "
        "ragsmith search --dataset set"
    )
    return Path("set")


@pytest.mark.parametrize(
    "command",
    [("dataset", "validate", "set"), ("dataset", "check", "set"), ("search", "--dataset", "set"), ("recommend", "set")],
)
def test_stale_evidence_is_named_with_the_command_that_mends_it(
    ragsmith: Command, stale: Path, command: tuple[str, ...]
) -> None:
    shown = ragsmith(*command)
    assert shown.code == 2
    question, advice = shown.err.splitlines()
    assert question.startswith("error: questions.jsonl:1 (q001): evidence 1: text differs from document 'mill.html'")
    assert advice == (
        "error: questions.jsonl: a piece of evidence is not where it says, as after an edit of documents: "
        "`ragsmith dataset anchor --repair set` looks for it again"
    )


def test_the_command_that_is_named_mends_it(ragsmith: Command, stale: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        load_dataset(stale)
    [advice] = caught.value.advice
    _, command, _ = advice.split("`")
    assert ragsmith(*command.split()[1:]).code == 0
    assert ragsmith("dataset", "validate", stale).code == 0


def test_programs_are_told_what_to_do_apart_from_what_is_wrong(ragsmith: Command, stale: Path) -> None:
    found = json.loads(ragsmith("dataset", "validate", stale, "--json").out)
    assert (found["valid"], len(found["mistakes"])) == (False, 1)
    assert ["anchor --repair set" in line for line in found["advice"]] == [True]
    (stale / "questions.jsonl").write_text("{}\n")
    assert json.loads(ragsmith("dataset", "validate", stale, "--json").out)["advice"] == []


def test_the_documents_are_asked_though_evidence_is_stale(ragsmith: Command, stale: Path) -> None:
    shown = ragsmith("ask", "winner.yaml", BUILT)
    assert shown.code == 2
    last = shown.err.splitlines()[-1]
    assert last == 'error: asking needs no questions:  ragsmith ask winner.yaml "..." --documents set'
    for question, answer in ((BUILT, "1742"), (RUNG, "copper bell")):
        asked = ragsmith("ask", "winner.yaml", question, "--documents", "set")
        assert asked.code == 0
        assert answer in asked.out.partition("\nrests on")[0]


def test_after_the_repair_the_documents_as_they_are_can_be_asked(ragsmith: Command, stale: Path) -> None:
    ragsmith("dataset", "anchor", "--repair", stale)
    shown = ragsmith("ask", "winner.yaml", BUILT)
    assert shown.code == 2
    assert shown.err.rstrip().endswith('ask the documents as they are:  ragsmith ask winner.yaml "..." --documents set')
    assert ragsmith("ask", "winner.yaml", BUILT, "--documents", "set").code == 0


def test_mistakes_that_no_edit_made_are_not_sent_to_the_repair(stale: Path) -> None:
    row = {"id": "q001", "question": BUILT, "answer": "1742", "evidence": [{"doc": "quay"}]}
    (stale / "questions.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DatasetError) as caught:
        load_dataset(stale)
    assert caught.value.advice == ()


@pytest.mark.parametrize("nested", [False, True])
def test_files_that_have_to_be_converted_are_one_sentence_with_what_to_type(
    ragsmith: Command, stale: Path, files: Path, nested: bool
) -> None:
    (files / "more").mkdir()
    for name in ("bakery.html", "more/inn.docx"):
        (files / name).write_bytes(b"<p>Bread</p>")
    given = files.rename("documents").parent if nested else files
    folder = given / "documents" if nested else given
    shown = ragsmith("ask", "winner.yaml", BUILT, "--documents", given)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        "error: bakery.html and 2 more cannot be read as they are: "
        f"`ragsmith dataset init {folder} -o DIR` converts the folder; then name DIR instead\n"
    )
    (folder / "more" / "inn.docx").unlink()
    assert ragsmith("dataset", "init", folder, "-o", "converted").code == 0
    assert "1742" in ragsmith("ask", "winner.yaml", BUILT, "--documents", "converted").out


def test_a_folder_that_is_not_there_is_one_sentence(ragsmith: Command, stale: Path) -> None:
    for option in ("nowhere", "list.jsonl"):
        shown = ragsmith("ask", "winner.yaml", BUILT, "--documents", option)
        assert (shown.code, shown.out) == (2, "")
        said = f"error: --documents names no folder: {option}; give one of documents, or a data set\n"
        assert shown.err == said
    with pytest.raises(WrongOption):
        load_documents_option("nowhere")


def test_what_else_is_wrong_in_the_folder_is_listed_too(files: Path) -> None:
    (files / "empty.md").write_text("")
    with pytest.raises(DatasetError) as caught:
        load_documents(files)
    first, second = caught.value.mistakes
    assert first.startswith("mill.html cannot be read as it is: `ragsmith dataset init")
    assert second == "empty.md: is empty; add text or remove the file"


def test_a_bundled_data_set_is_a_folder_of_documents_too() -> None:
    assert len(load_documents_option("law").documents) == len(load_dataset("law").documents)


def test_the_report_of_another_data_set_of_the_same_name_is_not_written_over(
    ragsmith: Command, tmp_path: Path, tiny_folder: Path, tiny_space: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--space", tiny_space, "--strategy", "random", "--max-evaluations", "2", "--cache", "c.sqlite", "-q")
    for folder in ("one", "same", "other"):
        shutil.copytree(tiny_folder, folder)
    questions = Path("other/questions.jsonl")
    questions.write_text("".join(questions.read_text().splitlines(keepends=True)[1:]))
    assert ragsmith("search", "--dataset", "one", *options).code == 0
    before = {path: path.read_bytes() for path in Path("reports").rglob("*") if path.is_file()}
    shown = ragsmith("search", "--dataset", "other", *options)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == (
        f"error: --reports has in reports/island the report of another data set of the name 'island', {tmp_path}/one: "
        "name another folder, or change the name in dataset.yaml\n"
    )
    assert {path: path.read_bytes() for path in Path("reports").rglob("*") if path.is_file()} == before
    assert ragsmith("search", "--dataset", "same", *options).code == 0  # the same documents and questions
    assert ragsmith("search", "--dataset", "other", *options, "--reports", "apart").code == 0
    shutil.rmtree("one")
    shutil.rmtree("same")
    assert ragsmith("search", "--dataset", "other", *options).code == 0  # what it was of is gone
