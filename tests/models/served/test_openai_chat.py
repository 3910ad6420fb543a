"""The chat client of OpenAI-compatible servers, against a server on the loopback interface that fails on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from fault_kinds import completion
from fault_server import Fault, FaultServer
from thinking_server import ThinkingServer

from ragsmith.errors import ModelError, Notice, TooLong
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


# --- what does not ---------------------------------------------------------------------------------------------------


def test_a_reply_that_a_filter_withholds_is_not_asked_for_again(chat: OpenAIChat, server: FaultServer) -> None:
    server.always = Fault("filter")
    with pytest.raises(ModelError, match="finish_reason 'content_filter'"):
        ask(chat)
    assert len(server.log) == 1
