"""Adapters for the language models and embedders of LlamaIndex.

The models keep their configuration, including temperature and retries; only their token limit may be lowered.
Identifiers contain no keys, addresses or other settings that do not affect a reply. Error messages of a provider are
omitted, because they may quote a key.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ragsmith.digest import digest
from ragsmith.errors import ModelError, ModelUnavailable, RefusedContent, Unreadable
from ragsmith.models.calls import Completion
from ragsmith.models.capabilities import CapabilityLearner
from ragsmith.models.protocols import Vectors
from ragsmith.models.tasks import without_thoughts
from ragsmith.models.unit_vectors import UnitVectors
from ragsmith.models.usage import Usage
from ragsmith.text.redaction import redact_known

if TYPE_CHECKING:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.llms import LLM

T = TypeVar("T")

CONNECTION_WORDS = frozenset(
    {
        *("api", "key", "keys", "token", "secret", "password", "credential", "credentials", "auth"),
        *("authorization", "header", "headers", "cookies", "proxy", "proxies", "url", "uri", "endpoint", "host"),
        *("port", "region", "organization", "project", "profile", "timeout", "retry", "retries", "batch"),
        *("workers", "limiter", "session", "verbose", "progress", "logger", "callback", "manager", "client"),
        *("cache", "folder", "dir"),
    }
)
"""Words in the names of settings for the connection to a model, which do not affect its replies."""

ACCESS_REFUSED_STATUSES = frozenset({401, 402, 403, 404})
"""HTTP statuses for a refused key, account or model, which concern all requests."""
REJECTED_STATUSES = frozenset({400, 413, 422})
"""HTTP statuses for a rejected request."""
MAX_CONSECUTIVE_FAILURES = 5
"""Consecutive failures, over all threads, after which a provider counts as down."""

INPUT_TOKENS = ("prompt_tokens", "input_tokens", "prompt_eval_count")
OUTPUT_TOKENS = ("completion_tokens", "output_tokens", "eval_count")


class LlamaIndexChat:
    """A `ChatModel` that wraps a LlamaIndex ``LLM``; ``sample`` has no influence on a request."""

    def __init__(self, model: LLM) -> None:
        self._model = model
        self._provider = _Provider()
        self.learner = CapabilityLearner()

    @property
    def thinking_tokens(self) -> int:
        """The learnt number of tokens for thinking."""
        return self.learner.capabilities.thinking_tokens

    @cached_property
    def id(self) -> str:
        """Class, model, temperature if it has one, and a digest of every setting that may affect a reply."""
        temperature = getattr(self._model, "temperature", None)
        sampling = "" if temperature is None else f"@temperature={temperature:g}"
        return f"{_identity(self._model, self._model.metadata.model_name)}{sampling}"

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        """See `ragsmith.models.calls.ChatModel`."""
        model = _with_limit(self._model, max_tokens)
        model_limit = getattr(model, "max_tokens", None) or 0
        limit = model_limit if 0 < model_limit < max_tokens else max_tokens
        started = time.perf_counter()
        reply = self._provider.call(self.id, lambda: model.complete(prompt))
        seconds = time.perf_counter() - started
        text, ends_in_thought = without_thoughts(reply.text)
        cut_at = limit if ends_in_thought or _is_truncated(reply.raw) else 0
        if not cut_at and not text.strip():
            raise Unreadable(f"{self.id}: the reply has no text", calls=1)
        if any("\ud800" <= character <= "\udfff" for character in text):  # an unpaired surrogate
            raise Unreadable(f"{self.id}: the reply is not valid Unicode", calls=1)
        return Completion(redact_known(text), Usage(1, 0, 0, *_token_counts(reply), seconds), cut_at)


class LlamaIndexEmbedder:
    """An `Embedder` that wraps a LlamaIndex ``BaseEmbedding``; a blank text is not sent and has the zero vector."""

    slow = True
    """Vectors are cached on disk: see `ragsmith.models.calls.is_stored`."""

    def __init__(self, model: BaseEmbedding) -> None:
        self._model = model
        self.vectors = UnitVectors()
        self._provider = _Provider()

    @cached_property
    def id(self) -> str:
        """Class, model, and a digest of every setting that may affect a vector."""
        return _identity(self._model, self._model.model_name)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed ``texts``: shape ``(len(texts), dimensions)``, rows of length 1, or 0 for a blank text.

        Raises:
            ModelError: the model failed, or returned the wrong number of vectors, of different lengths or not finite.
            ModelUnavailable: the provider refuses the key or the model, or is down.
        """
        return self.vectors.embed(texts, lambda part: [self._call(part, self._model.get_text_embedding_batch)])

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries, with the model's instruction for them."""

        def embed(queries: list[str]) -> list[Any]:
            return [self._model.get_query_embedding(query) for query in queries]

        return self.vectors.embed(texts, lambda part: [self._call(part, embed)])

    def _call(self, texts: list[str], embed: Callable[[list[str]], Any]) -> Vectors:
        """Return unit vectors, one for each text."""
        vectors = self._provider.call(self.id, lambda: embed(texts))
        try:
            rows = np.array(vectors, dtype=np.float64)
        except (TypeError, ValueError):
            raise ModelError(
                f"{self.id}: the vectors contain values that are not numbers, or differ in length"
            ) from None
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:
            raise ModelError(f"{self.id}: the model returned an array of shape {rows.shape} for {len(texts)} texts")
        return self.vectors.normalize(rows, lambda problem: ModelError(f"{self.id}: {problem}"), self.id)


