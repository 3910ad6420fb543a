"""Chat requests in batches, on a server with the batch API of OpenAI."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from batch_server import BatchServer
from fault_kinds import completion
from fault_replies import chat_reply

from ragsmith.errors import BudgetExhausted, ModelError, ModelUnavailable, Notice, RefusedContent, Unreadable
from ragsmith.models.calls import BatchedRequest, Completion
from ragsmith.models.served.chat_batches import ChatBatches
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_chat import OpenAIChat
from ragsmith.models.served.policy import Policy
from ragsmith.models.usage import Usage

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
        endpoint = JsonEndpoint(server.url, policy=QUICK)
        made.append(OpenAIChat("tiny", endpoint=endpoint, batch=True))
        made[-1].batches = ChatBatches(endpoint, quiet=0.1, first_look=0.05)
        made[-1].batches.memory = memory
        return made[-1]

    yield make
    for chat in made:
        chat.provider.close()


Reply = tuple[int, object] | None
Usual = Callable[[], Reply]


def meddled(server: BatchServer, reply: Callable[[str, str, Usual], Reply]) -> None:
    """Have ``reply`` stand in the way of what ``server`` usually replies to a method and a path."""
    usual = server.reply
    server.reply = lambda method, path, *rest: reply(  # type: ignore[method-assign]
        method, path.partition("?")[0], lambda: usual(method, path, *rest)
    )


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


def test_what_an_expired_batch_leaves_unanswered_is_asked_again_and_nothing_else(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    server.ends, server.answered = ["expired"], 5
    memory = Memory()
    assert texts(asked(client(memory), PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12, 7]
    assert set(server.served.values()) == {1}
    assert memory == {}


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_a_batch_that_fails_or_that_somebody_cancels_ends_the_command_and_the_next_one_sends_the_rest(
    client: Callable[..., OpenAIChat], server: BatchServer, state: str
) -> None:
    server.ends, server.answered = [state], 5
    memory = Memory()
    replies = asked(client(memory), PROMPTS)
    failures = [reply.exception(timeout=60) for reply in replies]
    assert [type(failure) for failure in failures] == [type(None)] * 5 + [ModelUnavailable] * 7
    assert f"{state}, has no reply to 7 requests: run the same command later" in str(failures[-1])
    assert memory == {}
    assert texts(asked(client(memory), PROMPTS[5:])) == list(map(chat_reply, PROMPTS[5:]))
    assert server.sizes == [12, 7]
    assert set(server.served.values()) == {1}


@pytest.mark.parametrize("status", [200, 400, 413])
def test_requests_that_are_too_many_for_a_server_go_off_in_smaller_batches_one_after_the_other(
    client: Callable[..., OpenAIChat], server: BatchServer, status: int
) -> None:
    """With status 200 the batch is begun and fails, as at OpenAI."""
    said = "Enqueued token limit reached for tiny"
    server.most = 5

    def reply(method: str, path: str, usual: Usual) -> Reply:
        if status != 200 and (method, path) == ("POST", "/v1/batches") and len(server.last_file) > 5:
            return status, {"error": {"message": said}}
        return usual()

    chat = client(Memory())
    attempts: list[int] = []
    chat.provider.on_attempt = lambda: attempts.append(1)
    meddled(server, reply)
    with pytest.warns(Notice, match=rf"12 requests are too many at once \(.*{said}.*in smaller batches"):
        assert texts(asked(chat, PROMPTS)) == list(map(chat_reply, PROMPTS))
    begun = [size for size in server.sizes if size <= 5]
    assert sum(begun) == 12
    assert set(server.served.values()) == {1}
    assert len(attempts) == 12  # each was reserved once
    assert server.most_at_once == 1


def test_a_server_that_refuses_even_one_request_at_a_time_ends_the_command(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    server.most = 0
    with pytest.warns(Notice, match="2 requests are too many at once"):
        [first, second] = [reply.exception(timeout=60) for reply in asked(client(), PROMPTS[:2])]
    assert {type(first), type(second)} == {ModelUnavailable}
    assert re.search("failed .*Enqueued token limit reached.*: run the same command later", str(first))
    assert not server.served


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
    left: list[int] = []
    first.batches.on_left = lambda: left.append(1)
    with pytest.warns(Notice, match="with 12 requests that are waited for: the same command fetches its replies"):
        assert ended(first, replies) == {ModelUnavailable}
    assert len(left) == 12
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


def left_behind(client: Callable[..., OpenAIChat], server: BatchServer) -> Memory:
    """What is known of a batch, which is done, and whose replies nobody has fetched."""
    memory = Memory()
    memory.forget = lambda keys: None  # type: ignore[method-assign]
    texts(asked(client(memory), PROMPTS))
    left = Memory(memory)
    assert len(left) == 12
    return left


def test_of_a_batch_of_an_earlier_command_only_good_replies_are_believed(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    """It may have been sent before it was known what the server refuses, or before it was asked to try again."""
    server.rule = lambda prompt, n: (400, {"error": {"message": "not now"}}) if prompt == PROMPTS[3] and not n else None
    memory, first = Memory(), client()
    memory.forget = lambda keys: None  # type: ignore[method-assign]
    first.batches.memory = memory  # type: ignore[union-attr]
    assert sum(reply.exception(timeout=60) is None for reply in asked(first, PROMPTS)) == 11
    assert texts(asked(client(Memory(memory)), PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12, 1]


@pytest.mark.parametrize("lost", ["/v1/batches/", "/v1/files/"])
def test_what_a_server_does_not_have_any_more_is_sent_again(
    client: Callable[..., OpenAIChat], server: BatchServer, lost: str
) -> None:
    left = left_behind(client, server)
    gone = [*server.batches, *server.files]
    meddled(
        server, lambda _, path, usual: (404, {}) if path.startswith(lost) and path.split("/")[3] in gone else usual()
    )
    assert texts(asked(client(left), PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12, 12]
    assert left == {}


def test_a_file_that_was_to_be_a_batch_and_is_gone_is_sent_again(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    left = Memory()
    for key, sent in left_behind(client, server).items():
        left[key] = BatchedRequest(key, "file-gone", "", sent.max_tokens)
    assert texts(asked(client(left), PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12, 12]


def test_a_batch_is_found_among_many_that_others_began_since(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    left = Memory()
    for key, sent in left_behind(client, server).items():
        left[key] = BatchedRequest(key, sent.file, "", sent.max_tokens)
    server.batches |= {f"other-{n}": {"id": f"other-{n}", "input_file_id": sent.file + "x"} for n in range(250)}
    assert texts(asked(client(left), PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert len(server.batches) == 251


def test_a_server_that_is_out_of_reach_for_a_while_is_waited_for(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    replies = iter([(404, {}), (502, {}), (503, {}), (429, {})])

    def reply(method: str, path: str, usual: Usual) -> Reply:
        return next(replies, None) or usual() if path.startswith("/v1/batches/") else usual()

    meddled(server, reply)
    assert texts(asked(client(), PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12]


@pytest.mark.parametrize("name", ["someone else's", None, 7])
def test_a_server_that_names_no_request_as_it_was_sent_is_not_paid_again(
    client: Callable[..., OpenAIChat], server: BatchServer, name: object
) -> None:
    server.named = lambda key: name
    memory = Memory()
    for reply in asked(client(memory), PROMPTS):
        assert "completed, has no reply to any of its requests" in str(reply.exception(timeout=60))
    assert server.sizes == [12]
    assert len(memory) == 12  # the next command looks again


def test_a_request_that_the_results_leave_out_is_asked_again_and_may_have_been_paid(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    seen: set[str] = set()
    server.named = lambda key: key if len(seen) or seen.add(key) else "unknown"  # type: ignore[func-returns-value]
    chat = client()
    lost: list[Usage] = []
    chat.provider.on_lost = lost.append
    assert texts(asked(chat, PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12, 1]
    assert len(lost) == 1


def test_lines_of_results_that_cannot_be_read_or_come_twice_do_no_harm(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    def reply(method: str, path: str, usual: Usual) -> Reply:
        said = usual()
        if said is None or not path.endswith("/content"):
            return said
        lines = bytes(said[1]).splitlines()  # type: ignore[call-overload]
        return 200, b"\n".join([b"[]", b'{"custom_id": "unknown"}', b"", *lines, *lines, lines[0][:40]])

    meddled(server, reply)
    assert texts(asked(client(), PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12]


def test_results_that_break_off_are_fetched_again(client: Callable[..., OpenAIChat], server: BatchServer) -> None:
    server.breaks_off = 2
    assert texts(asked(client(), PROMPTS)) == list(map(chat_reply, PROMPTS))
    assert server.sizes == [12]


def test_a_request_that_a_moderation_refuses_is_refused_content_and_the_others_are_answered(
    client: Callable[..., OpenAIChat], server: BatchServer
) -> None:
    said = {"error": {"code": 403, "message": "tiny requires moderation and your input was flagged"}}
    server.rule = lambda prompt, n: (403, said) if prompt == PROMPTS[3] else None
    replies = asked(client(), PROMPTS)
    with pytest.raises(RefusedContent, match="your input was flagged"):
        replies.pop(3).result(timeout=60)
    assert texts(replies) == [chat_reply(prompt) for prompt in [*PROMPTS[:3], *PROMPTS[4:]]]
    assert set(server.served.values()) == {1}


def test_a_refused_key_is_said_as_without_batches(client: Callable[..., OpenAIChat], server: BatchServer) -> None:
    meddled(server, lambda *_: (401, {"error": {"message": "wrong key"}}))
    [reply] = asked(client(), PROMPTS[:1])
    with pytest.raises(ModelUnavailable, match=r"HTTP 401 \(wrong key\): the server refuses the key or the model$"):
        reply.result(timeout=60)


@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches"])
@pytest.mark.parametrize("status", [404, 405])
def test_a_server_without_batches_is_named(
    client: Callable[..., OpenAIChat], server: BatchServer, path: str, status: int
) -> None:
    meddled(server, lambda _, asked_for, usual: (status, {"error": "no such path"}) if asked_for == path else usual())
    [reply] = asked(client(), PROMPTS[:1])
    with pytest.raises(ModelUnavailable, match=f"HTTP {status}: the server takes no batches: leave the option batch"):
        reply.result(timeout=60)


def test_a_defect_ends_the_requests_and_does_not_leave_them_waiting(client: Callable[..., OpenAIChat]) -> None:
    memory = Memory()
    memory.keep = lambda requests: 1 / 0  # type: ignore[assignment,method-assign,return-value]
    [reply] = asked(client(memory), PROMPTS[:1])
    with pytest.raises(ZeroDivisionError):
        reply.result(timeout=60)
