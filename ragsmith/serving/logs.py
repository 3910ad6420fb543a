"""The log of a server: one JSON object a line, with the id of the request.

No question, answer, key or address of a client is in it; of a failure, what the model's server said, without secrets.
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

from ragsmith import building
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
