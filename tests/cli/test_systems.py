"""Another system beside pipelines: its rows, its address and its function, in the commands that evaluate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from fault_kinds import Fault
from fault_server import FaultServer

from ragsmith.datasets.dataset import load_dataset
from ragsmith.types import Example

Command = Callable[..., Any]

FUNCTION = """
def answer(question):
    print("asked", question)
    return f"They say: {question}"


async def later(question):
    return question
"""


def row(example: Example) -> dict[str, Any]:
    """A system that finds the gold of most questions, and reads a part of a document."""
    gold = example.evidence[0]
    found = {"doc": gold.doc, "start": 0 if example.id.endswith("1") else gold.start, "end": gold.end}
    said = f"{example.answer} [1]" if not example.id.endswith("2") else "Nobody knows."
    return {"answer": said, "contexts": [found, {"doc": gold.doc, "start": 0, "end": 40}], "cost": 0.5, "seconds": 2}


@pytest.fixture
def home(tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    examples = load_dataset(tiny_folder).examples
    lines = [json.dumps({"id": example.id, **row(example)}) + "\n" for example in examples]
    (tmp_path / "answers.jsonl").write_text("".join(lines))
    return tmp_path


@pytest.fixture
def server(tiny_folder: Path) -> Iterator[FaultServer]:
    by_question = {example.question: row(example) for example in load_dataset(tiny_folder).examples}
    with FaultServer() as server:
        server.answer = lambda path, body: by_question[body["question"]]
        yield server


def test_rows_an_address_and_a_function_are_scored_alike_to_the_last_digit(
    home: Path, ragsmith: Command, tiny_folder: Path, server: FaultServer
) -> None:
    rows = {example.question: row(example) for example in load_dataset(tiny_folder).examples}
    (home / "mine.py").write_text(f"ROWS = {rows!r}\n\n\ndef answer(question):\n    return ROWS[question]\n")
    said = []
    for system in ("answers.jsonl", f"{server.root}/ask.json", "mine.py:answer"):
        ended = ragsmith("evaluate", system, "--dataset", tiny_folder, "--json")
        assert ended.code == 0, ended.err
        said.append(json.loads(ended.out))
    assert said[0] == said[1] == said[2]
    assert said[0]["all"]["scored"] == 24
    assert said[0]["money"] == {"per_1000": 500.0, "n": 24, "why": ""}


def test_a_verdict_against_pipelines_is_one_family_and_a_test_is_a_look(
    home: Path, ragsmith: Command, tiny_folder: Path
) -> None:
    ended = ragsmith("compare", "answers.jsonl", "naive", "bm25", "--dataset", tiny_folder, "--json")
    found = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert {one["name"] for one in found["comparisons"]} == {"naive", "bm25"}
    assert found["look"] is None
    tested = ragsmith("compare", "answers.jsonl", "naive", "bm25", "--dataset", tiny_folder, "--split", "test")
    assert "This is look 1 at these questions" in tested.err
    (home / "answers.jsonl").write_text((home / "answers.jsonl").read_text().replace("Nobody knows.", "None knows."))
    again = ragsmith("compare", "answers.jsonl", "naive", "bm25", "--dataset", tiny_folder, "--split", "test")
    assert "This is look 2" in again.err, "other answers are another system"
    assert (
        "look 2 again"
        in ragsmith(*("compare", "answers.jsonl", "naive", "bm25", "--dataset", tiny_folder, "--split", "test")).err
    )


def test_two_systems_are_compared_question_by_question_and_gated(
    home: Path, ragsmith: Command, tiny_folder: Path
) -> None:
    worse = [json.loads(line) for line in (home / "answers.jsonl").read_text().splitlines()]
    changed = [{**one, "answer": "Nobody knows.", "contexts": []} for one in worse]
    (home / "worse.jsonl").write_text("".join(json.dumps(one) + "\n" for one in changed))
    ended = ragsmith("compare", "answers.jsonl", "worse.jsonl", "--dataset", tiny_folder)
    assert "A  answers.jsonl: another system\n" in ended.out
    assert "calls a question" not in ended.out
    passed = ragsmith("gate", "answers.jsonl", "--against", "answers.jsonl", "--dataset", tiny_folder, "--split", "all")
    assert (passed.code, "all questions: passes: the same score" in " ".join(passed.out.split())) == (0, True)
    failed = ragsmith("gate", "worse.jsonl", "--against", "answers.jsonl", "--dataset", tiny_folder, "--split", "all")
    assert failed.code == 0
    assert "worse.jsonl against answers.jsonl" in failed.out
    assert "with so few groups no loss could be shown" in " ".join(failed.out.split())
    alone = ragsmith("gate", "worse.jsonl", "--dataset", tiny_folder)
    assert alone.code == 2
    assert (
        "worse.jsonl has no earlier scores: --against names those to compare with, such as EARLIER.jsonl" in alone.err
    )


def test_a_question_and_the_causes_of_all_are_explained_by_contexts(
    home: Path, ragsmith: Command, tiny_folder: Path
) -> None:
    ended = ragsmith("explain", "answers.jsonl", "ferry-3", "--dataset", tiny_folder)
    assert ended.code == 0
    assert "retrieval        contexts: 2 passages" in ended.out
    assert "answered well" in ended.out
    causes = ragsmith("explain", "answers.jsonl", "--dataset", tiny_folder, "--split", "all", "--json")
    found = {one["cause"]: one for one in json.loads(causes.out)["causes"]}
    assert sum(len(one["questions"]) for one in found.values()) == 24
    assert set(found["refused"]["questions"] if "refused" in found else found["read and not used"]["questions"]) >= {
        "ferry-2",
        "school-2",
    }
    shown = ragsmith("explain", "answers.jsonl", "--dataset", tiny_folder, "--split", "all").out.splitlines()
    worst = max((one["questions"] for one in found.values() if one["remedy"]), key=len)[0]  # of the most frequent cause
    assert shown[-1] == f"follow one  ragsmith explain answers.jsonl {worst} --dataset {tiny_folder}"


def test_the_answers_of_a_server_are_kept_and_it_is_asked_for_the_others_only(
    home: Path, ragsmith: Command, tiny_folder: Path, server: FaultServer
) -> None:
    address = f"{server.root}/ask"
    server.script, server.always = [None] * 9, Fault("reset")
    down = ragsmith("evaluate", address, "--dataset", tiny_folder)
    assert down.code == 1
    assert "does not answer" in down.err
    assert "it answered 9 of 24 questions, kept in cache.sqlite.answers/" in down.err
    server.let_go()
    before = len(server.log)
    ended = ragsmith("evaluate", address, "--dataset", tiny_folder)
    assert (ended.code, len(server.log) - before) == (0, 15)
    assert f"the answers of {address} are those of cache.sqlite.answers/" in ended.err
    assert f"the last of {date.today().isoformat()}" in ended.err
    assert "delete it to ask again" in ended.err


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("missing.jsonl", "there is no file 'missing.jsonl': name the file with the answers of the system"),
        ("mine.py:reply", "'reply' of mine.py is no function that returns an answer: name one that maps"),
        ("mine.py:later", "'later' of mine.py is no function that returns an answer"),
        ("mine.py", "mine.py is a program: name a function in it that answers a question, mine.py:FUNCTION"),
        ("empty.jsonl", "empty.jsonl has no rows: write a line of JSON for each question"),
        ("none.py:answer", "there is no file 'none.py': give FILE.py:function"),
    ],
)
def test_what_is_no_system_is_one_sentence(
    system: str, said: str, home: Path, ragsmith: Command, tiny_folder: Path
) -> None:
    (home / "mine.py").write_text(FUNCTION)
    (home / "empty.jsonl").write_text("\n")
    ended = ragsmith("evaluate", system, "--dataset", tiny_folder)
    assert (ended.code, ended.out) == (2, "")
    assert said in " ".join(ended.err.split())


def test_a_system_needs_the_data_set_of_its_questions(home: Path, ragsmith: Command) -> None:
    ended = ragsmith("evaluate", "answers.jsonl")
    assert ended.code == 2
    assert "--dataset is missing: name the data set whose questions answers.jsonl answers" in " ".join(
        ended.err.split()
    )
    ended = ragsmith("compare", "answers.jsonl", "answers.jsonl", "bm25", "--dataset", "law")
    assert (ended.code, "is given twice" in ended.err) == (2, True)


def test_of_several_that_are_better_the_one_furthest_ahead_is_taken(home: Path, ragsmith: Command) -> None:
    examples = load_dataset("finance").examples
    empty = [{"id": example.id, "answer": "Nobody knows.", "contexts": []} for example in examples]
    (home / "empty.jsonl").write_text("".join(json.dumps(one) + "\n" for one in empty))
    ended = ragsmith("compare", "empty.jsonl", "bm25", "recommended", "--dataset", "finance", "--json")
    found = json.loads(ended.out)
    behind = {one["name"]: one["difference"]["mean_difference"] for one in found["comparisons"]}
    assert behind["recommended"] < behind["bm25"] < 0
    assert found["decision"]["take"] == "recommended"


def test_what_a_function_prints_is_no_result(home: Path, ragsmith: Command, tiny_folder: Path) -> None:
    (home / "mine.py").write_text(FUNCTION)
    ended = ragsmith("evaluate", "mine.py:answer", "--dataset", tiny_folder, "--json")
    assert json.loads(ended.out)["all"]["scored"] == 24
    assert "asked What" in ended.err


def test_a_module_that_changed_is_asked_anew(home: Path, tiny_folder: Path, spawn: Command) -> None:
    (home / "mine.py").write_text("from parts import said\n\n\ndef answer(question):\n    return said\n")
    kept = []
    for said in ("One.", "Two."):
        (home / "parts.py").write_text(f"said = {said!r}\n")
        assert spawn("evaluate", "mine.py:answer", "--dataset", tiny_folder).wait() == 0
        kept.append(len(list((home / "cache.sqlite.answers").iterdir())))
    assert kept == [1, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "answers.jsonl"),
        ("ask", "answers.jsonl", "Why?"),
        ("ablate", "answers.jsonl"),
        ("test", "answers.jsonl"),
        ("explain", "answers.jsonl", "--interventions"),
    ],
)
def test_commands_that_run_a_pipeline_refuse_a_system_by_name(
    arguments: tuple[str, ...], home: Path, ragsmith: Command
) -> None:
    ended = ragsmith(*arguments)
    assert ended.code == 2
    assert "answers.jsonl is another system, and this runs a pipeline: name the file of one" in " ".join(
        ended.err.split()
    )


def test_a_question_of_nobody_is_the_users_mistake(home: Path, ragsmith: Command, tiny_folder: Path) -> None:
    ended = ragsmith("explain", "answers.jsonl", "How many cats are there?", "--dataset", tiny_folder)
    assert ended.code == 2
    assert "answers.jsonl has no answer to 'How many cats are there?'" in " ".join(ended.err.split())


def test_a_system_that_failed_on_most_questions_is_not_taken_and_is_no_base(
    home: Path, ragsmith: Command, tiny_folder: Path
) -> None:
    lines = (home / "answers.jsonl").read_text().splitlines(keepends=True)
    (home / "part.jsonl").write_text("".join(lines[:6]))
    ended = ragsmith("compare", "part.jsonl", "bm25", "naive", "--dataset", tiny_folder, "--split", "all", "--json")
    assert json.loads(ended.out)["decision"]["take"] in ("bm25", "naive")
    gated = ragsmith("gate", "answers.jsonl", "--against", "part.jsonl", "--dataset", tiny_folder, "--split", "all")
    assert gated.code == 3
    assert "part.jsonl has scores of 6 of 24 questions: name a base that answered nearly all" in gated.err


def test_the_seconds_of_rows_are_their_latency(home: Path, ragsmith: Command, tiny_folder: Path) -> None:
    ended = ragsmith("evaluate", "answers.jsonl", "--dataset", tiny_folder, "--latency", "--json")
    assert ended.code == 0, ended.err
    timed = {(one["questions"], one["stage"]): one for one in json.loads(ended.out)["latency"]}
    assert {(one["n"], one["p50_ms"], one["p99_ms"]) for one in timed.values()} == {(24, 2000.0, 2000.0)}
    assert ("evidence in prose", "in all") in timed
