"""What every request passes first: the name it asks for, where it comes from, its token; and the log.

A page of another site in the same browser can send requests to this machine, or have its own name point here. So
without a token, only names of this machine are answered, and nothing is that a page of another origin sends.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Collection, Sequence
from time import perf_counter
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragsmith.errors import UsageError
from ragsmith.serving.monitoring import Metrics, event
from ragsmith.serving.requests import RequestRefused, broken, large_head
from ragsmith.text.redaction import remember_secret

THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
"""Names of this machine, as a request may ask for them; the port does not matter, it may be forwarded."""
OPEN = ("/", "/health", "/ready")
"""What needs no token: the page, which holds nothing, and what is asked by whatever keeps the server running."""
OTHER = "other"
SHORTEST_TOKEN = 16
LARGEST_HEAD = 1 << 15
"""Bytes of a request before its body."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """``app`` behind the checks that all requests pass.

    With a ``token`` every request must bear it, whatever name it asks for, but for those of `OPEN`. Without one it must
    ask for one of ``hosts``. ``routes`` are those that the log and the metrics tell apart.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, routes: Collection[str], token: str | None, hosts: Sequence[str]
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = frozenset(routes)
        self._token = None if token is None else _digest(token)
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
                return
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        id_ = scope.setdefault("state", {})["request_id"] = request_id(headers.get("x-request-id", ""))
        began, status, is_whole = perf_counter(), 0, False

        async def sending(message: Message) -> None:
            nonlocal status, is_whole
            if message["type"] == "http.response.start":
                status = message["status"]
                own = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    own.setdefault(name, value)
                own["X-Request-ID"] = id_
            is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        trouble: RequestRefused | None = None
        try:
            self._check_client(path, headers)
            self._check_request(scope, path, headers)
            await self._app(scope, receive, sending)
        except RequestRefused as refused:
            trouble = refused
        except Exception as error:  # noqa: BLE001  whatever it is, it is this request's alone: the server goes on
            event("failed", logging.ERROR, trace=error, id=id_)
            trouble = broken()
        if trouble is not None:
            scope["state"]["error"] = trouble.code
        if trouble is not None and not status:
            await JSONResponse(trouble.body, trouble.status, trouble.headers)(scope, receive, sending)
        route, seconds = path if path in self._routes else OTHER, perf_counter() - began
        self._metrics.request(route, status, seconds)
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "OPTIONS") else OTHER
        took = round(seconds, 4)
        code = scope["state"].get("error")
        why = {"error": code} if code else {}
        event("request", id=id_, method=method, route=route, status=status, seconds=took, whole=is_whole, **why)

    def _check_client(self, path: str, headers: Headers) -> None:
        """Raise `RequestRefused` where whoever sends a request is not to be answered at all."""
        host = headers.get("host", "")
        if self._token is not None:
            if path not in OPEN and not hmac.compare_digest(_digest(_bearer(headers)), self._token):
                said = "the request has no valid token: send  Authorization: Bearer TOKEN"
                raise RequestRefused(401, said, "invalid_api_key", closes=True)
        elif _name(host) not in self._hosts:
            said = (
                "the server answers under names of its own machine alone: ask for localhost, or start it with a token"
            )
            raise RequestRefused(403, said, "unknown_host", closes=True)
        origin = headers.get("origin")
        if origin is None:
            return
        own = _netloc(f"//{host}")
        if not own:
            raise RequestRefused(400, "the request names no host: send  Host: NAME", "invalid_host", closes=True)
        if own != _netloc(origin):
            raise RequestRefused(403, "pages of other sites are not answered", "cross_origin", closes=True)

    def _check_request(self, scope: Scope, path: str, headers: Headers) -> None:
        """Raise `RequestRefused` where there is nothing at ``path``, or what comes before the body is not as it should
        be.
        """
        head = sum(len(name) + len(value) for name, value in headers.raw)
        if (
            head + len(scope["path"]) + len(scope["query_string"]) > LARGEST_HEAD
        ):  # one that comes in pieces ends before
            raise large_head()
        if "content-length" in headers and "transfer-encoding" in headers:
            # a proxy before this server may believe the other one, and see another request in what follows
            said = "the request says in two ways where its body ends: leave Content-Length or Transfer-Encoding out"
            raise RequestRefused(400, said, "invalid_length", closes=True)
        if path not in self._routes:  # exactly: patterns of routes let the end of a line pass
            raise RequestRefused(404, "there is nothing at this address", "not_found")


def request_id(asked: str) -> str:
    """The id of a request: what it asks for, if nobody could take that for something else."""
    return asked if _ID.fullmatch(asked) else secrets.token_hex(8)


def checked_token(token: str, where: str) -> str:
    """``token`` without what surrounds it; it is hidden in everything that is said from now on.

    ``where`` it was given is named if it is none.

    Raises:
        UsageError: it is too short to be one, or has characters that no token has.
    """
    token = token.strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"{where} must hold one token of at least {SHORTEST_TOKEN} letters and digits; make one with  "
            "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    remember_secret(token)
    return token


def _digest(text: str) -> bytes:
    """Of one length, so that comparing says nothing of it."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _bearer(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _name(host: str) -> str:
    """The name of ``host``, without its port; "" where there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _netloc(address: str) -> str:
    """The name and the port of ``address``; "" where there are none."""
    try:
        return urlsplit(address).netloc.lower()
    except ValueError:
        return ""
