"""Log of a server as JSON Lines, and its metrics for Prometheus.

The log contains no questions, answers, keys or addresses of clients; errors contain the redacted message of the model's
server. Metrics belong to an application, not to the process.
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
from ragsmith.text.redaction import REDACTION_FILTER, redacted

LOGGER = logging.getLogger("ragsmith.serving")
LIBRARY_LOGGERS = ("uvicorn", "asyncio")
"""Loggers of libraries whose records are written in the same format."""


def log_event(name: str, level: int = logging.INFO, *, trace: BaseException | None = None, **fields: object) -> None:
    """Log the event ``name`` with ``fields``; ``trace`` is an unexpected error."""
    LOGGER.log(level, name, extra={"fields": fields}, exc_info=trace)


class JsonFormatter(logging.Formatter):
    """Formatter of log records as JSON Lines."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = getattr(record, "fields", {})
        record_fields: dict[str, object] = {"time": at, "level": record.levelname.lower(), "event": record.getMessage()}
        record_fields |= fields if isinstance(fields, Mapping) else {}
        if record.exc_text:
            record_fields["traceback"] = record.exc_text
        return json.dumps(record_fields, ensure_ascii=True, default=str)


@contextmanager
def json_logging(stream: TextIO | None = None) -> Iterator[None]:
    """Write this log, those of `LIBRARY_LOGGERS`, and warnings to ``stream``, by default standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(REDACTION_FILTER)
    loggers = {
        LOGGER: logging.INFO,
        building.LOGGER: logging.INFO,
        **{logging.getLogger(name): logging.WARNING for name in LIBRARY_LOGGERS},
    }
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger in loggers]
    for logger, level in loggers.items():
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    with warnings.catch_warnings():
        warnings.showwarning = _log_warning
        try:
            yield
        finally:
            for logger, handlers, propagates, level in before:
                logger.handlers, logger.propagate = handlers, propagates
                logger.setLevel(level)


def _log_warning(message: Warning | str, *_: object, **__: object) -> None:
    log_event("notice", logging.WARNING, message=redacted(str(message)))


BUCKET_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Metrics of requests by route and status, latencies, and model usage; gauges are read on demand.

    Every label has few values, as unknown routes share one.
    """

    def __init__(self, workers: Workers) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "ragsmith_requests", "Answered requests.", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "ragsmith_request_seconds",
            "Seconds from the head of a request to the end of its reply.",
            ["route"],
            buckets=BUCKET_SECONDS,
            registry=self._registry,
        )
        self._calls = Counter("ragsmith_model_calls", "Calls of language models.", registry=self._registry)
        self._tokens = Counter("ragsmith_model_tokens", "Tokens of language models.", ["kind"], registry=self._registry)
        self._declined = Counter(
            "ragsmith_declined", "Questions that the pipeline declined to answer.", registry=self._registry
        )
        self._feedback = Counter("ragsmith_feedback", "Stored feedback.", ["thumb"], registry=self._registry)
        for name, description, read in (
            ("ragsmith_answering", "Questions that are being answered.", lambda: workers.busy),
            ("ragsmith_waiting", "Questions in the queue.", lambda: workers.waiting),
            ("ragsmith_given_up", "Questions that were cancelled.", lambda: workers.cancelled),
        ):
            Gauge(name, description, registry=self._registry).set_function(read)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Record an answered request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def answer(self, usage: Usage, *, declined: bool) -> None:
        """Record an answer."""
        self._calls.inc(usage.calls)
        self._tokens.labels("input").inc(usage.input_tokens)
        self._tokens.labels("output").inc(usage.output_tokens)
        self._declined.inc(declined)

    def feedback(self, thumb: str) -> None:
        """Record stored feedback."""
        self._feedback.labels(thumb).inc()

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
