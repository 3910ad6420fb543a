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
from functools import partial
from typing import TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest

from ragsmith import building
from ragsmith.gateway.budget import Prices
from ragsmith.pipelines.stages import ObservedEngine
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
    """Metrics of requests, stages, models, money and the process; gauges are read on demand.

    Every label has few values, as unknown routes share one. ``prices`` are those of the models.
    """

    def __init__(self, prices: Prices | None = None) -> None:
        self._prices = prices or Prices()
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.build = Info("ragsmith_build", "The version, and the pipeline that answers.", registry=self._registry)
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
        self._errors = Counter("ragsmith_errors", "Errors by code.", ["code"], registry=self._registry)
        self._stage_seconds = Histogram(
            "ragsmith_stage_seconds",
            "Seconds of a stage, of answers that failed as well.",
            ["stage"],
            buckets=BUCKET_SECONDS,
            registry=self._registry,
        )
        self._calls = Counter(
            "ragsmith_model_calls",
            "Tasks of language models, and texts and pairs of others, that a model computed or that were stored.",
            ["kind", "source"],
            registry=self._registry,
        )
        self._sent = Counter("ragsmith_model_requests", "Requests to models.", ["model"], registry=self._registry)
        self._tokens = Counter(
            "ragsmith_model_tokens", "Tokens of requests to models.", ["model", "kind"], registry=self._registry
        )
        self._cost = Counter(
            "ragsmith_cost", "Cost of requests to models whose prices are known.", ["model"], registry=self._registry
        )
        self.declined = Counter(
            "ragsmith_declined", "Questions that the pipeline declined to answer.", registry=self._registry
        )
        self.feedback = Counter("ragsmith_feedback", "Stored feedback.", ["thumb"], registry=self._registry)

    def watch(self, workers: Workers) -> None:
        """Add gauges of the questions of ``workers``."""
        for name, description, counted in (
            ("ragsmith_answering", "Questions that are being answered.", "busy"),
            ("ragsmith_waiting", "Questions in the queue.", "waiting"),
            ("ragsmith_given_up", "Questions that were cancelled.", "cancelled"),
        ):
            Gauge(name, description, registry=self._registry).set_function(partial(getattr, workers, counted))

    def request(self, route: str, status: int, seconds: float, code: str | None = None) -> None:
        """Record an answered request; ``code`` is that of its error, if any."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if code:
            self._errors.labels(code).inc()

    def work(self, engine: ObservedEngine) -> None:
        """Record the work for a question, whether it succeeded or not, by the ``engine`` that did nothing else."""
        for stage, seconds in engine.seconds.items():
            self._stage_seconds.labels(stage).observe(seconds)
        for kind, counts in engine.gateway.counts().items():
            self._calls.labels(kind, "model").inc(counts.made)
            self._calls.labels(kind, "store").inc(counts.stored)
        for model_id, usage in engine.gateway.sent.items():
            name, price = model_id.partition("@")[0], self._prices.get_price(model_id)
            self._sent.labels(name).inc(usage.calls)
            self._tokens.labels(name, "input").inc(usage.input_tokens)
            self._tokens.labels(name, "output").inc(usage.output_tokens)
            if price:
                self._cost.labels(name).inc(price.cost(usage.calls, usage.input_tokens, usage.output_tokens))

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
