"""Asking another system: by HTTP in two forms, as a function, and what is kept when it fails on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_kinds import Fault
from fault_server import FaultServer

from ragsmith.errors import ModelUnavailable, UsageError
from ragsmith.systems.answers import Context, GivenAnswer, match_rows, read_rows
from ragsmith.systems.asking import TOKEN_VARIABLE, Endpoint, collect_answers
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
    assert "'answer' must be a text, not null" in found[data.examples[2].id].error
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
    assert "theirs is down: " in str(error.value)
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
            raise KeyError("index")
        return "An answer."

    found = collect_answers(ask, data, name="mine")
    assert found[data.examples[0].id].error == "KeyError: 'index'"
    assert sum(bool(one.error) for one in found.values()) == 1

    def fail(question: str) -> str:
        raise RuntimeError("no index")

    with pytest.raises(ModelUnavailable, match=r"mine failed on every question: RuntimeError: no index; it answered 0"):
        collect_answers(fail, data, name="mine")


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
    with pytest.raises(UsageError, match="names no model"):
        endpoint("/v1")(data.examples[0].question)
