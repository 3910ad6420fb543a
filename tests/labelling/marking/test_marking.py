"""Marking answers on the page: what it shows, what it writes, what it refuses, and that a kill loses nothing."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from marked import markable_dataset, put_markable

from ragsmith.comparison.marked_answers import read_marks
from ragsmith.datasets.dataset import load_dataset, make_dataset, write_dataset
from ragsmith.errors import UsageError
from ragsmith.labelling.marking.marking import Marking
from ragsmith.store.store import Store

Command = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder with the data set ``yard`` and a cache with a run on it."""
    write_dataset(markable_dataset(), tmp_path / "yard")
    with Store.open(tmp_path / "cache.sqlite") as store:
        put_markable(store, load_dataset(tmp_path / "yard"))
    return tmp_path


@pytest.fixture
def marking(folder: Path) -> Iterator[Marking]:
    with Store.open(folder / "cache.sqlite") as store:
        yield Marking(store, load_dataset(folder / "yard"), reports=folder / "reports", marker="ada", count=20)


def ask(url: str, path: str, body: dict[str, str] | None = None) -> tuple[int, Any]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=10)
    try:
        sent = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request("GET" if body is None else "POST", place.path + path, sent, headers)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def test_answers_are_shown_with_question_reference_and_gold_and_without_their_pipeline(marking: Marking) -> None:
    state = marking.state({})
    assert (state["name"], state["marker"]) == ("The <b>yard</b>", "ada")
    shown: Any = state["answers"]
    assert len(shown) == 20
    assert all(set(one) == {"id", "question", "reference", "answer", "mark", "passages"} for one in shown)
    assert {one["mark"] for one in shown} == {"pending"}
    [passage] = shown[0]["passages"]
    assert [piece["text"] for piece in passage["pieces"] if piece["marks"]] == [
        "Gate {0} opens at {0} in".format(passage["doc"][1:])[:20]
    ]
    answered = [one["answer"] for one in shown]
    both = [one for one in answered if one.startswith("both")]
    assert len(set(both)) == len(both)  # an answer of both pipelines is marked once
    by_number = {word: {one.split()[1] for one in answered if one.startswith(word)} for word in ("hybrid", "vector")}
    assert len(by_number["hybrid"] ^ by_number["vector"]) <= 1  # both answers to a question are drawn
    first = [one.split()[0] for one in answered if not one.startswith("both")]
    assert first != sorted(first)


def test_the_order_is_that_of_the_seed(folder: Path, marking: Marking) -> None:
    with Store.open(folder / "cache.sqlite") as store:
        data = load_dataset(folder / "yard")
        again, other = (Marking(store, data, reports=folder, marker="ada", count=20, seed=seed) for seed in (0, 1))
    assert again.shown == marking.shown != other.shown


def test_the_page_marks_and_the_file_has_each_mark_at_once(marking: Marking, folder: Path) -> None:
    with marking.server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        status, first = ask(server.url, "mark", {"id": "1", "mark": "partly"})
        assert (status, first["answer"]["mark"]) == (200, "partly")
        assert [*read_marks(folder / "reports" / "yard" / "marks.jsonl").values()] == ["partly"]
        assert ask(server.url, "mark", {"id": "1", "mark": "right"})[0] == 200
        assert ask(server.url, "mark", {"id": "2", "mark": "cannot tell"})[0] == 200
        for body in ({"id": "1", "mark": "good"}, {"id": "99", "mark": "right"}, {}):
            status, refused = ask(server.url, "mark", body)
            assert (status, "is no mark of these: right, partly, wrong, cannot tell" in refused["error"]) == (400, True)
        assert [one["mark"] for one in ask(server.url, "state")[1]["answers"]][:3] == [
            "right",
            "cannot tell",
            "pending",
        ]
        assert ask(server.url, "finish", {})[0] == 200
        thread.join()
    assert marking.counts() == {"right": 1, "partly": 0, "wrong": 0, "cannot tell": 1, "pending": 18}


