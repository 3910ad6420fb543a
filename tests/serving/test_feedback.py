"""Feedback: rows that a review and a search read, whole or not there."""

from __future__ import annotations

import json
import shutil
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from asking import PATIENCE, sent

import ragsmith
from ragsmith.datasets.locking import hold_lock
from ragsmith.errors import DatasetError
from ragsmith.serving.app import ServingApp
from ragsmith.serving.feedback import FeedbackEntry, FeedbackFile
from ragsmith.types import Span

Serving = Callable[..., ServingApp]
QUESTION = "When does the ferry to Marrow leave?"


def rows(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_what_was_right_or_corrected_becomes_drafts_that_a_review_and_a_data_set_read(
    serving: Serving, tiny_folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "feedback.jsonl"
    app = serving(feedback=path)
    answered = sent(app, "POST", "/ask", {"question": QUESTION}).json
    assert answered["feedback"] is True
    sources = [{key: p[key] for key in ("doc", "start", "end")} for p in answered["passages"] if p["cited"]]
    about = {"question": QUESTION, "answer": answered["answer"], "sources": sources}
    about |= {"request": answered["id"], "pipeline": answered["pipeline"]}
    for said in ({"thumb": "up"}, {"thumb": "down", "corrected": "At seven."}):
        assert sent(app, "POST", "/feedback", {**about, **said}).status == 201
    del about["request"], about["pipeline"]
    assert sent(app, "POST", "/feedback", {**about, "answer": "No.", "declined": True, "thumb": "up"}).status == 201
    kept = rows(path)
    assert {row["origin"]["pipeline"] for row in kept} == {app.service.pipeline_id}
    assert [row["origin"].get("request") for row in kept] == [answered["id"], answered["id"], None]
    ages = [datetime.now(UTC) - datetime.fromisoformat(row["origin"]["time"]) for row in kept]
    assert all(age < timedelta(seconds=PATIENCE) for age in ages)
    assert [row["origin"]["method"] for row in kept] == [
        *("feedback_thumbs_up", "feedback_corrected", "feedback_thumbs_up")
    ]
    assert [row.get("answer") for row in kept] == [answered["answer"], "At seven.", None]
    folder = shutil.copytree(tiny_folder, tmp_path / "grown")
    with (folder / "questions.jsonl").open("a") as file:
        file.write(path.read_text())
    assert {draft.id for draft in ragsmith.review(folder).pending} == {row["id"] for row in kept}
    grown = ragsmith.load_dataset(folder)
    drafted = [example for example in grown.examples if example.drafted]
    assert sorted(e.answerable for e in drafted) == [False, True, True]
    assert all(e.evidence for e in drafted if e.answerable)


def test_an_answer_that_is_only_said_to_be_wrong_is_kept_and_becomes_no_question(
    serving: Serving, tiny_folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "feedback.jsonl"
    app = serving(feedback=path)
    down = {"question": QUESTION, "answer": "On Sundays.", "thumb": "down"}
    place = {"doc": "ferry", "start": 0, "end": 9}
    ids = [
        sent(app, "POST", "/feedback", {**down, **more}).json["id"]
        for more in ({"sources": [place]}, {"declined": True, "answer": "The documents do not say."})
    ]
    assert not path.exists()
    wrong, declined = rows(tmp_path / "feedback.down.jsonl")
    assert [wrong["id"], declined["id"]] == ids
    assert (wrong["answer"], wrong["thumb"], declined["declined"]) == ("On Sundays.", "down", True)
    assert [{key: e[key] for key in place} for e in wrong["evidence"]] == [place]
    assert not {"answer", "answerable"} & declined.keys()
    folder = shutil.copytree(tiny_folder, tmp_path / "grown")
    with (folder / "questions.jsonl").open("a") as file:
        file.write((tmp_path / "feedback.down.jsonl").read_text())
    with pytest.raises(DatasetError, match="thumb"):
        ragsmith.load_dataset(folder)


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"answer": "x", "thumb": "up"}, "question"),
        ({"question": "x", "thumb": "up"}, "answer"),
        ({"question": "x", "answer": "x"}, "thumb"),
        ({"question": "x", "answer": "x", "thumb": "sideways"}, "thumb"),
        ({"question": "x", "answer": "x", "thumb": "up", "sources": "ferry"}, "sources"),
        ({"question": "x", "answer": "x", "thumb": "up", "sources": [{"doc": "ferry", "start": 0}]}, "sources[0]"),
        (
            {"question": "x", "answer": "x", "thumb": "up", "sources": [{"doc": "../x", "start": 0, "end": 5}]},
            "sources[0]",
        ),
        (
            {"question": "x", "answer": "x", "thumb": "up", "sources": [{"doc": "ferry", "start": 0, "end": 10**9}]},
            "sources[0]",
        ),
        ({"question": "x", "answer": "x", "thumb": "up", "corrected": "a\u0000b"}, "corrected"),
    ],
)
def test_feedback_that_says_something_wrong_is_refused(
    serving: Serving, tmp_path: Path, body: dict[str, object], parameter: str
) -> None:
    path = tmp_path / "feedback.jsonl"
    got = sent(serving(feedback=path), "POST", "/feedback", body)
    assert (got.status, got.json["error"]["param"]) == (400, parameter)
    assert not path.exists()


