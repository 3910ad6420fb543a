"""Chat completions in the format of OpenAI: parsing of requests, and replies, whole or as a stream of events.

In addition to the fields of OpenAI, a reply has ``citations``, the cited parts of documents, and ``question``, the last
question in its self-contained form. Sources are also listed below the answer, as ``[1] Title (document, characters 10
to 90)``, unless the request has ``"sources": false``.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ragsmith.models.usage import Usage
from ragsmith.serving.answering import ServedAnswer, SourcePassage
from ragsmith.serving.conversation import ASSISTANT, USER, Turn
from ragsmith.serving.limits import ServingLimits
from ragsmith.serving.requests import Body, RequestRefused, check_text, invalid_request, read_flag, read_question
from ragsmith.text.jsonl import name_type

MODEL = "ragsmith"
"""Name of the pipeline as a model."""
SOURCES = "\n\nSources:\n"
"""Heading of the list of sources below an answer."""
ROLES = ("system", "developer", USER, ASSISTANT, "tool", "function")
_WORDS = re.compile(r"\S+\s*|\s+")
WORDS_PER_EVENT = 8
"""Number of words in an event of a stream."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Request for a chat completion; ``turns`` are the messages before ``question``."""

    question: str
    turns: tuple[Turn, ...]
    stream: bool
    with_usage: bool
    sources: bool


def read_chat(body: Body, limits: ServingLimits) -> ChatRequest:
    """Parse the body of a request; sampling parameters such as ``temperature`` are ignored.

    Raises:
        RequestRefused: the body is invalid, or requests a feature that a pipeline does not support.
    """
    model = body.get("model", MODEL)
    if model != MODEL:
        raise RequestRefused(
            404, f"there is no such model: the only model is {MODEL!r}", "model_not_found", parameter="model"
        )
    if body.get("n") not in (None, 1):
        raise invalid_request("only one answer is supported: omit 'n'", "n", "unsupported_value")
    for name in ("tools", "functions"):
        if body.get(name):
            raise invalid_request(f"a pipeline calls no tools: omit {name!r}", name, "unsupported_parameter")
    form = body.get("response_format")
    if form is not None and (not isinstance(form, dict) or form.get("type") != "text"):
        raise invalid_request("answers are plain text: omit 'response_format'", "response_format", "unsupported_value")
    options = body.get("stream_options")
    with_usage = isinstance(options, dict) and options.get("include_usage") is True
    question, turns = _conversation(body.get("messages"), limits)
    return ChatRequest(question, turns, read_flag(body, "stream"), with_usage, read_flag(body, "sources", default=True))


def _conversation(messages: object, limits: ServingLimits) -> tuple[str, tuple[Turn, ...]]:
    if not isinstance(messages, list) or not messages:
        raise invalid_request("'messages' must be a list of at least one message", "messages")
    turns = [_turn(message, f"messages[{number}]") for number, message in enumerate(messages)]
    if turns[-1].role != USER:
        raise invalid_request("the last of 'messages' must have the role 'user': it is the question", "messages")
    question = read_question(turns[-1].text, limits, f"messages[{len(messages) - 1}].content")
    dialogue = [turn for turn in turns[:-1] if turn.role in (USER, ASSISTANT) and turn.text.strip()]
    return question, tuple(Turn(t.role, t.text.partition(SOURCES)[0].strip()[: limits.turns]) for t in dialogue)


def _turn(message: object, parameter: str) -> Turn:
    if not isinstance(message, dict):
        raise invalid_request(f"{parameter!r} must be an object, not {name_type(message)}", parameter)
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise invalid_request(f"the role of {parameter!r} must be one of {', '.join(ROLES)}", parameter)
    if isinstance(content, list):
        content = "\n".join(_part_text(part, parameter) for part in content)
    if content is None and role != USER:
        content = ""
    if not isinstance(content, str):
        raise invalid_request(f"the content of {parameter!r} must be a text, not {name_type(content)}", parameter)
    return Turn(str(role), check_text(content, parameter))


def _part_text(part: object, parameter: str) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") in ("text", "refusal") else None
    if not isinstance(text, str):
        raise invalid_request(
            f"the content of {parameter!r} has a part that is not text: a pipeline supports text only", parameter
        )
    return text


def citations(answer: ServedAnswer) -> tuple[SourcePassage, ...]:
    """Return the cited passages of an answer, numbered from 1."""
    cited = [passage for passage in answer.passages if passage.cited and not answer.declined]
    return tuple(replace(passage, number=number) for number, passage in enumerate(cited, 1))


def format_content(answer: ServedAnswer, *, sources: bool) -> str:
    """Return the text of the answer, followed by the list of its ``sources`` if that is set."""
    cited = citations(answer) if sources else ()
    lines = [f"[{s.number}] {s.title} ({s.doc}, characters {s.start} to {s.end})" for s in cited]
    return answer.answer + (SOURCES + "\n".join(lines) if lines else "")


def chat_completion(answer: ServedAnswer, id_: str, created: int, *, sources: bool) -> dict[str, Any]:
    """Return a complete reply."""
    message = {"role": ASSISTANT, "content": format_content(answer, sources=sources), "refusal": None}
    return {
        "id": f"chatcmpl-{id_}",
        "object": "chat.completion",
        "created": created,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": _usage(answer.usage),
        **_extra_fields(answer),
    }


class EventStream:
    """Reply as a stream of server-sent events."""

    WAITING = ": the answer is on its way\n\n"
    DONE = "data: [DONE]\n\n"

    def __init__(self, id_: str, created: int) -> None:
        self._head = {
            "id": f"chatcmpl-{id_}",
            "object": "chat.completion.chunk",
            "created": created,
            "model": MODEL,
        }

    def begin(self) -> str:
        """Return the first event, with the role."""
        return self._chunk({"role": ASSISTANT, "content": ""})

    def answer(self, answer: ServedAnswer, request: ChatRequest) -> Iterator[str]:
        """Yield the answer in parts, then the citations, and the usage if it is requested."""
        words = _WORDS.findall(format_content(answer, sources=request.sources))
        for i in range(0, len(words), WORDS_PER_EVENT):
            yield self._chunk({"content": "".join(words[i : i + WORDS_PER_EVENT])})
        yield self._chunk({}, "stop", **_extra_fields(answer))
        if request.with_usage:
            yield sse_event({**self._head, "choices": [], "usage": _usage(answer.usage)})

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None, **extra: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return sse_event({**self._head, "choices": [choice], **extra})


def sse_event(value: object) -> str:
    """Return a server-sent event with ``value`` as JSON, which has no line breaks that would end the event."""
    return f"data: {json.dumps(value, ensure_ascii=True)}\n\n"


def list_models(created: int) -> dict[str, Any]:
    """Return the list of models, with the pipeline as the only model."""
    return {"object": "list", "data": [describe_model(created)]}


def describe_model(created: int) -> dict[str, Any]:
    """Return the description of the pipeline as a model."""
    return {"id": MODEL, "object": "model", "created": created, "owned_by": MODEL}


def _usage(usage: Usage) -> dict[str, int]:
    n_prompt, n_completion = usage.input_tokens, usage.output_tokens
    return {"prompt_tokens": n_prompt, "completion_tokens": n_completion, "total_tokens": n_prompt + n_completion}


def _extra_fields(answer: ServedAnswer) -> dict[str, Any]:
    return {"citations": list(map(asdict, citations(answer))), "question": answer.question}
