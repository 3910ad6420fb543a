"""Chat models at OpenAI-compatible endpoints: OpenAI, Ollama, vLLM, llama.cpp, LiteLLM.

Empty or malformed replies, and those without a finish reason, are errors. Parameters that a server refuses by name are
not sent again: see `ragsmith.models.capabilities`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

from ragsmith.errors import Notice, RefusedContent
from ragsmith.models.calls import Completion
from ragsmith.models.capabilities import CapabilityLearner, ModelCapabilities
from ragsmith.models.options import AcceptedModel, ContextWindow, ThinkingTokens
from ragsmith.models.registry import Service, model_id, provider
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_reply import ParsedReply, RequestedModel, read_reply
from ragsmith.models.served.packages import OpenAIModel

REFUSABLE: Mapping[str, str | None] = {"temperature": None, "seed": None, "max_tokens": "max_completion_tokens"}
"""Parameters that a server may refuse by name, and the parameter that is sent instead, if any."""
_REJECTED = re.compile(r"HTTP (?:400|422)\b")

OPENAI = Service(
    "https://api.openai.com/v1",
    keys=("OPENAI_API_KEY",),
    url_variable="OPENAI_BASE_URL",
    headers=(("openai-organization", "OPENAI_ORG_ID"), ("openai-project", "OPENAI_PROJECT_ID")),
    self_hosted=True,
    openai_compatible=True,
)


@provider("language_model", "openai", service=OPENAI)
class OpenAIChat(OpenAIModel):
    """Completes prompts at temperature 0, with the number of the sample as seed. Thread-safe."""

    def __init__(
        self,
        model: str,
        *,
        endpoint: JsonEndpoint,
        context_window: ContextWindow | None = None,
        thinking_tokens: ThinkingTokens = 0,
        accept_model: AcceptedModel = "",
        cut_answers: bool = False,
    ) -> None:
        super().__init__(model, endpoint)
        self.context_window = context_window
        self.cut_answers = cut_answers
        self.learner = CapabilityLearner()
        self._thinking_tokens = thinking_tokens
        self._accepts = accept_model
        self._warned: set[str] = set()

    @property
    def id(self) -> str:
        """Provider, model and sampling; never the URL or the key."""
        return model_id("openai", f"{self._model}@temperature=0", context_window=self.context_window)

    @property
    def thinking_tokens(self) -> int:
        """The tokens that it may use to think: its option, or more if it was seen to need more."""
        return max(self._thinking_tokens, self.learner.capabilities.thinking_tokens)

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        """See `ragsmith.models.calls.ChatModel`.

        Raises:
            ModelError: the request was rejected, or no attempt gave a valid reply.
            ModelUnavailable: the server refuses the key or the model, replies with another model, or is down.
        """
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": max_tokens,
            "seed": sample,
        }
        with self.learner.request():
            thinks = self._thinking_tokens > 0 or self.learner.capabilities.begins_in_thought
            request = RequestedModel(self._model, prompt, max_tokens, self._accepts, thinks)
            parsed = self._send(body, request)
        for what, problem in parsed.odd.items():
            self._warn_once(what, problem)
        return parsed.completion

    def _send(self, body: dict[str, Any], request: RequestedModel) -> ParsedReply:
        """Send ``body`` without refused parameters, which count as learnt when the rest is accepted."""
        refused = self.learner.capabilities.refuses
        create = self.client.chat.completions.with_raw_response.create

        def read(_: Any, reply: Any, seconds: float) -> ParsedReply:
            return read_reply(request, reply, seconds)

        while True:
            accepted = _without(body, refused)
            try:
                parsed = self._endpoint.send(self.posting(create), [accepted], read, what=self.id)[0]
            except RefusedContent as error:
                named = _refused_parameters(str(error).removeprefix(f"{self.id}: "), accepted)
                if not named:
                    raise
                refused |= named | self.learner.capabilities.refuses
            else:
                self.learner.learn(ModelCapabilities(refused, begins_in_thought=parsed.begins_in_thought))
                if "temperature" in refused:
                    self._warn_once("temperature", "refuses temperature 0: its replies may differ between requests")
                return parsed

    def _warn_once(self, what: str, problem: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(f"openai:{self._model} {problem}.", Notice, stacklevel=3)


def _refused_parameters(message: str, body: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters of ``body`` that a server's rejection names."""
    if not _REJECTED.match(message):
        return frozenset()
    return frozenset(name for name in REFUSABLE if name in body and re.search(rf"\b{name}\b", message))


def _without(body: Mapping[str, Any], refused: frozenset[str]) -> dict[str, Any]:
    """Return ``body`` without ``refused`` parameters, or with their replacements."""
    names = {name: REFUSABLE.get(name) if name in refused else name for name in body}
    return {new: body[name] for name, new in names.items() if new is not None}
