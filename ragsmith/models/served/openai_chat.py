"""Chat models at OpenAI-compatible endpoints: OpenAI, Ollama, vLLM, llama.cpp, LiteLLM.

Empty or malformed replies, and those without a finish reason, are errors. Thoughts are removed from a reply, whether
they are in a separate field (``reasoning_content``, ``reasoning``), in parts of the content or in tags; their
tokens are counted. Impossible token counts are replaced by estimates. Parameters that a server refuses by name are not
sent again: see `ragsmith.models.capabilities`. The form of a reply is sent as a JSON schema in one of two ways
(`FORM_TYPES`), unless the server refuses both. A server that writes JSON of another form to two prompts ignores the
schema, which counts as a refusal.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragsmith.errors import RefusedContent, warn_caller
from ragsmith.models.calls import Completion
from ragsmith.models.capabilities import CapabilityLearner, ModelCapabilities
from ragsmith.models.options import AcceptedModel, AnswerTokens, ContextWindow, StructuredOutput, ThinkingTokens
from ragsmith.models.registry import Service, model_id, provider
from ragsmith.models.served.json_endpoint import JsonEndpoint, OpenAIModel
from ragsmith.models.served.policy import AccessRefused, AttemptFailed, RequestRejected, TransientFailure, UnusableReply
from ragsmith.models.tasks import ReplyForm, clean_reply, ends_thoughts_alone, without_thoughts
from ragsmith.models.usage import AVERAGE_CHARACTERS_PER_TOKEN, NO_USAGE, Usage, estimate_max_tokens
from ragsmith.text.files import shorten
from ragsmith.text.redaction import redact_known, redacted
from ragsmith.text.repetition import ends_in_loop

CUT_FINISH_REASONS = ("length", "max_tokens")
"""Finish reasons of a reply that reached the token limit; the second is that of gateways to other APIs."""
MAX_CHARACTERS_PER_TOKEN = 128
"""The longest token of common vocabularies (128 blanks, in those of OpenAI and Llama), to detect replies longer than
their token limit allows."""
TEMPLATE_TOKENS = 1024
"""Tokens that a server may add to a prompt and count: a chat template, the date, a system prompt."""
END_TOKENS = 8
"""Tokens at the end of a reply that some servers count beyond the limit."""
ANY_MODEL = "any"
"""Accept replies of any model."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """The request to which a reply belongs.

    ``accepts`` is another name that the server may report for the model, or `ANY_MODEL`. ``thinks``: whether the model
    is known to think, so a truncated reply without visible thoughts is a thought that the chat template opened.
    """

    model: str
    prompt: str
    limit: int
    accepts: str = ""
    thinks: bool = False


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply, with ``anomalies`` to warn about, by subject.

    ``begins_in_thought``: whether it closed a thought that it had not opened.
    """

    completion: Completion
    anomalies: dict[str, str] = field(default_factory=dict)
    begins_in_thought: bool = False


def read_reply(request: CompletionRequest, reply: Any, seconds: float) -> ParsedReply:
    """Parse a reply, without thoughts and known secrets, and its usage.

    Raises:
        TransientFailure: there is no choice.
        UnusableReply: the text is missing or impossibly long, or there is no finish reason.
        RequestRejected: a content filter withheld the reply.
        AccessRefused: the reply is by another model.

    Exceptions have the usage that the server reports, if it is plausible.
    """
    try:
        return _parse(request, reply, seconds)
    except AttemptFailed as failure:
        (n_prompt, n_completion), anomalies = _token_counts(
            request, reply.get("usage") if isinstance(reply, dict) else None, ""
        )
        failure.usage = NO_USAGE if anomalies else Usage(1, 0, 0, n_prompt, n_completion, seconds)
        raise


