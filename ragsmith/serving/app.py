"""ASGI application that serves a pipeline: chat completions of OpenAI, `/ask`, `/retrieve`, `/explain` and a page."""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ragsmith.errors import RagsmithError, StageFailed
from ragsmith.pipelines.telemetry import Traces
from ragsmith.serving.answering import PipelineService, ServedAnswer
from ragsmith.serving.chat import (
    MODEL,
    ChatRequest,
    EventStream,
    chat_completion,
    describe_model,
    list_models,
    read_chat,
    sse_event,
)
from ragsmith.serving.feedback import DOWN, UP, FeedbackEntry, FeedbackFile, FileFull
from ragsmith.serving.limits import ServingLimits
from ragsmith.serving.middleware import LOOPBACK_HOSTS, RequestGuard, check_origin
from ragsmith.serving.monitoring import Metrics, log_event
from ragsmith.serving.page import page
from ragsmith.serving.readiness import Readiness
from ragsmith.serving.requests import (
    RETRY_SECONDS,
    Body,
    RequestRefused,
    check_keys,
    check_text,
    internal_error,
    invalid_request,
    overloaded,
    pipeline_failure,
    read_body,
    read_filter,
    read_flag,
    read_question,
    submit,
    timed_out,
)
from ragsmith.serving.streaming import CancellableStream
from ragsmith.serving.tools import ToolServer, make_tool_server
from ragsmith.serving.workers import Workers, WorkItem, done_event
from ragsmith.text.filters import parse_filter
from ragsmith.text.redaction import redacted
from ragsmith.types import Filter, Question, Span

T = TypeVar("T")

MAX_LOGGED_CHARACTERS = 300
"""Maximum length of an error message in the log, in characters."""
MAX_SOURCES = 100
"""Maximum number of sources in feedback."""
CLIENT_CLOSED = 499
"""Status of a request whose client disconnected, in the log and the metrics (as in nginx)."""

CROSS_ORIGIN: Mapping[str, Any] = {
    "allow_methods": ("GET", "POST", "DELETE"),
    "allow_headers": ("Authorization", "X-Request-ID", "Mcp-Session-Id", "Mcp-Protocol-Version"),
    "expose_headers": ("X-Request-ID", "Retry-After", "Mcp-Session-Id"),
}
"""What pages of other origins may send and read."""

Handler = Callable[[Request], Awaitable[Response]]


