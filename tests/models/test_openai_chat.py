"""The client of OpenAI-compatible servers, against a small server on the loopback interface."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragsmith.errors import ModelError, ModelUnavailable, UsageError
from ragsmith.models.openai_chat import OpenAIChat
from ragsmith.usage import Usage

KEY = "sk-very-secret-0123456789"

Reply = tuple[int, bytes, dict[str, str]]


def completion(text: str | None = "Four crowns.", **changes: Any) -> dict[str, Any]:
    """A good reply, with changes to its only choice; a change to ``...`` removes the key."""
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
        **changes,
    }
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny",
        "choices": [{key: value for key, value in choice.items() if value is not ...}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }


def good(body: Any) -> Reply:
    return 200, body if isinstance(body, bytes) else json.dumps(body).encode(), {}


@dataclass
class Server:
    """Gives prepared replies in turn, then ``otherwise``; ``requests`` holds what it was sent."""

    url: str
    replies: list[Reply] = field(default_factory=list)
    otherwise: Callable[[dict[str, Any]], Reply] = lambda request: good(completion())
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                described.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, data, headers = described.replies.pop(0) if described.replies else described.otherwise(body)
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    described = Server(f"http://127.0.0.1:{http.server_address[1]}/v1")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield described
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture
def chat(server: Server) -> Iterator[OpenAIChat]:
    client = OpenAIChat("tiny", base_url=server.url, pause=0.0)
    yield client
    client._client.close()


def ask(chat: OpenAIChat, prompt: str = "What is due?") -> Any:
    return chat.complete(prompt, max_tokens=7, sample=2)


# --- good replies ----------------------------------------------------------------------------------------------------


def test_a_reply_and_what_it_cost(chat: OpenAIChat, server: Server) -> None:
    reply = ask(chat)
    assert reply.text == "Four crowns."
    assert reply.usage == Usage(1, 0, 0, 12, 3, reply.usage.seconds)
    assert 0 < reply.usage.seconds < 10
    [(path, headers, body)] = server.requests
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "What is due?"}],
        "temperature": 0,
        "max_tokens": 7,
        "seed": 2,
    }


def test_a_model_is_identified_without_address_and_key(chat: OpenAIChat, server: Server) -> None:
    assert chat.id == OpenAIChat("tiny", base_url="http://elsewhere").id
    assert "tiny" in chat.id
    assert KEY not in chat.id
    assert server.url not in chat.id


def test_a_server_that_does_not_count_tokens_is_believed(chat: OpenAIChat, server: Server) -> None:
    server.replies = [good({key: value for key, value in completion().items() if key != "usage"})]
    assert (ask(chat).usage.input_tokens, len(server.requests)) == (0, 1)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504])
def test_a_passing_trouble_is_asked_again(chat: OpenAIChat, server: Server, status: int) -> None:
    server.replies = [(status, b'{"error": {"message": "busy"}}', {})]
    assert ask(chat).text == "Four crowns."
    assert len(server.requests) == 2
    assert server.requests[0][2] == server.requests[1][2]


@pytest.mark.parametrize("body", [b"{", b"", b"\xff\xfe{}", b"[]", b"null"])
def test_a_garbled_reply_is_asked_again(chat: OpenAIChat, server: Server, body: bytes) -> None:
    server.replies = [good(body)]
    assert ask(chat).text == "Four crowns."
    assert len(server.requests) == 2


# --- bad replies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_asked_again(chat: OpenAIChat, server: Server, status: int) -> None:
    server.otherwise = lambda request: (status, json.dumps({"error": {"message": f"bad key {KEY}"}}).encode(), {})
    # with this key or model every request would be refused: the run stops; otherwise it is this request alone
    refused = ModelUnavailable if status in (401, 403, 404) else ModelError
    with pytest.raises(refused, match=f"HTTP {status}"):
        ask(chat)
    assert len(server.requests) == 1


def test_a_server_that_fails_again_and_again_counts_as_down(chat: OpenAIChat, server: Server) -> None:
    server.otherwise = lambda request: (503, b"{}", {})
    for _ in range(4):
        with pytest.raises(ModelError, match="HTTP 503"):
            ask(chat)
    with pytest.raises(ModelUnavailable, match="5 requests in a row failed"):
        ask(chat)


def test_one_good_reply_ends_a_row_of_failures(chat: OpenAIChat, server: Server) -> None:
    down, up = [(503, b"{}", {})] * 3, [good(completion("Four crowns."))]
    server.replies = [*down * 4, *up, *down * 4]
    for _ in range(4):
        with pytest.raises(ModelError, match="HTTP 503"):
            ask(chat)
    assert ask(chat).text == "Four crowns."
    for _ in range(4):
        with pytest.raises(ModelError, match="HTTP 503"):
            ask(chat)


def test_a_server_says_how_long_to_wait(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.replies = [(429, b"{}", {"Retry-After": "0.3"}), good(completion("Four crowns."))]
    chat = OpenAIChat("tiny", base_url=server.url, pause=0.0)
    started = time.monotonic()
    assert ask(chat).text == "Four crowns."
    assert time.monotonic() - started >= 0.3


@pytest.mark.parametrize("url", ["127.0.0.1:9/v1", "localhost", "ftp://localhost"])
def test_a_base_url_needs_its_scheme(url: str) -> None:
    with pytest.raises(UsageError, match="must begin with http"):
        OpenAIChat("tiny", base_url=url)


def test_a_trouble_that_does_not_pass_is_an_error_after_three_attempts(chat: OpenAIChat, server: Server) -> None:
    server.otherwise = lambda request: (503, b"{}", {})
    with pytest.raises(ModelError, match=r"HTTP 503 \(tried 3 times\)"):
        ask(chat)
    assert len(server.requests) == 3


BAD: list[tuple[str, Any, str]] = [
    ("no choices", {**completion(), "choices": []}, "the reply has no choices"),
    ("choices are null", {**completion(), "choices": None}, "the reply has no choices"),
    ("choices are missing", {"id": "x"}, "the reply has no choices"),
    ("choices are text", {**completion(), "choices": "abc"}, "the reply"),
    ("a choice is null", {**completion(), "choices": [None]}, "the reply"),
    ("a choice is empty", {**completion(), "choices": [{}]}, "the reply"),
    ("message is missing", completion(message=...), "the reply"),
    ("message is null", completion(message=None), "the reply"),
    ("message is text", completion(message="Four."), "the reply"),
    ("content is null", completion(None), "the reply has no text"),
    ("content is missing", completion(message={"role": "assistant"}), "the reply has no text"),
    ("content is blank", completion(" \n"), "the reply has no text"),
    ("content is a list", completion(message={"role": "assistant", "content": ["a"]}), "the reply has no text"),
    ("finish reason is missing", completion(finish_reason=...), "finish_reason"),
    ("finish reason is null", completion(finish_reason=None), "finish_reason"),
    ("finish reason is a filter", completion(finish_reason="content_filter"), "finish_reason 'content_filter'"),
    ("cut JSON", json.dumps(completion()).encode()[:-9], "not valid JSON"),
    ("not UTF-8", b"\xff\xfe\x00{", "the reply"),
    ("a page", b"<html>not found</html>", "the reply"),
    ("a list", b"[1, 2]", "the reply"),
    ("a number", b"17", "the reply"),
]


@pytest.mark.parametrize(("body", "said"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_reply_that_is_no_answer_is_an_error_that_names_the_cause(
    chat: OpenAIChat, server: Server, body: Any, said: str
) -> None:
    server.otherwise = lambda request: good(body)
    with pytest.raises(ModelError) as raised:
        ask(chat)
    assert said in str(raised.value)
    assert "tiny" in str(raised.value)
    assert len(server.requests) == 3


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": None}, "many", [1]])
def test_a_count_of_tokens_that_makes_no_sense_does_not_lose_a_reply(
    chat: OpenAIChat, server: Server, usage: Any
) -> None:
    server.replies = [good({**completion(), "usage": usage})]
    reply = ask(chat)
    assert reply.text == "Four crowns."
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (0, 0)


def test_a_page_sent_as_text_is_no_answer(chat: OpenAIChat, server: Server) -> None:
    server.otherwise = lambda request: (200, b"hello", {"Content-Type": "text/plain"})
    with pytest.raises(ModelError, match="the reply"):
        ask(chat)


def test_a_server_that_is_not_there_is_an_error(server: Server) -> None:
    chat = OpenAIChat("tiny", base_url="http://127.0.0.1:9/v1", pause=0.0)
    with pytest.raises(ModelError, match="is the server running"):
        ask(chat)
    chat._client.close()


def test_a_redirect_to_another_server_is_not_followed(chat: OpenAIChat, server: Server) -> None:
    """The prompt, which holds documents, goes where it was sent and nowhere else."""
    elsewhere = server.url.replace("127.0.0.1", "localhost") + "/elsewhere"
    server.replies = [(307, b"{}", {"Location": elsewhere})]
    with pytest.raises(ModelError):
        ask(chat)
    assert all("elsewhere" not in path for path, _, _ in server.requests)


@pytest.mark.parametrize("status", [200, 307, 400, 401, 429, 500])
def test_the_key_is_in_no_message(chat: OpenAIChat, server: Server, status: int) -> None:
    import traceback  # noqa: PLC0415

    server.otherwise = lambda request: (status, json.dumps({"error": {"message": f"no {KEY}"}}).encode(), {})
    with pytest.raises((ModelError, ModelUnavailable)) as raised:
        ask(chat)
    assert KEY not in str(raised.value)
    assert KEY not in repr(raised.value)
    assert KEY not in "".join(traceback.format_exception(raised.value))


def test_a_key_is_needed_unless_a_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        ask(OpenAIChat("tiny"))


# --- a whole search --------------------------------------------------------------------------------------------------


def answering(request: dict[str, Any]) -> Reply:
    """What a model would say to the prompts of a search: a verdict to a judge, an answer to all others."""
    prompt = request["messages"][0]["content"]
    return good(completion("Score: 4" if "Score: 3" in prompt else "It is as passage one says. [1]"))


def test_a_search_on_a_server_pays_once(
    server: Server, tiny_folder: Path, tmp_path: Path, ragsmith: Callable[..., Any]
) -> None:
    server.otherwise = answering
    space = tmp_path / "space.yaml"
    space.write_text(
        "families:\n  pre_embedding: [none]\n  query_expansion: [none, hyde]\n  retrieval: [bm25]\n"
        "  reranking: [none]\n  passage_filter: [top_k]\n  passage_augment: [none]\n  passage_compress: [none]\n"
        "  prompt_maker: [listing]\n  post_generation: [none]\n"
    )
    command = (
        *("search", "--dataset", tiny_folder, "--space", space, "--strategy", "exhaustive", "--chunk-size", 100),
        *("--llm", "openai:tiny", "--base-url", server.url, "--workers", 4, "--json"),
        *("--cache", tmp_path / "cache.sqlite", "--reports", tmp_path / "reports"),
    )
    first = ragsmith(*command)
    assert (first.code, first.err) == (0, "")
    asked = [json.dumps(body, sort_keys=True) for _, _, body in server.requests]
    assert len(asked) == len(set(asked)) > 24
    server.requests.clear()
    second = ragsmith(*command)
    assert second.code == 0
    assert server.requests == []
    winner = tmp_path / "reports" / "island" / "winner.yaml"
    for path in (tmp_path / "cache.sqlite", winner, *(tmp_path / "reports").rglob("*.*")):
        assert KEY.encode() not in path.read_bytes()
    assert server.url not in winner.read_text()
    assert ragsmith("verify", winner, "--base-url", server.url).code == 0