def _parse(request: CompletionRequest, reply: Any, seconds: float) -> ParsedReply:
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise TransientFailure("the reply has no choices")
    anomalies = _check_model(request, reply.get("model"))
    finish = choices[0].get("finish_reason")
    if finish == "content_filter":
        raise RequestRejected("the reply was withheld: it ended with finish_reason 'content_filter'")
    message = choices[0].get("message")
    content, reasoning = _content(message if isinstance(message, dict) else {})
    if len(content) > request.limit * MAX_CHARACTERS_PER_TOKEN:
        raise UnusableReply(f"the reply has {len(content):,} characters, more than {request.limit:,} tokens can encode")
    text, ends_in_thought = without_thoughts(content)
    is_truncated = finish in CUT_FINISH_REASONS or ends_in_thought
    if (
        request.thinks
        and is_truncated
        and text == content
        and not (reasoning or _thought_tokens(reply.get("usage"), 0))
    ):
        text = ""
    if not is_truncated and not text.strip():
        raise UnusableReply("the reply has no text")
    if not is_truncated and finish != "stop":
        raise UnusableReply(f"the reply ended with finish_reason {redacted(str(finish))[:40]!r}")
    if any("\ud800" <= character <= "\udfff" for character in text):  # half a character, which cannot be stored
        raise UnusableReply("the reply is not valid Unicode")
    (n_prompt, n_completion), count_anomalies = _token_counts(request, reply.get("usage"), content + reasoning)
    n_thought = min(n_completion, _thought_tokens(reply.get("usage"), len(reasoning) + len(content) - len(text)))
    usage = Usage(1, 0, 0, n_prompt, n_completion, seconds)
    cut_at, loops = request.limit if is_truncated else 0, is_truncated and ends_in_loop(content or reasoning)
    completion = Completion(redact_known(text), usage, cut_at, n_thought, loops)
    return ParsedReply(completion, anomalies | count_anomalies, ends_thoughts_alone(content))


def _content(message: Mapping[str, Any]) -> tuple[str, str]:
    """Return the text of a message, which may contain thoughts in tags, and the thoughts in a separate field."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [part for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    text = "".join(part["text"] for part in texts if part.get("type") in ("text", "output_text"))
    thoughts = [message.get(name) for name in ("reasoning_content", "reasoning")]
    return text, next((thought for thought in thoughts if isinstance(thought, str)), "")


# --- tokens ----------------------------------------------------------------------------------------------------------


def _token_counts(request: CompletionRequest, usage: Any, reply: str) -> tuple[tuple[int, int], dict[str, str]]:
    """Return input and output tokens, 0 if not reported, and warnings about impossible numbers, which are estimated.

    A text has at most as many tokens as bytes. Servers that do not count thoughts as output include them in the total.
    """
    counts = usage if isinstance(usage, dict) else {}
    n_prompt, n_completion, n_total = (
        _count(counts.get(f"{name}_tokens")) for name in ("prompt", "completion", "total")
    )
    if n_prompt:
        n_completion = max(n_completion, n_total - n_prompt)
    anomalies = {}
    if n_prompt > len(request.prompt.encode(errors="surrogatepass")) + TEMPLATE_TOKENS:
        anomalies["prompt_tokens"] = f"reports {n_prompt:,} tokens for a prompt of {len(request.prompt):,} characters"
        n_prompt = estimate_max_tokens(request.prompt)
    if n_completion > request.limit + END_TOKENS:
        anomalies["completion_tokens"] = f"reports {n_completion:,} output tokens with a limit of {request.limit:,}"
    elif not n_completion and reply.strip() and counts.get("completion_tokens") == 0:
        anomalies["completion_tokens"] = f"reports no output tokens for a reply of {len(reply):,} characters"
    if "completion_tokens" in anomalies:
        n_completion = min(request.limit, estimate_max_tokens(reply))
    return (n_prompt, n_completion), {
        name: f"{problem}: an estimate is used instead" for name, problem in anomalies.items()
    }


def _thought_tokens(usage: Any, characters: int) -> int:
    """Return the tokens of thoughts that the server reports, or an estimate from their visible ``characters``."""
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    reported = _count(details.get("reasoning_tokens")) if isinstance(details, dict) else 0
    return reported or characters // AVERAGE_CHARACTERS_PER_TOKEN


def _count(value: Any) -> int:
    """Return a reported count, or 0 if it is not a positive whole number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


# --- the model -------------------------------------------------------------------------------------------------------

_SNAPSHOT = r"\d{4}-\d\d-\d\d|\d\d-\d{4}|\d\d-\d\d|\d{3,8}|latest"
_QUANTISATION = r"(?:ud-)?i?q\d\w*|bf16|fp?16|fp?32|fp?8|int[48]|awq|gptq|gguf"
_NAME_SUFFIX = re.compile(rf"(?:[-_.](?:{_SNAPSHOT}|{_QUANTISATION}))+", re.IGNORECASE)


