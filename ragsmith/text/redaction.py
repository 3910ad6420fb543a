"""Redaction: no secret leaves in an error, a log or a traceback, even when a server repeats it."""

import json
import logging
import os
import re
from urllib.parse import quote

MASK = "***"
MIN_SECRET_CHARACTERS = 8
"""Characters; shorter values are placeholders such as ``none`` or ``ollama``, and words of any message."""

_NAMES_OF_SECRETS = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_NAME = r"(?:proxy-)?authorization|(?:x-)?(?:goog-)?api[-_]?key|(?:client|access|auth)[-_](?:secret|token|key)|password"
_PATTERNS = tuple(
    (re.compile(pattern, re.IGNORECASE), shown)
    for pattern, shown in (
        (
            rf"""((?:{_NAME})["']?\s*[:=,]\s*(?:b(?=["']))?["']?)(?:(?:bearer|basic|token|key)\s+)?[^\s"',;&}})\]]+""",
            r"\1***",
        ),
        (r"\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}", r"\1***"),
        (r"([?&](?:[\w-]*(?:key|token|secret|signature|password|passwd)|sig|code)=)[^&#\s\"'<>]+", r"\1***"),
        (r"(\b[a-z][a-z0-9+.-]*://)[^/\s\"'<>]+@", r"\1***@"),
        (r"\b(?-i:sk|pk|rk|gsk|xai|hf|jina)[-_][\w-]{16,}", MASK),
    )
)
"""Credentials in headers, queries and addresses, and keys of known forms; with what is shown in their place."""

_secrets: set[str] = set()


def remember_secret(value: str) -> None:
    """Hide ``value`` from now on wherever `redacted` is applied; one of under 8 characters is no secret."""
    if len(value.strip()) >= MIN_SECRET_CHARACTERS:
        _secrets.add(value.strip())


def redacted(text: str) -> str:
    """Hide known secrets, keys of the environment, and credentials in headers and URLs."""
    text = redact_known(text)
    for pattern, shown in _PATTERNS:
        text = pattern.sub(shown, text)
    return text


def redact_known(text: str) -> str:
    """Hide only the values that are known to be secret, as in the text of a model."""
    for secret in sorted(_list_secrets(), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _list_secrets() -> set[str]:
    """Return every value to hide, also in the form it has in a URL or in JSON."""
    values = set(_secrets)
    values |= {value.strip() for name, value in os.environ.items() if _NAMES_OF_SECRETS.search(name)}
    secrets = {value for value in values if len(value) >= MIN_SECRET_CHARACTERS}
    return secrets | {quote(value, safe="") for value in secrets} | {json.dumps(value)[1:-1] for value in secrets}


_FORMAT = logging.Formatter()


class RedactionFilter(logging.Filter):
    """Lets every record pass, without its secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace what the record says, and the traceback it comes with."""
        record.msg, record.args = redacted(record.getMessage()), ()
        if record.exc_info:
            record.exc_text, record.exc_info = redacted(_FORMAT.formatException(record.exc_info)), None
        return True


REDACTION_FILTER = RedactionFilter()


def redact_logs(*loggers: str) -> None:
    """Apply `redacted` to what ``loggers`` say; a second time changes nothing."""
    for name in loggers:
        logging.getLogger(name).addFilter(REDACTION_FILTER)
