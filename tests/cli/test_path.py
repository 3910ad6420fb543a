"""The path from a folder of files to questions: what is said where it goes otherwise than one thinks."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsmith.cli.interrupts import NOTHING_WRITTEN, SENTENCE, Interrupted, Interrupts, interrupted_with

Command = Callable[..., Any]


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A folder with one page that says a little."""
    folder = tmp_path / "pages"
    folder.mkdir()
    text = "The mill on the Aller was built in 1742 by Henrik Moor, and it ground rye until the spring of 1911."
    (folder / "mill.md").write_text(f"# The mill\n\n{text}\n")
    return folder


def test_a_data_set_within_the_folder_is_not_taken_in(ragsmith: Command, pages: Path, tmp_path: Path) -> None:
    assert ragsmith("dataset", "init", pages, "-o", pages / "out").code == 0
    found = json.loads(ragsmith("dataset", "init", pages, "-o", tmp_path / "zz", "--json").out)
    assert [path.name for path in (tmp_path / "zz" / "documents").rglob("*")] == ["mill.md"]
    [aside] = [file for file in found["files"] if file["outcome"] == "left aside"]
    assert (aside["source"], aside["reason"].split(";")[0]) == ("out", "is a data set made by init")


def test_what_a_check_found_is_said_though_its_page_cannot_be_written(ragsmith: Command, tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file where a folder should be")
    shown = ragsmith("dataset", "check", "workshop", "--html", tmp_path / "reports" / "check.html")
    assert shown.code == 2
    assert "workshop" in shown.out
    assert "bm25" in shown.out
    assert str(tmp_path / "reports" / "check.html") in shown.err


def test_an_interruption_is_said_as_it_is(pages: Path) -> None:
    with pytest.raises(Interrupted), interrupted_with(NOTHING_WRITTEN):
        raise Interrupted
    assert Interrupts.sentence == NOTHING_WRITTEN
    with interrupted_with(NOTHING_WRITTEN):
        pass
    assert Interrupts.sentence == SENTENCE


@pytest.mark.processes
def test_init_that_is_interrupted_says_that_nothing_was_written(
    spawn: Callable[..., Any], pages: Path, tmp_path: Path
) -> None:
    for number in range(3_000):
        (pages / f"{number}.md").write_text(f"# Page {number}\n\n{f'The word {number} stands here. ' * 40}\n")
    process = spawn("dataset", "init", pages, "-o", tmp_path / "mill")
    process.stderr.readline()  # 200 files are read
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said.splitlines()[-1]) == (130, NOTHING_WRITTEN)
    assert not (tmp_path / "mill").exists()


def test_a_folder_that_is_no_data_set_is_said_to_be_none(ragsmith: Command, pages: Path, tmp_path: Path) -> None:
    (pages / "scan.pdf").write_bytes(b"no such thing")
    (tmp_path / "list.csv").write_text("question,answer\nWhen was it built?,1742\n")
    said = f"{pages} is not a data set:  ragsmith dataset init {pages} -o DIR  makes one"
    shown = ragsmith("dataset", "validate", pages)
    assert (shown.code, said in shown.out + shown.err) == (2, True)
    model = ("--llm", "openai:tiny", "--base-url", "http://127.0.0.1:9/v1", "--cache", tmp_path / "cache.sqlite")
    for arguments in (
        ("draft", pages, *model),
        ("anchor", tmp_path / "list.csv", "--documents", pages, "-o", tmp_path / "o"),
    ):
        shown = ragsmith("dataset", *arguments)
        assert shown.code == 2
        assert said in shown.err.splitlines()[0]


def test_documents_that_are_there_are_adopted_or_the_file_is_refused(
    ragsmith: Command, pages: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine" / "documents"
    mine.mkdir(parents=True)
    (pages / "lock.md").write_text("# The lock\n\nBoats wait here.\n")
    (mine / "mill.md").write_text((pages / "mill.md").read_text())
    (mine / "lock.md").write_text("# The lock\n\nBoats waited here.\n")
    for outcome in ("added", "unchanged"):
        files = json.loads(ragsmith("dataset", "init", pages, "-o", mine.parent, "--json").out)["files"]
        assert {file["source"]: file["outcome"] for file in files} == {"mill.md": outcome, "lock.md": "refused"}
    assert sorted(path.name for path in mine.iterdir()) == ["lock.md", "mill.md"]
    assert (mine / "lock.md").read_text() == "# The lock\n\nBoats waited here.\n"
    [reason] = [file["reason"] for file in files if file["reason"]]
    assert reason.startswith("documents/lock.md exists with another text")
