"""ASGI application that serves a pipeline: chat completions of OpenAI, `/ask`, `/retrieve`, `/explain` and a page."""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ragsmith.errors import RagsmithError, StageFailed
from ragsmith.serving.answering import PipelineService, ServedAnswer, to_json
from ragsmith.serving.chat import MODEL, ChatRequest, Events, completion, event, model, models, read_chat
from ragsmith.serving.feedback import DOWN, UP, FeedbackEntry, FeedbackFile, FileFull
from ragsmith.serving.limits import ServingLimits
from ragsmith.serving.middleware import THIS_MACHINE, RequestGuard
from ragsmith.serving.monitoring import Metrics
from ragsmith.serving.monitoring import event as log
from ragsmith.serving.page import page
from ragsmith.serving.requests import (
    RETRY_SECONDS,
    Body,
    RequestRefused,
    broken,
    busy,
    enter,
    failed,
    late,
    plain_text,
    question_of,
    read_body,
    refuse_unknown,
    switch,
    wrong,
)
from ragsmith.serving.streaming import CancellableStream
from ragsmith.serving.workers import CancellationToken, Workers, WorkItem, arrival
from ragsmith.text.redaction import redacted
from ragsmith.types import Span

T = TypeVar("T")

MAX_LOGGED_CHARACTERS = 300
"""Maximum length of an error message in the log, in characters."""
MAX_SOURCES = 100
"""Maximum number of sources in feedback."""
CLIENT_CLOSED = 499
"""Status of a request whose client disconnected, in the log and the metrics (as in nginx)."""

Handler = Callable[[Request], Awaitable[Response]]


