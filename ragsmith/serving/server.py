"""The HTTP server, which shuts down gracefully on a signal, after answering the requests it has accepted.

In addition to the defaults of uvicorn, it limits the time and size of request headers and the number of connections,
and exits with code 0 after a shutdown.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragsmith.errors import UsageError
from ragsmith.evaluation.signals import signals_handled
from ragsmith.serving.app import GuardedApp
from ragsmith.serving.middleware import HEADERS, LOOPBACK_HOSTS, MAX_HEAD_BYTES, OTHER_LABEL, check_token, request_id
from ragsmith.serving.monitoring import json_logging, log_event
from ragsmith.serving.requests import invalid_http
from ragsmith.serving.workers import Workers, done_event
from ragsmith.text.files import MIB, TextError, read_text
from ragsmith.text.redaction import redacted

TOKEN_VARIABLE = "RAGSMITH_TOKEN"
"""The environment variable of the bearer token."""
KEEP_ALIVE_SECONDS = 15
GRACE_SECONDS = 5
"""Time that a shutdown waits for accepted requests, in addition to the time limit of a request."""
POLL_SECONDS = 0.1
"""Time between two looks whether a replaced application is still busy."""


def is_loopback(host: str) -> bool:
    """Whether ``host`` can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_tokens(
    files: str | Path | Sequence[str | Path] | None, token: str | None, host: str = "127.0.0.1"
) -> dict[str, str]:
    """Return the tokens in ``files`` with their filters, "" for all documents; by default ``token``, if any.

    A line of a file is a token, or ``TOKEN: FILTER``. Tokens are redacted in all later output.

    Raises:
        UsageError: a token is too short or has two filters, or a file cannot be read; or there is no token, and other
            machines can reach ``host``.
    """
    tokens = {} if files or token is None else {check_token(token, TOKEN_VARIABLE): ""}
    for file in [files] if isinstance(files, str | Path) else files or ():
        try:
            lines = read_text(Path(file), limit=MIB, links=True).strip().split("\n")
        except TextError as error:
            raise UsageError(error.at(file)) from None
        for name, _, admitted in (line.strip().partition(": ") for line in lines):
            checked = check_token(name, "each line of the token file")
            if tokens.setdefault(checked, admitted.strip()) != admitted.strip():
                raise UsageError(f"{file}: a token has two filters: give each token once")
    if not tokens and not is_loopback(host):
        raise UsageError(
            f"{host} can be reached from other machines: give a token with --token-file or in RAGSMITH_TOKEN, or "
            "serve on 127.0.0.1"
        )
    return tokens


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket to ``host`` and ``port``, 0 for a free one; it accepts no connections before `run`.

    Raises:
        UsageError: the host or the port cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # on other systems this would allow two processes to listen
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except (OSError, OverflowError, TypeError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{host} port {port} cannot be used ({reason}): give another --host or --port") from None
    return listening


def format_address(listening: socket.socket) -> str:
    """Return the URL of the page."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve_app(
    make_app: Callable[..., GuardedApp],
    host: str,
    port: int,
    token_file: str | Path | Sequence[str | Path] | None,
    on_start: Callable[[str], None] | None,
) -> None:
    """Serve the application that ``make_app`` returns for ``token``, the filters by token, and ``hosts``; see `run`.

    On SIGHUP tokens are read again, and ``make_app`` returns the next application.

    Raises:
        UsageError: the address cannot be used, or the token is missing or invalid.
    """
    read = partial(read_tokens, token_file, os.environ.get(TOKEN_VARIABLE), host)
    make, tokens = partial(make_app, hosts=(*LOOPBACK_HOSTS, host)), read()
    with listen(host, port) as listening:
        run(AppSequence(make(token=tokens), lambda: make(token=read())), listening, on_start)


@json_logging()
def run(apps: AppSequence, listening: socket.socket, on_start: Callable[[str], None] | None) -> None:
    """Serve until a signal is received; accepted requests are answered before this returns.

    ``on_start`` is called with the URL once the server accepts requests. On SIGHUP, the next of ``apps`` is loaded.
    """
    config = uvicorn.Config(
        apps,
        http=_make_protocol(apps),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(apps.current.limits.seconds) + GRACE_SECONDS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    server = _SignalServer(config, apps, format_address(listening), on_start)
    try:
        asyncio.run(server.serve(sockets=[listening]))
    finally:
        listening.close()
        for each in (*apps.replaced, apps.current):
            each.close()
    log_event("stopped", in_time=not server.interrupted)
    if server.interrupted:
        signal.raise_signal(signal.SIGINT)  # for the caller's handler: some accepted requests were not answered


class AppSequence:
    """ASGI application that can be replaced: ``current`` answers, and those ``replaced`` finish what they have."""

    def __init__(self, app: GuardedApp, make_next: Callable[[], GuardedApp]) -> None:
        self.current, self._make_next = app, make_next
        self.replaced: set[GuardedApp] = set()
        self._loader, self._loading = Workers(1, 0), asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by the current application."""
        await self.current(scope, receive, send)

    async def replace(self) -> None:
        """Replace the current application by the next one once that is loaded; if it cannot be, nothing changes."""
        async with self._loading:
            work = self._loader.submit("next", lambda _: self._make_next())
            await done_event(work).wait()
        app = work.future.result()
        if isinstance(app, Exception):
            log_event("reload_failed", logging.ERROR, error=type(app).__name__, message=redacted(str(app)))
            return
        await self.begin(app)
        log_event("reloaded")

    async def begin(self, app: GuardedApp) -> None:
        """Answer by ``app`` from now on."""
        started = asyncio.Event()
        self._tasks.append(asyncio.create_task(self._run(app, started)))
        self._tasks[-1].add_done_callback(lambda _: gc.collect())  # the index of an application is in a cycle
        await started.wait()

    async def _run(self, app: GuardedApp, started: asyncio.Event) -> None:
        """Run the sessions of ``app`` while it is the current one or busy, and close it at the end."""
        async with app.sessions.run():
            self.replaced.add(self.current)
            self.current = app
            self.replaced.discard(app)
            started.set()
            while self.current is app or app.n_requests or app.workers.busy:  # work may go on that nobody waits for
                await asyncio.sleep(POLL_SECONDS)
        self.replaced.discard(app)
        await asyncio.to_thread(app.close, is_idle=True)


class _SignalServer(uvicorn.Server):
    """A server that reports when it has started, shuts down gracefully on a signal, and reloads on SIGHUP."""

    def __init__(
        self, config: uvicorn.Config, apps: AppSequence, url: str, on_start: Callable[[str], None] | None
    ) -> None:
        super().__init__(config)
        self._apps, self._url, self._on_start = apps, url, on_start
        self._loop: asyncio.AbstractEventLoop | None = None
        self.interrupted = False
        """Whether Ctrl-C was pressed again during the shutdown."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.startup`."""
        self._loop, workers = asyncio.get_running_loop(), self._apps.current.workers
        await self._apps.begin(self._apps.current)
        await super().startup(sockets=sockets)
        if self.started:
            log_event("started", url=self._url, threads=workers.threads, queue=workers.queue)
            if self._on_start is not None:
                self._on_start(self._url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.shutdown`."""
        app = self._apps.current
        app.tools.on_stop()
        log_event("stopping", answering=app.workers.busy, waiting=app.workers.waiting)
        await super().shutdown(sockets=sockets)

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Stop serving on a signal; unlike in uvicorn, the signal is not raised again afterwards."""
        return signals_handled(self._handle_signal)

    def _handle_signal(self, number: int, frame: Any) -> None:
        if number == getattr(signal, "SIGHUP", None) and self._loop is not None:
            self._loop.call_soon_threadsafe(asyncio.ensure_future, self._apps.replace())
            return
        if self.should_exit and number == signal.SIGINT and self._loop is not None:
            self.interrupted = True
            self._loop.call_soon_threadsafe(self._abort_connections)
        self._apps.current.stopping = self.should_exit = True

    def _abort_connections(self) -> None:
        """Abort all connections, so that the shutdown does not wait for requests."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _make_protocol(apps: AppSequence) -> type[asyncio.Protocol]:
    """Return a connection protocol that limits the number of connections, and the time without reads or writes.

    Invalid HTTP is refused with the same kind of body as other errors.
    """
    limits = apps.current.limits

    class BoundedProtocol(H11Protocol):
        _read_timer: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=0)  # so that `pause_writing` is called for any unread data
            if len(self.connections) > limits.connections:
                transport.abort()
                return
            self._start_read_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_read_timer()
            self._cancel_write_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._is_idle():
                self._start_read_timer()
            else:
                self._cancel_read_timer()

        def send_400_response(self, msg: str) -> None:
            """Refuse invalid HTTP with our own error body; called by uvicorn.

            Uvicorn's own implementation would also respond again after a complete response, and let a request that is
            being answered respond after the refusal.
            """
            is_begun = self.conn.our_state is h11.SEND_RESPONSE
            if not is_begun and self.conn.our_state is not h11.IDLE:
                self.transport.close()  # the response is complete: further data is no request
                return
            refused, id_ = invalid_http(sys.exc_info()[1]), request_id("")
            if is_begun:
                id_ = self.cycle.scope["state"].get("request_id", id_)
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            else:
                apps.current.metrics.request(OTHER_LABEL, refused.status, 0.0, refused.code)
                log_event(
                    "request",
                    id=id_,
                    method=OTHER_LABEL,
                    route=OTHER_LABEL,
                    status=refused.status,
                    seconds=0.0,
                    whole=True,
                    error=refused.code,
                )
            reply = JSONResponse(refused.body, refused.status, {**HEADERS, **refused.headers, "X-Request-ID": id_})
            head = h11.Response(status_code=reply.status_code, headers=reply.raw_headers)
            for part in (head, h11.Data(data=bytes(reply.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(part) or b"")
            self.transport.close()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._start_write_timer()

        def resume_writing(self) -> None:
            self._cancel_write_timer()
            super().resume_writing()

        def _start_write_timer(self) -> None:
            unread = self.transport.get_write_buffer_size()
            self._write_timer = self.loop.call_later(limits.body_seconds, self._check_write_progress, unread)

        def _check_write_progress(self, unread: int) -> None:
            """Abort the connection of a client that has read nothing; closing it would wait for the client."""
            if self.transport.get_write_buffer_size() < unread:
                self._start_write_timer()
            else:
                self.transport.abort()

        def _cancel_write_timer(self) -> None:
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None

        def _start_read_timer(self) -> None:
            if self._read_timer is None:
                self._read_timer = self.loop.call_later(limits.body_seconds, self._close_if_idle)

        def _cancel_read_timer(self) -> None:
            if self._read_timer is not None:
                self._read_timer.cancel()
                self._read_timer = None

        def _close_if_idle(self) -> None:
            if self._is_idle() and not self.transport.is_closing():
                self.transport.close()

        def _is_idle(self) -> bool:
            """Whether no request is being answered; further data may belong to an answered request."""
            return self.conn.their_state is h11.IDLE or (self.cycle is not None and self.cycle.response_complete)

    return BoundedProtocol
