"""HTTP for providers: bounded responses, no redirects, and every failure as what it means for the request."""

from __future__ import annotations

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
from ragsmith.models.usage import NOTHING
from ragsmith.text.redaction import redact_logs, redacted

CONNECT_SECONDS = 10.0
LONGEST_QUOTE = 200
"""Characters of what a server says that go into a message."""
LONGEST_SAID = 2000
"""Characters of what a server says in which it is looked for what it means."""
REFUSED = frozenset({401, 402, 403, 404})
"""The key, the account, or the model: no other request would fare better."""
TRANSIENT = frozenset({408, 409, 425, 429})
"""And everything from 500 on."""
MODERATED = re.compile(
    r"^(?!.*\b(?:account|organi[sz]ation|project|access)\b.*\b(?:flagged|suspended|deactivated|terminated|disabled)\b)"
    r".*(?:\bflagged\b|\bmoderation\b|violates\b.*\b(?:guidelines|polic)|content[ _]?(?:policy|filter)|safety_check)",
    re.IGNORECASE,
)
"""OpenRouter and xAI say with a 403 that a filter stopped the prompt; others say so of an account, which is no such."""
NO_MORE_MONEY = re.compile(r"insufficient_quota|credit balance is too low|budget has been exceeded", re.IGNORECASE)
"""OpenAI says it with a 429, though it does not pass, Anthropic and LiteLLM with a 400."""
OF_CONTENT = frozenset({400, 422, 451})
"""This request is refused, and would be again. Other rejections are of how it was sent, or to where."""
TOO_LARGE = 413
TOO_LONG = re.compile(
    r"context[ _](length|window|size)|(prompt|input) is too long|too many (input )?tokens"
    r"|max_(completion_|output_|new_)?tokens\b(?!.*\b(instead|unsupported|not supported)\b)"
    r".*(too (large|high|big)|at most|maximum|less than|greater than|range|exceed|<=|> ?\d)",
    re.IGNORECASE,
)
"""What servers say to a prompt that is longer than the model reads, or to a limit above what it writes: OpenAI, vLLM,
llama.cpp, Anthropic, Cohere, DeepSeek."""

redact_logs("openai._base_client", "httpx", "httpx2", "httpcore.http11", "httpcore2.http11")


class BoundedClient(httpx2.AsyncClient):
    """An asynchronous HTTP client whose responses are whole, bounded and successful; anything else is raised.

    The deadline is the provider's: it covers an attempt as a whole, so there is none for reading here.
    """

    def __init__(self, *, largest_response: int) -> None:
        self._largest = largest_response
        super().__init__(
            verify=_trusted(),
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=256),
            follow_redirects=False,
        )

    async def send(self, request: Any, **options: Any) -> Any:
        """Send ``request`` and read the whole response.

        Raises:
            AttemptFailed: there was none, it broke off or was too large, or its status is not one of success.
        """
        try:
            response = await super().send(request, **options | {"stream": True, "follow_redirects": False})
            body = await self._read(response)
        except httpx2.HTTPError as error:
            failure: AttemptFailed = _broken(error)
        else:
            if response.is_success:
                return _whole(response, body)
            failure = failure_of(response.status_code, response.headers, body)
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
def _trusted() -> Any:
    """The certificates that are trusted; reading them takes 40 ms, so all clients share them."""
    return httpx2.create_ssl_context()


def _whole(response: Any, body: bytes) -> Any:
    """The response with its body read; it is no longer compressed, and its length another."""
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name not in ("content-encoding", "content-length", "transfer-encoding")
    ]
    return httpx2.Response(response.status_code, headers=headers, content=body, request=response.request)


def _broken(error: Exception) -> TransientFailure:
    """What a failure of the connection means to the user."""
    kind = type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return TransientFailure(f"no answer; is the server running? ({kind})", kind="no connection")
    if isinstance(error, httpx2.DecodingError):
        return UnusableReply(f"the reply cannot be decompressed ({kind})")
    return TransientFailure(f"the reply broke off ({kind})", kind="the connection breaks off", usage=NOTHING)


def failure_of(status: int, headers: Mapping[str, str], body: bytes) -> AttemptFailed:
    """What a response that is no success means for the attempt, and for the request."""
    said = _said(body)
    quoted = said if len(said) <= LONGEST_QUOTE else said[:LONGEST_QUOTE] + "…"
    problem = f"HTTP {status}" + (f" ({quoted})" if said else "")
    if status == 403 and MODERATED.search(said):
        return RequestRejected(f"{problem}: the server refuses the request")
    if status in REFUSED or (status in (400, 429) and NO_MORE_MONEY.search(said)):
        return AccessRefused(f"{problem}: the server refuses the key or the model")
    if status in TRANSIENT or status >= 500:
        return TransientFailure(problem, retry_after(headers), kind=f"HTTP {status}")
    if 300 <= status < 400:
        return RequestRejected(
            f"{problem}: the server sends elsewhere, which is not followed: check the base URL", ModelError
        )
    too_long = status == TOO_LARGE or TOO_LONG.search(said)
    error = TooLong if too_long else RefusedContent if status in OF_CONTENT else ModelError
    return RequestRejected(f"{problem}: the server refuses the request", error)


def _said(body: bytes) -> str:
    """The beginning of what a server says, on one line and without secrets; "" when it says nothing readable."""
    text = redacted(body[: 64 * 1024].decode("utf-8", "replace"))
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = text
    if isinstance(told, dict):
        told = told.get("error", told.get("message", told.get("detail", "")))
    if isinstance(told, dict):
        told = " ".join(str(told[name]) for name in ("message", "code") if told.get(name))
    line = redacted(" ".join("".join(c if c.isprintable() else " " for c in str(told)).split()))  # before it is cut
    return line[:LONGEST_SAID]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a server asks to wait, by ``retry-after-ms`` or ``Retry-After``; None if it does not say.

    A date is compared with the server's own ``Date``, so that clocks that differ do no harm.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    until, now = _instant(headers.get("retry-after")), _instant(headers.get("date"))
    if until is None:
        return None
    return max(0.0, until - (time.time() if now is None else now))


def _instant(date: str | None) -> float | None:
    """Seconds since 1970 of an HTTP date."""
    try:
        return parsedate_to_datetime(date).timestamp() if date else None
    except (ValueError, OverflowError):
        return None