class ServingApp:
    """ASGI application that answers with one pipeline; it can be mounted in another application.

    Call `close` to release its resources.
    """

    def __init__(
        self,
        answerer: PipelineService,
        *,
        limits: ServingLimits | None = None,
        token: str | None = None,
        hosts: Sequence[str] = THIS_MACHINE,
        feedback: str | Path | None = None,
    ) -> None:
        """See `ragsmith.serving.middleware` for ``token`` and ``hosts``; without ``feedback``, feedback is refused."""
        self.limits = limits or ServingLimits()
        self.answerer = answerer
        self.workers = Workers(self.limits.threads(waits=answerer.waits), self.limits.queue)
        self.metrics = Metrics(self.workers)
        self.feedback = None if feedback is None else FeedbackFile(Path(feedback), self.limits.feedback)
        self.stopping = False
        self._created = int(time.time())
        routes: Mapping[str, tuple[str, Handler]] = {
            "/": ("GET", self._page),
            "/health": ("GET", self._health),
            "/ready": ("GET", self._ready),
            "/metrics": ("GET", self._metrics),
            "/v1/models": ("GET", self._models),
            f"/v1/models/{MODEL}": ("GET", self._model),
            "/v1/chat/completions": ("POST", self._chat),
            "/ask": ("POST", self._ask),
            "/retrieve": ("POST", self._retrieve),
            "/explain": ("POST", self._explain),
            "/feedback": ("POST", self._take_feedback),
        }
        inner = Starlette(
            routes=[Route(path, handler, methods=[method]) for path, (method, handler) in routes.items()],
            exception_handlers={405: _other_method, RequestRefused: _refusal, Exception: _refusal},
        )
        inner.router.redirect_slashes = False  # a redirect would repeat the Host header
        self._guarded = RequestGuard(inner, self.metrics, routes, token, hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._guarded(scope, receive, send)

    def close(self) -> None:
        """Refuse further questions, and close the service.

        Raises:
            StoreError: paid replies could not be written.
        """
        self.stopping = True
        self.workers.close()
        self.answerer.close()

    # --- status -------------------------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        text, policy = page()
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        room = self.workers.threads + self.workers.queue
        if self.stopping or self.workers.busy + self.workers.waiting >= room:
            raise busy()
        return JSONResponse({"status": "ready"})

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _models(self, request: Request) -> Response:
        return JSONResponse(models(self._created))

    async def _model(self, request: Request) -> Response:
        return JSONResponse(model(self._created))

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _ask(self, request: Request) -> Response:
        began = time.monotonic()
        body = await read_body(request, self.limits)
        refuse_unknown(body, ("question", "stages"))
        question, stages = question_of(body.get("question"), self.limits), switch(body, "stages")
        ask = partial(self.answerer.ask, question, stages=stages)
        answered = await self._done(request, enter(self.workers, ("ask", question, stages), self._counted(ask)), began)
        usage = to_json(answered.usage)
        id_ = request.state.request_id
        return JSONResponse({"id": id_, **to_json(answered), "usage": usage, "feedback": self.feedback is not None})

    async def _retrieve(self, request: Request) -> Response:
        began = time.monotonic()
        question = await self._question(request)
        work = enter(self.workers, ("retrieve", question), partial(self.answerer.retrieve, question))
        return JSONResponse({"id": request.state.request_id, **to_json(await self._done(request, work, began))})

    async def _explain(self, request: Request) -> Response:
        began = time.monotonic()
        question = await self._question(request)
        work = enter(self.workers, ("explain", question), partial(self.answerer.explain, question))
        return JSONResponse({"request": request.state.request_id, **to_json(await self._done(request, work, began))})

    async def _question(self, request: Request) -> str:
        body = await read_body(request, self.limits)
        refuse_unknown(body, ("question",))
        return question_of(body.get("question"), self.limits)

    async def _chat(self, request: Request) -> Response:
        began, created = time.monotonic(), int(time.time())
        asked = read_chat(await read_body(request, self.limits), self.limits)
        ask = partial(self.answerer.ask, asked.question, turns=asked.turns)
        work = enter(self.workers, ("ask", asked.question, asked.turns), self._counted(ask))
        id_ = request.state.request_id
        if asked.stream:
            stream = self._stream(work, asked, Events(id_, created), id_, began)
            return CancellableStream(stream, began + self.limits.seconds, partial(self.workers.leave, work))
        answered = await self._done(request, work, began)
        return JSONResponse(completion(answered, id_, created, sources=asked.sources))

    async def _stream(
        self, work: WorkItem[ServedAnswer], asked: ChatRequest, events: Events, id_: str, began: float
    ) -> AsyncIterator[str]:
        """Yield the events of a reply; an error after the first event is an event, too, as OpenAI clients expect."""
        try:
            yield events.begin()
            arrived = arrival(work)
            while not arrived.is_set():
                left = began + self.limits.seconds - time.monotonic()
                if left <= 0:
                    raise late(self.limits)
                with suppress(TimeoutError):
                    await asyncio.wait_for(arrived.wait(), min(left, self.limits.heartbeat_seconds))
                if not arrived.is_set():
                    yield Events.WAITING
            answered = _result(work, id_)
            for chunk in events.answer(answered, asked):
                yield chunk
        except RequestRefused as refused:
            yield event(refused.body)
        yield Events.DONE

    def _counted(self, ask: Callable[[CancellationToken], ServedAnswer]) -> Callable[[CancellationToken], ServedAnswer]:
        def counting(stop: CancellationToken) -> ServedAnswer:
            answered = ask(stop)
            self.metrics.answer(answered.usage, declined=answered.declined)
            return answered

        return counting

    async def _done(self, request: Request, work: WorkItem[T], began: float) -> T:
        """Return the result of ``work``.

        Raises:
            RequestRefused: the work failed, the client disconnected, or the time limit was exceeded.
        """
        arrived = arrival(work)
        waiting = asyncio.ensure_future(arrived.wait())
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            left = began + self.limits.seconds - time.monotonic()
            await asyncio.wait((waiting, disconnected), timeout=max(left, 0), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            disconnected.cancel()
            self.workers.leave(work)
        if arrived.is_set():
            return _result(work, request.state.request_id)
        if disconnected.done():
            raise RequestRefused(CLIENT_CLOSED, "the client disconnected", "gone", closes=True)
        raise late(self.limits)

    # --- feedback -----------------------------------------------------------------------------------------------------

    async def _take_feedback(self, request: Request) -> Response:
        entry = self._parse_feedback(await read_body(request, self.limits))
        if self.feedback is None:
            raise RequestRefused(404, "this server stores no feedback: start it with a feedback file", "no_feedback")
        ids = self.answerer.setup.model_ids
        try:
            id_ = await asyncio.to_thread(self.feedback.write, entry, ids["language_model"].partition(":")[0])
        except TimeoutError:
            problem = "the feedback was not stored, as its file is locked by others: send it again"
            raise RequestRefused(503, problem, "not_kept", retry_after=RETRY_SECONDS) from None
        except OSError as error:
            full = isinstance(error, FileFull) or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            log("feedback_lost", logging.ERROR, id=request.state.request_id, error=type(error).__name__, full=full)
            why = "as there is no space left" if full else "as its file cannot be written"
            raise RequestRefused(507, f"the feedback was not stored, {why}", "not_kept") from None
        self.metrics.feedback(entry.thumb)
        return JSONResponse({"id": id_, "kept": True}, 201)

    def _parse_feedback(self, body: Body) -> FeedbackEntry:
        refuse_unknown(body, ("question", "answer", "thumb", "corrected", "declined", "sources"))
        question, declined = question_of(body.get("question"), self.limits), switch(body, "declined")
        thumb = body.get("thumb")
        if thumb not in (UP, DOWN):
            raise wrong("'thumb' must be 'up' or 'down'", "thumb")
        answer, corrected = (_text(body, name) for name in ("answer", "corrected"))
        if not answer:
            raise wrong("'answer' is missing: send the answer that the feedback is about", "answer")
        return FeedbackEntry(question, answer, str(thumb), corrected, declined, self._sources(body.get("sources")))

    def _sources(self, value: object) -> list[tuple[Span, str]]:
        """Return the source spans of an answer, with their texts; all of them must be in the documents."""
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > MAX_SOURCES:
            raise wrong(f"'sources' must be a list of at most {MAX_SOURCES}", "sources")
        found: dict[Span, str] = {}
        for number, place in enumerate(value):
            where = f"sources[{number}]"
            doc, start, end = (place.get(key) if isinstance(place, dict) else None for key in ("doc", "start", "end"))
            if not isinstance(doc, str) or type(start) is not int or type(end) is not int:
                raise wrong(f"{where!r} must be an object with 'doc', 'start' and 'end'", where)
            text = self.answerer.span_text(doc, start, end)
            if text is None or not text.strip():
                raise wrong(f"{where!r} is no span of the documents", where)
            found[Span(doc, start, end)] = text
        return list(found.items())


def _text(body: Body, name: str) -> str:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise wrong(f"{name!r} must be a text", name)
    return plain_text((value or "").strip(), name)


def _result(work: WorkItem[T], id_: str) -> T:
    """Return the result of ``work``.

    Raises:
        RequestRefused: the work failed; the reason is in the log.
    """
    found = work.future.result()
    if not isinstance(found, Exception):
        return found
    expected = isinstance(found, RagsmithError)
    stage = found.stage if isinstance(found, StageFailed) else ""
    cause = found.cause if isinstance(found, StageFailed) else found
    message = redacted(str(cause))[:MAX_LOGGED_CHARACTERS]
    trace = None if expected else found
    log("answer_failed", logging.ERROR, trace=trace, id=id_, stage=stage, error=type(cause).__name__, message=message)
    raise failed(found) if expected else broken()


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _other_method(request: Request, error: Exception) -> Response:
    refused = RequestRefused(405, "this path does not support the method", "wrong_method")
    request.state.error = refused.code
    allowed = error.headers.get("Allow", "") if isinstance(error, HTTPException) and error.headers else ""
    return JSONResponse(refused.body, refused.status, {**refused.headers, "Allow": allowed})


async def _refusal(request: Request, error: Exception) -> Response:
    refused = error if isinstance(error, RequestRefused) else broken()
    request.state.error = refused.code
    return JSONResponse(refused.body, refused.status, refused.headers)
