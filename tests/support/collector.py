"""A collector of OpenTelemetry on a loopback socket, which keeps the spans that it is sent (OTLP/HTTP, protobuf)."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Spanned:
    """A received span; ids are hexadecimal; ``status`` is 2 for an error, ``role`` 2 for a server, 3 for a client."""

    name: str
    trace: str
    id: str
    parent: str
    role: int
    status: int
    said: str
    attributes: dict[str, Any]
    events: int

    @property
    def kind(self) -> Any:
        return self.attributes["openinference.span.kind"]


class Collector:
    """Received spans, and the bodies that they came in; while it is ``held``, it accepts requests and never replies."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.arrived = threading.Condition()
        self.held = threading.Event()
        self.released = threading.Event()

    @property
    def spans(self) -> list[Spanned]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest  # noqa: PLC0415

        with self.arrived:
            bodies = list(self.bodies)
        return [
            Spanned(
                span.name,
                span.trace_id.hex(),
                span.span_id.hex(),
                span.parent_span_id.hex(),
                span.kind,
                span.status.code,
                span.status.message,
                {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes},
                len(span.events),
            )
            for body in bodies
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def wait_for(self, name: str, count: int = 1, seconds: float = 30) -> list[Spanned]:
        """Wait until ``count`` spans of that name have arrived, and return all spans."""
        with self.arrived:
            found = self.arrived.wait_for(lambda: sum(s.name == name for s in self.spans) >= count, seconds)
        assert found, f"{count} spans named {name} were expected, and there are {[span.name for span in self.spans]}"
        return self.spans


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector until the end of the context."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if collector.held.is_set():
                collector.released.wait()
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            with collector.arrived:
                collector.bodies.append(body)
                collector.paths.append(self.path)
                collector.arrived.notify_all()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
