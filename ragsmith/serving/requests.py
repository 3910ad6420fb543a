"""What is read of a request, within its limits, and why one is not answered, in the form of OpenAI's errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from ragsmith.errors import ModelUnavailable, StageFailed, StoreError
from ragsmith.serving.limits import ServingLimits
from ragsmith.serving.workers import CancellationToken, QueueFull, Workers, WorkItem
from ragsmith.text.files import FORBIDDEN, TextError, control
from ragsmith.text.jsonl import kind, parse_json

INVALID, BROKEN = "invalid_request_error", "server_error"
"""What OpenAI calls errors of the request, whatever is wrong with it, and those of the server, from status 500 up."""

AGAIN_SECONDS = 2
"""When to come again, where nobody knows better."""


class RequestRefused(Exception):
    """A request is answered by an error with this ``status``; ``message`` is what the client is told.

    ``code`` names the reason for programs, ``parameter`` the part of the request that is wrong. ``retry_after`` is in
    seconds, 0 where coming again is of no use: OpenAI's clients, which send again whatever failed with 500 or above,
    are told so, as it may have been paid. ``closes`` says that the connection is of no use any more.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        parameter: str | None = None,
        retry_after: int = 0,
        closes: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.parameter = parameter
        self.retry_after = retry_after
        self.closes = closes

    @property
    def body(self) -> dict[str, object]:
        """The error as OpenAI sends it."""
        kind = BROKEN if self.status >= 500 else INVALID
        return {"error": {"message": self.message, "type": kind, "param": self.parameter, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        """What belongs into the head of the reply."""
        found = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        if self.status >= 500 and not self.retry_after:
            found["X-Should-Retry"] = "false"
        if self.closes:
            found["Connection"] = "close"
        if self.status == 401:
            found["WWW-Authenticate"] = "Bearer"
        return found


def wrong(message: str, parameter: str | None = None, code: str = "invalid_value") -> RequestRefused:
    """A request that says something wrong."""
    return RequestRefused(400, message, code, parameter=parameter)


def large_head() -> RequestRefused:
    """A request with more before its body than there may be."""
    return RequestRefused(431, "the head of the request is too large: leave something out", "large_head", closes=True)


def no_http(error: BaseException | None) -> RequestRefused:
    """What is not read as a request; ``error`` is the parser's."""
    status = getattr(error, "error_status_hint", 400)
    if status == 431:
        return large_head()
    if status == 501:
        said = "the body comes in an encoding that is not known here: send it as it is, or chunked"
        return RequestRefused(501, said, "unknown_encoding", closes=True)
    return RequestRefused(
        400, "this is no HTTP request, or its body is not as it announces it", "invalid_http", closes=True
    )


def busy() -> RequestRefused:
    """A request for which there is no room."""
    return RequestRefused(
        503, "the server answers as many questions as it can: come again", "busy", retry_after=AGAIN_SECONDS
    )


def failed(error: Exception) -> RequestRefused:
    """A request that the pipeline failed on. What the error says is for the log: it may have a prompt, or a path."""
    cause = error.cause if isinstance(error, StageFailed) else error
    stage = f"the stage {error.family} failed" if isinstance(error, StageFailed) else "the pipeline failed"
    if isinstance(cause, ModelUnavailable):
        said = f"{stage}, as a model that it asks is not available now: come again later"
        return RequestRefused(503, said, "model_unavailable", retry_after=AGAIN_SECONDS * 5)
    if isinstance(cause, StoreError):
        said = f"{stage}, as what is paid for cannot be kept now: come again later, it is not paid for again"
        return RequestRefused(503, said, "not_kept", retry_after=AGAIN_SECONDS * 5)
    if isinstance(error, StageFailed):
        said = f"{stage} on this question: ask otherwise, or look for the request id in the log of the server"
        return RequestRefused(502, said, "pipeline_failed")
    return broken()


def broken() -> RequestRefused:
    """A request on which the server itself failed."""
    said = "the server failed on this request: look for the request id in its log"
    return RequestRefused(500, said, "internal_error")


T = TypeVar("T")
Body = Mapping[str, object]


async def read_body(request: Request, limits: ServingLimits) -> Body:
    """The JSON object that a request sends.

    Raises:
        Refused: it is none, too large, or too slow.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise RequestRefused(
            415, "the body must be JSON: send  Content-Type: application/json", "not_json", closes=True
        )
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > 18 or int(announced) > limits.body:
        raise _too_large(limits)
    data = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                data += part
                if len(data) > limits.body:
                    raise _too_large(limits)
    except TimeoutError:
        said = f"the body did not arrive within {limits.body_seconds:g} seconds"
        raise RequestRefused(408, said, "slow_body", closes=True) from None
    except ClientDisconnect:
        raise RequestRefused(400, "the request broke off", "broken_off", closes=True) from None
    try:
        body = parse_json(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise wrong("the body is not UTF-8") from None
    except TextError as error:
        raise wrong(f"the body cannot be read: {error.reason}") from None
    if not isinstance(body, dict):
        raise wrong(f"the body must be an object, not {kind(body)}")
    return body


def _too_large(limits: ServingLimits) -> RequestRefused:
    return RequestRefused(413, f"the body is larger than {limits.body:,} bytes", "too_large", closes=True)


def question_of(value: object, limits: ServingLimits, parameter: str = "question") -> str:
    """A question that was sent.

    Raises:
        Refused: it is no text, blank, too long, or has characters that no text has.
    """
    if value is None:
        raise wrong(f"{parameter!r} is missing: send a text", parameter, "missing_required_parameter")
    if not isinstance(value, str):
        raise wrong(f"{parameter!r} must be a text, not {kind(value)}", parameter, "invalid_type")
    text = value.strip()
    if not text:
        raise wrong(f"{parameter!r} is blank", parameter)
    if len(text) > limits.question:
        said = f"{parameter!r} has {len(text):,} characters: give at most {limits.question:,}"
        raise wrong(said, parameter, "string_above_max_length")
    return plain_text(text, parameter)


def plain_text(text: str, parameter: str) -> str:
    """``text``, unless there are characters in it that no text has.

    Raises:
        Refused: there are control characters, or halves of characters.
    """
    if found := FORBIDDEN.search(text):
        raise wrong(f"{parameter!r} has a {control(found.group())}: remove it", parameter)
    return text


def switch(body: Body, name: str, *, default: bool = False) -> bool:
    """A value that is true or false, or not there; null is not there, too.

    Raises:
        Refused: it is something else.
    """
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise wrong(f"{name!r} must be true or false, not {kind(value)}", name, "invalid_type")
    return value


def refuse_unknown(body: Body, known: tuple[str, ...]) -> None:
    """Raise `RequestRefused` where ``body`` has keys that mean nothing here."""
    for key in body:
        if key not in known:
            raise wrong(f"there is no parameter {key[:40]!r}: give {', '.join(known)}", code="unknown_parameter")


def enter(workers: Workers, key: Hashable, do: Callable[[CancellationToken], T]) -> WorkItem[T]:
    """Have ``do`` done; see `Workers.enter`.

    Raises:
        RequestRefused: too many wait already.
    """
    try:
        return workers.enter(key, do)
    except QueueFull:
        raise busy() from None


def late(limits: ServingLimits) -> RequestRefused:
    """A request for which the time is up."""
    return RequestRefused(504, f"there was no answer within {limits.seconds:g} seconds", "timeout")
