"""The server in a process of its own: real clients, slow and endless ones, and how it stops."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from asking import PATIENCE
from served import Ruled
from started import Start, Started

import ragsmith
from ragsmith.errors import UsageError
from ragsmith.pipelines.genes import Candidate
from ragsmith.serving.monitoring import json_logging

QUESTION = "When does the ferry to Marrow leave?"
TOKEN = "correct-horse-battery-staple"
Spawn = Callable[..., "subprocess.Popen[str]"]


def requests(log: str) -> list[Any]:
    """The lines of a log: every one is JSON."""
    return [json.loads(line) for line in log.splitlines()]


def test_the_openai_client_asks_streams_and_lists(start: Start, winner: Path, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text(f"{TOKEN}\n")
    server, expected = start("--token-file", secret), ragsmith.ask(winner, QUESTION)
    with openai.OpenAI(base_url=f"{server.url}v1", api_key=TOKEN, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["ragsmith"]
        messages: Any = [{"role": "user", "content": QUESTION}]
        whole = client.chat.completions.create(model="ragsmith", messages=messages)
        content = whole.choices[0].message.content
        assert content is not None
        assert content.startswith(expected.answer)
        citations: Any = whole.model_extra and whole.model_extra["citations"]
        assert [c["doc"] for c in citations] == [s.doc for s in expected.sources if s.cited]
        pieces, ends = "", []
        for chunk in client.chat.completions.create(model="ragsmith", messages=messages, stream=True):
            pieces += chunk.choices[0].delta.content or ""
            ends.append(chunk.choices[0].finish_reason)
        assert (pieces, ends[-1]) == (content, "stop")
        with pytest.raises(openai.NotFoundError) as missing:
            client.chat.completions.create(model="other", messages=messages)
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(model="ragsmith", messages=[])
    with (
        openai.OpenAI(base_url=f"{server.url}v1", api_key=f"{TOKEN}x", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError),
    ):
        client.models.list()
    code, log = server.stop()
    assert code == 0
    assert TOKEN not in log
    assert QUESTION not in log
    assert [requests(log)[i]["event"] for i in (0, -1)] == ["started", "stopped"]


def test_langchain_asks(start: Start, winner: Path) -> None:
    langchain = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    server = start()
    model = langchain.ChatOpenAI(base_url=f"{server.url}v1", api_key="none", model="ragsmith", max_retries=0)
    expected = ragsmith.ask(winner, QUESTION).answer
    assert model.invoke(QUESTION).content.startswith(expected)
    assert "".join(str(piece.content) for piece in model.stream(QUESTION)).startswith(expected)
    assert server.stop()[0] == 0


@pytest.mark.processes
def test_an_agent_lists_and_calls_the_tools(winner: Path, tmp_path: Path) -> None:
    from mcp import StdioServerParameters  # noqa: PLC0415
    from mcp.client import Client  # noqa: PLC0415
    from mcp.client.stdio import stdio_client  # noqa: PLC0415

    expected = ragsmith.ask(winner, QUESTION)
    root = str(Path(__file__).resolve().parents[2])
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "ragsmith", "serve", str(winner), "--mcp", "--cache", str(tmp_path / "cache.sqlite")],
        env={**os.environ, "PYTHONPATH": root},
    )

    async def go() -> None:
        with (tmp_path / "log").open("w") as log:
            async with Client(stdio_client(command, errlog=log)) as client:
                tools = (await client.list_tools()).tools
                assert [tool.name for tool in tools] == ["ask", "retrieve", "explain"]
                assert all(tool.description for tool in tools)
                asked = (await client.call_tool("ask", {"question": QUESTION})).structured_content
                assert asked["answer"] == expected.answer
                assert [c["doc"] for c in asked["citations"]] == [s.doc for s in expected.sources if s.cited]
                found = (await client.call_tool("retrieve", {"question": QUESTION})).structured_content
                assert found["passages"][0]["doc"] == "ferry"
                way = (await client.call_tool("explain", {"question": QUESTION})).structured_content
                assert [s["family"] for s in way["stages"]][0::8] == ["pre_embedding", "post_generation"]
                wrong = await client.call_tool("ask", {"question": "  "})
                assert wrong.is_error
                assert "blank" in wrong.content[0].text

    asyncio.run(asyncio.wait_for(go(), 60))


class Agent:
    """A client that speaks to the tools line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        self.says(id=0, method="initialize", params=first)
        assert self.hears()["result"]["serverInfo"]["name"] == "ragsmith"
        self.says(method="notifications/initialized")

    def says(self, **message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def asks(self, id_: int, question: str) -> None:
        self.says(id=id_, method="tools/call", params={"name": "ask", "arguments": {"question": question}})

    def hears(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@pytest.fixture
def agent(spawn: Spawn, winner: Path) -> Callable[..., Agent]:
    def begin(*more: object, pipeline: Path = winner, **environment: str) -> Agent:
        return Agent(spawn("serve", pipeline, "--mcp", *more, stdin=subprocess.PIPE, **environment))

    return begin


@pytest.mark.processes
def test_the_tools_stop_after_what_they_have_accepted(
    agent: Callable[..., Agent], pipeline: Callable[..., Candidate], written: Callable[[Candidate], Path]
) -> None:
    path = written(pipeline(retrieval="bm25"))
    with Ruled(latency=1.5) as model:
        asking = agent("--llm", "openai:tiny", "--base-url", model.url, pipeline=path, OPENAI_API_KEY="none-here")
        for id_ in (1, 2, 3):
            asking.asks(id_, f"{QUESTION} Number {id_}")
        until = time.monotonic() + PATIENCE
        while len(model.log) < 3 and time.monotonic() < until:
            time.sleep(0.01)
        asking.process.send_signal(signal.SIGTERM)
        heard = [asking.hears() for _ in range(3)]
        assert asking.process.wait(PATIENCE) == 0
    assert sorted(reply["id"] for reply in heard) == [1, 2, 3]
    assert all(reply["result"]["structuredContent"]["answer"] for reply in heard)
    assert asking.process.stderr is not None
    assert asking.process.stderr.read() == ""


@pytest.mark.processes
def test_a_line_that_is_nested_too_deeply_does_not_end_the_tools(agent: Callable[..., Agent]) -> None:
    asking = agent()
    assert asking.process.stdin is not None
    asking.process.stdin.write("[" * 100_000 + "\n")
    asking.asks(1, QUESTION)
    heard = asking.hears()
    while heard.get("id") != 1:
        heard = asking.hears()
    assert heard["result"]["structuredContent"]["answer"]
    asking.process.stdin.close()
    asking.process.stdin = None
    assert asking.process.wait(PATIENCE) == 0


@pytest.mark.processes
def test_the_tools_end_at_once_where_nobody_waits_or_ctrl_c_comes_again(
    agent: Callable[..., Agent], pipeline: Callable[..., Candidate], written: Callable[[Candidate], Path]
) -> None:
    idle = agent()
    idle.process.send_signal(signal.SIGINT)
    assert idle.process.wait(PATIENCE) == 0
    left = agent()
    assert left.process.stdin is not None
    left.process.stdin.close()
    left.process.stdin = None
    assert left.process.wait(PATIENCE) == 0
    path = written(pipeline(retrieval="bm25"))
    with Ruled(latency=300.0) as model:
        asking = agent("--llm", "openai:tiny", "--base-url", model.url, pipeline=path, OPENAI_API_KEY="none-here")
        asking.asks(1, "Who steers the ferry?")
        asking.asks(2, "Who wrote a diary of storms?")
        until = time.monotonic() + PATIENCE
        while len(model.log) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        asking.says(method="notifications/cancelled", params={"requestId": 2})
        asking.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            asking.process.wait(0.5)  # the first is waited for
        asking.process.send_signal(signal.SIGINT)
        assert asking.process.wait(PATIENCE) == 130


@pytest.mark.processes
def test_heads_and_bodies_that_never_end_are_given_up(winner: Path, tmp_path: Path) -> None:
    program = tmp_path / "served.py"
    program.write_text(
        "import sys, ragsmith\n"
        "ragsmith.serve(sys.argv[1], port=0, limits=ragsmith.ServingLimits(body_seconds=2, connections=20),\n"
        "    on_start=lambda url: print('{\"url\": \"' + url + '\"\\n}', flush=True))\n"
    )
    process = subprocess.Popen(
        [sys.executable, program, winner],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        server = Started(process)
        head = b"POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with (
            closing(server.connected()) as silent,
            closing(server.connected()) as half,
            closing(server.connected()) as slow,
        ):
            half.sendall(head)
            slow.sendall(head + b"Content-Length: 100\r\n\r\n{")
            assert silent.recv(100) == b""
            assert half.recv(100) == b""
            assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")
        with closing(server.connected()) as kept:
            kept.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            got = kept.recv(1000)
            while not got.endswith(b"}"):
                got += kept.recv(1000)
            assert got.startswith(b"HTTP/1.1 200 ")
            kept.sendall(b"GET /heal")  # the head of the next one
            assert kept.recv(100) == b""
        with closing(server.connected()) as done:  # it is answered before its body, which then never ends
            done.sendall(b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
            got = done.recv(1000)
            while not got.endswith(b"}"):
                got += done.recv(1000)
            assert got.startswith(b"HTTP/1.1 405 ")
            done.sendall(b"x")
            assert done.recv(100) == b""
        page = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with closing(socket.socket()) as deaf:  # it asks, and reads nothing of what it is sent
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.settimeout(PATIENCE)
            deaf.connect(("127.0.0.1", server.port))
            with pytest.raises(ConnectionError):
                deaf.sendall(page * (1 << 20))
        crowd = [server.connected() for _ in range(60)]
        until, open_ = time.monotonic() + 1, len(crowd)  # later they would be given up for what they do not say
        while open_ > 20 and time.monotonic() < until:
            open_ = sum(_is_open(one) for one in crowd)
        for one in crowd:
            one.close()
        assert open_ <= 20
        assert httpx.get(f"{server.url}health").status_code == 200
        assert server.stop()[0] == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_what_the_event_loop_says_is_a_line_of_json_too() -> None:
    stream = io.StringIO()
    with json_logging(stream):
        logging.getLogger("asyncio").error("a callback failed")
    [said] = requests(stream.getvalue())
    assert (said["level"], said["event"]) == ("error", "a callback failed")


def test_a_stop_while_a_model_hangs_ends_when_the_time_of_its_requests_is_up(
    start: Start, pipeline: Callable[..., Candidate], written: Callable[[Candidate], Path]
) -> None:
    path = written(pipeline(retrieval="bm25"))
    with Ruled(latency=300.0) as model:
        flags = ("--llm", "openai:tiny", "--base-url", model.url, "--seconds", 1.5)
        server = start(*flags, pipeline=path, OPENAI_API_KEY="none-here")
        statuses: list[int] = []

        def ask() -> None:
            statuses.append(httpx.post(f"{server.url}ask", json={"question": QUESTION}, timeout=PATIENCE).status_code)

        thread = threading.Thread(target=ask)
        thread.start()
        until = time.monotonic() + PATIENCE
        while not model.log and time.monotonic() < until:
            time.sleep(0.01)
        code, log = server.stop()
        thread.join(PATIENCE)
    assert (code, statuses) == (0, [504])
    assert "Traceback" not in log


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_while_it_is_stopping_ends_it_at_once(
    start: Start, pipeline: Callable[..., Candidate], written: Callable[[Candidate], Path], first: signal.Signals
) -> None:
    path = written(pipeline(retrieval="bm25"))
    with Ruled(latency=300.0) as model:
        flags = ("--llm", "openai:tiny", "--base-url", model.url, "--in-flight", 2)
        server = start(*flags, pipeline=path, OPENAI_API_KEY="none-here")
        given_up: list[Exception] = []

        def ask(path: str, body: object) -> None:
            try:
                httpx.post(f"{server.url}{path}", json=body, timeout=PATIENCE)
            except httpx.RemoteProtocolError as error:
                given_up.append(error)

        said = {"messages": [{"role": "user", "content": "Who steers the ferry?"}], "stream": True}
        bodies: list[tuple[str, object]] = [("ask", {"question": QUESTION}), ("v1/chat/completions", said)]
        threads = [threading.Thread(target=ask, args=pair) for pair in bodies]
        for thread in threads:
            thread.start()
        until = time.monotonic() + PATIENCE
        while len(model.log) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        server.process.send_signal(first)
        lines: list[str] = []
        assert server.process.stderr is not None
        while '"stopping"' not in "".join(lines):
            lines.append(server.process.stderr.readline())
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)  # a supervisor that says it twice does not press
        server.process.send_signal(signal.SIGINT)
        _, rest = server.process.communicate(timeout=PATIENCE)
        for thread in threads:
            thread.join(PATIENCE)
    assert time.monotonic() - began < 10
    *log, sentence = ("".join(lines) + rest).splitlines()
    assert (server.process.returncode, len(given_up)) == (130, 2)
    assert sentence.startswith("interrupted")
    assert requests("\n".join(log))[-1]["event"] == "stopped"


def test_ctrl_c_ends_it_as_well(start: Start) -> None:
    server = start()
    server.process.send_signal(signal.SIGINT)
    server.process.communicate(timeout=PATIENCE)
    assert server.process.returncode == 0


def test_another_address_of_this_machine_is_answered(start: Start) -> None:
    try:
        socket.create_server(("127.0.0.2", 0)).close()
    except OSError:
        pytest.skip("this machine has one address of its own")
    server = start("--host", "127.0.0.2")
    assert server.url.startswith("http://127.0.0.2:")
    assert httpx.post(f"{server.url}ask", json={"question": QUESTION}, timeout=PATIENCE).status_code == 200
    assert httpx.get(f"{server.url}ready", headers={"host": "evil.example"}).status_code == 403
    assert server.stop()[0] == 0


# --- what is refused before it is served -----------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_others_are_not_served_without_a_token(winner: Path, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGSMITH_TOKEN", raising=False)
    with pytest.raises(UsageError, match="token"):
        ragsmith.serve(winner, host=host, port=0)


@pytest.mark.parametrize("token", ["", "short", "two words are no token", "žluťoučký-kůň-úpěl"])
def test_a_token_must_be_one(winner: Path, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSMITH_TOKEN", token)
    with pytest.raises(UsageError, match="RAGSMITH_TOKEN must contain one token"):
        ragsmith.serve(winner, port=0)


def test_a_port_in_use_is_said_in_a_sentence(ragsmith: Callable[..., Any], winner: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        got = ragsmith("serve", winner, "--port", taken.getsockname()[1])
    assert (got.code, got.out) == (2, "")
    assert "cannot be used" in got.err
    assert len(got.err.splitlines()) == 1
    assert ragsmith("serve", winner, "--port", 99999).code == 2
    assert ragsmith("serve", winner, "--mcp", "--feedback", "f.jsonl").code == 2
    assert (
        ragsmith("serve", winner, "--seconds", 0).err
        == "error: --seconds is 0.0: give a number above 0, up to 86,400\n"
    )
    assert ragsmith("serve", winner, "--feedback", "no/such/folder/f.jsonl", "--port", 0).code == 2
