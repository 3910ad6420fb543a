"""A proxy on the loopback interface in front of a model server, which records every request and how it ended.

Bytes are passed on as they come, streams included. When a client leaves before the reply has ended, the request to the
server behind is ended as well, as without a proxy.

    with RecordingProxy("http://127.0.0.1:8080") as proxy: ...     # clients use proxy.url, as in http://127.0.0.1:9090/v1
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

ANSWERED, REFUSED, LEFT, BROKEN = "answered", "refused", "left", "broken"
"""How a request ended: with a reply of status 200, another status, a client that left before, or no whole reply."""

SETTLING = 20.0
"""Seconds in which a request is recorded after its end."""


@dataclass(frozen=True)
class Forwarded:
    """A request and how it ended; ``began`` is on the clock of ``time.monotonic``, and ``reply`` the body as sent."""

    method: str
    path: str
    body: Any
    began: float
    seconds: float
    ended: str
    status: int
    reply: bytes

    @property
    def prompt(self) -> str:
        """The text of the last message of a chat request, else ""."""
        messages = self.body.get("messages") if isinstance(self.body, dict) else None
        return str(messages[-1].get("content", "")) if messages else ""

    @property
    def tokens(self) -> int:
        """The tokens of the reply as the server counts them; of a stream that does not say, its parts with text."""
        counts, parts = 0, 0
        for part in _parts(self.reply):
            counts = max(counts, int((part.get("usage") or {}).get("completion_tokens") or 0))
            choices = part.get("choices") or [{}]
            parts += bool((choices[0].get("delta") or {}).get("content"))
        return counts or parts

    @property
    def finish_reason(self) -> str:
        """Why the reply ended, as the server says it; "" if it does not."""
        reasons = [(part.get("choices") or [{}])[0].get("finish_reason") for part in _parts(self.reply)]
        return next((str(reason) for reason in reversed(reasons) if reason), "")


def _parts(reply: bytes) -> list[dict[str, Any]]:
    """The JSON objects of a reply: one, or those of a stream of events."""
    found = []
    text = reply.decode(errors="replace")
    for line in [text] if text.lstrip().startswith("{") else text.splitlines():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line.removeprefix("data:")))
    return [part for part in found if isinstance(part, dict)]


class RecordingProxy:
    """Serves from a thread of its own while it is entered; ``log`` has the requests that have ended, in that order."""

    def __init__(self, behind: str) -> None:
        address = urlsplit(behind)
        self._host, self._port = address.hostname or "", address.port or 80
        self.log: list[Forwarded] = []
        self.url = ""
        self.in_flight = 0
        self.most_in_flight = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recording-proxy", daemon=True)

    @property
    def chats(self) -> list[Forwarded]:
        """The requests for completions of chats."""
        return [one for one in self.log if one.path.endswith("/chat/completions")]

    def settle(self) -> None:
        """Wait until the log has the requests that clients have seen the end of."""
        until = time.monotonic() + SETTLING
        while self.in_flight and time.monotonic() < until:
            time.sleep(0.01)

    def __enter__(self) -> RecordingProxy:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- on the proxy's thread ---------------------------------------------------------------------------------------

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=128, limit=1 << 26)

    async def _stop(self) -> None:
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one request; the connection is closed after its reply, as the server behind is asked to do."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            lengths = [line.partition(":")[2] for line in head if line.lower().startswith("content-length:")]
            body = await reader.readexactly(int(lengths[0]) if lengths else 0)
            await self._forward(head, body, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # a client that sent no whole request
        except asyncio.CancelledError:
            pass  # the proxy stops; Python 3.11 would log it
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _forward(
        self, head: list[str], body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        began, reply = time.monotonic(), _Reply()
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        leaving = asyncio.ensure_future(reader.read(1))  # clients send nothing more: it returns when this one leaves
        passing = asyncio.ensure_future(self._pass(head, body, reply, writer))
        try:
            await asyncio.wait([leaving, passing], return_when=asyncio.FIRST_COMPLETED)
            if not passing.done():
                reply.ended = LEFT
        finally:
            ended = reply.ended
            for task in (leaving, passing):
                task.cancel()
            await asyncio.gather(leaving, passing, return_exceptions=True)
            sent = None
            with contextlib.suppress(ValueError):
                sent = json.loads(body) if body else None
            method, path, _ = head[0].split(" ", 2)
            took = time.monotonic() - began
            self.log.append(Forwarded(method, path, sent, began, took, ended, reply.status, bytes(reply.body)))
            self.in_flight -= 1

    async def _pass(self, head: list[str], body: bytes, reply: _Reply, writer: asyncio.StreamWriter) -> None:
        """Send the request on, and its reply back as it comes."""
        reply.ended = BROKEN
        behind, to = await asyncio.open_connection(self._host, self._port)
        try:
            request = [head[0], f"Host: {self._host}:{self._port}", *_without(head[1:-2], "host", "accept-encoding")]
            to.write(_joined(request) + body)
            answer = (await behind.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            reply.status = int(answer[0].split(" ", 2)[1])
            reply.ended = LEFT
            writer.write(_joined([answer[0], *_without(answer[1:-2])]))
            async for part in _body(answer, behind):
                reply.body += part[1]
                writer.write(part[0])
                await writer.drain()
            reply.ended = ANSWERED if reply.status == 200 else REFUSED
        except (asyncio.IncompleteReadError, ConnectionError):
            reply.ended = LEFT if writer.transport.is_closing() else BROKEN
        finally:
            to.close()
            with contextlib.suppress(ConnectionError):
                await to.wait_closed()


@dataclass
class _Reply:
    """What has come of a reply so far."""

    body: bytearray = field(default_factory=bytearray)
    status: int = 0
    ended: str = LEFT


def _without(lines: list[str], *names: str) -> list[str]:
    """The header lines but those of ``names``, and one that closes the connection."""
    left = [line for line in lines if line.partition(":")[0].strip().lower() not in (*names, "connection")]
    return [*left, "Connection: close"]


def _joined(lines: list[str]) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _body(head: list[str], behind: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield the parts of a body as they come, each as sent and without the marks of its chunk."""
    values = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
    if "chunked" in values.get("transfer-encoding", "").lower():
        size = -1
        while size:
            line = await behind.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            data = await behind.readexactly(size + 2)
            yield line + data, data[:-2]
        return
    left = int(values["content-length"]) if "content-length" in values else None
    while left is None or left > 0:
        data = await behind.read(1 << 16 if left is None else min(left, 1 << 16))
        if not data:
            break
        left = None if left is None else left - len(data)
        yield data, data
    if left:
        raise asyncio.IncompleteReadError(b"", left)