def _check_model(request: CompletionRequest, reported: Any) -> dict[str, str]:
    """Return a warning if the reply is by another, accepted model. Raises `AccessRefused` if it is not accepted."""
    if not isinstance(reported, str) or is_same_model(request.model, reported):
        return {}
    name = redacted(shorten(reported))
    if request.accepts != ANY_MODEL and not (request.accepts and is_same_model(request.accepts, reported)):
        raise AccessRefused(
            f"the reply is by another model, {name}: use that name, or accept its replies with the option accept_model"
        )
    return {"model": f"replies as {name}, which accept_model allows"}


def is_same_model(requested: str, reported: str) -> bool:
    """Whether the model that a server reports (``reported``) is the one that was requested (``requested``).

    Case is ignored, and so are folders and providers before the last slash: OpenRouter and LiteLLM add and drop them,
    llama.cpp reports the path of a ``.gguf`` file. A tag (``:8b`` of Ollama, ``:free`` of OpenRouter) or revision
    (``@main`` of ``transformers serve``) is compared if both names have one, apart from ``:latest``. One name may
    extend the other by a date, a number of three digits or more, ``latest`` or a quantisation:
    ``gpt-4.1-mini-2025-04-14`` is ``gpt-4.1-mini``, but ``gpt-4.1-mini`` is not ``gpt-4.1``. A blank name is accepted.
    """
    if not reported.strip() or requested.lower() == reported.lower():
        return True
    (name, tag), (other, other_tag) = map(_name_and_tag, (requested, reported))
    if tag and other_tag and tag != other_tag:
        return False
    short, long = sorted((name, other), key=len)
    return short == long or (long.startswith(short) and _NAME_SUFFIX.fullmatch(long[len(short) :]) is not None)


def _name_and_tag(model: str) -> tuple[str, str]:
    last = re.split(r"[/\\]", model.strip().lower())[-1]
    name, _, tag = last.replace("@", ":", 1).partition(":")
    return name.removesuffix(".gguf").removesuffix("-latest"), "" if tag == "latest" else tag


