"""The log of a server, one JSON object a line, and its metrics, which Prometheus reads.

No question, answer, key or address of a client is in the log; of a failure, what the model's server said, without
secrets. Metrics are of one application, not of the process.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ragsmith import building
from ragsmith.models.usage import Usage
from ragsmith.serving.workers import Workers
from ragsmith.text.redaction import REDACTING, redacted

LOGGER = logging.getLogger("ragsmith.serving")
OTHERS = ("uvicorn", "asyncio")
"""Loggers of others that speak in the same form."""


def event(name: str, level: int = logging.INFO, *, trace: BaseException | None = None, **fields: object) -> None:
    """Log ``name`` with what belongs to it; ``trace`` is an error nobody expected."""
    LOGGER.log(level, name, extra={"fields": fields}, exc_info=trace)


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = getattr(record, "fields", {})
        said: dict[str, object] = {"time": at, "level": record.levelname.lower(), "event": record.getMessage()}
        said |= fields if isinstance(fields, Mapping) else {}
        if record.exc_text:
            said["traceback"] = record.exc_text
        return json.dumps(said, ensure_ascii=True, default=str)


@contextmanager
def speaking_json(stream: TextIO | None = None) -> Iterator[None]:
    """Have this log, those of `OTHERS`, and warnings written to ``stream``, or else to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(REDACTING)
    loggers = {
        LOGGER: logging.INFO,
        building.LOGGER: logging.INFO,
        **{logging.getLogger(name): logging.WARNING for name in OTHERS},
    }
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger in loggers]
    for logger, level in loggers.items():
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    with warnings.catch_warnings():
        warnings.showwarning = _tell
        try:
            yield
        finally:
            for logger, handlers, propagates, level in before:
                logger.handlers, logger.propagate = handlers, propagates
                logger.setLevel(level)


def _tell(message: Warning | str, *_: object, **__: object) -> None:
    event("notice", logging.WARNING, message=redacted(str(message)))


SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Counts requests by route and status, how long they take, and what is paid; the rest is read when it is asked for.

    Every label has few values: routes that there are, and statuses.
    """

    def __init__(self, workers: Workers) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "ragsmith_requests", "Requests that were answered.", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "ragsmith_request_seconds",
            "Seconds from a request's head to the end of its reply.",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._calls = Counter("ragsmith_model_calls", "Calls of language models.", registry=self._registry)
        self._tokens = Counter("ragsmith_model_tokens", "Tokens of these.", ["kind"], registry=self._registry)
        self._declined = Counter("ragsmith_declined", "Answers that are none.", registry=self._registry)
        self._feedback = Counter("ragsmith_feedback", "Feedback that was kept.", ["thumb"], registry=self._registry)
        for name, said, read in (
            ("ragsmith_answering", "Questions that are being answered.", lambda: workers.busy),
            ("ragsmith_waiting", "Questions that wait for their turn.", lambda: workers.waiting),
            ("ragsmith_given_up", "Questions that nobody waited for to the end, so far.", lambda: workers.given_up),
        ):
            Gauge(name, said, registry=self._registry).set_function(read)

    def request(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def answer(self, usage: Usage, *, declined: bool) -> None:
        """An answer was made."""
        self._calls.inc(usage.calls)
        self._tokens.labels("input").inc(usage.input_tokens)
        self._tokens.labels("output").inc(usage.output_tokens)
        self._declined.inc(declined)

    def feedback(self, thumb: str) -> None:
        """Feedback was kept."""
        self._feedback.labels(thumb).inc()

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self._registry)
