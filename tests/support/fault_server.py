"""A server on the loopback interface that answers like providers do, and fails like they do, on request.

It speaks the chat and embeddings API of OpenAI, the rerank APIs of Jina and text-embeddings-inference, and Cohere's
rerank and embed API. Replies depend on the request alone. Faults are scripted in order of arrival (``script``), or
drawn from a seed, the content of the request and the number of its attempt, so that a run can be repeated. Of every
request ``log`` holds when it came and what it was told.

    with FaultServer(latency=0.2) as server: ...             # server.url is the base URL, as in http://127.0.0.1:8000/v1
    python tests/fault_server.py --latency 0.2 --faults 0.2 --seed 1 --log requests.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from email.utils import formatdate
from pathlib import Path
from typing import Any, TextIO

from fault_kinds import ANYWHERE, AT, KEY_HEADERS, Fault, Sent, broken, endpoint, reply_to
from schema_replies import VERDICTS, Verdict, ignore, in_schema, schema_of

MOST_FAULTS = 3
"""Drawn faults of one request: the attempt after them is answered."""


@dataclass(frozen=True)
class Request:
    """A request as it arrived: ``time`` on the clock of ``time.monotonic``, which all processes share on Linux."""

    number: int
    time: float
    method: str
    path: str
    digest: str
    attempt: int
    fault: str = ""
    told: float | None = None
    """Seconds that it was told to wait, from ``replied`` on."""
    replied: float = 0.0
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None


class FaultServer:
    """Serves from a thread of its own while it is entered; faults and replies may be changed at any time.

    ``script`` holds the faults of the next requests (None is a good reply), ``always`` the one of all others.
    ``answer`` may take the place of the replies: it is given path and body, and returns what becomes JSON, or
    bytes. ``slots`` requests are worked on at once, and ``tells_slots`` is whether ``/props`` says so. ``wait`` is
    what a drawn 429 tells, in seconds; ``kinds`` are those that may be drawn. ``schemas`` says what becomes of a
    requested schema.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        latency: float | Callable[[Request], float] = 0.0,
        slots: int = 0,
        tells_slots: bool = False,
        faults: float = 0.0,
        seed: int = 0,
        wait: float = 0.2,
        kinds: tuple[str, ...] | None = None,
    ) -> None:
        self.port, self.latency, self.faults, self.seed, self.wait, self.kinds = (
            port,
            latency,
            faults,
            seed,
            wait,
            kinds,
        )
        self._tells_slots, self._slots = slots if tells_slots else 0, asyncio.Semaphore(slots or 1 << 20)
        self.script: list[Fault | None] = []
        self.always: Fault | None = None
        self.schemas: Verdict = ignore
        self.answer: Callable[[str, Any], Any] | None = None
        self.log: list[Request] = []
        self.most_in_flight = 0
        self.log_file: TextIO | None = None
        self._in_flight = 0
        self._attempts: Counter[str] = Counter()
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-server", daemon=True)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The base URL of the OpenAI API."""
        return f"{self.root}/v1"

    def __enter__(self) -> FaultServer:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def early(self) -> list[Request]:
        """The requests that came before a pause was over that another one had been told."""
        ends = [(told.replied, told.replied + told.told) for told in self.log if told.told is not None]
        return [request for request in self.log if any(begin <= request.time < end for begin, end in ends)]

    def let_go(self) -> None:
        """End the connections that are open, those that hang, too, and answer from now on, without a fault."""
        self.script, self.always, self.faults = [], None, 0.0
        asyncio.run_coroutine_threadsafe(self._cut_off(), self._loop).result()

    # --- on the server's thread --------------------------------------------------------------------------------------

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=128, limit=1 << 26)

    async def _stop(self) -> None:
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # connections are told of their end

    async def _cut_off(self) -> None:
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = Sent(reader, writer)
        self._writers.add(writer)
        try:
            while await self._serve_one(reader, sent):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        except asyncio.CancelledError:
            pass  # the server stops; Python 3.11 would log it
        finally:
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve_one(self, reader: asyncio.StreamReader, sent: Sent) -> bool:
        """Reply to one request; False when the connection has ended."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        if path == "/props":  # as of llama.cpp's server; free, so it is in no log
            told = json.dumps({"total_slots": self._tells_slots}).encode()
            return await sent.out(None, *((200, {}, told) if self._tells_slots else (404, {}, b"{}")))
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            return await self._reply(self._arrived(method, path, headers, raw), sent)
        finally:
            self._in_flight -= 1

    def _arrived(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> Request:
        digest = hashlib.sha256(path.encode() + b"\n" + raw).hexdigest()[:16]
        self._attempts[digest] += 1
        body = json.loads(raw) if raw else None
        request = Request(
            len(self.log), time.monotonic(), method, path, digest, self._attempts[digest], headers=headers, body=body
        )
        self.log.append(request)
        return request

    async def _reply(self, request: Request, sent: Sent) -> bool:
        fault = self._fault(request)
        async with self._slots:  # first come, first served
            await asyncio.sleep(self.latency(request) if callable(self.latency) else self.latency)
        key = next((request.headers[name] for name in KEY_HEADERS if name in request.headers), "")
        if self.answer is not None:
            good = self.answer(request.path, request.body)
        else:
            good = reply_to(request.method, request.path, request.body)
        if isinstance(good, dict) and "choices" in good:
            good = {"model": request.body["model"], **good}
        requested = request.body.get("response_format") if isinstance(request.body, dict) else None
        verdict = self.schemas(requested) if requested else False
        if verdict is True and fault is None:
            good = in_schema(good, schema_of(requested))
        elif isinstance(verdict, Fault):
            fault = fault or verdict
        status, headers, body = broken(fault, good, key.removeprefix("Bearer "), self.root)
        now = time.monotonic()
        told = fault.told if fault else None
        if fault and "Retry-After" in headers and fault.kind == "429_date":
            told = self._date(headers, fault.told, now)
        request = replace(request, fault=fault.kind if fault else "", told=told, status=status, replied=now)
        self.log[request.number] = request
        if self.log_file:
            line = {k: v for k, v in asdict(request).items() if k not in ("headers", "body")}
            self.log_file.write(json.dumps(line) + "\n")
            self.log_file.flush()
        return await sent.out(fault, status, headers, body)

    def _date(self, headers: dict[str, str], told: float, now: float) -> float:
        """Say the date that is at least ``told`` seconds away, in whole seconds, and return how far away it is."""
        wall = time.time()
        until = float(-(-(wall + told) // 1))
        headers["Retry-After"] = formatdate(until, usegmt=True)
        return until - wall

    def _fault(self, request: Request) -> Fault | None:
        if self.script:
            return self.script.pop(0)
        draw = random.Random(f"{self.seed} {request.digest} {request.attempt}")
        if request.attempt <= MOST_FAULTS and draw.random() < self.faults:
            possible = ANYWHERE + AT.get(endpoint(request.path, request.body), ())
            kinds = [kind for kind in possible if self.kinds is None or kind in self.kinds]
            return Fault(draw.choice(kinds), wait=self.wait) if kinds else self.always
        return self.always


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer and fail like a provider; the base URL is the first line.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds")
    parser.add_argument("--faults", type=float, default=0.0, help="share of attempts that fail")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wait", type=float, default=0.2, help="seconds that a 429 tells")
    parser.add_argument("--kinds", help="kinds of faults, separated by commas; otherwise all but the slow ones")
    parser.add_argument("--schemas", choices=sorted(VERDICTS), default="ignored", help="what becomes of JSON schemas")
    parser.add_argument("--log", type=Path, help="write a line of JSON for each request")
    parser.add_argument("--distinct", type=int, help="replies that never repeat, and texts so many times as long")
    chosen = parser.parse_args()
    kinds = tuple(chosen.kinds.split(",")) if chosen.kinds else None
    with contextlib.ExitStack() as stack:
        server = FaultServer(
            port=chosen.port,
            latency=chosen.latency,
            faults=chosen.faults,
            seed=chosen.seed,
            wait=chosen.wait,
            kinds=kinds,
        )
        server.schemas = VERDICTS[chosen.schemas]
        if chosen.log:
            server.log_file = stack.enter_context(chosen.log.open("a"))
        if chosen.distinct:
            from never_repeating import answer_at_length  # noqa: PLC0415  only here

            server.answer = answer_at_length(chosen.distinct)
        stack.enter_context(server)
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
