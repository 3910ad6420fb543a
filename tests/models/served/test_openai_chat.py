"""The chat client of OpenAI-compatible servers: what is sent, and what is believed of a reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from fault_kinds import completion
from fault_server import Fault, FaultServer
from rows import rows
from thinking_server import ThinkingServer

from ragsmith.errors import ModelError, Notice, TooLong
from ragsmith.models.capabilities import ModelCapabilities
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_chat import (
    MAX_CHARACTERS_PER_TOKEN,
    CompletionRequest,
    OpenAIChat,
    is_same_model,
    read_reply,
)
from ragsmith.models.served.policy import AccessRefused, AttemptFailed, Policy, TransientFailure
from ragsmith.models.usage import Usage

ASKED = CompletionRequest("tiny", "What is due?", 100)


def reply(message: dict[str, Any] | str, finish: str = "stop", **more: Any) -> dict[str, Any]:
    said = {"content": message} if isinstance(message, str) else message
    return {**completion("", finish_reason=finish, message=said), **more}


def usage(**counts: Any) -> dict[str, Any]:
    return reply("Four.", usage={f"{name}_tokens": count for name, count in counts.items()})


@pytest.mark.parametrize(
    ("bad", "counts", "stated"),
    [
        (reply(""), {"prompt_tokens": 4, "completion_tokens": 2}, (4, 2)),
        (reply("Four.", "no reason"), {"prompt_tokens": 4, "completion_tokens": 2}, (4, 2)),
        (reply("", "content_filter"), {"prompt_tokens": 4}, (4, 0)),
        ({}, {"prompt_tokens": 4, "completion_tokens": 2}, (4, 2)),
        (reply(""), {"prompt_tokens": 4, "completion_tokens": 10**9}, (0, 0)),
        (reply(""), None, (0, 0)),
    ],
)
def test_a_reply_of_no_use_has_cost_what_the_server_states(bad: Any, counts: Any, stated: tuple[int, int]) -> None:
    with pytest.raises(AttemptFailed) as raised:
        read_reply(ASKED, {**bad, "usage": counts}, 0.5)
    assert raised.value.usage is not None
    assert (raised.value.usage.input_tokens, raised.value.usage.output_tokens) == stated


@pytest.mark.parametrize(("bad", "said"), rows("replies that are no answer"))
def test_a_reply_that_is_no_answer_is_asked_for_again(bad: Any, said: str) -> None:
    with pytest.raises(TransientFailure, match=said):
        read_reply(ASKED, bad, 0.5)


# --- thoughts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", rows("messages with thoughts"))
def test_thoughts_are_no_part_of_a_reply(message: Any) -> None:
    found = read_reply(ASKED, reply(message), 0.5).completion
    assert (found.text.strip(), found.cut_at) == ("Four.", 0)


@pytest.mark.parametrize(("message", "text"), rows("messages that were cut"))
def test_a_reply_that_reached_its_limit_says_so_and_is_no_trouble_of_the_server(message: Any, text: str) -> None:
    found = read_reply(ASKED, reply(message, "length"), 0.5).completion
    assert (found.text, found.cut_at) == (text, 100)


THINKING = replace(ASKED, thinks=True)


def test_what_a_model_that_thinks_wrote_before_it_was_cut_may_be_thoughts_that_its_template_opened() -> None:
    cut = read_reply(THINKING, reply("Is it three? Or", "length"), 0.5).completion
    assert (cut.text, cut.cut_at) == ("", 100)
    assert read_reply(ASKED, reply("Four is wh", "length"), 0.5).completion.text == "Four is wh"


@pytest.mark.parametrize(
    "shown",
    [
        reply({"content": "Four is wh", "reasoning_content": "Three?"}, "length"),
        reply("Four is wh", "length", usage={"completion_tokens_details": {"reasoning_tokens": 9}}),
        reply("Three?</think>Four is wh", "length"),
        reply("Four is wh"),
    ],
)
def test_a_server_that_tells_thoughts_apart_is_believed(shown: dict[str, Any]) -> None:
    assert read_reply(THINKING, shown, 0.5).completion.text == "Four is wh"


@pytest.mark.parametrize(
    ("text", "so"), [("Three?</think>Four.", True), ("<think>Three?</think>Four.", False), ("Four.", False)]
)
def test_a_reply_that_ends_thoughts_which_it_did_not_begin_says_so(text: str, so: bool) -> None:
    assert read_reply(ASKED, reply(text), 0.5).begins_in_thought is so


def test_a_thought_that_does_not_end_is_a_cut_whatever_the_server_says() -> None:
    assert read_reply(ASKED, reply("<think>\nIs it"), 0.5).completion.cut_at == 100


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("counts", "read", "written"), rows("counts of tokens"))
def test_a_count_that_can_be_true_is_believed(counts: dict[str, Any], read: int, written: int) -> None:
    found = read_reply(ASKED, usage(**counts), 0.5)
    assert (found.completion.usage.input_tokens, found.completion.usage.output_tokens) == (read, written)
    assert found.anomalies == {}


@pytest.mark.parametrize("stated", [None, {}, {"prompt_tokens": None}, "many", [1]])
def test_a_usage_that_makes_no_sense_does_not_lose_a_reply(stated: Any) -> None:
    found = read_reply(ASKED, reply("Four.", usage=stated), 0.5).completion
    assert (found.text, found.usage.input_tokens, found.usage.output_tokens) == ("Four.", 0, 0)


@pytest.mark.parametrize("count", [2_000, 6 * 10**9, 9 * 10**18, 10**100])
@pytest.mark.parametrize("name", ["prompt", "completion", "total"])
def test_a_count_beyond_what_the_request_could_use_is_replaced_and_named(name: str, count: int) -> None:
    found = read_reply(ASKED, usage(**{"prompt": 12, "completion": 3, name: count}), 0.5)
    assert found.completion.usage.input_tokens <= 12
    assert found.completion.usage.output_tokens <= 3
    [said] = found.anomalies.values()
    assert f"{count:,}" in said or f"{count - 12:,}" in said
    assert "an estimate is used" in said


@pytest.mark.parametrize("counts", [{"prompt": 12, "completion": 0}, {"completion": 0}])
def test_a_reply_of_no_tokens_is_counted_here_and_that_is_named(counts: dict[str, int]) -> None:
    found = read_reply(ASKED, usage(**counts), 0.5)
    assert found.completion.usage.output_tokens == 2  # "Four."
    [said] = found.anomalies.values()
    assert said.startswith("reports no output tokens for a reply of 5 characters: an estimate is used instead")


# --- length ----------------------------------------------------------------------------------------------------------


def test_a_reply_longer_than_its_tokens_could_hold_is_refused() -> None:
    longest = 100 * MAX_CHARACTERS_PER_TOKEN
    assert len(read_reply(ASKED, reply("x" * longest), 0.5).completion.text) == longest
    with pytest.raises(TransientFailure, match=r"12,801 characters, more than 100 tokens can encode"):
        read_reply(ASKED, reply("x" * (longest + 1)), 0.5)


# --- who wrote it ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "replied", "same"),
    [(*row, True) for row in rows("names of one model")] + [(*row, False) for row in rows("names of two models")],
)
def test_a_dated_or_longer_name_is_the_same_model_and_another_one_is_not(asked: str, replied: str, same: bool) -> None:
    assert is_same_model(asked, replied) is same


@pytest.mark.parametrize("named", [None, 3, "", "tiny", ...])
def test_a_server_that_names_no_model_is_believed(named: Any) -> None:
    assert read_reply(ASKED, reply("Four.", **({} if named is ... else {"model": named})), 0.5).anomalies == {}


def test_a_reply_by_another_model_is_refused_unless_it_is_accepted() -> None:
    by_other = reply("Four.", model="large-2025-04-14")
    with pytest.raises(AccessRefused, match=r"by another model, 'large-2025-04-14': .* accept_model"):
        read_reply(ASKED, by_other, 0.5)
    for accepts in ("large", "any"):
        found = read_reply(CompletionRequest("tiny", "What is due?", 100, accepts), by_other, 0.5)
        assert found.completion.text == "Four."
        assert "large-2025-04-14" in found.anomalies["model"]
    with pytest.raises(AccessRefused):
        read_reply(CompletionRequest("tiny", "What is due?", 100, "small"), by_other, 0.5)


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
    with pytest.warns(Notice, match=r"openai:tiny reports 9,000,.* for a prompt of 12 characters: an estimate"):
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
        first.learner.on_change = kept.append
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
