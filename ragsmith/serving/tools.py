"""Tools of the Model Context Protocol for agents, over standard input or HTTP: ask, retrieve and explain.

Over standard input, the library serves until its input ends, and then drops unanswered requests. On a signal, this
module therefore ends the input only when all requests that were read have been answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from enum import Enum, auto
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from ragsmith.evaluation.signals import signals_handled
from ragsmith.serving.answering import PipelineService
from ragsmith.serving.chat import MODEL, citations
from ragsmith.serving.limits import ServingLimits
from ragsmith.serving.requests import RequestRefused, pipeline_failure, read_filter, read_question, submit, timed_out
from ragsmith.serving.workers import CancellationToken, Workers, done_event
from ragsmith.types import Question

READ_BYTES = 1 << 16
"""Size of the reads from standard input, in bytes."""


class InputEnd(Enum):
    """Reason for the end of the input."""

    CLOSED = auto()
    STOP_REQUESTED = auto()


class ToolServer(MCPServer):
    """MCP server whose `run_stdio_async` shuts down gracefully on a signal.

    ``interrupted`` is whether Ctrl-C was pressed during the shutdown, which aborts it. Signals are handled in the main
    thread. ``on_stop`` is called when a shutdown begins, over HTTP as well, to end work that would delay it.
    """

    interrupted = False
    on_stop: Callable[[], object] = staticmethod(lambda: None)

    async def run_stdio_async(self) -> None:
        """Serve until the input ends or a signal is received; an aborted shutdown raises the signal again."""
        loop, serving = asyncio.get_running_loop(), asyncio.current_task()
        lines: asyncio.Queue[str | InputEnd] = asyncio.Queue()
        pending = _PendingRequests()
        stopping = False

        def handle_signal(number: int, _: Any) -> None:
            nonlocal stopping
            if not stopping:
                loop.call_soon_threadsafe(lines.put_nowait, InputEnd.STOP_REQUESTED)
                loop.call_soon_threadsafe(self.on_stop)
            elif number == signal.SIGINT and serving is not None:
                self.interrupted = True
                loop.call_soon_threadsafe(serving.cancel)
            stopping = True

        with signals_handled(handle_signal):
            _read_into(lines, loop)
            # the library only iterates over the lines, although its type is that of a file
            incoming = cast("Any", pending.track(lines))
            try:
                async with stdio_server(stdin=incoming) as (reading, writing):
                    options = self._lowlevel_server.create_initialization_options()
                    await self._lowlevel_server.run(reading, _ReplyStream(writing, pending), options)
            except asyncio.CancelledError:
                if not self.interrupted:
                    raise
        if self.interrupted:
            signal.raise_signal(signal.SIGINT)


class _PendingRequests:
    """Ids of the unanswered requests."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()
        self._all_answered = asyncio.Event()
        self._all_answered.set()

    async def track(self, lines: asyncio.Queue[str | InputEnd]) -> AsyncIterator[str]:
        """Yield the lines; after a request to stop, end when all requests have been answered."""
        while not isinstance(line := await lines.get(), InputEnd):
            self._record(line)
            yield line
        if line is InputEnd.STOP_REQUESTED:
            await self._all_answered.wait()

    def remove(self, id_: object) -> None:
        """Record that the request ``id_`` was answered or cancelled."""
        if isinstance(id_, str | int):
            self._ids.discard(id_)
        if not self._ids:
            self._all_answered.set()

    def _record(self, line: str) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict):
            return
        id_, method, parameters = message.get("id"), message.get("method"), message.get("params")
        if method == "notifications/cancelled" and isinstance(parameters, dict):
            self.remove(parameters.get("requestId"))
        elif isinstance(method, str) and isinstance(id_, str | int):
            self._ids.add(id_)
            self._all_answered.clear()


class _ReplyStream:
    """Stream of replies, which records answered requests in ``pending``."""

    def __init__(self, inner: Any, pending: _PendingRequests) -> None:
        self._inner, self._pending = inner, pending

    async def send(self, item: SessionMessage, /) -> None:
        await self._inner.send(item)
        self._pending.remove(getattr(item.message, "id", None))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _read_into(lines: asyncio.Queue[str | InputEnd], loop: asyncio.AbstractEventLoop) -> None:
    """Read standard input in a daemon thread, as a read may block until the process ends."""
    handle = sys.stdin.fileno()

    def put(line: str | InputEnd) -> bool:
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
            *complete, rest = (rest + data).split(b"\n")
            if not all(put(line.decode("utf-8", "replace")) for line in complete):
                return
        if rest:
            put(rest.decode("utf-8", "replace"))
        put(InputEnd.CLOSED)

    threading.Thread(target=read, name="ragsmith-input", daemon=True).start()


T = TypeVar("T")


def make_tool_server(service: PipelineService, workers: Workers, limits: ServingLimits) -> ToolServer:
    """Return a server of the three tools, whose work ``workers`` do."""
    name = service.setup.dataset.name
    server = ToolServer(
        MODEL,
        version=version("ragsmith"),
        instructions=f"Answers questions from the documents of {name!r}, and cites their passages.",
        log_level="WARNING",
    )

    async def run(
        question: str, where: str | None, context: Context, function: Callable[[Question, CancellationToken], T]
    ) -> T:
        request = context.request_context.request
        admitted = None if request is None else request.state.filter  # there is no request on standard input
        try:
            asked = Question(
                read_question(question, limits), read_filter(where, admitted, service.pipeline.field_types)
            )
            work = submit(workers, (function.__name__, asked), partial(function, asked))
            try:
                async with asyncio.timeout(limits.seconds):
                    await done_event(work).wait()
            except TimeoutError:
                raise timed_out(limits) from None
            finally:
                workers.withdraw(work)
            result = work.future.result()
            if isinstance(result, Exception):
                raise pipeline_failure(result)
            return result
        except RequestRefused as refused:
            if request is not None:
                request.state.error = refused.code
            raise ToolError(refused.message) from None

    @server.tool(structured_output=True)
    async def ask(context: Context, question: str, filter: str | None = None) -> dict[str, Any]:  # noqa: A002
        """Answer a question from the documents, and cite the passages that support the answer.

        With a filter, such as "year>=2023 and lang in de|en", only documents with such fields are used.
        """
        answer = await run(question, filter, context, service.ask)
        return {"answer": answer.answer, "declined": answer.declined, "citations": list(map(asdict, citations(answer)))}

    @server.tool(structured_output=True)
    async def retrieve(context: Context, question: str, filter: str | None = None) -> dict[str, Any]:  # noqa: A002
        """Retrieve the most relevant passages for a question, with their positions and scores, without an answer."""
        result = await run(question, filter, context, service.retrieve)
        return {"passages": list(map(asdict, result.passages))}

    @server.tool(structured_output=True)
    async def explain(context: Context, question: str, filter: str | None = None) -> dict[str, Any]:  # noqa: A002
        """Explain the output of every stage of the pipeline for a question, and the passages in the prompt."""
        explanation = await run(question, filter, context, service.explain)
        return {
            "answer": explanation.answer,
            "stages": list(map(asdict, explanation.stages)),
            "passages": list(map(asdict, explanation.passages)),
        }

    return server
