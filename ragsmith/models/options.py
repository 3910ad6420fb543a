"""Options of models: their types and valid values.

A provider declares an option as a keyword-only argument with one of the types below, ``str``, ``int``, ``float``,
``bool`` or a ``Literal``; numbers may be annotated with a `Range`.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import SplitResult, urlsplit

from ragsmith.extensions import LOADS_OWN
from ragsmith.models.vector_stores import (
    APPROXIMATE,
    AUTO,
    EXACT,
    POSTGRES,
    QDRANT,
    find_store,
    is_url,
    list_address_forms,
)
from ragsmith.plugins import KINDS, Range, expected, is_instance_of
from ragsmith.text.files import shorten
from ragsmith.text.redaction import redacted
from ragsmith.text.suggest import did_you_mean

NO_EFFECT_ON_RESULTS = "does not affect results"
"""Annotation of options of how a model is called, which are not part of identifiers and records."""

_VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_KEY_PATTERN = re.compile(r"[A-Z0-9]{16,}")


@dataclass(frozen=True, slots=True)
class Option:
    """The valid values of an option, and whether it affects results."""

    kind: type = str
    within: Range | None = None
    choices: tuple[str, ...] = ()
    check: Callable[[Any], str | None] | None = None
    affects_results: bool = True

    def problem(self, name: str, value: object) -> str | None:
        """Return an error message without secrets if ``value`` is invalid for the option ``name``, or None."""
        if self.check is not None:
            return self.check(value)
        if expectation := expected(self.kind, [self.within] if self.within else [], value):
            return f"{name} must be {expectation}, not {redacted(shorten(value))}"
        if self.choices and value not in self.choices:
            return f"unknown {name} {shorten(value)}; {did_you_mean(str(value), self.choices)}"
        return None


def option_from_hint(hint: Any) -> Option:
    """Read an option from the type hint of an argument; ``None`` in a union is the model's default.

    Raises:
        TypeError: an option cannot have this type.
    """
    [hint] = [part for part in get_args(hint) if part is not type(None)] if type(None) in get_args(hint) else [hint]
    kind, *annotations = get_args(hint) if get_origin(hint) is Annotated else [hint]
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    if (kind := str if choices else kind) not in KINDS:
        raise TypeError(f"an option cannot be of type {kind}: use {', '.join(k.__name__ for k in KINDS)}, or Literal")
    within = next((part for part in annotations if isinstance(part, Range)), None)
    check: Any = next(filter(callable, annotations), None)
    return Option(kind, within, choices, check, NO_EFFECT_ON_RESULTS not in annotations)


def _problem_with_deadline(value: object) -> str | None:
    valid = is_instance_of(float, value) and 0 < value < math.inf  # type: ignore[operator]
    return None if valid else f"deadline must be seconds above 0, not {shorten(value)}"


def _problem_with_variable(value: object) -> str | None:
    """Return an error message, which does not repeat the value because it may be a key."""
    if isinstance(value, str) and _VARIABLE_NAME.fullmatch(value) and not _KEY_PATTERN.search(value):
        return None
    return (
        "api_key_env must be the name of an environment variable, in capitals such as OPENAI_API_KEY, and never a key: "
        "export the key under a name, and give the name"
    )


def problem_with_store(value: object) -> str | None:
    """Return an error message without secrets if the address of a vector store is invalid, or None."""
    kind, _, path = value.partition(":") if isinstance(value, str) else ("", "", "")
    if value in (AUTO, EXACT, APPROXIMATE) or (kind in (APPROXIMATE, QDRANT) and path and not is_url(path)):
        return None
    if kind == POSTGRES and path.startswith("//"):
        return _problem_with_database(f"{kind}:{path}")
    store = find_store(kind) if kind not in (EXACT, APPROXIMATE, POSTGRES, QDRANT) else None
    if store is not None:
        return store.check_address(path) if store.check_address else None
    if kind != QDRANT or not path:
        return f"unknown vector store {redacted(shorten(value))}: give {list_address_forms()}; {LOADS_OWN}"
    if _problem_with_url(path):
        return (
            "the URL of the Qdrant server is invalid: give one such as http://localhost:6333, with no user, "
            "password or query, and export its key as QDRANT_API_KEY"
        )
    return None


def _split_url(url: str) -> SplitResult | None:
    """Return the parts of a URL, or None if it is invalid or has no host."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # an invalid port raises here
    except ValueError:
        return None
    return parts if parts.hostname and url.isprintable() and " " not in url else None


def _problem_with_database(url: str) -> str | None:
    parts = _split_url(url)
    if parts and parts.path.strip("/") and not (parts.password or parts.query or parts.fragment):
        return None
    return (
        "the URL of the PostgreSQL server is invalid: give one such as "
        "postgresql://user@localhost:5432/vectors, with no password or query, and export the password as PGPASSWORD"
    )


def _problem_with_url(value: object) -> str | None:
    if not isinstance(value, str) or not value.startswith(("http://", "https://")):
        return "the base URL must begin with http:// or https://, such as http://localhost:11434/v1"
    if (parts := _split_url(value)) is None:
        return "the base URL is invalid: give one such as http://localhost:11434/v1"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return (
            "the base URL must not contain a user, password or query: export the key, and name its variable with "
            "api_key_env"
        )
    return None


BatchSize = Annotated[int, Range(1), NO_EFFECT_ON_RESULTS]
"""Texts per request, or per forward pass of a network."""
ContextWindow = Annotated[int, Range(16)]
"""Tokens that a model reads; longer texts are truncated."""
Dimensions = Annotated[int, Range(1)]
"""Dimensions of a vector."""
ThinkingTokens = Annotated[int, Range(0, 999_999), NO_EFFECT_ON_RESULTS]
"""Tokens that a model may use to think before it replies. They do not affect results, as a complete
reply is the same under any limit. The bound keeps sums in the range of the database."""
StructuredOutput = bool
"""Whether requests have the JSON schema of a reply in a form, such as a score or a list."""
AnswerTokens = Annotated[int, Range(1, 999_999)]
"""Maximum number of tokens of an answer, without thoughts."""
AcceptedModel = Annotated[str, NO_EFFECT_ON_RESULTS]
"""Another model name that is accepted in a server's replies, or ``any``."""
Device = Annotated[str, NO_EFFECT_ON_RESULTS]
"""The device of a network, such as ``cpu`` or ``cuda``."""
Dtype = Literal["float32", "float16", "bfloat16"]
"""The format of a network's numbers."""

SERVED_OPTIONS: Mapping[str, Option] = {
    "base_url": option_from_hint(Annotated[str, _problem_with_url, NO_EFFECT_ON_RESULTS]),
    "api_key_env": option_from_hint(Annotated[str, _problem_with_variable, NO_EFFECT_ON_RESULTS]),
    "in_flight": option_from_hint(Annotated[int, Range(1), NO_EFFECT_ON_RESULTS]),
    "attempts": option_from_hint(Annotated[int, Range(1), NO_EFFECT_ON_RESULTS]),
    "deadline": option_from_hint(Annotated[float, _problem_with_deadline, NO_EFFECT_ON_RESULTS]),
}
"""Options of all served models; the last three are limits of their server (`Policy`)."""
EMBEDDER_OPTIONS: Mapping[str, Option] = {
    "vector_store": option_from_hint(Annotated[str, problem_with_store, NO_EFFECT_ON_RESULTS])
}
"""Options of all embedders."""