def test_without_a_file_there_is_no_feedback(serving: Serving) -> None:
    app = serving()
    assert sent(app, "POST", "/ask", {"question": QUESTION}).json["feedback"] is False
    assert sent(app, "POST", "/feedback", {"question": "x", "answer": "y", "thumb": "up"}).status == 404


def test_what_a_crash_cut_off_is_taken_off_and_the_file_has_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "feedback.jsonl"
    feedback = FeedbackFile(path, 2000)
    feedback.write(FeedbackEntry("One?", "One.", "up"), "m")
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"id": "feedback-1", "question": "' + b"x" * 900)
    feedback.write(FeedbackEntry("Two?", "Two.", "up", evidence=[(Span("d", 0, 3), "abc")]), "m")
    assert path.read_bytes().startswith(whole + b'{"id"')
    assert [row["question"] for row in rows(path)] == ["One?", "Two?"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(OSError, match="full"):
        feedback.write(FeedbackEntry("Three?", "x" * 3000, "up"), "m")
    assert path.read_bytes() == before


MINE = '{"id": "q1", "question": "Who wrote this line?", "answer": "I did."}'


@pytest.mark.parametrize("last", [MINE, '{"id": "feedback-mine", "question": "Who?", "answer": "I."}', MINE[:30], "?"])
def test_an_incomplete_line_of_another_program_is_kept(tmp_path: Path, last: str) -> None:
    path = tmp_path / "feedback.jsonl"
    path.write_text(f"{MINE}\n{last}")
    FeedbackFile(path, 2000).write(FeedbackEntry("One?", "One.", "up"), "m")
    assert path.read_text().splitlines()[:2] == [MINE, last]
    assert json.loads(path.read_text().splitlines()[2])["question"] == "One?"


def test_many_write_whole_lines_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "feedback.jsonl"
    ids: list[str] = []

    def write(number: int) -> None:
        own = FeedbackFile(path, 1 << 20)  # as another process would
        ids.extend(own.write(FeedbackEntry(f"{number} {i}?", "x" * 500, "up"), "m") for i in range(5))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(str(row["id"]) for row in rows(path)) == sorted(ids)
    assert len(set(ids)) == 40


def test_a_file_that_others_hold_is_waited_for_no_longer_than_a_moment(serving: Serving, tmp_path: Path) -> None:
    path = tmp_path / "feedback.jsonl"
    app = serving(feedback=path)
    app.feedback = FeedbackFile(path, 1 << 20, timeout=0.1)
    said = {"question": "x", "answer": "y", "thumb": "up"}
    with path.open("ab") as file, hold_lock(file.fileno()):
        got = sent(app, "POST", "/feedback", said)
        assert (got.status, got.json["error"]["code"]) == (503, "not_kept")
        assert int(got.headers["retry-after"]) > 0
    assert path.read_bytes() == b""
    assert sent(app, "POST", "/feedback", said).status == 201
    own = FeedbackFile(path, 1 << 20, timeout=0.1)
    with own._open(path), pytest.raises(TimeoutError):  # as another thread would
        own.write(FeedbackEntry("One?", "One.", "up"), "m")
    assert len(rows(path)) == 1
