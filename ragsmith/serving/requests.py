"""Validation of requests within limits, and refusals in the format of OpenAI's errors."""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from ragsmith.errors import ModelUnavailable, ProviderTrouble, StageFailed, StoreError, UsageError
from ragsmith.serving.limits import ServingLimits
from ragsmith.serving.workers import CancellationToken, QueueFull, Workers, WorkItem
from ragsmith.text.files import FORBIDDEN, TextError, name_character
from ragsmith.text.filters import parse_filter
from ragsmith.text.jsonl import name_type, parse_json
from ragsmith.types import Filter

INVALID, BROKEN = "invalid_request_error", "server_error"
"""OpenAI's types of errors: of the request, and of the server (status 500 and above)."""

RETRY_SECONDS = 2
"""Default of the Retry-After header, in seconds."""


class RequestRefused(Exception):
    """A request is refused with an error of this ``status`` and ``message``.

    ``code`` is the reason in machine-readable form, and ``parameter`` the invalid part of the request. ``retry_after``
    is in seconds; 0 for an error that a retry does not solve. A header then tells OpenAI's clients not to retry, as
    they do for a status of at least 500, because the request may have been paid for. ``closes`` is whether the
    connection is closed.
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
        """Error object in the format of OpenAI."""
        kind = BROKEN if self.status >= 500 else INVALID
        return {"error": {"message": self.message, "type": kind, "param": self.parameter, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the reply."""
        headers = {"Retry-After": str(self.retry_after)} if self.retry_after else {}
        if self.status >= 500 and not self.retry_after:
            headers["X-Should-Retry"] = "false"
        if self.closes:
            headers["Connection"] = "close"
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return headers


def invalid_request(message: str, parameter: str | None = None, code: str = "invalid_value") -> RequestRefused:
    """Return the refusal of an invalid request."""
    return RequestRefused(400, message, code, parameter=parameter)


def head_too_large() -> RequestRefused:
    """Return the refusal of a request whose head is too large."""
    return RequestRefused(
        431, "the head of the request is too large: send fewer or shorter headers", "large_head", closes=True
    )


def invalid_http(error: BaseException | None) -> RequestRefused:
    """Return the refusal of invalid HTTP; ``error`` is that of the parser."""
    status = getattr(error, "error_status_hint", 400)
    if status == 431:
        return head_too_large()
    if status == 501:
        problem = "the transfer encoding is not supported: send the body without one, or chunked"
        return RequestRefused(501, problem, "unknown_encoding", closes=True)
    return RequestRefused(
        400, "the request is not valid HTTP, or its body does not match its headers", "invalid_http", closes=True
    )


def overloaded() -> RequestRefused:
    """Return the refusal of a request to an overloaded server."""
    return RequestRefused(
        503, "the server is at its limit of concurrent questions: retry later", "busy", retry_after=RETRY_SECONDS
    )


def pipeline_failure(error: Exception) -> RequestRefused:
    """Return the refusal after an error of the pipeline, without its message, which may contain a prompt or a path."""
    cause = error.cause if isinstance(error, StageFailed) else error
    stage = f"the stage {error.family} failed" if isinstance(error, StageFailed) else "the pipeline failed"
    if isinstance(cause, ModelUnavailable | ProviderTrouble):
        problem = f"{stage}, as one of its models is not available: retry later"
        return RequestRefused(503, problem, "model_unavailable", retry_after=RETRY_SECONDS * 5)
    if isinstance(cause, StoreError):
        problem = f"{stage}, as paid replies cannot be stored: retry later, they are not paid for again"
        return RequestRefused(503, problem, "not_kept", retry_after=RETRY_SECONDS * 5)
    if isinstance(error, StageFailed):
        problem = f"{stage} on this question: reword it, or search the log of the server for the request id"
        return RequestRefused(502, problem, "pipeline_failed")
    return internal_error()


def internal_error() -> RequestRefused:
    """Return the refusal after an internal error of the server."""
    problem = "the server failed on this request: search its log for the request id"
    return RequestRefused(500, problem, "internal_error")


