"""A chat model behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, LiteLLM.

The key comes from ``OPENAI_API_KEY`` and is in no identifier, message or record. Replies that are empty, malformed or
without a finish reason are errors, not answers (measured: the client passes them through without a word); one that
ended at the limit of tokens is taken as it is. Redirects are not followed: the prompt goes nowhere else.
"""

from __future__ import annotations

import json
import os
import time
import weakref
from dataclasses import replace
from functools import cached_property
from typing import Any

from ragsmith.errors import ModelError, ModelUnavailable, UsageError
from ragsmith.gateway import Completion
from ragsmith.usage import Usage

TIMEOUT_SECONDS = 120.0
ATTEMPTS = 3
TRANSIENT = frozenset({408, 409, 429, 500, 502, 503, 504})
REFUSED = frozenset({401, 403, 404})
FAILURES_IN_A_ROW = 5
"""Requests given up one after the other, over all threads, before the provider counts as down."""
LONGEST_PAUSE = 60.0
"""Seconds; a server that asks for more is given up for this request."""


class OpenAIChat:
    """Completes prompts at temperature 0; sample n is asked for with seed n."""

    def __init__(
        self, model: str, *, base_url: str | None = None, attempts: int = ATTEMPTS, pause: float = 1.0
    ) -> None:
        self._model = model
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        self._attempts = attempts
        self._pause = pause
        self._failures = 0
        if self._base_url is not None and not self._base_url.startswith(("http://", "https://")):
            raise UsageError("the base URL must begin with http:// or https://, such as http://localhost:11434/v1")
        if self._base_url is None and "OPENAI_API_KEY" not in os.environ:
            raise UsageError("OPENAI_API_KEY is not set: export it, or give --base-url of a server that needs no key")

    @property
    def id(self) -> str:
        """Provider, model and sampling; never the URL or the key."""
        return f"openai:{self._model}@temperature=0"

    @cached_property
    def _client(self) -> Any:
        import openai  # noqa: PLC0415  0.4 s

        client = openai.OpenAI(
            api_key=os.environ.get("OPENAI_API_KEY", "none"),
            base_url=self._base_url,
            max_retries=0,
            timeout=TIMEOUT_SECONDS,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),
        )
        weakref.finalize(self, client.close)  # a client that was handed its connections does not close them itself
        return client

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        """See `ragsmith.gateway.ChatModel`."""
        problem, asked_to_wait = "", 0.0
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(max(self._pause * 2 ** (attempt - 1), asked_to_wait))
            started = time.perf_counter()
            problem, reply, asked_to_wait = self._attempt(prompt, max_tokens, sample)
            if reply is not None:
                self._failures = 0
                return replace(reply, usage=replace(reply.usage, seconds=time.perf_counter() - started))
        self._failures += 1
        message = f"{self.id}: {problem} (tried {self._attempts} times)"
        if self._failures >= FAILURES_IN_A_ROW:
            raise ModelUnavailable(f"{message}; {self._failures} requests in a row failed: run the same command later")
        raise ModelError(message)

    def _attempt(self, prompt: str, max_tokens: int, sample: int) -> tuple[str, Completion | None, float]:
        """A problem that may pass, or a reply; and the seconds that the server asks to wait."""
        import openai  # noqa: PLC0415

        try:
            reply = self._client.chat.completions.create(
                model=self._model,
                messages=[{"role": "user", "content": prompt}],
                temperature=0,
                max_tokens=max_tokens,
                seed=sample,
            )
        except openai.APIStatusError as error:
            problem = f"HTTP {error.status_code}"
            if error.status_code in REFUSED:
                raise ModelUnavailable(f"{self.id}: {problem}: the server refuses the key or the model") from None
            if error.status_code not in TRANSIENT:
                raise ModelError(f"{self.id}: {problem}: the server refuses the request") from None
            return problem, None, _seconds(error.response.headers.get("retry-after"))
        except openai.APIConnectionError as error:
            return f"no answer; is the server running? ({type(error).__name__})", None, 0.0
        except (json.JSONDecodeError, UnicodeDecodeError, openai.APIResponseValidationError):
            return "the reply is not valid JSON", None, 0.0
        return (*_checked(reply), 0.0)


def _seconds(retry_after: str | None) -> float:
    """What a ``Retry-After`` header asks for, in seconds and capped; a date is left to the pauses of our own."""
    try:
        return min(LONGEST_PAUSE, max(0.0, float(retry_after or 0.0)))
    except ValueError:
        return 0.0


def _checked(reply: Any) -> tuple[str, Completion | None]:
    """What is wrong with a reply, or what it says: the client lets anything through that is JSON."""
    choices = getattr(reply, "choices", None)
    if not isinstance(choices, list) or not choices or choices[0] is None:
        return "the reply has no choices", None
    text = getattr(getattr(choices[0], "message", None), "content", None)
    if not isinstance(text, str) or not text.strip():
        return "the reply has no text", None
    finish = getattr(choices[0], "finish_reason", None)
    if finish not in ("stop", "length"):
        return f"the reply ended with finish_reason {finish!r}", None
    usage = getattr(reply, "usage", None)
    return "", Completion(text, Usage(1, 0, 0, _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens")))


def _tokens(usage: Any, name: str) -> int:
    """A count of tokens as the server says it; 0 where it does not."""
    count = getattr(usage, name, None)
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0
