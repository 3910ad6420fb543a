"""The chat client of OpenAI-compatible servers, against a server on the loopback interface that fails on request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_kinds import completion
from fault_server import Fault, FaultServer
from thinking_server import ThinkingServer

from ragsmith.errors import ModelError, ModelUnavailable, Notice, TooLong
from ragsmith.models.capabilities import ModelCapabilities
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_chat import OpenAIChat
from ragsmith.models.served.policy import Policy
from ragsmith.models.usage import Usage

KEY = "sk-very-secret-0123456789"
QUICK = Policy(attempts=3, pause=0.0, deadline=5.0, failures_in_a_row=1000)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with FaultServer() as server:
        server.answer = lambda path, body: completion("Four crowns.")
        yield server


@pytest.fixture
def client(server: FaultServer) -> Iterator[Callable[..., OpenAIChat]]:
    made: list[OpenAIChat] = []

    def make(**policy: Any) -> OpenAIChat:
        made.append(OpenAIChat("tiny", endpoint=JsonEndpoint(server.url, key=KEY, policy=replace(QUICK, **policy))))
        return made[-1]

    yield make
    for chat in made:
        chat.provider.close()


@pytest.fixture
def chat(client: Callable[..., OpenAIChat]) -> OpenAIChat:
    return client()


def ask(chat: OpenAIChat, prompt: str = "What is due?") -> Any:
    return chat.complete(prompt, max_tokens=7, sample=2)


# --- good replies ----------------------------------------------------------------------------------------------------


def test_a_reply_and_what_it_cost(chat: OpenAIChat, server: FaultServer) -> None:
    server.latency = 0.05
    reply = ask(chat)
    assert reply.text == "Four crowns."
    assert reply.usage == Usage(1, 0, 0, 12, 3, reply.usage.seconds)
    assert 0.05 <= reply.usage.seconds < 10
    [request] = server.log
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "What is due?"}],
        "temperature": 0,
        "max_tokens": 7,
        "seed": 2,
    }


def test_a_model_is_identified_without_address_and_key(chat: OpenAIChat, server: FaultServer) -> None:
    assert chat.id == OpenAIChat("tiny", endpoint=JsonEndpoint("http://elsewhere")).id
    assert "tiny" in chat.id
    assert KEY not in chat.id
    assert server.url not in chat.id


def test_a_server_that_does_not_count_tokens_is_believed(chat: OpenAIChat, server: FaultServer) -> None:
    server.answer = lambda path, body: {key: value for key, value in completion("Four.").items() if key != "usage"}
    assert (ask(chat).usage.input_tokens, len(server.log)) == (0, 1)


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": None}, "many", [1], {"prompt_tokens": True}])
def test_a_count_of_tokens_that_makes_no_sense_does_not_lose_a_reply(
    chat: OpenAIChat, server: FaultServer, usage: Any
) -> None:
    server.answer = lambda path, body: {**completion("Four."), "usage": usage}
    reply = ask(chat)
    assert (reply.text, reply.usage.input_tokens, reply.usage.output_tokens) == ("Four.", 0, 0)


def test_a_reply_cut_at_the_limit_of_tokens_says_so(chat: OpenAIChat, server: FaultServer) -> None:
    server.answer = lambda path, body: completion("Four", finish_reason="length")
    assert (ask(chat).text, ask(chat).cut_at) == ("Four", 7)


def test_what_is_cut_is_thoughts_once_a_reply_has_ended_thoughts_that_it_had_not_begun(
    chat: OpenAIChat, server: FaultServer
) -> None:
    server.answer = lambda path, body: completion("Is it three? Or", finish_reason="length")
    assert ask(chat).text == "Is it three? Or"  # nothing is known yet
    server.answer = lambda path, body: completion("Is it three?</think>Four.")
    assert ask(chat).text == "Four."
    assert chat.learner.capabilities == ModelCapabilities(begins_in_thought=True)
    server.answer = lambda path, body: completion("Is it three? Or", finish_reason="length")
    assert (ask(chat).text, ask(chat).cut_at) == ("", 7)


def test_odd_numbers_are_named_once(chat: OpenAIChat, server: FaultServer) -> None:
    server.answer = lambda path, body: {**completion("Four."), "usage": {"prompt_tokens": 9 * 10**18}}
    with pytest.warns(Notice, match=r"openai:tiny says that a prompt of 12 characters had 9,000,.* estimated"):
        assert ask(chat).usage.input_tokens == 5
    assert ask(chat).usage.input_tokens == 5  # a second warning would be an error


def test_a_server_with_another_model_stops_the_run(chat: OpenAIChat, server: FaultServer) -> None:
    server.answer = lambda path, body: {**completion("Four."), "model": "large"}
    with pytest.raises(ModelUnavailable, match="by another model, 'large'"):
        ask(chat)
    assert len(server.log) == 1


# --- what a server refuses -------------------------------------------------------------------------------------------


REFUSED = ("temperature", "seed", "max_tokens")


def test_each_parameter_is_refused_once_however_many_ask(
    recwarn: pytest.WarningsRecorder,
) -> None:
    with ThinkingServer("usage", refuses=REFUSED, latency=0.05) as server:
        first = OpenAIChat("tiny", endpoint=JsonEndpoint(server.url, policy=QUICK))
        kept: list[ModelCapabilities] = []
        first.learner.keep = kept.append
        with ThreadPoolExecutor(64) as pool:
            replies = list(pool.map(lambda n: first.complete(f"Question {n}", max_tokens=4096, sample=0), range(128)))
        assert all(reply.text and not reply.cut_at for reply in replies)
        assert len(server.refused) == 3
        assert server.requests == 3 + 128
        assert kept == [ModelCapabilities(frozenset(REFUSED))]
        assert [str(said.message) for said in recwarn] == [
            "openai:tiny refuses temperature 0: its replies may differ between requests."
        ]
        second = OpenAIChat("tiny", endpoint=JsonEndpoint(server.url, policy=QUICK))
        second.learner.restore(kept[-1])
        second.complete("Question 0", max_tokens=4096, sample=0)
        assert len(server.refused) == 3
        for chat in (first, second):
            chat.provider.close()


def test_a_refusal_that_was_about_something_else_teaches_nothing(chat: OpenAIChat, server: FaultServer) -> None:
    server.always = Fault(status=400, said="the seed of doubt is not discussed here")
    with pytest.raises(ModelError, match="HTTP 400"):
        ask(chat)
    assert [("seed" in request.body) for request in server.log] == [True, False]
    assert chat.learner.capabilities == ModelCapabilities()


def test_a_limit_that_is_too_large_is_no_refusal_of_its_name(chat: OpenAIChat, server: FaultServer) -> None:
    """Else a server that does not know the newer name would be sent no limit at all from then on."""
    server.script = [Fault(status=400, said="max_tokens must be at most 4")]
    with pytest.raises(TooLong, match="must be at most 4"):
        ask(chat)
    ask(chat)
    assert ["max_tokens" in request.body for request in server.log] == [True, True]
    assert chat.learner.capabilities == ModelCapabilities()


def test_the_newer_name_of_the_limit_is_learnt(chat: OpenAIChat, server: FaultServer) -> None:
    said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    server.script = [Fault(status=400, said=said)]
    assert [ask(chat).text for _ in range(3)] == ["Four crowns."] * 3
    names = [[name for name in request.body if name.startswith("max")] for request in server.log]
    assert names == [["max_tokens"], *[["max_completion_tokens"]] * 3]


def test_a_server_that_knows_neither_name_is_asked_no_third_time(chat: OpenAIChat, server: FaultServer) -> None:
    server.always = Fault(status=400, said="neither max_tokens nor max_completion_tokens")
    with pytest.raises(ModelError, match="HTTP 400"):
        ask(chat)
    assert len(server.log) == 2


# --- what may pass ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["no_choices", "null_content", "empty_content", "no_finish"])
def test_a_fault_is_no_answer(chat: OpenAIChat, server: FaultServer, kind: str) -> None:
    server.script = [Fault(kind, wait=0.05)]
    assert ask(chat).text == "Four crowns."
    assert len(server.log) == 2
    assert server.early() == []


# --- what does not ---------------------------------------------------------------------------------------------------


def test_a_reply_that_a_filter_withholds_is_not_asked_for_again(chat: OpenAIChat, server: FaultServer) -> None:
    server.always = Fault("filter")
    with pytest.raises(ModelError, match="finish_reason 'content_filter'"):
        ask(chat)
    assert len(server.log) == 1


def test_a_server_that_fails_again_and_again_counts_as_down(
    client: Callable[..., OpenAIChat], server: FaultServer
) -> None:
    server.always = Fault(status=503)
    chat = client(failures_in_a_row=5)
    for _ in range(4):
        with pytest.raises(ModelError, match=r"HTTP 503 .*tried 3 times"):
            ask(chat)
    for _ in range(2):
        with pytest.raises(
            ModelUnavailable, match=r"/v1 seems to be down \(HTTP 503 since [\d:]{8}: 5 requests in a row"
        ):
            ask(chat)
    assert len(server.log) == 15 + 1  # a probe, after which the provider is left alone


BAD: list[tuple[str, Any, str]] = [
    ("choices are null", {**completion("x"), "choices": None}, "the reply has no choices"),
    ("choices are missing", {"id": "x"}, "the reply has no choices"),
    ("choices are text", {**completion("x"), "choices": "abc"}, "the reply has no choices"),
    ("a choice is null", {**completion("x"), "choices": [None]}, "the reply has no choices"),
    ("a choice is empty", {**completion("x"), "choices": [{}]}, "the reply has no text"),
    ("message is missing", completion("x", message=...), "the reply has no text"),
    ("message is null", completion("x", message=None), "the reply has no text"),
    ("message is text", completion("x", message="Four."), "the reply has no text"),
    ("content is missing", completion("x", message={"role": "assistant"}), "the reply has no text"),
    ("content is a list", completion("x", message={"content": ["a"]}), "the reply has no text"),
    ("finish reason is missing", completion("x", finish_reason=...), "finish_reason 'None'"),
    ("finish reason is strange", completion("x", finish_reason={"a": 1}), "finish_reason"),
    ("half a character", completion("x\ud800"), "the reply is not valid Unicode"),
    ("an empty body", b"", "the reply is not valid JSON"),
    ("a page", b"<html>not found</html>", "the reply is not valid JSON"),
    ("a list", b"[1, 2]", "the reply has no choices"),
    ("a long number", b"[" + b"1" * 10_000 + b"]", "the reply is not valid JSON"),
]


@pytest.mark.parametrize(("body", "said"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_reply_that_is_no_answer_is_an_error_that_names_the_cause(
    chat: OpenAIChat, server: FaultServer, body: Any, said: str
) -> None:
    server.answer = lambda path, request: body
    with pytest.raises(ModelError) as raised:
        ask(chat)
    assert said in str(raised.value)
    assert "tiny" in str(raised.value)
    assert len(server.log) == 3


# --- secrets ---------------------------------------------------------------------------------------------------------


# --- the end ---------------------------------------------------------------------------------------------------------


# --- a whole search --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.05])
def test_a_search_on_a_server_pays_once(
    server: FaultServer,
    tiny_folder: Path,
    tmp_path: Path,
    ragsmith: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    share: float,
) -> None:
    monkeypatch.chdir(tmp_path)  # verify looks for the default cache in the folder it is run in
    server.answer, server.seed, server.wait = None, 1, 0.01
    server.faults, server.kinds = share, ("reset", "cut", "429", "no_finish")
    space = tmp_path / "space.yaml"
    space.write_text(
        "families:\n  pre_embedding: [none]\n  query_expansion: [none, hyde]\n  retrieval: [bm25]\n"
        "  reranking: [none]\n  passage_filter: [top_k]\n  passage_augment: [none]\n  passage_compress: [none]\n"
        "  prompt_maker: [listing]\n  post_generation: [none]\n"
    )
    command = (
        *("search", "--dataset", tiny_folder, "--space", space, "--strategy", "exhaustive", "--chunk-size", 100),
        *("--llm", "openai:tiny", "--base-url", server.url, "--workers", 8, "--json"),
        *("--cache", tmp_path / "cache.sqlite", "--reports", tmp_path / "reports"),
    )
    first = ragsmith(*command)
    assert first.code == 0
    assert all(json.loads(line)["event"] in {"begin", "step", "progress"} for line in first.err.splitlines())
    answered = [json.dumps(request.body, sort_keys=True) for request in server.log if not request.fault]
    assert len(answered) == len(set(answered)) > 24
    assert bool(share) == (len(server.log) > len(answered))
    server.log.clear()
    second = ragsmith(*command)
    assert second.code == 0
    assert server.log == []
    winner = tmp_path / "reports" / "island" / "winner.yaml"
    for path in (tmp_path / "cache.sqlite", winner, *(tmp_path / "reports").rglob("*.*")):
        assert KEY.encode() not in path.read_bytes()
    assert server.url not in winner.read_text()
    assert ragsmith("verify", winner, "--base-url", server.url).code == 0
