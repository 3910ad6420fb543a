"""Chat requests in batches, on a server with the batch API of OpenAI."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from batch_server import BatchServer
from fault_kinds import completion
from fault_replies import chat_reply

from ragsmith.errors import BudgetExhausted, ModelError, ModelUnavailable, Notice, RefusedContent, Unreadable
from ragsmith.models.calls import BatchedRequest, Completion
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_chat import OpenAIChat
from ragsmith.models.served.policy import Policy

PROMPTS = [f"What does the ferry number {i} cost?" for i in range(12)]
QUICK = Policy(attempts=3, pause=0.0, deadline=5.0, failures_in_a_row=1000)


class Memory(dict[str, BatchedRequest]):
    """What went off, kept in a mapping."""

    def find(self, keys: Collection[str]) -> dict[str, BatchedRequest]:
        return {key: self[key] for key in keys if key in self}

    def keep(self, requests: Collection[BatchedRequest]) -> None:
        self.update({request.key: request for request in requests})

    def forget(self, keys: Collection[str]) -> None:
        for key in keys:
            self.pop(key, None)


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer() as server:
        yield server


@pytest.fixture
def client(server: BatchServer) -> Iterator[Callable[..., OpenAIChat]]:
    made: list[OpenAIChat] = []

    def make(memory: Memory | None = None) -> OpenAIChat:
        made.append(OpenAIChat("tiny", endpoint=JsonEndpoint(server.url, policy=QUICK), batch=True))
        assert made[-1].batches is not None
        made[-1].batches.memory = memory
        return made[-1]

    yield make
    for chat in made:
        chat.provider.close()


def asked(chat: OpenAIChat, prompts: list[str], max_tokens: int = 100) -> list[Future[Completion]]:
    """The replies to come to prompts that are asked at once."""
    with_threads = ThreadPoolExecutor(len(prompts))
    futures = [with_threads.submit(chat.complete, prompt, max_tokens=max_tokens, sample=0) for prompt in prompts]
    with_threads.shutdown(wait=False)
    return futures


def texts(futures: list[Future[Completion]]) -> list[str]:
    return [future.result(timeout=60).text for future in futures]


def ended(chat: OpenAIChat, replies: list[Future[Completion]]) -> set[type]:
    """What becomes of replies that are waited for when the model is closed."""
    chat.provider.close()
    return {type(reply.exception(timeout=10)) for reply in replies}


def wait_for(so: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not so():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_requests_that_wait_together_are_one_batch(client: Callable[..., OpenAIChat], server: BatchServer) -> None:
    chat = client()
    attempts: list[int] = []
    chat.provider.on_attempt = lambda: attempts.append(1)
    assert texts(asked(chat, PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [len(PROMPTS)]
    assert server.direct == 0
    assert len(attempts) == len(PROMPTS)


def test_a_model_in_batches_has_the_id_and_the_replies_of_one_that_is_not(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    direct, batched = OpenAIChat("tiny", endpoint=JsonEndpoint(server.url)), client()
    assert direct.id == batched.id
    [reply] = asked(batched, PROMPTS[:1])
    alone = direct.complete(PROMPTS[0], max_tokens=100, sample=0)
    direct.provider.close()
    found = reply.result(timeout=60)
    assert (found.text, found.cut_at, found.thought_tokens) == (alone.text, alone.cut_at, alone.thought_tokens)
    assert found.usage.input_tokens == alone.usage.input_tokens
    assert len(server.served) == 1  # the bodies were the same


def test_what_is_wrong_with_one_request_is_wrong_with_it_alone(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    def rule(prompt: str, n: int) -> tuple[int, object] | None:
        if prompt == PROMPTS[3]:
            return 400, {"error": {"message": "this is not talked about"}}
        if prompt == PROMPTS[4]:
            return 200, {"model": "tiny", **completion(" ")}
        return (500, {"error": {"message": "busy"}}) if prompt == PROMPTS[5] and n == 0 else None

    server.rule = rule
    replies = asked(client(), PROMPTS)
    with pytest.raises(RefusedContent, match=r"HTTP 400 \(this is not talked about\)"):
        replies.pop(3).result(timeout=60)
    with pytest.raises(Unreadable, match="the reply has no text"):
        replies.pop(3).result(timeout=60)
    assert texts(replies) == [chat_reply(prompt) for prompt in [*PROMPTS[:3], *PROMPTS[5:]]]
    assert sorted(server.served.values()) == [*[1] * 10, 2, 3]


def test_a_refused_parameter_is_learnt_and_left_out_of_the_next_batch(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    take, said = server._chat, {"error": {"message": "Unsupported parameter: 'temperature' is not supported"}}
    server._chat = lambda body: (400, said) if "temperature" in body else take(body)  # type: ignore[method-assign]
    chat = client()
    with pytest.warns(Notice, match="refuses temperature 0"):
        assert texts(asked(chat, PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert chat.learner.traits.refuses == {"temperature"}
    assert server.sizes == [len(PROMPTS)] * 2


@pytest.mark.parametrize("state", ["expired", "failed", "cancelled"])
def test_what_a_batch_leaves_unanswered_is_asked_again_and_nothing_else(
    client: Callable[..., OpenAIChat], server: BatchServer, state: str
) -> None:
    server.ends, server.answered = [state], 5
    memory = Memory()
    assert texts(asked(client(memory), PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12, 7]
    assert set(server.served.values()) == {1}
    assert memory == {}


def test_requests_that_batch_after_batch_leaves_out_fail(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    server.ends = ["expired"] * 3
    [reply] = asked(client(), PROMPTS[:1])
    with pytest.raises(
        ModelError, match=r"the batch batch_\d+, expired, has no reply to the request \(tried 3 times\)"
    ):
        reply.result(timeout=60)


def test_a_batch_goes_on_when_its_command_ends_and_the_next_one_fetches_it(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    server.held_from = 0
    memory, first = Memory(), client()
    assert first.batches is not None
    first.batches.memory = memory
    replies = asked(first, PROMPTS)
    wait_for(lambda: server.is_looked_after(0))
    with pytest.warns(Notice, match="with 12 requests that are waited for: the same command fetches its replies"):
        assert ended(first, replies) == {ModelUnavailable}
    server.held_from = 9
    second = client(memory)
    second.provider.on_attempt = lambda: pytest.fail("nothing is to be sent")
    assert texts(asked(second, PROMPTS, max_tokens=200)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12]
    assert set(server.served.values()) == {1}
    assert memory == {}


def test_a_batch_that_the_server_began_without_a_word_is_found_and_not_begun_twice(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    server.breaks = 1
    assert texts(asked(client(), PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12]


def test_a_batch_that_the_server_does_not_know_any_more_is_sent_again(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    memory, lost = Memory(), Memory()
    lost.forget = lambda keys: None  # type: ignore[method-assign]
    texts(asked(client(lost), PROMPTS))
    memory.keep(list(lost.values()))
    server.batches.clear()
    assert texts(asked(client(memory), PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12]


def test_what_the_budget_does_not_allow_is_in_no_batch(client: Callable[..., OpenAIChat], server: BatchServer) -> None:
    chat, left = client(), [1] * 5

    def reserve() -> None:
        if not left:
            raise BudgetExhausted("spent")
        left.pop()

    chat.provider.on_attempt = reserve
    ends = [type(reply.exception(timeout=60)) for reply in asked(chat, PROMPTS)]
    assert (ends.count(type(None)), ends.count(BudgetExhausted)) == (5, 7)
    assert server.sizes == [5]


def test_a_server_without_batches_is_named(client: Callable[..., OpenAIChat], server: BatchServer) -> None:
    chat = client()
    server.reply = lambda *_: (404, {"error": {"message": "no such path"}})  # type: ignore[method-assign]
    [reply] = asked(chat, PROMPTS[:1])
    with pytest.raises(ModelUnavailable, match="the server takes no batches: leave the option batch"):
        reply.result(timeout=60)
