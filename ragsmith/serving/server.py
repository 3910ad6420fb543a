"""A server of its own: it listens, answers, and stops when it is told to, after what it has accepted.

The server library is asked for what its defaults leave open: heads of requests that never end, any number of
connections, and a stop that ends with an exit code of 0.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragsmith.errors import UsageError
from ragsmith.evaluation.signals import signals_handled
from ragsmith.serving.app import ServingApp
from ragsmith.serving.middleware import HEADERS, LARGEST_HEAD, OTHER, checked_token, request_id
from ragsmith.serving.monitoring import event, speaking_json
from ragsmith.serving.requests import no_http
from ragsmith.text.files import TextError, read_text

KEEP_ALIVE_SECONDS = 15
GRACE_SECONDS = 5
"""How much longer than a request may take a stop waits for those that were accepted."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(file: str | Path | None, given: str | None) -> str | None:
    """The token of a file, or else the one given, if there is any; it is hidden in everything that is said from now on.

    Raises:
        UsageError: it is too short to be one, or the file cannot be read.
    """
    token, where = given, "RAGSMITH_TOKEN"
    if file is not None:
        where = "the token file"
        try:
            token = read_text(Path(file), limit=4096, links=True)
        except TextError as error:
            raise UsageError(error.at(file)) from None
    return None if token is None else checked_token(token, where)


def refuse_open(host: str, token: str | None) -> None:
    """Raise `UsageError` where others than this machine could ask without a token."""
    if token is None and not is_loopback(host):
        raise UsageError(
            f"others reach {host}: give a token with --token-file or in RAGSMITH_TOKEN, or serve on 127.0.0.1"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket on ``host`` and ``port``, 0 for a free one; nobody can connect before it is served.

    Raises:
        UsageError: it cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would let two processes listen
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except (OSError, OverflowError) as error:
        found.close()
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{host} port {port} cannot be used ({why}): give another --host or --port") from None
    return found


def address(listening: socket.socket) -> str:
    """The address of the page."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def run(app: ServingApp, listening: socket.socket, on_start: Callable[[str], None] | None) -> None:
    """Serve until a signal comes; what was accepted is answered before this returns.

    ``on_start``, if there is one, is called with the address once it answers.
    """
    with speaking_json():
        _run(app, listening, on_start)


def _run(app: ServingApp, listening: socket.socket, on_start: Callable[[str], None] | None) -> None:
    config = uvicorn.Config(
        app,
        http=_bounded(app),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(app.limits.seconds) + GRACE_SECONDS,
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )
    server = _SignalServer(config, app, address(listening), on_start)
    try:
        asyncio.run(server.serve(sockets=[listening]))
    finally:
        listening.close()
        app.close()
    event("stopped", in_time=not server.pressed)
    if server.pressed:
        signal.raise_signal(signal.SIGINT)  # for whoever hears it now: not all that was accepted was answered


class _SignalServer(uvicorn.Server):
    """Says when it answers, and takes a signal for what it is: a request to stop."""

    def __init__(
        self, config: uvicorn.Config, app: ServingApp, url: str, on_start: Callable[[str], None] | None
    ) -> None:
        super().__init__(config)
        self._app, self._url, self._on_start = app, url, on_start
        self._loop: asyncio.AbstractEventLoop | None = None
        self.pressed = False
        """Whether Ctrl-C came while it was stopping."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.startup`."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        if self.started:
            event("started", url=self._url, threads=self._app.workers.threads, queue=self._app.workers.queue)
            if self._on_start is not None:
                self._on_start(self._url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.shutdown`."""
        event("stopping", answering=self._app.workers.busy, waiting=self._app.workers.waiting)
        await super().shutdown(sockets=sockets)

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Signals end the serving; they are not raised again afterwards."""
        return signals_handled(self._hear)

    def _hear(self, number: int, frame: Any) -> None:
        if self.should_exit and number == signal.SIGINT and self._loop is not None:
            self.pressed = True
            self._loop.call_soon_threadsafe(self._hang_up)
        self._app.stopping = self.should_exit = True

    def _hang_up(self) -> None:
        """Give up all who wait, as if they had gone: nothing is left to be waited for then."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _bounded(app: ServingApp) -> type[asyncio.Protocol]:
    """The protocol of connections, with limits: on their number, and on how long a client may send or take nothing.

    What is no HTTP is refused as everything else is.
    """
    limits = app.limits

    class Bounded(H11Protocol):
        _patience: asyncio.TimerHandle | None = None
        _taking: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=0)  # so that it is told of whatever a client does not take
            if len(self.connections) > limits.connections:
                transport.abort()
                return
            self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._calm()
            self._taken()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._nothing_begun():
                self._await_head()
            else:
                self._calm()

        def send_400_response(self, msg: str) -> None:
            """Refuse what is no HTTP: the server library, which calls this, would say it in a form of its own.

            It would also say it a second time to whom it has replied to already, and let a request that is being
            answered reply after it.
            """
            is_begun = self.conn.our_state is h11.SEND_RESPONSE
            if not is_begun and self.conn.our_state is not h11.IDLE:
                self.transport.close()  # it has its reply: what follows is no body, and no request
                return
            refused, id_ = no_http(sys.exc_info()[1]), request_id("")
            if is_begun:
                id_ = self.cycle.scope["state"].get("request_id", id_)
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            else:
                app.metrics.request(OTHER, refused.status, 0.0)
                event(
                    "request",
                    id=id_,
                    method=OTHER,
                    route=OTHER,
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
            self._await_taking()

        def resume_writing(self) -> None:
            self._taken()
            super().resume_writing()

        def _await_taking(self) -> None:
            left = self.transport.get_write_buffer_size()
            self._taking = self.loop.call_later(limits.body_seconds, self._none_taken, left)

        def _none_taken(self, left: int) -> None:
            """Hang up on a client that took nothing of what waits for it, or go on waiting; closing would wait, too."""
            if self.transport.get_write_buffer_size() < left:
                self._await_taking()
            else:
                self.transport.abort()

        def _taken(self) -> None:
            if self._taking is not None:
                self._taking.cancel()
                self._taking = None

        def _await_head(self) -> None:
            if self._patience is None:
                self._patience = self.loop.call_later(limits.body_seconds, self._too_slow)

        def _calm(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

        def _too_slow(self) -> None:
            if self._nothing_begun() and not self.transport.is_closing():
                self.transport.close()

        def _nothing_begun(self) -> bool:
            """Whether no request is being answered: what still comes may be the body of one that was answered."""
            return self.conn.their_state is h11.IDLE or (self.cycle is not None and self.cycle.response_complete)

    return Bounded
