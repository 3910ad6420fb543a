"""A chat model behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, LiteLLM.

The key comes from ``OPENAI_API_KEY`` and is in no identifier, message or record. Replies that are cut short, empty or
without a finish reason are errors, not answers (measured: the client passes them through without a word).
"""

from __future__ import annotations

import json
import os
import time
from functools import cached_property
from typing import Any

from ragsmith.errors import ModelError, UsageError
from ragsmith.gateway import Completion, Usage

TIMEOUT_SECONDS = 120.0
ATTEMPTS = 3
TRANSIENT = frozenset({408, 409, 429, 500, 502, 503, 504})


class OpenAIChat:
    """Completes prompts at temperature 0; sample n is asked for with seed n."""

    def __init__(
        self, model: str, *, base_url: str | None = None, attempts: int = ATTEMPTS, pause: float = 1.0
    ) -> None:
        self._model = model
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        self._attempts = attempts
        self._pause = pause

    @property
    def id(self) -> str:
        """Provider, model and sampling; never the URL or the key."""
        return f"openai:{self._model}@temperature=0"

    @cached_property
    def _client(self) -> Any:
        import openai  # noqa: PLC0415  0.4 s

        key = os.environ.get("OPENAI_API_KEY")
        if key is None and self._base_url is None:
            raise UsageError("OPENAI_API_KEY is not set: export it, or give --base-url of a server that needs no key")
        return openai.OpenAI(api_key=key or "none", base_url=self._base_url, max_retries=0, timeout=TIMEOUT_SECONDS)

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        """See `ragsmith.gateway.ChatModel`."""
        problem = ""
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(self._pause * 2 ** (attempt - 1))
            started = time.perf_counter()
            problem, reply = self._attempt(prompt, max_tokens, sample)
            if reply is not None:
                return self._completion(reply, time.perf_counter() - started)
        raise ModelError(f"{self.id}: {problem} (tried {self._attempts} times)")

    def _attempt(self, prompt: str, max_tokens: int, sample: int) -> tuple[str, Any]:
        """A problem that may pass, or a reply."""
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
            if error.status_code not in TRANSIENT:
                raise ModelError(f"{self.id}: {problem}: the server refuses the request") from None
            return problem, None
        except openai.APIConnectionError as error:
            return f"no answer from the server ({type(error).__name__})", None
        except (json.JSONDecodeError, UnicodeDecodeError, openai.APIResponseValidationError):
            return "the reply is not valid JSON", None
        return self._check(reply)

    def _check(self, reply: Any) -> tuple[str, Any]:
        choices = getattr(reply, "choices", None)
        if not choices:
            return "the reply has no choices", None
        if not isinstance(choices[0].message.content, str) or not choices[0].message.content.strip():
            return "the reply has no text", None
        if choices[0].finish_reason not in ("stop", "length"):
            return f"the reply ended with finish_reason {choices[0].finish_reason!r}", None
        return "", reply

    def _completion(self, reply: Any, seconds: float) -> Completion:
        usage = reply.usage
        read, written = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
        cost = Usage(calls=1, input_tokens=read, output_tokens=written, seconds=seconds)
        return Completion(reply.choices[0].message.content, cost)
