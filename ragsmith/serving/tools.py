"""Tools of the Model Context Protocol for agents, over standard input: ask, retrieve and explain.

The library serves until its input ends, and then drops unanswered requests. On a signal this module therefore ends the
input only after all requests that were read have been answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from enum import Enum, auto
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from ragsmith.evaluation.signals import signals_handled
from ragsmith.serving.answering import PipelineService, to_json
from ragsmith.serving.chat import MODEL, citations
from ragsmith.serving.limits import ServingLimits
from ragsmith.serving.requests import RequestRefused, enter, failed, late, question_of
from ragsmith.serving.workers import CancellationToken, Workers, arrival

READ_BYTES = 1 << 16
"""Size of the reads from standard input, in bytes."""


class End(Enum):
    """Reason for the end of the input."""

    OF_INPUT = auto()
    ASKED = auto()


class ToolServer(MCPServer):
    """MCP server whose `run_stdio_async` shuts down gracefully on a signal.

    ``interrupted`` is whether Ctrl-C was pressed during the shutdown, which aborts it. Signals are handled in the main
    thread.
    """

    interrupted = False

    async def run_stdio_async(self) -> None:
        """Serve until the input ends or a signal is received."""
        loop, serving = asyncio.get_running_loop(), asyncio.current_task()
        lines: asyncio.Queue[str | End] = asyncio.Queue()
        unanswered = _Unanswered()
        stopping = False

        def hear(number: int, _: Any) -> None:
            nonlocal stopping
            if not stopping:
                loop.call_soon_threadsafe(lines.put_nowait, End.ASKED)
            elif number == signal.SIGINT and serving is not None:
                self.interrupted = True
                loop.call_soon_threadsafe(serving.cancel)
            stopping = True

        with signals_handled(hear):
            _read_into(lines, loop)
            # the library only iterates over the lines, although its type is that of a file
            incoming = cast("Any", unanswered.track(lines))
            try:
                async with stdio_server(stdin=incoming) as (reading, writing):
                    options = self._lowlevel_server.create_initialization_options()
                    await self._lowlevel_server.run(reading, _Replies(writing, unanswered), options)
            except asyncio.CancelledError:
                if not self.interrupted:
                    raise


class _Unanswered:
    """Ids of the requests that were read and not answered yet."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()
        self._none = asyncio.Event()
        self._none.set()

    async def track(self, lines: asyncio.Queue[str | End]) -> AsyncIterator[str]:
        """Yield the lines; after a request to stop, end when all requests have been answered."""
        while not isinstance(line := await lines.get(), End):
            self._note(line)
            yield line
        if line is End.ASKED:
            await self._none.wait()

    def answered(self, id_: object) -> None:
        """Record that the request ``id_`` was answered or cancelled."""
        if isinstance(id_, str | int):
            self._ids.discard(id_)
        if not self._ids:
            self._none.set()

    def _note(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        id_, method, parameters = message.get("id"), message.get("method"), message.get("params")
        if method == "notifications/cancelled" and isinstance(parameters, dict):
            self.answered(parameters.get("requestId"))
        elif isinstance(method, str) and isinstance(id_, str | int):
            self._ids.add(id_)
            self._none.clear()


class _Replies:
    """Stream of replies, which records answered requests in ``unanswered``."""

    def __init__(self, inner: Any, unanswered: _Unanswered) -> None:
        self._inner, self._unanswered = inner, unanswered

    async def send(self, item: SessionMessage, /) -> None:
        await self._inner.send(item)
        self._unanswered.answered(getattr(item.message, "id", None))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _read_into(lines: asyncio.Queue[str | End], loop: asyncio.AbstractEventLoop) -> None:
    """Read standard input in a daemon thread, as a read may block until the process ends."""
    handle = sys.stdin.fileno()

    def put(line: str | End) -> bool:
        try:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        except RuntimeError:
            if not loop.is_closed():
                raise
            return False
        return True

    def read() -> None:
        rest = b""
        while data := os.read(handle, READ_BYTES):
            *whole, rest = (rest + data).split(b"\n")
            if not all(put(line.decode("utf-8", "replace")) for line in whole):
                return
        if rest:
            put(rest.decode("utf-8", "replace"))
        put(End.OF_INPUT)

    threading.Thread(target=read, name="ragsmith-input", daemon=True).start()


T = TypeVar("T")


def tool_server(answerer: PipelineService, limits: ServingLimits, version: str) -> ToolServer:
    """Return a server of the three tools."""
    workers = Workers(limits.threads(waits=answerer.waits), limits.queue)
    name = answerer.setup.dataset.name
    server = ToolServer(
        MODEL,
        version=version,
        instructions=f"Answers questions from the documents of {name!r}, and says which parts of them it rests on.",
        log_level="WARNING",
    )

    async def done(question: str, key: str, do: Callable[[str, CancellationToken], T]) -> T:
        try:
            text = question_of(question, limits)
            work = enter(workers, (key, text), partial(do, text))
            try:
                async with asyncio.timeout(limits.seconds):
                    await arrival(work).wait()
            except TimeoutError:
                raise late(limits) from None
            finally:
                workers.leave(work)
            result = work.future.result()
            if isinstance(result, Exception):
                raise failed(result)
            return result
        except RequestRefused as refused:
            raise ToolError(refused.message) from None

    @server.tool(structured_output=True)
    async def ask(question: str) -> dict[str, Any]:
        """Answer a question from the documents, with the parts of them that the answer rests on."""
        answered = await done(question, "ask", answerer.ask)
        return {"answer": answered.answer, "declined": answered.declined, "citations": to_json(citations(answered))}

    @server.tool(structured_output=True)
    async def retrieve(question: str) -> dict[str, Any]:
        """Find the passages that fit a question best, with their places and scores; nothing is answered."""
        found = await done(question, "retrieve", answerer.retrieve)
        return {"passages": to_json(found.passages)}

    @server.tool(structured_output=True)
    async def explain(question: str) -> dict[str, Any]:
        """Follow a question through every stage of the pipeline: what each made of it, and what was read in the end."""
        explanation = await done(question, "explain", answerer.explain)
        return {
            "answer": explanation.answer,
            "stages": to_json(explanation.stations),
            "passages": to_json(explanation.passages),
        }

    return server
