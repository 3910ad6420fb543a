"""Pipelines, documents and tokens that are exchanged on SIGHUP, while clients ask."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import threading
import time
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from asking import PATIENCE, until
from fault_server import FaultServer
from started import Start, Started

from ragsmith.errors import UsageError
from ragsmith.pipelines.genes import Candidate
from ragsmith.serving.server import POLL_SECONDS, AppSequence, read_tokens
from ragsmith.serving.workers import Workers

QUESTION = "When does the ferry to Marrow leave?"
CLIENTS = 32
FIRST, SECOND = "the-first-token-0123456789", "the-second-token-0123456789"

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP"),
]


def reload(server: Started, event: str = "reloaded") -> None:
    """Send SIGHUP, and wait for what the log says of it."""
    assert server.process.stderr is not None
    server.process.send_signal(signal.SIGHUP)
    for line in server.process.stderr:
        if line.startswith("{") and json.loads(line)["event"] == event:
            return


def get(server: Started, path: str, token: str) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return httpx.get(f"{server.url}{path}", headers=headers, timeout=PATIENCE).status_code


def ask(server: Started, question: str = QUESTION) -> Any:
    return httpx.post(f"{server.url}ask", json={"question": question}, timeout=PATIENCE).json()


def test_tokens_of_several_files_are_rotated(start: Start, tmp_path: Path) -> None:
    files = tmp_path / "first", tmp_path / "second"
    for file, token in zip(files, (FIRST, SECOND), strict=True):
        file.write_text(token)
    server = start("--token-file", files[0], "--token-file", files[1])
    assert [get(server, "v1/models", token) for token in (FIRST, SECOND, f"{FIRST}x")] == [200, 200, 401]
    files[0].write_text(f"{FIRST}-renewed")
    assert get(server, "v1/models", FIRST) == 200
    reload(server)
    assert [get(server, "v1/models", token) for token in (FIRST, f"{FIRST}-renewed", SECOND)] == [401, 200, 200]
    files[0].write_text("short")
    reload(server, "reload_failed")
    assert get(server, "v1/models", f"{FIRST}-renewed") == 200
    assert server.stop()[0] == 0


def test_a_token_with_two_filters_is_refused(tmp_path: Path) -> None:
    files = tmp_path / "first", tmp_path / "second"
    for file, where in zip(files, ("tenant=a", "tenant=b"), strict=True):
        file.write_text(f"{FIRST}: {where}\n")
    assert read_tokens(files[:1], None) == {FIRST: "tenant=a"}
    with pytest.raises(UsageError, match="second: a token has two filters: give each token once"):
        read_tokens(files, None)


def test_documents_are_exchanged_while_a_question_is_answered(
    start: Start, pipeline: Callable[..., Candidate], written: Callable[[Candidate], Path], tmp_path: Path
) -> None:
    """The question that was accepted before is answered from the old documents, and a later one from the new ones."""
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "ferry.md").write_text("# Ferry\n\nThe ferry to Marrow leaves at seven.\n")
    path = written(pipeline(retrieval="bm25"))
    with FaultServer(latency=1.5) as model:
        flags = ("--documents", documents, "--llm", "openai:tiny", "--base-url", model.url)
        server = start(*flags, pipeline=path, OPENAI_API_KEY="none-here")
        replies: list[Any] = []
        thread = threading.Thread(target=lambda: replies.append(ask(server)))
        thread.start()
        end = time.monotonic() + PATIENCE
        while not [request for request in model.log if request.body] and time.monotonic() < end:
            time.sleep(0.01)
        (documents / "ferry.md").write_text("# Ferry\n\nThe ferry to Marrow leaves at nine.\n")
        reload(server)
        assert thread.is_alive()
        assert "at nine" in ask(server)["passages"][0]["text"]
        thread.join(PATIENCE)
        assert "at seven" in replies[0]["passages"][0]["text"]
        assert "at nine" in ask(server, f"{QUESTION} Please.")["passages"][0]["text"]  # its models are still asked
    code, log = server.stop()
    assert code == 0
    assert "Traceback" not in log


def test_a_pipeline_is_exchanged_under_many_clients_without_a_failure(
    start: Start, pipeline: Callable[..., Candidate], written: Callable[[Candidate], Path], tmp_path: Path
) -> None:
    served = shutil.copy(written(pipeline(retrieval="bm25")), written(pipeline(retrieval="bm25")))
    others = [written(pipeline(retrieval=name)).read_text() for name in ("vector", "hybrid")]
    server = start("--queue", 2 * CLIENTS, pipeline=Path(served))
    ended, statuses, pipelines = threading.Event(), Counter[int | str](), set()

    def keep_asking(number: int) -> None:
        with httpx.Client(timeout=PATIENCE) as client:
            while not ended.is_set():
                try:
                    got = client.post(f"{server.url}ask", json={"question": f"{QUESTION} {number}"})
                    statuses[got.status_code] += 1
                except httpx.HTTPError as error:
                    statuses[type(error).__name__] += 1

    def running() -> str:
        text = httpx.get(f"{server.url}metrics", timeout=PATIENCE).text
        return next(line for line in text.splitlines() if line.startswith("ragsmith_build_info"))

    threads = [threading.Thread(target=keep_asking, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for content in (*others, *others):
        pipelines.add(running())
        Path(served).write_text(content)
        reload(server)
    pipelines.add(running())
    ended.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert set(statuses) == {200}
    assert statuses[200] > CLIENTS
    assert len(pipelines) == 3
    Path(served).write_text("no: pipeline")
    reload(server, "reload_failed")
    assert ask(server)["answer"]
    assert server.stop()[0] == 0


class Replaceable:
    """What the server needs of an application; it is part of a cycle, as applications are."""

    closed: ClassVar[list[bool]] = []

    def __init__(self) -> None:
        self.itself = self.sessions = self
        self.n_requests = 0
        self.workers = Workers(0, 0)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        yield

    def close(self, *, is_idle: bool = False) -> None:
        self.closed.append(is_idle)


def test_a_replaced_application_is_closed_and_freed_when_its_requests_have_ended() -> None:
    async def go() -> None:
        make: Any = Replaceable
        apps = AppSequence(make(), make)
        await apps.begin(apps.current)
        gone = weakref.ref(apps.current)
        apps.current.n_requests = 1
        await apps.replace()
        assert apps.current is not gone()
        await asyncio.sleep(3 * POLL_SECONDS)
        assert not Replaceable.closed
        [first] = apps.replaced
        first.n_requests = 0
        del first
        await until(lambda: gone() is None)
        assert Replaceable.closed == [True]

    asyncio.run(go())