def test_the_page_has_no_markup_of_others_and_fetches_nothing(marking: Marking) -> None:
    with marking.server() as server:
        text, policy = server.page
    assert not re.search(rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|https?://|url\(", text)
    assert policy.startswith("default-src 'none'")
    assert b"--accept" in text  # the style of reviews


def address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", process.stderr.readline())
    assert found
    return found[0]


def test_killed_at_any_moment_it_has_what_it_confirmed(
    spawn: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    given = (
        "mark",
        "--dataset",
        folder / "yard",
        "--cache",
        folder / "cache.sqlite",
        "--no-browser",
        "--reviewer",
        "ada",
    )
    for number in ("1", "2"):
        process = spawn(*given, "--marks", folder / "mine.jsonl")
        assert ask(address(process), "mark", {"id": number, "mark": "wrong"})[0] == 200
        process.kill()
        process.wait()
    process = spawn(*given, "--marks", folder / "mine.jsonl", "--json")
    ask(address(process), "finish", {})
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    found = {"right": 0, "partly": 0, "wrong": 2, "cannot tell": 0}
    assert json.loads(out) == {"file": str(folder / "mine.jsonl"), **found, "pending": 35 - 2}


def test_few_answers_to_mark_are_said_to_be_few(spawn: Callable[..., subprocess.Popen[str]], folder: Path) -> None:
    given = ("mark", "--dataset", folder / "yard", "--cache", folder / "cache.sqlite", "--no-browser")
    process = spawn(*given, "--answers", 29, "--marks", folder / "mine.jsonl")
    assert process.stderr is not None
    said = process.stderr.readline()
    assert said == "29 answers are few: intervals from fewer than 30 marks are not calibrated\n"
    ask(address(process), "finish", {})
    assert process.wait(60) == 0
    process = spawn(*given, "--answers", 30, "--marks", folder / "mine.jsonl")
    ask(address(process), "finish", {})  # the address is on the first line


def test_the_report_shows_people_beside_the_judge_where_there_are_marks(
    ragsmith: Command, folder: Path, marking: Marking
) -> None:
    given = ("report", "--cache", folder / "cache.sqlite", "--output", folder / "reports")
    assert ragsmith(*given).code == 0
    page, text = folder / "reports" / "yard" / "index.html", folder / "reports" / "yard" / "report.md"
    assert "What people say" not in page.read_text() + text.read_text()
    for at, (_, answer) in marking.shown.items():
        marking.mark({"id": at, "mark": "right" if int(answer.answer.split()[1]) % 2 else "wrong"})
    found = json.loads(ragsmith(*given, "--json").out)["domains"][0]["marked"]
    assert sum(map(sum, found["table"])) == 20
    assert {tuple(each) for each in found["means"].values()} == {("judge", "marks", "both")}
    assert set(found["means"]) == {"winner", "naive", "difference"}
    for shown in (page.read_text(), text.read_text()):
        assert "What people say of the answers" in shown
        assert re.search(
            r"People marked 20 answers, without knowing which pipeline wrote them\. Agreement beyond chance: "
            r"kappa -?0\.\d\d \[-?0\.\d\d, 0\.\d\d\]\.",
            shown,
        )
        assert "Intervals from fewer than 30 marks are not calibrated." in shown
        assert all(head in shown for head in ("By the judge", "By marks", "By both"))
        assert re.search(r"difference.{1,60}0\.000 \[.{2,40}\(n 20\)", shown, re.DOTALL)


def test_mistakes_are_refused_in_a_sentence(ragsmith: Command, folder: Path, tmp_path: Path) -> None:
    with Store.open(folder / "cache.sqlite") as store:
        put_markable(store, markable_dataset("farm"), run="run of the farm")
        put_markable(store, markable_dataset("mute"), run="run of the mute", judged=False)
    cache = ("--cache", folder / "cache.sqlite")

    def refused(*given: object) -> str:
        shown = ragsmith(*given)
        assert (shown.code, shown.out) == (2, "")
        return str(shown.err)

    yard = ("mark", "--dataset", folder / "yard", "--no-browser")
    with Store.open(tmp_path / "empty.sqlite"):
        pass
    assert "has no run yet" in refused(*yard, "--cache", tmp_path / "empty.sqlite")
    assert "has no run on data set 'yard'" in refused(*yard, *cache, "--run", "run of the farm")
    report = ("report", *cache, "--output", folder, "--dataset", "yard", "--marks", folder / "none.jsonl")
    assert "none.jsonl has no marks of answers of this search: make some with  ragsmith mark" in refused(*report)
    write_dataset(markable_dataset("mute"), folder / "mute")
    assert "has no test answers with scores of a judge" in refused("mark", "--dataset", folder / "mute", *cache)
    whole = markable_dataset()
    changed = make_dataset({"name": "yard"}, whole.documents, whole.examples[1:])
    with Store.open(folder / "cache.sqlite") as store, pytest.raises(UsageError, match="has changed since the search"):
        Marking(store, changed, marker="ada", reports=folder)
    with Store.open(folder / "cache.sqlite") as store, pytest.raises(UsageError, match="not a valid name"):
        Marking(store, load_dataset(folder / "yard"), marker=" ", reports=folder)
