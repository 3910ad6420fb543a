"""A chat model behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, LiteLLM.

Replies that are empty, malformed, cut or without a finish reason are errors, not answers (the package ``openai`` passes
them through without a word); one that ended at the limit of tokens is taken as it is. Redirects are not followed: the
prompt goes nowhere else.
"""

from __future__ import annotations

from typing import Any

from ragsmith.errors import ModelError
from ragsmith.models.calls import Completion
from ragsmith.models.options import ContextWindow
from ragsmith.models.registry import Service, model_id, provider
from ragsmith.models.served.json_endpoint import EndpointModel, JsonEndpoint
from ragsmith.models.served.policy import Rejected, Transient
from ragsmith.models.usage import Usage
from ragsmith.text.redaction import redacted, without_known

OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"
"""Every server knows the old name but OpenAI's, for models that reason; that one says so."""


OPENAI = Service(
    "https://api.openai.com/v1",
    keys=("OPENAI_API_KEY",),
    url_variable="OPENAI_BASE_URL",
    headers=(("openai-organization", "OPENAI_ORG_ID"), ("openai-project", "OPENAI_PROJECT_ID")),
    self_hosted=True,
    openai_compatible=True,
)


@provider("language_model", "openai", service=OPENAI)
class OpenAIChat(EndpointModel):
    """Completes prompts at temperature 0; sample n is asked for with seed n. Safe to use from many threads."""

    def __init__(self, model: str, *, endpoint: JsonEndpoint, context_window: ContextWindow | None = None) -> None:
        super().__init__(model, endpoint)
        self.context_window = context_window
        self._limit = OLD_LIMIT

    @property
    def id(self) -> str:
        """Provider, model and sampling; never the URL or the key."""
        return model_id("openai", f"{self._model}@temperature=0", context_window=self.context_window)

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        """See `ragsmith.models.calls.ChatModel`.

        Raises:
            ModelError: the request was rejected, or no attempt gave a valid reply.
            ModelUnavailable: the server refuses the key or the model, or is down.
        """
        limit = self._limit
        try:
            return self._complete(prompt, limit, max_tokens, sample)
        except ModelError as error:
            if limit == NEW_LIMIT or NEW_LIMIT not in str(error):
                raise
        self._limit = NEW_LIMIT  # for all requests from now on
        return self._complete(prompt, NEW_LIMIT, max_tokens, sample)

    def _complete(self, prompt: str, limit: str, max_tokens: int, sample: int) -> Completion:
        request = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            limit: max_tokens,
            "seed": sample,
        }
        return self._endpoint.send("/chat/completions", [request], _read, what=self.id)[0]


def _read(_: dict[str, Any], reply: Any, seconds: float) -> Completion:
    return read_completion(reply, seconds)


def read_completion(reply: Any, seconds: float) -> Completion:
    """The text of a reply, without any key that the server repeats in it, and what it cost.

    Raises:
        Transient: there is none, or the reply does not say that it is whole.
        Rejected: a filter withholds it.
    """
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Transient("the reply has no choices")
    finish = choices[0].get("finish_reason")
    if finish == "content_filter":
        raise Rejected("the reply was withheld: it ended with finish_reason 'content_filter'")
    message = choices[0].get("message")
    text = message.get("content") if isinstance(message, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise Transient("the reply has no text")
    if finish not in ("stop", "length"):
        raise Transient(f"the reply ended with finish_reason {redacted(str(finish))[:40]!r}")
    if any("\ud800" <= character <= "\udfff" for character in text):  # half a character, which cannot be stored
        raise Transient("the reply is not valid Unicode")
    usage = reply.get("usage")
    tokens = _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens")
    return Completion(without_known(text), Usage(1, 0, 0, *tokens, seconds))


def _tokens(usage: Any, name: str) -> int:
    """A count of tokens as the server says it; 0 where it does not."""
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0
