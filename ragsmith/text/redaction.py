"""Redaction of secrets in errors, logs and tracebacks, even if a server repeats them."""

import json
import logging
import os
import re
from urllib.parse import quote

MASK = "***"
"""Replaces a secret."""
MIN_SECRET_CHARACTERS = 8
"""Minimum number of characters of a secret; shorter values are placeholders such as ``none`` or ``ollama``, and occur
in ordinary messages."""

_NAMES_OF_SECRETS = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_NAME = r"(?:proxy-)?authorization|(?:x-)?(?:goog-)?api[-_]?key|(?:client|access|auth)[-_](?:secret|token|key)|password"
_PATTERNS = tuple(
    (re.compile(pattern, re.IGNORECASE), shown)
    for pattern, shown in (
        (
            rf"""((?:{_NAME})(?:["']?\s*[:=]|["']\s*,)\s*(?:b(?=["']))?["']?)(?:(?:bearer|basic|token|key)\s+)?[^\s"',;&}})\]]+""",
            r"\1***",
        ),
        (r"\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}", r"\1***"),
        (r"([?&](?:[\w-]*(?:key|token|secret|signature|password|passwd)|sig|code)=)[^&#\s\"'<>]+", r"\1***"),
        (r"(\b[a-z][a-z0-9+.-]*://)(?!(?-i:USER)@)[^/\s\"'<>]+@", r"\1***@"),
        (r"\b(?-i:sk|pk|rk|gsk|xai|hf|jina)[-_][\w-]{16,}", MASK),
    )
)
"""Patterns of credentials in headers, queries and URLs, and of keys of known forms, with their replacements."""

_secrets: set[str] = set()


def remember_secret(value: str) -> None:
    """Register ``value`` as a secret for `redacted`, unless it is too short."""
    if len(value.strip()) >= MIN_SECRET_CHARACTERS:
        _secrets.add(value.strip())


def redacted(text: str) -> str:
    """Replace registered secrets, keys of the environment, and credentials in headers and URLs."""
    text = redact_known(text)
    for pattern, shown in _PATTERNS:
        text = pattern.sub(shown, text)
    return text


def redact_known(text: str) -> str:
    """Replace only registered secrets and keys of the environment, for example in the text of a model."""
    for secret in sorted(_list_secrets(), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _list_secrets() -> set[str]:
    """Return every secret, also in the form that it has in a URL or in JSON."""
    values = set(_secrets)
    values |= {value.strip() for name, value in os.environ.items() if _NAMES_OF_SECRETS.search(name)}
    secrets = {value for value in values if len(value) >= MIN_SECRET_CHARACTERS}
    return secrets | {quote(value, safe="") for value in secrets} | {json.dumps(value)[1:-1] for value in secrets}


_FORMAT = logging.Formatter()


class RedactionFilter(logging.Filter):
    """A logging filter that redacts every record and drops none."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact the message and the traceback of a record."""
        record.msg, record.args = redacted(record.getMessage()), ()
        if record.exc_info:
            record.exc_text, record.exc_info = redacted(_FORMAT.formatException(record.exc_info)), None
        return True


REDACTION_FILTER = RedactionFilter()


def redact_logs(*loggers: str) -> None:
    """Redact the records of ``loggers``; repeated calls have no effect."""
    for name in loggers:
        logging.getLogger(name).addFilter(REDACTION_FILTER)