REFUSABLE_PARAMETERS: Mapping[str, str | None] = {
    "temperature": None,
    "seed": None,
    "max_tokens": "max_completion_tokens",
}
"""Parameters that a server may refuse by name, and the parameter that is sent instead, if any."""
FORM_TYPES = ("json_schema", "json_object")
"""Types of ``response_format`` with a schema, tried in this order. OpenAI, vLLM, Ollama, LM Studio and llama.cpp's own
server take the first, that of llama-cpp-python only the second."""
_REJECTED = re.compile(r"HTTP (?:400|422|500)\b")
_NAMES_FORM = re.compile(
    r"response.?format|json.?(?:schema|object|mode)|\bschemas?\b|grammar|structured.?output|guided", re.IGNORECASE
)
_NAMES_SCHEMA = re.compile(  # an error in one schema, or in its grammar
    r"grammar|invalid (?:json )?schema|schema for|conver|compil|pars|too (?:complex|deep|large|many)", re.IGNORECASE
)

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
        structured_output: StructuredOutput = True,
        answer_tokens: AnswerTokens | None = None,
    ) -> None:
        super().__init__(model, endpoint)
        self.context_window = context_window
        self.cut_answers = cut_answers
        self.structured_output = structured_output
        self.answer_tokens = answer_tokens
        self.learner = CapabilityLearner()
        self._thinking_tokens = thinking_tokens
        self._accepts = accept_model
        self._warned: set[str] = set()
        self._ignored: dict[str, str] = {}  # the first prompt to whose reply a form did not apply, by the form's type

    @property
    def id(self) -> str:
        """Provider, model and sampling; never the URL or the key."""
        return model_id(
            "openai",
            f"{self._model}@temperature=0",
            context_window=self.context_window,
            structured_output=self.structured_output and None,  # part of the id if it is off
        )

    @property
    def thinking_tokens(self) -> int:
        """Tokens for thinking: the option, or the learnt number if that is larger."""
        return max(self._thinking_tokens, self.learner.capabilities.thinking_tokens)

    def complete(self, prompt: str, *, max_tokens: int, sample: int, form: ReplyForm | None = None) -> Completion:
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
        with self.learner.request(with_form=form is not None):
            thinks = self._thinking_tokens > 0 or self.learner.capabilities.begins_in_thought
            request = CompletionRequest(self._model, prompt, max_tokens, self._accepts, thinks)
            parsed = self._send(body, request, form)
        for subject, problem in parsed.anomalies.items():
            self._warn_once(subject, problem)
        return parsed.completion

    def _send(self, body: dict[str, Any], request: CompletionRequest, form: ReplyForm | None) -> ParsedReply:
        """Send ``body`` without refused parameters and forms, which count as learnt when the rest is accepted."""
        refused = self.learner.capabilities.refuses
        post = self.post_to("/chat/completions")

        def parse(_: Any, reply: Any, seconds: float) -> ParsedReply:
            return read_reply(request, reply, seconds)

        while True:
            # after a reply in another form, the prompt with the parsing error is sent as text
            ignored = {name for name, prompt in [*self._ignored.items()] if request.prompt.startswith(prompt)}
            accepted = _without_refused(body, refused) | _response_format(form, refused | ignored)
            form_type = accepted.get("response_format", {}).get("type", "")
            try:
                parsed = self._endpoint.send(post, [accepted], parse, what=self.id)[0]
            except RefusedContent as error:
                message = str(error).removeprefix(f"{self.id}: ")
                newly_refused = _refused_parameters(message, accepted)
                if form and form_type and _REJECTED.match(message) and _NAMES_FORM.search(message):
                    newly_refused |= {self._refused_form(form, form_type, message)}
                if not newly_refused:
                    raise
                refused |= newly_refused | self.learner.capabilities.refuses
            else:
                reply, applies = parsed.completion, bool(form_type)
                if form and form_type == FORM_TYPES[1] and not (reply.cut_at or form.has(clean_reply(reply.text))):
                    applies, name = False, self._refused_form(form, form_type)
                    if not request.prompt.startswith(self._ignored.setdefault(name, request.prompt)):
                        refused |= {name}  # it writes JSON and ignores the schema
                self.learner.learn(ModelCapabilities(refused, 0, parsed.begins_in_thought, takes_forms=applies))
                if "temperature" in refused:
                    self._warn_once("temperature", "refuses temperature 0: its replies may differ between requests")
                return parsed

    def _refused_form(self, form: ReplyForm, form_type: str, message: str = "") -> str:
        """Return the refused type: of ``form`` alone if the server takes others, or ``message`` rejects its schema."""
        is_of_one = self.learner.capabilities.takes_forms or _NAMES_SCHEMA.search(message)
        return f"{form_type} of {form.name}" if is_of_one else form_type

    def _warn_once(self, subject: str, problem: str) -> None:
        if subject not in self._warned:
            self._warned.add(subject)
            warn_caller(f"openai:{self._model} {problem}.")


def _refused_parameters(message: str, body: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters of ``body`` that a server's rejection names."""
    sent = [name for name in REFUSABLE_PARAMETERS if name in body and _REJECTED.match(message)]
    return frozenset(name for name in sent if re.search(rf"\b{name}\b", message))


def _response_format(form: ReplyForm | None, refused: frozenset[str]) -> dict[str, Any]:
    """Return the parameter that requests a reply in ``form``, of the first type that is not refused; or none."""
    types = [kind for kind in FORM_TYPES if form and not refused & {kind, f"{kind} of {form.name}"}]
    if form is None or not types:
        return {}
    return {
        "response_format": {
            "type": types[0],
            **(
                {"json_schema": {"name": form.name, "schema": form.schema, "strict": True}}
                if types[0] == FORM_TYPES[0]
                else {"schema": form.schema}
            ),
        }
    }


def _without_refused(body: Mapping[str, Any], refused: frozenset[str]) -> dict[str, Any]:
    """Return ``body`` without ``refused`` parameters, or with their replacements."""
    names = {name: REFUSABLE_PARAMETERS.get(name) if name in refused else name for name in body}
    return {new: body[name] for name, new in names.items() if new is not None}
