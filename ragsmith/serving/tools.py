"""The pipeline as tools of the Model Context Protocol, for agents: ask, retrieve and explain, over standard input."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar

from mcp.server.mcpserver.exceptions import ToolError

from ragsmith.serving.answering import PipelineService, plain
from ragsmith.serving.chat import MODEL, citations
from ragsmith.serving.limits import ServingLimits
from ragsmith.serving.parsing import question_of
from ragsmith.serving.refusals import RequestRefused, busy, failed
from ragsmith.serving.stdio import ToolServer
from ragsmith.serving.workers import CancellationToken, QueueFull, Workers, arrival

T = TypeVar("T")


def tool_server(answerer: PipelineService, limits: ServingLimits, version: str) -> ToolServer:
    """A server of the three tools."""
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
            return await _done(workers, (key, text), partial(do, text), limits.seconds)
        except RequestRefused as refused:
            raise ToolError(refused.message) from None

    @server.tool(structured_output=True)
    async def ask(question: str) -> dict[str, Any]:
        """Answer a question from the documents, with the parts of them that the answer rests on."""
        answered = await done(question, "ask", answerer.ask)
        return {"answer": answered.answer, "declined": answered.declined, "citations": plain(citations(answered))}

    @server.tool(structured_output=True)
    async def retrieve(question: str) -> dict[str, Any]:
        """Find the passages that fit a question best, with their places and scores; nothing is answered."""
        found = await done(question, "retrieve", answerer.retrieve)
        return {"passages": plain(found.passages)}

    @server.tool(structured_output=True)
    async def explain(question: str) -> dict[str, Any]:
        """Follow a question through every stage of the pipeline: what each made of it, and what was read in the end."""
        way = await done(question, "explain", answerer.explain)
        return {"answer": way.answer, "stages": plain(way.stations), "passages": plain(way.passages)}

    return server


async def _done(workers: Workers, key: Hashable, do: Callable[[CancellationToken], T], seconds: float) -> T:
    try:
        work = workers.enter(key, do)
    except QueueFull:
        raise busy() from None
    try:
        async with asyncio.timeout(seconds):
            await arrival(work).wait()
    except TimeoutError:
        raise RequestRefused(504, f"there was no answer within {seconds:g} seconds", "timeout") from None
    finally:
        workers.leave(work)
    found = work.future.result()
    if isinstance(found, Exception):
        raise failed(found)
    return found
