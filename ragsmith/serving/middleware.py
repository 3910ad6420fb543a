"""Middleware of all requests: checks of the host, the origin and the token, and the access log.

A page of another site in the same browser can send requests to this machine, also by DNS rebinding. Without a token,
only requests with a Host header of this machine are therefore answered; cross-origin requests are always refused.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from time import perf_counter
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragsmith.errors import UsageError
from ragsmith.pipelines.telemetry import Traces
from ragsmith.serving.monitoring import Metrics, log_event
from ragsmith.serving.requests import RequestRefused, head_too_large, internal_error
from ragsmith.text.redaction import remember_secret
from ragsmith.types import Filter

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
"""Names of this machine in Host headers; ports are ignored, as they may be forwarded."""
PUBLIC_PATHS = ("/", "/health", "/ready")
"""Paths without a token: the page, which has no data, and the probes of supervisors."""
TRACED_PATHS = ("/ask", "/retrieve", "/explain", "/v1/chat/completions")
"""Paths that run the pipeline; other requests have no span."""
OTHER_LABEL = "other"
"""Label of unknown routes and methods in the log and the metrics."""
MIN_TOKEN_CHARACTERS = 16
"""Minimum length of a token, in characters."""
MAX_HEAD_BYTES = 1 << 15
"""Maximum size of a request before its body, in bytes."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class RequestGuard:
    """Middleware that checks all requests to ``app``.

    With ``tokens``, every request must have one of them, except for `PUBLIC_PATHS`, and is answered from the documents
    that the filter of its token admits, which is ``filter`` in the state of the request. Without tokens, the host of a
    request must be one of ``hosts``. Pages of ``origins`` may send requests, and the names in these are hosts, too.
    ``routes`` are the routes that the log and the metrics distinguish. With ``traces``, requests that run the pipeline
    have a span, except for those that are refused before.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        routes: Collection[str],
        tokens: Mapping[str, Filter | None],
        hosts: Sequence[str],
        traces: Traces | None = None,
        origins: Collection[str] = (),
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = frozenset(routes)
        self._tokens = {_digest(token): admitted for token, admitted in tokens.items()}
        self._origins = frozenset(origins)
        self._hosts = frozenset(host.lower() for host in (*hosts, *(_parse_host(origin)[0] for origin in origins)))
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a valid request to the application, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
                return
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        id_ = scope.setdefault("state", {})["request_id"] = request_id(headers.get("x-request-id", ""))
        started, status, is_whole = perf_counter(), 0, False

        async def send_with_headers(message: Message) -> None:
            nonlocal status, is_whole
            if message["type"] == "http.response.start":
                status = message["status"]
                response_headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    response_headers.setdefault(name, value)
                response_headers["X-Request-ID"] = id_
            is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        refusal: RequestRefused | None = None
        try:
            scope["state"]["filter"] = self._check_client(path, headers)
            self._check_request(scope, path, headers)
            traces = self._traces if path in TRACED_PATHS else None
            traceparent = headers.get("traceparent", "")
            with nullcontext({}) if traces is None else traces.request_span(path, traceparent) as about:
                await self._app(scope, receive, send_with_headers)
                about |= {"http.response.status_code": status, "ragsmith.request_id": id_}
        except RequestRefused as refused:
            refusal = refused
        except Exception as error:  # noqa: BLE001  any error concerns this request only: the server continues
            log_event("failed", logging.ERROR, trace=error, id=id_)
            refusal = internal_error()
        if refusal is not None:
            scope["state"]["error"] = refusal.code
        if refusal is not None and not status:
            await JSONResponse(refusal.body, refusal.status, refusal.headers)(scope, receive, send_with_headers)
        route, seconds = path if path in self._routes else OTHER_LABEL, perf_counter() - started
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "OPTIONS") else OTHER_LABEL
        rounded = round(seconds, 4)
        code = scope["state"].get("error")
        self._metrics.request(route, status, seconds, code)
        error_field = {"error": code} if code else {}
        log_event(
            "request", id=id_, method=method, route=route, status=status, seconds=rounded, whole=is_whole, **error_field
        )

    def _check_client(self, path: str, headers: Headers) -> Filter | None:
        """Return the filter of the token of a request; None if it has none.

        Raises:
            RequestRefused: the token, the host or the origin is not permitted.
        """
        name, netloc = _parse_host(f"//{headers.get('host', '')}")
        origin, given = headers.get("origin"), _digest(_bearer(headers))
        filters = [admitted for token, admitted in self._tokens.items() if hmac.compare_digest(given, token)]
        if self._tokens:
            if path not in PUBLIC_PATHS and not filters:
                problem = "the request has no valid token: send  Authorization: Bearer TOKEN"
                raise RequestRefused(401, problem, "invalid_api_key", closes=True)
        elif name not in self._hosts:
            problem = "the server only accepts Host headers of its own machine: use localhost, or start it with a token"
            raise RequestRefused(403, problem, "unknown_host", closes=True)
        if origin is not None and origin not in self._origins:
            if not netloc:
                raise RequestRefused(400, "the request has no host: send  Host: NAME", "invalid_host", closes=True)
            if netloc != _parse_host(origin)[1]:
                problem = "cross-origin requests are not answered, except for an --origin of the server"
                raise RequestRefused(403, problem, "cross_origin", closes=True)
        return filters[0] if filters else None

    def _check_request(self, scope: Scope, path: str, headers: Headers) -> None:
        """Raise `RequestRefused` if ``path`` is unknown, or the head of the request is invalid."""
        head = sum(len(name) + len(value) for name, value in headers.raw)
        if (
            head + len(scope["path"]) + len(scope["query_string"]) > MAX_HEAD_BYTES
        ):  # a head that arrives in parts is refused earlier
            raise head_too_large()
        if "content-length" in headers and "transfer-encoding" in headers:
            # a proxy may use the other header, and read another request from the rest (request smuggling)
            problem = "the request has two lengths of its body: omit Content-Length or Transfer-Encoding"
            raise RequestRefused(400, problem, "invalid_length", closes=True)
        if path not in self._routes:  # exact comparison, as route patterns match a trailing line break
            raise RequestRefused(404, "this path does not exist", "not_found")


def request_id(requested: str) -> str:
    """Return the ``requested`` id if it is valid, otherwise a random one."""
    return requested if _ID.fullmatch(requested) else secrets.token_hex(8)


def check_token(token: str, source: str) -> str:
    """Return ``token`` without surrounding white space, and redact it in all later output.

    ``source`` describes the origin of the token in the error message.

    Raises:
        UsageError: the token is too short, or has invalid characters.
    """
    token = token.strip()
    if len(token) < MIN_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"{source} must contain one token of at least {MIN_TOKEN_CHARACTERS} letters and digits; generate one "
            "with  "
            "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    remember_secret(token)
    return token


def _digest(text: str) -> bytes:
    """Return a digest of constant length, so that the time of a comparison does not depend on the token."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _bearer(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def check_origin(origin: str) -> str:
    """Return ``origin`` as browsers write it.

    Raises:
        UsageError: it is not a scheme with a name and perhaps a port.
    """
    found = re.fullmatch(r"(https?://[^\s/@?#*]+)/?", origin.lower())
    if found is None or not _parse_host(origin)[0]:
        raise UsageError(f"--origin {origin} is not the origin of a page: give one as https://rag.example.org")
    return found[1]


def _parse_host(address: str) -> tuple[str, str]:
    """Return the name in a URL, and the name with the port; blank if it is invalid."""
    try:
        parts = urlsplit(address)
        return parts.hostname or "", parts.netloc.lower()
    except ValueError:
        return "", ""