class _Provider:
    """Calls a provider, and counts its consecutive failures."""

    def __init__(self) -> None:
        self._failures = 0
        self._lock = threading.Lock()

    def call(self, name: str, call: Callable[[], T]) -> T:
        """Return the result of ``call``.

        Raises:
            ModelError: the call failed.
            ModelUnavailable: the key or the model is refused, or there were too many consecutive failures.
        """
        try:
            result = call()
        except Exception as error:  # noqa: BLE001  every provider has its own exceptions
            status = getattr(error, "status_code", None)
            problem = f"{name}: {type(error).__name__}" + (f" (HTTP {status})" if isinstance(status, int) else "")
        else:
            self._failures = 0
            return result
        # raised outside the handler, so that the provider's message, which may quote a key, is not in the traceback
        if status in ACCESS_REFUSED_STATUSES:
            raise ModelUnavailable(f"{problem}: the provider refuses the key or the model")
        if status in REJECTED_STATUSES:
            self._failures = 0
            raise RefusedContent(problem, calls=1)
        with self._lock:
            self._failures += 1
            failures = self._failures
        if failures >= MAX_CONSECUTIVE_FAILURES:
            raise ModelUnavailable(f"{problem}; {failures} requests in a row failed: run the same command later")
        raise ModelError(problem)


def _with_limit(model: LLM, max_tokens: int) -> LLM:
    """Return a copy with the lower of the task's and the model's token limit, or ``model`` if it has no such setting.

    The copy's class sends the limit under its provider's name for it.
    """
    if "max_tokens" not in type(model).model_fields:
        return model
    model_limit = getattr(model, "max_tokens", None)
    limited: LLM = model.model_copy(update={"max_tokens": min(model_limit, max_tokens) if model_limit else max_tokens})
    return limited


def _identity(model: Any, name: str) -> str:
    settings = {
        key: _to_json(getattr(model, key))
        for key in sorted(type(model).model_fields)
        if not _is_connection_setting(key)
    }
    kind = type(model)
    return f"llama_index:{kind.__name__}:{name}:{digest(kind.__module__, kind.__qualname__, settings)[:16]}"


def _is_connection_setting(name: str) -> bool:
    return not CONNECTION_WORDS.isdisjoint(name.lower().replace("-", "_").split("_"))


def _to_json(value: Any) -> Any:
    """Return a setting as JSON types; secrets, clients, functions and other objects are replaced by their type."""
    if isinstance(value, Enum):
        return _to_json(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items() if not _is_connection_setting(str(key))}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_truncated(raw: Any) -> bool:
    """Whether a reply was truncated, which OpenAI reports for a choice, and Anthropic and Ollama for the reply."""
    choices = _get(raw, "choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    ends = _get(first, "finish_reason"), _get(raw, "stop_reason"), _get(raw, "done_reason")
    return any(end in ("length", "max_tokens") for end in ends)


def _get(part: Any, name: str) -> Any:
    return part.get(name) if isinstance(part, Mapping) else getattr(part, name, None)


def _token_counts(reply: Any) -> tuple[int, int]:
    """Return the input and output tokens that the provider reports, or 0."""
    sources = [reply.additional_kwargs, _get(reply.raw, "usage"), reply.raw]
    return _first_count(sources, INPUT_TOKENS), _first_count(sources, OUTPUT_TOKENS)


def _first_count(sources: Sequence[Any], names: Sequence[str]) -> int:
    values = (_get(source, name) for source in sources for name in names)
    counts = (value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0)
    return next(counts, 0)
