"""Requests to an ASGI application without a network, and models that a test holds in its hands."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fault_replies import chat_reply

from ragsmith.errors import ModelUnavailable
from ragsmith.models.calls import Completion
from ragsmith.models.usage import Usage

PATIENCE = 20.0
"""Seconds after which a test that waits for something has failed."""


@dataclass
class Got:
    """A reply: ``parts`` are what came of its body, one by one."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)

    @property
    def text(self) -> str:
        return b"".join(self.parts).decode()

    @property
    def json(self) -> Any:
        return json.loads(self.text)


async def send(
    app: Any,
    method: str,
    path: str,
    body: object = None,
    *,
    headers: Mapping[str, str] | Sequence[tuple[bytes, bytes]] = (),
    leaves: Callable[[], Awaitable[None]] | None = None,
    root: str = "",
    query: bytes = b"",
    takes: int | None = None,
) -> Got:
    """Send a request; ``body`` is sent as JSON, or as it is where it is bytes. The client goes when ``leaves`` ends.

    It takes so many messages of the reply as ``takes`` says, and then nothing more; all if that is None.
    """
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    given = [(k.lower().encode(), v.encode()) for k, v in headers.items()] if isinstance(headers, Mapping) else headers
    names = {name for name, _ in given}
    own = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": root + path,
        "raw_path": (root + path).encode("utf-8", "surrogateescape"),
        "root_path": root,
        "query_string": query,
        "headers": [*given, *[pair for pair in own if pair[0] not in names]],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    got, sent, taken, ended = Got(), False, 0, asyncio.Event()

    async def receive() -> Any:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": data, "more_body": False}
        await (leaves() if leaves else ended.wait())
        return {"type": "http.disconnect"}

    async def sending(message: Any) -> None:
        nonlocal taken
        if taken == takes:
            await asyncio.Event().wait()
        taken += 1
        if message["type"] == "http.response.start":
            got.status = message["status"]
            for key, value in message["headers"]:
                assert not {"\r", "\n"} & set(value.decode("latin-1"))
                got.headers[key.decode()] = value.decode("latin-1")
        else:
            got.parts.append(message.get("body", b""))
            if not message.get("more_body"):
                ended.set()

    await app(scope, receive, sending)
    return got


def sent(app: Any, method: str, path: str, body: object = None, **more: Any) -> Got:
    """`send`, from where no loop runs."""
    return asyncio.run(send(app, method, path, body, **more))


async def until(said: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not said():
            await asyncio.sleep(0.005)


class Held:
    """A chat model whose replies wait until the test lets them go."""

    id = "a model in the test's hands"

    def __init__(self, *, free: bool = False) -> None:
        self.prompts: list[str] = []
        self.answered = 0
        self.free = threading.Event()
        if free:
            self.free.set()
        self._lock = threading.Lock()

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        with self._lock:
            self.prompts.append(prompt)
        assert self.free.wait(PATIENCE)
        with self._lock:
            self.answered += 1
        return Completion(self.reply(prompt), Usage(1, 0, 0, 12, 3))

    def reply(self, prompt: str) -> str:
        return chat_reply(prompt)


class Down(Held):
    """A chat model that cannot be asked, and says so with a secret and a path."""

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        raise ModelUnavailable(f"https://example.org/secret-path refused the key sk-abcdefghijklmnop1234 for {prompt}")
