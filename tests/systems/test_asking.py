"""Asking another system: by HTTP in two forms, as a function, and what is kept when it fails on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_kinds import Fault
from fault_server import FaultServer

from ragsmith.errors import ModelUnavailable, UsageError
from ragsmith.systems.answers import Context, GivenAnswer, match_rows, read_rows
from ragsmith.systems.asking import MAX_FAILURES, TOKEN_VARIABLE, Endpoint, as_row, collect_answers, file_name
from ragsmith.types import Dataset


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture
def endpoint(server: FaultServer) -> Iterator[Callable[[str], Endpoint]]:
    """An endpoint of the server at a path; all are closed at the end."""
    with ExitStack() as stack:
        yield lambda path: stack.enter_context(closing(Endpoint(server.root + path)))


@pytest.fixture
def data(tiny_setup: Any) -> Dataset:
    dataset: Dataset = tiny_setup.dataset
    return dataset


def told(question: str) -> GivenAnswer:
    return GivenAnswer(f"About {question}", (Context(f"context of {question}"), Context(doc="ferry", start=1, end=9)))


def as_json(question: str) -> dict[str, Any]:
    return {name: value for name, value in told(question).to_row(question).items() if name != "question"}


def chat(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    if path.endswith("/models"):
        return {"data": [{"id": "their-rag"}]}
    assert body["model"] == "their-rag"
    question = body["messages"][0]["content"]
    row = as_json(question)
    return {"choices": [{"message": {"role": "assistant", "content": row["answer"]}}], "contexts": row["contexts"]}


def without_seconds(found: Mapping[str, GivenAnswer]) -> dict[str, GivenAnswer]:
    assert all(one.seconds is not None and one.seconds >= 0 for one in found.values())
    return {id_: replace(one, seconds=None) for id_, one in found.items()}


def test_rows_functions_and_both_forms_of_endpoints_give_the_same(
    data: Dataset, server: FaultServer, endpoint: Callable[[str], Endpoint], tmp_path: Path
) -> None:
    expected = {example.id: told(example.question) for example in data.examples}
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(told(e.question).to_row(e.question)) + "\n" for e in data.examples))
    assert match_rows(read_rows(path), data) == expected

    server.answer = lambda path, body: as_json(body["question"])
    plain = collect_answers(endpoint("/ask"), data, name="theirs", workers=4)
    server.answer = chat
    chatted = collect_answers(endpoint("/v1"), data, name="theirs", workers=4)
    rows = collect_answers(as_json, data, name="theirs")
    pairs = collect_answers(lambda question: (told(question).answer, as_json(question)["contexts"]), data, name="pair")
    for found in (plain, chatted, rows, pairs):
        assert without_seconds(found) == expected


def test_the_token_is_sent_and_no_other_header_changes(
    data: Dataset, server: FaultServer, endpoint: Callable[[str], Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "sesame")
    server.answer = lambda path, body: as_json(body["question"])
    endpoint("/ask")(data.examples[0].question)
    assert server.log[0].headers["authorization"] == "Bearer sesame"


def test_a_failed_question_is_named_is_not_kept_and_is_asked_again(
    data: Dataset, server: FaultServer, endpoint: Callable[[str], Endpoint], tmp_path: Path
) -> None:
    bad = data.examples[2].question
    broken = [True]

    def answer(path: str, body: Mapping[str, Any]) -> Any:
        return {"detail": "no answer"} if broken[0] and body["question"] == bad else as_json(body["question"])

    server.answer = answer
    keep = tmp_path / "kept" / "theirs.jsonl"
    found = collect_answers(endpoint("/ask"), data, name="theirs", keep=keep)
    assert [id_ for id_, one in found.items() if one.error] == [data.examples[2].id]
    assert "'answer' is missing" in found[data.examples[2].id].error
    before, broken[0] = len(server.log), False
    again = collect_answers(endpoint("/ask"), data, name="theirs", keep=keep)
    assert len(server.log) == before + 1
    assert not any(one.error for one in again.values())


def test_a_server_that_dies_half_way_loses_nothing(
    data: Dataset, server: FaultServer, endpoint: Callable[[str], Endpoint], tmp_path: Path
) -> None:
    server.answer = lambda path, body: as_json(body["question"])
    server.script = [None] * 10
    server.always = Fault("reset")
    keep = tmp_path / "theirs.jsonl"
    with pytest.raises(ModelUnavailable) as error:
        collect_answers(endpoint("/ask"), data, name="theirs", keep=keep)
    assert "theirs does not answer: " in str(error.value)
    assert f"it answered 10 of 24 questions, kept in {keep}: the same command asks for the others" in str(error.value)
    answered = len(server.log)
    server.let_go()
    found = collect_answers(endpoint("/ask"), data, name="theirs", keep=keep)
    assert without_seconds(found) == {example.id: told(example.question) for example in data.examples}
    assert len(server.log) - answered == 14
    assert len(keep.read_text().splitlines()) == 24


def test_kept_answers_to_other_questions_are_not_used(data: Dataset, tmp_path: Path) -> None:
    keep = tmp_path / "theirs.jsonl"
    keep.write_text(json.dumps(told("another question").to_row("another question")) + "\n")
    asked: list[str] = []

    def ask(question: str) -> dict[str, Any]:
        asked.append(question)
        return as_json(question)

    collect_answers(ask, data, name="theirs", keep=keep)
    assert asked == [example.question for example in data.examples]


def test_an_exception_of_a_function_fails_its_question_alone_unless_all_fail(data: Dataset) -> None:
    def ask(question: str) -> str:
        if question == data.examples[0].question:
            raise KeyError("index\nof\nlines")
        return "An answer."

    found = collect_answers(ask, data, name="mine")
    assert found[data.examples[0].id].error.startswith("KeyError: 'index\\nof\\nlines' (test_asking.py, line ")
    assert sum(bool(one.error) for one in found.values()) == 1

    def fail(question: str) -> str:
        raise RuntimeError("no index")

    with pytest.raises(
        ModelUnavailable, match=r"not answer: RuntimeError: no index \(.*, line \d+\); it answered 0 of 24 questions$"
    ):
        collect_answers(fail, data, name="mine")

    def leave(question: str) -> str:
        raise SystemExit(0)

    with pytest.raises(ModelUnavailable, match="mine does not answer: SystemExit: 0"):
        collect_answers(leave, data, name="mine")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ([1, 2], "cannot be read: expected a JSON object, found a list"),
        (b'{"answer": NaN}', "cannot be read: not valid JSON: NaN is not a number"),
        (b"<html>", "cannot be read: not valid JSON"),
    ],
)
def test_replies_that_are_no_rows_are_failures(
    reply: Any, said: str, data: Dataset, server: FaultServer, endpoint: Callable[[str], Endpoint]
) -> None:
    server.answer = lambda path, body: reply
    with pytest.raises(ModelUnavailable) as error:
        collect_answers(endpoint("/ask"), data, name="theirs")
    assert said in str(error.value)


def test_a_server_without_a_model_is_the_users_mistake(
    data: Dataset, server: FaultServer, endpoint: Callable[[str], Endpoint]
) -> None:
    server.answer = lambda path, body: {"data": []}
    with pytest.raises(ModelUnavailable, match="/v1/models names no model: give the address of a server"):
        collect_answers(endpoint("/v1"), data, name="theirs")
    assert len(server.log) <= 2 * MAX_FAILURES


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (401, {}, "HTTP 401 (a token is read from RAGSMITH_SYSTEM_TOKEN)"),
        (500, {}, "HTTP 500: "),
    ],
)
def test_a_server_that_refuses_everything_is_given_up_after_a_few_questions(
    status: int,
    headers: dict[str, str],
    said: str,
    data: Dataset,
    server: FaultServer,
    endpoint: Callable[[str], Endpoint],
) -> None:
    server.always = Fault("status", status=status)
    with pytest.raises(ModelUnavailable) as error:
        collect_answers(endpoint("/ask"), data, name="theirs")
    assert said in str(error.value)
    assert len(server.log) == MAX_FAILURES


@pytest.mark.parametrize("url", ["http://[::1", "http://", "http:/ask"])
def test_what_is_no_address_is_the_users_mistake(url: str) -> None:
    with pytest.raises(UsageError, match="correct it"):
        Endpoint(url)


def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "s3cret\n")
    with pytest.raises(UsageError) as error:
        Endpoint("http://127.0.0.1:1/ask")
    assert "s3cret" not in str(error.value)


def test_a_half_written_line_and_answers_kept_twice_do_no_harm(data: Dataset, tmp_path: Path) -> None:
    keep = tmp_path / "theirs.jsonl"
    first, second, *_ = data.examples
    line = json.dumps(told(first.question).to_row(first.question)) + "\n"
    other = json.dumps({**told(first.question).to_row(first.question), "answer": "later"}) + "\n"
    keep.write_text(line + other + json.dumps(told(second.question).to_row(second.question))[:-9])
    found = collect_answers(as_json, data, name="theirs", keep=keep)
    assert found[first.id] == told(first.question)
    assert without_seconds({second.id: found[second.id]}) == {second.id: told(second.question)}
    assert all(json.loads(kept) for kept in keep.read_text().splitlines())


def test_two_commands_at_once_keep_a_file_that_later_ones_read(data: Dataset, tmp_path: Path) -> None:
    keep = tmp_path / "theirs.jsonl"
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(collect_answers, as_json, data, name="t", keep=keep, workers=4) for _ in range(2)]:
            done.result()

    def ask(question: str) -> str:
        raise AssertionError("it was asked already")

    assert len(collect_answers(ask, data, name="theirs", keep=keep)) == 24


def test_files_of_different_systems_differ_and_show_no_secret(data: Dataset) -> None:
    sources = ["http://u:pw@h/ask?key=k3y", "http://h/ask?k=5", "http://h/ask?k=-5", "https://h/ask", "a/m.py:f"]
    names = [file_name(source, data, "") for source in [*sources, "http://h/" + "x" * 500]]
    assert len(set(names)) == len(names)
    assert all(len(name) < 140 for name in names)
    assert not any("pw" in name or "k3y" in name for name in names)
    assert file_name(sources[1], replace(data, digest="other"), "") != names[1]


def test_any_iterable_of_contexts_will_do() -> None:
    assert as_row(("a", iter(["b", "c"]))) == {"answer": "a", "contexts": ["b", "c"]}
    assert as_row(("a", "text")) == {"answer": "a", "contexts": "text"}
    assert as_row("a") == {"answer": "a", "contexts": []}
