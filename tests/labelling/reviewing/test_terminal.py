"""Review in a terminal, by lines."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drafted import drafted_dataset, drafted_row, rows_of

from ragsmith.labelling.reviewing.decisions import Accept
from ragsmith.labelling.reviewing.review import Review
from ragsmith.labelling.reviewing.terminal import TerminalReview

Lines = Callable[[str, str], str]


def typed(*lines: str) -> Lines:
    """Whoever types these lines, and then goes away."""
    left = list(lines)

    def read(prompt: str, before: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    return read


def reviewed(folder: Path, *lines: str) -> list[str]:
    said: list[str] = []
    TerminalReview(Review.open(folder), "ada", read=typed(*lines), say=said.append).run()
    return said


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return drafted_dataset(tmp_path / "yard", 4)


def order(folder: Path) -> list[str]:
    return [draft.id for draft in Review.open(folder).drafts]


def test_drafts_come_least_certain_first_with_the_quote_marked(folder: Path) -> None:
    first = order(folder)[0]
    said = "\n".join(reviewed(folder, "q"))
    row = drafted_row(int(first[-3:]))
    assert "-- 1 of 4" in said
    assert row["question"] in said
    assert f"[[{row['evidence'][0]['text']}]]" in said


def test_each_line_is_a_decision(folder: Path) -> None:
    one, two, three, four = order(folder)
    number = int(three[-3:])
    doc = drafted_row(number)["evidence"][0]["doc"]
    said = reviewed(
        folder,
        "a",
        "r too vague",
        "x",
        "",
        "e",
        "Changed?",
        "",
        "The bell is rung.",
        "e",
        "Changed?",
        "",
        "carry fire",
        "s",
    )
    rows = rows_of(folder)
    assert rows[one]["origin"] == {**drafted_row(int(one[-3:]))["origin"], "reviewed": "accepted", "reviewer": "ada"}
    assert rows_of(folder, "rejected.jsonl")[two]["reason"] == "too vague"
    assert (rows[three]["question"], rows[three]["answer"]) == ("Changed?", drafted_row(number)["answer"])
    assert (rows[three]["evidence"][0]["doc"], rows[three]["evidence"][0]["text"]) == (doc, "carry fire")
    assert "reviewed" not in rows[four]["origin"]
    assert any("stands at 2 places" in line for line in said)
    assert said.count("type one of: a e r 1-5 s u m q, or ? for what they do") == 2


def test_a_decision_is_taken_back(folder: Path) -> None:
    first = order(folder)[0]
    said = reviewed(folder, "u", "r", "u", "q")
    assert "nothing was decided here yet" in said
    assert rows_of(folder)[first] == drafted_row(int(first[-3:]))


def test_what_another_decided_meanwhile_is_said(folder: Path) -> None:
    first = order(folder)[0]
    said: list[str] = []
    answers = iter(["a", "q"])

    def read(prompt: str, before: str) -> str:
        if (answer := next(answers)) == "a":
            Review.open(folder).decide(first, Accept(), reviewer="ben")
        return answer

    TerminalReview(Review.open(folder), "ada", read=read, say=said.append).run()
    assert any("ben accepted meanwhile" in line for line in said)
    assert rows_of(folder)[first]["origin"]["reviewer"] == "ben"


def test_the_command_reads_lines_where_there_is_no_terminal(
    folder: Path, ragsmith: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\na\n"))
    ended = ragsmith("dataset", "review", folder, "--terminal", "--reviewer", "ada", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["accepted"] == 2
    monkeypatch.setattr(sys, "stdin", io.StringIO("r\nr\n"))
    ended = ragsmith("dataset", "review", folder, "--terminal")
    assert "4 of 4 reviewed: 2 accepted, 0 mended, 2 rejected; 0 to go" in ended.out


@pytest.mark.processes
@pytest.mark.skipif(sys.platform == "win32", reason="terminals are another thing there")
def test_at_a_terminal_a_key_is_enough(folder: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ragsmith", "dataset", "review", str(folder), "--terminal", "--reviewer", "ada"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "dumb"},
    )
    os.close(theirs)
    seen = b""

    def until(words: bytes, count: int) -> None:
        nonlocal seen
        end = time.monotonic() + 60
        while seen.count(words) < count and time.monotonic() < end:
            if select.select([ours], [], [], 1)[0]:
                seen += os.read(ours, 65536)
        assert seen.count(words) >= count, seen.decode()

    try:
        until(b"? help: ", 1)
        os.write(ours, b"a")
        until(b"? help: ", 2)
        os.write(ours, b"r")
        until(b"why", 1)
        os.write(ours, b"too vague\n")
        until(b"? help: ", 3)
        os.write(ours, b"q")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    os.close(ours)
    assert Review.open(folder).counts() == {"pending": 2, "accepted": 1, "mended": 0, "rejected": 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "is no folder"),
        (("{folder}", "--port", "70000"), "give one from 0 to 65535"),
        (("{folder}", "--terminal", "--reviewer", " "), "is no name for a reviewer"),
    ],
)
def test_wrong_requests_are_one_sentence(
    folder: Path, ragsmith: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\n"))
    ended = ragsmith("dataset", "review", *(argument.format(folder=folder) for argument in arguments))
    assert (ended.code, said in ended.err) == (2, True)


def test_without_drafted_questions_there_is_nothing_to_review(tiny_folder: Path, ragsmith: Callable[..., Any]) -> None:
    ended = ragsmith("dataset", "review", tiny_folder, "--terminal")
    assert (ended.code, "has no drafted questions to review" in ended.err) == (2, True)


def test_a_question_mark_says_what_each_key_does_and_numbers_give_reasons(folder: Path) -> None:
    first = order(folder)[0]
    said = reviewed(folder, "?", "3", "q")
    assert [line.strip()[0] for line in said if line[:2] == "  " and line[3:5] == "  "] == list("aer12345sumq")
    assert rows_of(folder, "rejected.jsonl")[first]["reason"] == "the quote does not show the answer"
