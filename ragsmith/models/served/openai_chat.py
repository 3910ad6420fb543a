"""A chat model behind an OpenAI-compatible endpoint: OpenAI, Ollama, vLLM, llama.cpp, LiteLLM.

Replies that are empty, malformed or without a finish reason are errors, not answers; one that ended at the limit on
tokens says so. What a server refuses by name it is not sent again: see `ragsmith.models.capabilities`.
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
"""What a server may refuse by name, and what is sent instead, if anything. A ``response_format`` is never sent; whoever
sends one adds it here, and a role of messages that may be refused likewise."""
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
    """Completes prompts at temperature 0; sample n is asked for with seed n. Safe to use from many threads."""

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
        self._named: set[str] = set()

    @property
    def id(self) -> str:
        """Provider, model and sampling; never the URL or the key."""
        return model_id("openai", f"{self._model}@temperature=0", context_window=self.context_window)

    @property
    def thinking_tokens(self) -> int:
        """The tokens that it may use to think: what its option says, or more where it was seen to need more."""
        return max(self._thinking_tokens, self.learner.traits.thinking_tokens)

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
            thinks = self._thinking_tokens > 0 or self.learner.traits.begins_in_thought
            reading = self._taken(body, RequestedModel(self._model, prompt, max_tokens, self._accepts, thinks))
        for what, problem in reading.odd.items():
            self._say_once(what, f"openai:{self._model} {problem}")
        return reading.completion

    def _taken(self, body: dict[str, Any], asked: RequestedModel) -> ParsedReply:
        """The reply to ``body`` without what the server refuses; that counts as learnt when it takes the rest."""
        refused = self.learner.traits.refuses

        while True:
            fitted = _without(body, refused)
            try:
                reading = self._read(fitted, asked)
            except RefusedContent as error:
                named = _refused(str(error).removeprefix(f"{self.id}: "), fitted)
                if not named:
                    raise
                refused |= named | self.learner.traits.refuses
            else:
                self.learner.learn(ModelCapabilities(refused, begins_in_thought=reading.begins_in_thought))
                if "temperature" in refused:
                    self._say_once(
                        "temperature",
                        f"openai:{self._model} refuses temperature 0: its replies may differ from one time to the next",
                    )
                return reading

    def _read(self, body: dict[str, Any], asked: RequestedModel) -> ParsedReply:
        create = self.client.chat.completions.with_raw_response.create

        def read(_: Any, reply: Any, seconds: float) -> ParsedReply:
            return read_reply(asked, reply, seconds)

        return self._endpoint.send(self.posting(create), [body], read, what=self.id)[0]

    def _say_once(self, what: str, sentence: str) -> None:
        if what not in self._named:
            self._named.add(what)
            warnings.warn(f"{sentence}.", Notice, stacklevel=3)


def _refused(said: str, body: Mapping[str, Any]) -> frozenset[str]:
    """The parameters of ``body`` that a server names as it rejects it."""
    if not _REJECTED.match(said):
        return frozenset()
    return frozenset(name for name in REFUSABLE if name in body and re.search(rf"\b{name}\b", said))


def _without(body: Mapping[str, Any], refused: frozenset[str]) -> dict[str, Any]:
    """``body`` without what is ``refused``, or with what is sent instead."""
    named = {name: REFUSABLE.get(name) if name in refused else name for name in body}
    return {new: body[name] for name, new in named.items() if new is not None}
