"""Readiness follows what answers need: models, vector stores and the cache, in processes and servers of their own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from asking import PATIENCE, sent
from fault_kinds import Fault
from fault_server import FaultServer
from postgres_server import postgres, programs_with_vectors, vectors_missing
from served import Ruled, served
from started import Start, Started

from ragsmith.errors import StageFailed, StoreError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.genes import Candidate
from ragsmith.serving.answering import PipelineService
from ragsmith.serving.app import ServingApp
from ragsmith.serving.readiness import CHECK_SECONDS, Readiness
from ragsmith.serving.workers import CancellationToken
from ragsmith.types import Question

QUESTION = "When does the ferry to Marrow leave?"
FOLLOWING = 5.0
"""Seconds within which readiness follows."""

STORE = """
import socket
from ragsmith.errors import ModelUnavailable
from ragsmith.index.vector_stores.exact import ExactVectors
from ragsmith.models.vector_stores import vector_store


class Remote(ExactVectors):
    port = 0

    def search(self, *arguments):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            raise ModelUnavailable(f"the store at port {self.port} does not answer") from None
        return super().search(*arguments)


@vector_store("remote", form="remote:PORT")
def remote(address, keys, make):
    \"\"\"A store on another port.\"\"\"
    store = Remote(keys, make)
    store.port = int(address)
    return store
