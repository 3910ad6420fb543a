"""The options of a model: what each may be, and no secret among them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from ragsmith.models.vector_address import AUTO, EXACT, QDRANT, is_url
from ragsmith.text.files import shown
from ragsmith.text.redaction import redacted
from ragsmith.text.suggest import did_you_mean

DTYPES = ("float32", "float16", "bfloat16")
LEAST: Mapping[str, int] = {
    "in_flight": 1,
    "attempts": 1,
    "dimensions": 1,
    "batch_size": 1,
    "context_window": 16,
}
"""The smallest value of an option that counts."""

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_LIKE_A_KEY = re.compile(r"[A-Z0-9]{16,}")


def problem_with(option: str, value: object) -> str | None:
    """Why ``value`` cannot be that of ``option``, in a sentence that quotes no secret; None if it can."""
    if option in ("base_url", "vector_store"):
        return _problem_with_url(value) if option == "base_url" else _problem_with_store(value)
    if option == "api_key_env":
        return None if isinstance(value, str) and _is_variable(value) else NO_VARIABLE
    if option in LEAST or option == "deadline":
        return _problem_with_number(option, value)
    if not isinstance(value, str):
        return f"{option} must be text, not {shown(value)}"
    if option == "dtype" and value not in DTYPES:
        return f"unknown dtype {shown(value)}; {did_you_mean(value, DTYPES)}"
    return None


def _problem_with_number(option: str, value: object) -> str | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if option == "deadline":
        fits = number and 0 < value < math.inf  # type: ignore[operator]
        return None if fits else f"deadline must be seconds above 0, not {shown(value)}"
    fits = number and isinstance(value, int) and value >= LEAST[option]
    return None if fits else f"{option} must be a whole number from {LEAST[option]} on, not {shown(value)}"


NO_VARIABLE = (
    "api_key_env must be the name of an environment variable, in capitals such as OPENAI_API_KEY, and never a key: "
    "export the key under a name, and give the name"
)


def _is_variable(text: str) -> bool:
    """Whether ``text`` is the name of a variable, and could not well be a key."""
    return bool(_VARIABLE.fullmatch(text)) and not _LIKE_A_KEY.search(text)


def _problem_with_store(value: object) -> str | None:
    kind, _, where = value.partition(":") if isinstance(value, str) else ("", "", "")
    if value in (AUTO, EXACT) or (kind == QDRANT and where and not is_url(where)):
        return None
    if kind != QDRANT or not where:
        return f"unknown vector store {redacted(shown(value))}: give auto, exact, or qdrant: and a URL or folder"
    if _problem_with_url(where):
        return (
            "the URL of the Qdrant server is not a valid one: give one such as http://localhost:6333, with no user, "
            "password or query, and export its key as QDRANT_API_KEY"
        )
    return None


def _problem_with_url(value: object) -> str | None:
    if not isinstance(value, str) or not value.startswith(("http://", "https://")):
        return "the base URL must begin with http:// or https://, such as http://localhost:11434/v1"
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port  # the port is read when it is asked for
    except ValueError:
        host = None
    if not host or not value.isprintable() or " " in value:
        return "the base URL is not a valid one: give one such as http://localhost:11434/v1"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return (
            "the base URL must hold no user, password or query: export the key, and name its variable with api_key_env"
        )
    return None