T = TypeVar("T")
Body = Mapping[str, object]


async def read_body(request: Request, limits: ServingLimits) -> Body:
    """Return the JSON object in the body of a request.

    Raises:
        RequestRefused: the body is not a JSON object, too large, or too slow.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise RequestRefused(
            415, "the body must be JSON: send  Content-Type: application/json", "not_json", closes=True
        )
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 18 or int(length) > limits.body:
        raise _too_large(limits)
    data = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                data += part
                if len(data) > limits.body:
                    raise _too_large(limits)
    except TimeoutError:
        problem = f"the body did not arrive within {limits.body_seconds:g} seconds"
        raise RequestRefused(408, problem, "slow_body", closes=True) from None
    except ClientDisconnect:
        raise RequestRefused(400, "the request was interrupted", "broken_off", closes=True) from None
    try:
        body = parse_json(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise invalid_request("the body is not UTF-8") from None
    except TextError as error:
        raise invalid_request(f"the body cannot be read: {error.reason}") from None
    if not isinstance(body, dict):
        raise invalid_request(f"the body must be an object, not {name_type(body)}")
    return body


def _too_large(limits: ServingLimits) -> RequestRefused:
    return RequestRefused(413, f"the body is larger than {limits.body:,} bytes", "too_large", closes=True)


def read_question(value: object, limits: ServingLimits, parameter: str = "question") -> str:
    """Return the question in a request.

    Raises:
        RequestRefused: the value is not a text, is blank, too long, or has control characters or surrogates.
    """
    if value is None:
        raise invalid_request(f"{parameter!r} is missing: send a text", parameter, "missing_required_parameter")
    if not isinstance(value, str):
        raise invalid_request(f"{parameter!r} must be a text, not {name_type(value)}", parameter, "invalid_type")
    text = value.strip()
    if not text:
        raise invalid_request(f"{parameter!r} is blank", parameter)
    if len(text) > limits.question:
        problem = f"{parameter!r} has {len(text):,} characters: give at most {limits.question:,}"
        raise invalid_request(problem, parameter, "string_above_max_length")
    return check_text(text, parameter)


def read_filter(value: object, admitted: Filter | None, types: Mapping[str, type]) -> Filter | None:
    """Return the filter of a request, combined with that of its token, ``admitted``, which it can only narrow.

    Raises:
        RequestRefused: the value is not a filter of fields with these ``types``.
    """
    try:
        return admitted if value is None else parse_filter(value, types) & admitted
    except UsageError as error:
        raise invalid_request(str(error), "filter") from None


def check_text(text: str, parameter: str) -> str:
    """Return ``text`` if all its characters are valid.

    Raises:
        RequestRefused: the text has control characters or surrogates.
    """
    if match := FORBIDDEN.search(text):
        raise invalid_request(f"{parameter!r} has a {name_character(match.group())}: remove it", parameter)
    return text


def read_flag(body: Body, name: str, *, default: bool = False) -> bool:
    """Return an optional boolean of a request; null counts as missing.

    Raises:
        RequestRefused: the value is not a boolean.
    """
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise invalid_request(f"{name!r} must be true or false, not {name_type(value)}", name, "invalid_type")
    return value


def check_keys(body: Body, valid: tuple[str, ...]) -> None:
    """Raise `RequestRefused` if ``body`` has unknown keys."""
    for key in body:
        if key not in valid:
            raise invalid_request(
                f"there is no parameter {key[:40]!r}: give {', '.join(valid)}", code="unknown_parameter"
            )


def submit(workers: Workers, key: Hashable, work: Callable[[CancellationToken], T]) -> WorkItem[T]:
    """Submit ``work``; see `Workers.submit`.

    Raises:
        RequestRefused: the queue is full.
    """
    try:
        return workers.submit(key, work)
    except QueueFull:
        raise overloaded() from None


def timed_out(limits: ServingLimits) -> RequestRefused:
    """Return the refusal of a request that exceeded its time limit."""
    return RequestRefused(504, f"there was no answer within {limits.seconds:g} seconds", "timeout")