"""


@contextmanager
def listening(port: int = 0) -> Iterator[int]:
    """A server that accepts connections and says nothing."""
    server = socket.create_server(("127.0.0.1", port))
    ended = threading.Event()

    def accept() -> None:
        while not ended.is_set():
            try:
                server.accept()[0].close()
            except OSError:
                return

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        ended.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(PATIENCE)


def becomes(server: Started, status: int) -> Any:
    """The reply of /ready once it has ``status``; fails if that takes too long."""
    until = time.monotonic() + FOLLOWING
    while time.monotonic() < until:
        got = httpx.get(f"{server.url}ready", timeout=FOLLOWING)
        if got.status_code == status:
            return got
        time.sleep(0.1)
    pytest.fail(f"/ready is {got.status_code} after {FOLLOWING:g} s: {got.text}")


def ask(server: Started) -> int:
    return httpx.post(f"{server.url}ask", json={"question": QUESTION}, timeout=PATIENCE).status_code


@pytest.mark.processes
def test_readiness_follows_a_model_that_is_stopped_and_started(
    start: Start, pipeline: Callable[..., Candidate], written: Callable[[Candidate], Path]
) -> None:
    path = written(pipeline(retrieval="bm25"))
    with FaultServer() as model:
        flags = ("--llm", "openai:tiny", "--base-url", model.url)
        server = start(*flags, pipeline=path, OPENAI_API_KEY="none-here")
        becomes(server, 200)
        assert not [request for request in model.log if request.body]  # nothing is paid for
        model.always = Fault(status=503)
        refused = becomes(server, 503)
        model.always = Fault(status=401)
        time.sleep(CHECK_SECONDS)
        becomes(server, 503)
        model.always = None
        becomes(server, 200)
    gone = becomes(server, 503)
    for got in (refused, gone):
        assert got.json()["error"]["code"] == "not_ready"
        assert "language model" in got.json()["error"]["message"]
        assert str(model.port) not in got.text
        assert got.headers["retry-after"]
    with FaultServer(port=model.port):
        becomes(server, 200)
        assert ask(server) == 200
    code, log = server.stop()
    assert code == 0
    events = [json.loads(line) for line in log.splitlines()]
    missing = [event["missing"]["language model"] for event in events if event["event"] == "not_ready"]
    assert (missing[0], missing[-1]) == ("HTTP 503", "no connection")


def test_a_provider_that_counts_as_down_is_asked_again_as_soon_as_it_answers(
    tiny_setup: Experiment, pipeline: Callable[..., Candidate]
) -> None:
    """The circuit breaker is open after two failed requests, and would refuse further ones for half a minute."""
    with Ruled(lambda request: Fault(status=503) if request.body else None) as model:  # its other pages are there
        setup = served(tiny_setup, model.url, attempts=1, failures_in_a_row=2)
        service = PipelineService(Pipeline(pipeline(retrieval="bm25"), setup))
        for number in range(4):
            with pytest.raises(StageFailed):
                service.ask(Question(f"{QUESTION} Number {number}"), CancellationToken())
        asked = len(model.log)
        with pytest.raises(StageFailed, match="seems to be down"):
            service.ask(Question(QUESTION), CancellationToken())
        assert len(model.log) == asked
        assert service.find_missing() == {"language model": "HTTP 503"}
        model.rule = lambda request: None
        assert service.find_missing() == {}
        assert service.ask(Question(QUESTION), CancellationToken()).answer
        service.close()


def test_a_server_that_is_too_busy_for_its_list_of_models_is_ready_while_it_generates(
    tiny_setup: Experiment, pipeline: Callable[..., Candidate]
) -> None:
    with Ruled(lambda request: None if request.body else Fault("hang"), latency=3.0) as model:
        setup = served(tiny_setup, model.url)
        service = PipelineService(Pipeline(pipeline(retrieval="bm25"), setup))
        assert service.find_missing() == {"language model": "no reply in time"}
        asking = threading.Thread(target=service.ask, args=(Question(QUESTION), CancellationToken()))
        asking.start()
        while not any(request.body for request in model.log):
            time.sleep(0.01)
        assert service.find_missing() == {}
        asking.join()
        service.close()


@pytest.mark.processes
def test_readiness_follows_a_vector_store_that_is_stopped_and_started(
    start: Start,
    pipeline: Callable[..., Candidate],
    written: Callable[[Candidate], Path],
    tmp_path: Path,
) -> None:
    own = tmp_path / "remote.py"
    own.write_text(STORE)
    path = written(pipeline(retrieval="vector"))
    with listening() as port:
        server = start("--import", own, "--vector-store", f"remote:{port}", pipeline=path)
        becomes(server, 200)
    assert "vector store" in becomes(server, 503).json()["error"]["message"]
    assert ask(server) != 200
    with listening(port):
        becomes(server, 200)
        assert ask(server) == 200
    assert server.stop()[0] == 0


@pytest.mark.processes
def test_readiness_follows_a_database_of_vectors(
    start: Start, pipeline: Callable[..., Candidate], written: Callable[[Candidate], Path]
) -> None:
    if why := vectors_missing():
        pytest.skip(why)
    path = written(pipeline(retrieval="vector"))
    with postgres(programs_with_vectors(), locale=("--locale=C",)) as database:
        server = start("--vector-store", database.database(), pipeline=path)
        becomes(server, 200)
        database.control("stop")
        assert "vector store" in becomes(server, 503).json()["error"]["message"]
        database.control("start")
        becomes(server, 200)
        assert ask(server) == 200
    assert server.stop()[0] == 0


class Unreadable:
    """A store that is not read."""

    total = None

    def get_calls(self, keys: object) -> dict[str, object]:
        raise StoreError("the cache cannot be read")


def test_a_cache_that_cannot_be_read_makes_a_server_unready(
    tiny_setup: Experiment, pipeline: Callable[..., Candidate]
) -> None:
    unreadable: Any = Unreadable()
    app = ServingApp(PipelineService(Pipeline(pipeline(retrieval="bm25"), tiny_setup), unreadable))
    got = sent(app, "GET", "/ready")
    assert (got.status, got.json["error"]["code"]) == (503, "not_ready")
    assert "cache" in got.json["error"]["message"]


def test_a_check_that_takes_long_or_fails_makes_a_server_unready() -> None:
    free = threading.Event()

    def check() -> dict[str, str]:
        free.wait(PATIENCE)
        raise OSError("no such store")

    async def go() -> None:
        readiness = Readiness(check)
        assert [*await readiness.find_missing()] == ["check"]
        free.set()
        await asyncio.sleep(CHECK_SECONDS)
        assert [*(await readiness.find_missing()).values()] == ["OSError: no such store"]
        readiness.close()

    asyncio.run(go())


def test_a_check_that_is_slow_leaves_the_result_before_it_for_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    free.set()

    def check() -> dict[str, str]:
        free.wait(PATIENCE)
        return {}

    async def go() -> None:
        readiness = Readiness(check)
        assert await readiness.find_missing() == {}
        free.clear()
        await asyncio.sleep(CHECK_SECONDS)
        assert await readiness.find_missing() == {}
        monkeypatch.setattr("ragsmith.serving.readiness.SLOW_SECONDS", 0.0)
        await asyncio.sleep(CHECK_SECONDS)
        assert [*await readiness.find_missing()] == ["check"]
        free.set()
        await asyncio.sleep(CHECK_SECONDS)
        assert await readiness.find_missing() == {}
        readiness.close()

    asyncio.run(go())
