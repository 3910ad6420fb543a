"""OpenAI's chat completions: what is read of a request, and what a reply is, whole or as a stream of events.

Beside what OpenAI sends, a reply has ``citations``, the parts of documents that the answer rests on, and ``question``,
which was answered: the last one, written out. Sources are listed below the answer, too, as ``[1] Title (document,
characters 10 to 90)``, unless the request says ``"sources": false``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ragsmith.models.usage import Usage
from ragsmith.serving.answering import ServedAnswer, SourcePassage, plain
from ragsmith.serving.conversation import ASSISTANT, USER, Turn
from ragsmith.serving.limits import ServingLimits
from ragsmith.serving.requests import Body, RequestRefused, plain_text, question_of, switch, wrong
from ragsmith.text.jsonl import kind

MODEL = "ragsmith"
"""What the pipeline is called as a model."""
SOURCES = "\n\nSources:\n"
ROLES = ("system", "developer", USER, ASSISTANT, "tool", "function")
_WORDS = re.compile(r"\S+\s*|\s+")
WORDS_A_PIECE = 8


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a request for a chat completion asks; ``turns`` were before ``question``."""

    question: str
    turns: tuple[Turn, ...]
    stream: bool
    with_usage: bool
    sources: bool


def read_chat(body: Body, limits: ServingLimits) -> ChatRequest:
    """The request that ``body`` makes. What steers how a model writes (``temperature`` and others) is left alone.

    Raises:
        Refused: something is wrong, or wants what no pipeline does.
    """
    model = body.get("model", MODEL)
    if model != MODEL:
        raise RequestRefused(
            404, f"there is no such model here: it is called {MODEL!r}", "model_not_found", parameter="model"
        )
    if body.get("n") not in (None, 1):
        raise wrong("there is one answer to a question: leave 'n' out", "n", "unsupported_value")
    for name in ("tools", "functions"):
        if body.get(name):
            raise wrong(f"a pipeline calls no tools: leave {name!r} out", name, "unsupported_parameter")
    form = body.get("response_format")
    if form is not None and (not isinstance(form, dict) or form.get("type") != "text"):
        raise wrong("answers are plain text: leave 'response_format' out", "response_format", "unsupported_value")
    options = body.get("stream_options")
    with_usage = isinstance(options, dict) and options.get("include_usage") is True
    question, turns = _conversation(body.get("messages"), limits)
    return ChatRequest(question, turns, switch(body, "stream"), with_usage, switch(body, "sources", default=True))


def _conversation(messages: object, limits: ServingLimits) -> tuple[str, tuple[Turn, ...]]:
    if not isinstance(messages, list) or not messages:
        raise wrong("'messages' must be a list of at least one message", "messages")
    turns = [_turn(message, f"messages[{number}]") for number, message in enumerate(messages)]
    if turns[-1].role != USER:
        raise wrong("the last of 'messages' must be of the user: it is the question", "messages")
    question = question_of(turns[-1].text, limits, f"messages[{len(messages) - 1}].content")
    said = [turn for turn in turns[:-1] if turn.role in (USER, ASSISTANT) and turn.text.strip()]
    return question, tuple(Turn(t.role, t.text.partition(SOURCES)[0].strip()[: limits.turns]) for t in said)


def _turn(message: object, where: str) -> Turn:
    if not isinstance(message, dict):
        raise wrong(f"{where!r} must be an object, not {kind(message)}", where)
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise wrong(f"the role of {where!r} must be one of {', '.join(ROLES)}", where)
    if isinstance(content, list):
        content = "\n".join(_part(part, where) for part in content)
    if content is None and role != USER:
        content = ""
    if not isinstance(content, str):
        raise wrong(f"the content of {where!r} must be a text, not {kind(content)}", where)
    return Turn(str(role), plain_text(content, where))


def _part(part: object, where: str) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") in ("text", "refusal") else None
    if not isinstance(text, str):
        raise wrong(f"the content of {where!r} has a part that is no text, and a pipeline reads text alone", where)
    return text


def citations(answered: ServedAnswer) -> tuple[SourcePassage, ...]:
    """What the answer cites, numbered from 1."""
    cited = [shown for shown in answered.passages if shown.cited and not answered.declined]
    return tuple(replace(shown, number=number) for number, shown in enumerate(cited, 1))


def content_of(answered: ServedAnswer, *, sources: bool) -> str:
    """The answer, with its sources listed below it if they are wanted."""
    cited = citations(answered) if sources else ()
    lines = [f"[{s.number}] {s.title} ({s.doc}, characters {s.start} to {s.end})" for s in cited]
    return answered.answer + (SOURCES + "\n".join(lines) if lines else "")


def completion(answered: ServedAnswer, id_: str, created: int, *, sources: bool) -> dict[str, Any]:
    """The reply, whole."""
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
    """A reply as a stream of server-sent events; each method gives what is sent."""

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
        """Says who speaks."""
        return self._chunk({"role": ASSISTANT, "content": ""})

    def answer(self, answered: ServedAnswer, request: ChatRequest) -> Iterator[str]:
        """The answer in pieces, then what it rests on, then what it cost if that is wanted."""
        words = _WORDS.findall(content_of(answered, sources=request.sources))
        for i in range(0, len(words), WORDS_A_PIECE):
            yield self._chunk({"content": "".join(words[i : i + WORDS_A_PIECE])})
        yield self._chunk({}, "stop", **_more(answered))
        if request.with_usage:
            yield event({**self._head, "choices": [], "usage": _usage(answered.usage)})

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return event({**self._head, "choices": [choice], **more})


def event(value: object) -> str:
    """A server-sent event: JSON has no line breaks, so that nothing in it ends the event."""
    return f"data: {json.dumps(value, ensure_ascii=True)}\n\n"


def models(created: int) -> dict[str, Any]:
    """The list of models: the pipeline."""
    return {"object": "list", "data": [model(created)]}


def model(created: int) -> dict[str, Any]:
    """The pipeline as a model."""
    return {"id": MODEL, "object": "model", "created": created, "owned_by": MODEL}


def _usage(usage: Usage) -> dict[str, int]:
    read, written = usage.input_tokens, usage.output_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _more(answered: ServedAnswer) -> dict[str, Any]:
    return {"citations": plain(citations(answered)), "question": answered.question}
