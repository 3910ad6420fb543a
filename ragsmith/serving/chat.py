"""Chat completions in the format of OpenAI: parsing of requests, and replies, whole or as a stream of events.

In addition to the fields of OpenAI, a reply has ``citations``, the cited parts of documents, and ``question``, the last
question in its self-contained form. Sources are also listed below the answer, as ``[1] Title (document, characters 10
to 90)``, unless the request has ``"sources": false``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ragsmith.models.usage import Usage
from ragsmith.serving.answering import ServedAnswer, SourcePassage, to_json
from ragsmith.serving.conversation import ASSISTANT, USER, Turn
from ragsmith.serving.limits import ServingLimits
from ragsmith.serving.requests import Body, RequestRefused, plain_text, question_of, switch, wrong
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
        raise wrong("only one answer is supported: omit 'n'", "n", "unsupported_value")
    for name in ("tools", "functions"):
        if body.get(name):
            raise wrong(f"a pipeline calls no tools: omit {name!r}", name, "unsupported_parameter")
    form = body.get("response_format")
    if form is not None and (not isinstance(form, dict) or form.get("type") != "text"):
        raise wrong("answers are plain text: omit 'response_format'", "response_format", "unsupported_value")
    options = body.get("stream_options")
    with_usage = isinstance(options, dict) and options.get("include_usage") is True
    question, turns = _conversation(body.get("messages"), limits)
    return ChatRequest(question, turns, switch(body, "stream"), with_usage, switch(body, "sources", default=True))


def _conversation(messages: object, limits: ServingLimits) -> tuple[str, tuple[Turn, ...]]:
    if not isinstance(messages, list) or not messages:
        raise wrong("'messages' must be a list of at least one message", "messages")
    turns = [_turn(message, f"messages[{number}]") for number, message in enumerate(messages)]
    if turns[-1].role != USER:
        raise wrong("the last of 'messages' must have the role 'user': it is the question", "messages")
    question = question_of(turns[-1].text, limits, f"messages[{len(messages) - 1}].content")
    dialogue = [turn for turn in turns[:-1] if turn.role in (USER, ASSISTANT) and turn.text.strip()]
    return question, tuple(Turn(t.role, t.text.partition(SOURCES)[0].strip()[: limits.turns]) for t in dialogue)


def _turn(message: object, where: str) -> Turn:
    if not isinstance(message, dict):
        raise wrong(f"{where!r} must be an object, not {name_type(message)}", where)
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise wrong(f"the role of {where!r} must be one of {', '.join(ROLES)}", where)
    if isinstance(content, list):
        content = "\n".join(_part(part, where) for part in content)
    if content is None and role != USER:
        content = ""
    if not isinstance(content, str):
        raise wrong(f"the content of {where!r} must be a text, not {name_type(content)}", where)
    return Turn(str(role), plain_text(content, where))


def _part(part: object, where: str) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") in ("text", "refusal") else None
    if not isinstance(text, str):
        raise wrong(f"the content of {where!r} has a part that is not text: a pipeline supports text only", where)
    return text


def citations(answered: ServedAnswer) -> tuple[SourcePassage, ...]:
    """Return the cited passages of an answer, numbered from 1."""
    cited = [shown for shown in answered.passages if shown.cited and not answered.declined]
    return tuple(replace(shown, number=number) for number, shown in enumerate(cited, 1))


def content_of(answered: ServedAnswer, *, sources: bool) -> str:
    """Return the text of the answer, followed by the list of its ``sources`` if that is set."""
    cited = citations(answered) if sources else ()
    lines = [f"[{s.number}] {s.title} ({s.doc}, characters {s.start} to {s.end})" for s in cited]
    return answered.answer + (SOURCES + "\n".join(lines) if lines else "")


def completion(answered: ServedAnswer, id_: str, created: int, *, sources: bool) -> dict[str, Any]:
    """Return a complete reply."""
    message = {"role": ASSISTANT, "content": content_of(answered, sources=sources), "refusal": None}
    return {
        "id": f"chatcmpl-{id_}",
        "object": "chat.completion",
        "created": created,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": _usage(answered.usage),
        **_more(answered),
    }


class Events:
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

    def answer(self, answered: ServedAnswer, request: ChatRequest) -> Iterator[str]:
        """Yield the answer in parts, then its citations, and its usage if that is requested."""
        words = _WORDS.findall(content_of(answered, sources=request.sources))
        for i in range(0, len(words), WORDS_PER_EVENT):
            yield self._chunk({"content": "".join(words[i : i + WORDS_PER_EVENT])})
        yield self._chunk({}, "stop", **_more(answered))
        if request.with_usage:
            yield event({**self._head, "choices": [], "usage": _usage(answered.usage)})

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return event({**self._head, "choices": [choice], **more})


def event(value: object) -> str:
    """Return a server-sent event with ``value`` as JSON, which has no line breaks that would end the event."""
    return f"data: {json.dumps(value, ensure_ascii=True)}\n\n"


def models(created: int) -> dict[str, Any]:
    """Return the list of models, with the pipeline as its only model."""
    return {"object": "list", "data": [model(created)]}


def model(created: int) -> dict[str, Any]:
    """Return the description of the pipeline as a model."""
    return {"id": MODEL, "object": "model", "created": created, "owned_by": MODEL}


def _usage(usage: Usage) -> dict[str, int]:
    read, written = usage.input_tokens, usage.output_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _more(answered: ServedAnswer) -> dict[str, Any]:
    return {"citations": to_json(citations(answered)), "question": answered.question}