class GuardedApp:
    """ASGI application of ``routes`` and, at /mcp, of ``tools``; a `RequestGuard` checks all requests.

    It can be mounted in another application. The tools need its lifespan, which that application then has to run.
    Call `close` to release its resources.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        tools: ToolServer,
        workers: Workers | None = None,
        limits: ServingLimits | None = None,
        *,
        token: Mapping[str, str] | None,
        hosts: Sequence[str],
        origins: Sequence[str] = (),
        traces: Traces | None = None,
        types: Mapping[str, type] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """``workers`` do the work of requests, if it is not done by tools alone, which have threads of their own.

        ``token`` has the filter of each token, "" for all documents, whose fields have these ``types``.

        Raises:
            UsageError: a filter cannot be used.
        """
        self.limits, self.workers, self.n_requests = limits or ServingLimits(), workers or Workers(0, 0), 0
        self.metrics, self.tools, self.stopping = metrics or Metrics(), tools, False
        self.metrics.watch(self.workers)
        self.sessions = StreamableHTTPSessionManager(
            tools._lowlevel_server, max_request_body_size=self.limits.body, max_sessions=self.limits.connections
        )
        # without GET: a shutdown would wait for its streams, which the tools do not use
        inner = Starlette(
            routes=[*routes, Route("/mcp", self.sessions.asgi_app, methods=["POST", "DELETE"])],
            exception_handlers={
                405: _method_not_allowed,
                RequestRefused: _refusal_response,
                Exception: _refusal_response,
            },
            lifespan=lambda _: self.sessions.run(),
        )
        inner.router.redirect_slashes = False  # a redirect would repeat the Host header
        tokens = {each: parse_filter(where, types or {}) if where else None for each, where in (token or {}).items()}
        allowed = [check_origin(origin) for origin in origins]
        guard: ASGIApp = RequestGuard(
            inner, self.metrics, [*(route.path for route in routes), "/mcp"], tokens, hosts, traces, allowed
        )
        self._guarded_app = CORSMiddleware(guard, allowed, **CROSS_ORIGIN) if allowed else guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        self.n_requests += 1
        try:
            await self._guarded_app(scope, receive, send)
        finally:
            self.n_requests -= 1

    def close(self, *, is_idle: bool = False) -> None:
        """Refuse further work; with ``is_idle``, no request is being answered.

        Raises:
            StoreError: paid replies could not be written.
        """
        self.stopping = True
        self.workers.close()


class ServingApp(GuardedApp):
    """ASGI application that answers with one pipeline, also as tools of the Model Context Protocol."""

    def __init__(
        self,
        service: PipelineService,
        *,
        limits: ServingLimits | None = None,
        token: Mapping[str, str] | None = None,
        hosts: Sequence[str] = LOOPBACK_HOSTS,
        origins: Sequence[str] = (),
        feedback: str | Path | None = None,
    ) -> None:
        """See `GuardedApp` for ``token``, `RequestGuard` for ``hosts``; without ``feedback``, feedback is refused."""
        limits = limits or ServingLimits()
        self.service, self._readiness = service, Readiness(service.find_missing)
        self.feedback = None if feedback is None else FeedbackFile(Path(feedback), limits.feedback)
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
            "/feedback": ("POST", self._store_feedback),
        }
        workers = Workers(limits.threads(prefers_threads=service.prefers_threads), limits.queue)
        super().__init__(
            [Route(path, handler, methods=[method]) for path, (method, handler) in routes.items()],
            make_tool_server(service, workers, limits),
            workers,
            limits,
            token=token,
            hosts=hosts,
            origins=origins,
            traces=service.setup.traces,
            types=service.pipeline.field_types if any((token or {}).values()) else None,
            metrics=service.metrics,
        )

    def close(self, *, is_idle: bool = False) -> None:
        """See `GuardedApp.close`; also close the service."""
        super().close()
        self._readiness.close()
        self.service.close(is_idle=is_idle)

    # --- status -------------------------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        text, policy = page()
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        capacity = self.workers.threads + self.workers.queue
        if self.stopping or self.workers.busy + self.workers.waiting >= capacity:
            raise overloaded()
        if missing := await self._readiness.find_missing():
            log_event("not_ready", logging.WARNING, missing={name: redacted(why) for name, why in missing.items()})
            problem = f"the server cannot answer questions now ({', '.join(missing)} not available): retry later"
            raise RequestRefused(503, problem, "not_ready", retry_after=RETRY_SECONDS)
        return JSONResponse({"status": "ready"})

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _models(self, request: Request) -> Response:
        return JSONResponse(list_models(self._created))

    async def _model(self, request: Request) -> Response:
        return JSONResponse(describe_model(self._created))

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _ask(self, request: Request) -> Response:
        began = time.monotonic()
        body = await read_body(request, self.limits)
        check_keys(body, ("question", "filter", "stages"))
        question, stages = self._read_question(request, body, body.get("question")), read_flag(body, "stages")
        ask = partial(self.service.ask, question, stages=stages)
        answer = await self._wait_for(request, submit(self.workers, ("ask", question, stages), ask), began)
        id_ = request.state.request_id
        return JSONResponse(
            {
                "id": id_,
                **asdict(answer),
                "feedback": self.feedback is not None,
                "pipeline": self.service.pipeline_id,
            }
        )

    async def _retrieve(self, request: Request) -> Response:
        began = time.monotonic()
        question = await self._question(request)
        work = submit(self.workers, ("retrieve", question), partial(self.service.retrieve, question))
        found = await self._wait_for(request, work, began)
        return JSONResponse({"id": request.state.request_id, **asdict(found)})

    async def _explain(self, request: Request) -> Response:
        began = time.monotonic()
        question = await self._question(request)
        work = submit(self.workers, ("explain", question), partial(self.service.explain, question))
        explanation = await self._wait_for(request, work, began)
        return JSONResponse({"request": request.state.request_id, **asdict(explanation)})

    async def _question(self, request: Request) -> Question:
        body = await read_body(request, self.limits)
        check_keys(body, ("question", "filter"))
        return self._read_question(request, body, body.get("question"))

    def _read_question(self, request: Request, body: Body, text: object) -> Question:
        """Return the question of a request, with its filter and that of its token."""
        return Question(
            read_question(text, self.limits),
            read_filter(body.get("filter"), request.state.filter, self.service.pipeline.field_types),
        )

    async def _chat(self, request: Request) -> Response:
        began, created = time.monotonic(), int(time.time())
        body = await read_body(request, self.limits)
        chat_request = read_chat(body, self.limits)
        question = self._read_question(request, body, chat_request.question)
        ask = partial(self.service.ask, question, turns=chat_request.turns)
        work = submit(self.workers, ("ask", question, chat_request.turns), ask)
        id_ = request.state.request_id
        if chat_request.stream:
            stream = self._stream(work, chat_request, EventStream(id_, created), request, began)
            return CancellableStream(stream, began + self.limits.seconds, partial(self.workers.withdraw, work))
        answer = await self._wait_for(request, work, began)
        return JSONResponse(chat_completion(answer, id_, created, sources=chat_request.sources))

    async def _stream(
        self,
        work: WorkItem[ServedAnswer],
        chat_request: ChatRequest,
        events: EventStream,
        request: Request,
        began: float,
    ) -> AsyncIterator[str]:
        """Yield the events of a reply; an error after the first event is an event as well, as OpenAI clients expect."""
        try:
            yield events.begin()
            done = done_event(work)
            while not done.is_set():
                remaining = began + self.limits.seconds - time.monotonic()
                if remaining <= 0:
                    raise timed_out(self.limits)
                with suppress(TimeoutError):
                    await asyncio.wait_for(done.wait(), min(remaining, self.limits.heartbeat_seconds))
                if not done.is_set():
                    yield EventStream.WAITING
            answer = _result(work, request.state.request_id)
            for chunk in events.answer(answer, chat_request):
                yield chunk
        except RequestRefused as refused:
            request.state.error = refused.code
            yield sse_event(refused.body)
        yield EventStream.DONE

    async def _wait_for(self, request: Request, work: WorkItem[T], began: float) -> T:
        """Return the result of ``work``.

        Raises:
            RequestRefused: the work failed, the client disconnected, or the time limit was exceeded.
        """
        done = done_event(work)
        done_task = asyncio.ensure_future(done.wait())
        disconnect_task = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            remaining = began + self.limits.seconds - time.monotonic()
            await asyncio.wait(
                (done_task, disconnect_task), timeout=max(remaining, 0), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            done_task.cancel()
            disconnect_task.cancel()
            self.workers.withdraw(work)
        if done.is_set():
            return _result(work, request.state.request_id)
        if disconnect_task.done():
            raise RequestRefused(CLIENT_CLOSED, "the client disconnected", "gone", closes=True)
        raise timed_out(self.limits)

    # --- feedback -----------------------------------------------------------------------------------------------------

    async def _store_feedback(self, request: Request) -> Response:
        entry = self._parse_feedback(await read_body(request, self.limits), request.state.filter)
        if self.feedback is None:
            raise RequestRefused(
                404, "this server does not store feedback: start it with a feedback file", "no_feedback"
            )
        ids = self.service.setup.model_ids
        try:
            id_ = await asyncio.to_thread(self.feedback.write, entry, ids["language_model"].partition(":")[0])
        except TimeoutError:
            problem = "the feedback was not stored, as its file is locked by another process: send it again"
            raise RequestRefused(503, problem, "not_kept", retry_after=RETRY_SECONDS) from None
        except OSError as error:
            is_full = isinstance(error, FileFull) or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            log_event(
                "feedback_lost", logging.ERROR, id=request.state.request_id, error=type(error).__name__, full=is_full
            )
            reason = "as there is no space left" if is_full else "as its file cannot be written"
            raise RequestRefused(507, f"the feedback was not stored, {reason}", "not_kept") from None
        self.metrics.feedback.labels(entry.thumb).inc()
        return JSONResponse({"id": id_, "kept": True}, 201)

    def _parse_feedback(self, body: Body, admitted: Filter | None) -> FeedbackEntry:
        check_keys(body, ("question", "answer", "thumb", "corrected", "declined", "sources", "request", "pipeline"))
        question, declined = read_question(body.get("question"), self.limits), read_flag(body, "declined")
        thumb = body.get("thumb")
        if thumb not in (UP, DOWN):
            raise invalid_request("'thumb' must be 'up' or 'down'", "thumb")
        answer, corrected, request, pipeline = (
            _optional_text(body, name) for name in ("answer", "corrected", "request", "pipeline")
        )
        if not answer:
            raise invalid_request("'answer' is missing: send the answer that the feedback is about", "answer")
        sources = self._sources(body.get("sources"), admitted)
        return FeedbackEntry(
            question, answer, str(thumb), corrected, declined, sources, request, pipeline or self.service.pipeline_id
        )

    def _sources(self, value: object, admitted: Filter | None) -> list[tuple[Span, str]]:
        """Return the source spans of an answer, with their texts; all of them must be in the ``admitted`` documents."""
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > MAX_SOURCES:
            raise invalid_request(f"'sources' must be a list of at most {MAX_SOURCES}", "sources")
        texts: dict[Span, str] = {}
        for number, source in enumerate(value):
            parameter = f"sources[{number}]"
            doc, start, end = (source.get(key) if isinstance(source, dict) else None for key in ("doc", "start", "end"))
            if not isinstance(doc, str) or type(start) is not int or type(end) is not int:
                raise invalid_request(f"{parameter!r} must be an object with 'doc', 'start' and 'end'", parameter)
            text = self.service.span_text(doc, start, end, admitted)
            if text is None or not text.strip():
                raise invalid_request(f"{parameter!r} is not a span of the documents", parameter)
            texts[Span(doc, start, end)] = text
        return list(texts.items())


def _optional_text(body: Body, name: str) -> str:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise invalid_request(f"{name!r} must be a text", name)
    return check_text((value or "").strip(), name)


def _result(work: WorkItem[T], id_: str) -> T:
    """Return the result of ``work``.

    Raises:
        RequestRefused: the work failed; the reason is in the log.
    """
    result = work.future.result()
    if not isinstance(result, Exception):
        return result
    is_expected = isinstance(result, RagsmithError)
    stage = result.stage if isinstance(result, StageFailed) else ""
    cause = result.cause if isinstance(result, StageFailed) else result
    message = redacted(str(cause))[:MAX_LOGGED_CHARACTERS]
    trace = None if is_expected else result
    log_event(
        "answer_failed", logging.ERROR, trace=trace, id=id_, stage=stage, error=type(cause).__name__, message=message
    )
    raise pipeline_failure(result) if is_expected else internal_error()


async def _wait_for_disconnect(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _method_not_allowed(request: Request, error: Exception) -> Response:
    refused = RequestRefused(405, "this path does not support the method", "wrong_method")
    request.state.error = refused.code
    allowed = error.headers.get("Allow", "") if isinstance(error, HTTPException) and error.headers else ""
    return JSONResponse(refused.body, refused.status, {**refused.headers, "Allow": allowed})


async def _refusal_response(request: Request, error: Exception) -> Response:
    refused = error if isinstance(error, RequestRefused) else internal_error()
    request.state.error = refused.code
    return JSONResponse(refused.body, refused.status, refused.headers)
