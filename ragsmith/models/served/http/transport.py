"""The HTTP client of providers: bounded responses, no redirects, and failures classified as `AttemptFailed`."""

import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import httpx2

from ragsmith.errors import ModelError, RefusedContent, TooLong
from ragsmith.models.served.policy import AccessRefused, AttemptFailed, RequestRejected, TransientFailure, UnusableReply
from ragsmith.models.usage import NO_USAGE
from ragsmith.text.redaction import redact_logs, redacted

CONNECT_SECONDS = 10.0
"""Timeout of a connection."""
MAX_QUOTED_CHARACTERS = 200
"""Characters of a server's error that are quoted in a message."""
MAX_ERROR_CHARACTERS = 2000
"""Characters of a server's error that are matched against the patterns below."""
ACCESS_REFUSED_STATUSES = frozenset({401, 402, 403, 404})
"""HTTP statuses for a refused key, account or model, which concern all requests."""
TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})
"""HTTP statuses of temporary failures, in addition to all from 500."""
MODERATED = re.compile(
    r"^(?!.*\b(?:account|organi[sz]ation|project|access)\b.*\b(?:flagged|suspended|deactivated|terminated|disabled)\b)"
    r".*(?:\bflagged\b|\bmoderation\b|violates\b.*\b(?:guidelines|polic)|content[ _]?(?:policy|filter)|safety_check)",
    re.IGNORECASE,
)
"""Messages of a content filter, which OpenRouter and xAI send with 403; not those about a flagged account."""
QUOTA_EXHAUSTED = re.compile(r"insufficient_quota|credit balance is too low|budget has been exceeded", re.IGNORECASE)
"""Messages of an exhausted quota, which is permanent: OpenAI sends them with 429, Anthropic and LiteLLM with 400."""
CONTENT_REFUSED_STATUSES = frozenset({400, 422, 451, 500})
"""HTTP statuses for refused content (500 for a refused form); other rejections concern how or where a request was
sent."""
REFUSED_FORM = re.compile(r"response_format|json_schema|json_object|grammar", re.IGNORECASE)
"""Errors with which some servers fail (HTTP 500) instead of refusing a form; not those about the schema of a database,
which are temporary."""
CONTENT_TOO_LARGE_STATUS = 413
TOO_LONG = re.compile(
    r"context[ _](length|window|size)|(prompt|input) is too long|too many (input )?tokens"
    r"|max_(completion_|output_|new_)?tokens\b(?!.*\b(instead|unsupported|not supported)\b)"
    r".*(too (large|high|big)|at most|maximum|less than|greater than|range|exceed|<=|> ?\d)",
    re.IGNORECASE,
)
"""Messages about a prompt or token limit that is too long: OpenAI, vLLM, llama.cpp, Anthropic, Cohere, DeepSeek."""

redact_logs("openai._base_client", "httpx", "httpx2", "httpcore.http11", "httpcore2.http11")


class BoundedClient(httpx2.AsyncClient):
    """An asynchronous HTTP client that reads whole, bounded and successful responses, and raises anything else.

    There is no read timeout, because the provider's deadline covers the attempt as a whole.
    """

    def __init__(self, *, largest_response: int) -> None:
        self._largest = largest_response
        super().__init__(
            verify=_ssl_context(),
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=256),
            follow_redirects=False,
        )

    async def send(self, request: Any, **options: Any) -> Any:
        """Send ``request`` and read the whole response.

        Raises:
            AttemptFailed: there was no response, it broke off or was too large, or its status is an error.
        """
        try:
            response = await super().send(request, **options | {"stream": True, "follow_redirects": False})
            body = await self._read(response)
        except httpx2.HTTPError as error:
            failure: AttemptFailed = _classify_error(error, request.url)
        else:
            if response.is_success:
                return _with_body(response, body)
            failure = classify_response(response.status_code, response.headers, body)
        raise failure

    async def _read(self, response: Any) -> bytes:
        body = bytearray()
        try:
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > self._largest:
                    raise UnusableReply(f"the reply is larger than {self._largest:,} bytes")
        finally:
            await response.aclose()
        return bytes(body)


@cache
def _ssl_context() -> Any:
    """Return the trusted certificates, shared by all clients because reading them takes 40 ms."""
    return httpx2.create_ssl_context()


def _with_body(response: Any, body: bytes) -> Any:
    """Return the response with its decompressed body, without headers about compression and length."""
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name not in ("content-encoding", "content-length", "transfer-encoding")
    ]
    return httpx2.Response(response.status_code, headers=headers, content=body, request=response.request)


def _classify_error(error: Exception, url: httpx2.URL) -> TransientFailure:
    kind = type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return TransientFailure(  # without a user, password or query
            f"no answer from {url.scheme}://{url.netloc.decode()}; is the server running? ({kind})",
            kind="no connection",
        )
    if isinstance(error, httpx2.DecodingError):
        return TransientFailure(f"the reply cannot be decompressed ({kind})", usage=NO_USAGE)
    return TransientFailure(f"the reply broke off ({kind})", kind="the connection breaks off", usage=NO_USAGE)


def classify_response(status: int, headers: Mapping[str, str], body: bytes) -> AttemptFailed:
    """Return the failure that an unsuccessful response means."""
    message = _error_message(body)
    quoted = message if len(message) <= MAX_QUOTED_CHARACTERS else message[:MAX_QUOTED_CHARACTERS] + "…"
    problem = f"HTTP {status}" + (f" ({quoted})" if message else "")
    if status == 403 and MODERATED.search(message):
        return RequestRejected(f"{problem}: the server refuses the request")
    if status in ACCESS_REFUSED_STATUSES or (status in (400, 429) and QUOTA_EXHAUSTED.search(message)):
        return AccessRefused(f"{problem}: the server refuses the key or the model")
    if status in TRANSIENT_STATUSES or status > 500 or (status == 500 and not REFUSED_FORM.search(message)):
        return TransientFailure(problem, retry_after(headers), kind=f"HTTP {status}")
    if 300 <= status < 400:
        return RequestRejected(
            f"{problem}: the server redirects, which is not followed: check the base URL", ModelError
        )
    too_long = status == CONTENT_TOO_LARGE_STATUS or TOO_LONG.search(message)
    error = TooLong if too_long else RefusedContent if status in CONTENT_REFUSED_STATUSES else ModelError
    return RequestRejected(f"{problem}: the server refuses the request", error)


def _error_message(body: bytes) -> str:
    """Return the beginning of a server's error on one line and without secrets, or ""."""
    text = redacted(body[: 64 * 1024].decode("utf-8", "replace"))
    try:
        error = json.loads(text)
    except (ValueError, RecursionError):
        error = text
    if isinstance(error, dict):
        error = error.get("error", error.get("message", error.get("detail", "")))
    if isinstance(error, dict):
        error = " ".join(str(error[name]) for name in ("message", "code") if error.get(name))
    line = redacted(" ".join("".join(c if c.isprintable() else " " for c in str(error)).split()))  # before it is cut
    return line[:MAX_ERROR_CHARACTERS]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the pause (seconds) in ``retry-after-ms`` or ``Retry-After``, or None.

    A date is compared with the server's own ``Date``, in case the clocks differ.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    until, now = _timestamp(headers.get("retry-after")), _timestamp(headers.get("date"))
    return None if until is None else max(0.0, until - (time.time() if now is None else now))


def _timestamp(date: str | None) -> float | None:
    """Return the seconds since 1970 of an HTTP date."""
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, OverflowError):
        return None
