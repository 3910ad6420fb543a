"""What an OpenAI-compatible server replies to a chat request, and how much of it is believed.

Thoughts are no part of a reply, whether they stand in a field of their own (``reasoning_content``, ``reasoning``), in
parts of the content or in tags; the tokens that they took are. Numbers that cannot be true are not passed on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ragsmith.models.calls import Completion
from ragsmith.models.served.policy import AccessRefused, AttemptFailed, RequestRejected, TransientFailure
from ragsmith.models.tasks import ends_thoughts_alone, without_thoughts
from ragsmith.models.usage import AVERAGE_CHARACTERS_A_TOKEN, NOTHING, Usage, tokens_at_most
from ragsmith.text.files import shown
from ragsmith.text.redaction import redacted, without_known

CUT = ("length", "max_tokens")
"""How a reply ends that reached the limit on tokens; the second is said by gateways to other APIs."""
MOST_CHARACTERS_A_TOKEN = 128
"""What the longest token of the usual vocabularies holds (128 blanks, in those of OpenAI and Llama): a reply with more
characters than its limit on tokens could hold is not what was asked for."""
TEMPLATE_TOKENS = 1024
"""What a server may put around a prompt, and count: its chat template, the date, a system prompt of its own."""
END_TOKENS = 8
"""Tokens that mark the end of a reply, which some servers count beyond the limit."""
ANY = "any"
"""As the model that is accepted: every one."""


@dataclass(frozen=True, slots=True)
class RequestedModel:
    """What a reply is to: ``accepts`` is another name under which the server may say that the model is, or `ANY`.

    ``thinks`` says that the model thinks: a reply that was cut and shows no thoughts is then taken for thoughts that
    its template had opened.
    """

    model: str
    prompt: str
    limit: int
    accepts: str = ""
    thinks: bool = False


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A reply, and what was odd about it: a sentence to say, by what it is about.

    ``begins_in_thought`` says that it ended thoughts that it had not begun.
    """

    completion: Completion
    odd: dict[str, str] = field(default_factory=dict)
    begins_in_thought: bool = False


def read_reply(asked: RequestedModel, reply: Any, seconds: float) -> ParsedReply:
    """The text of a reply, without thoughts and without any key that the server repeats in it, and what it cost.

    Raises:
        Transient: there is none, it is longer than it can be, or it does not say how it ended.
        Rejected: a filter withholds it.
        Refused: it is by another model.
            All of them with the usage that the server states, where that can be true.
    """
    try:
        return _read(asked, reply, seconds)
    except AttemptFailed as failure:
        (read, wrote), wrong = _tokens(asked, reply.get("usage") if isinstance(reply, dict) else None, "")
        failure.usage = NOTHING if wrong else Usage(1, 0, 0, read, wrote, seconds)
        raise


def _read(asked: RequestedModel, reply: Any, seconds: float) -> ParsedReply:
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise TransientFailure("the reply has no choices")
    odd = _of_another_model(asked, reply.get("model"))
    finish = choices[0].get("finish_reason")
    if finish == "content_filter":
        raise RequestRejected("the reply was withheld: it ended with finish_reason 'content_filter'")
    message = choices[0].get("message")
    written, thoughts = _said(message if isinstance(message, dict) else {})
    if len(written) > asked.limit * MOST_CHARACTERS_A_TOKEN:
        raise TransientFailure(f"the reply has {len(written):,} characters, which {asked.limit:,} tokens cannot hold")
    text, is_open = without_thoughts(written)
    is_cut = finish in CUT or is_open
    if asked.thinks and is_cut and text == written and not (thoughts or _thought(reply.get("usage"), 0)):
        text = ""
    if not is_cut and not text.strip():
        raise TransientFailure("the reply has no text")
    if not is_cut and finish != "stop":
        raise TransientFailure(f"the reply ended with finish_reason {redacted(str(finish))[:40]!r}")
    if any("\ud800" <= character <= "\udfff" for character in text):  # half a character, which cannot be stored
        raise TransientFailure("the reply is not valid Unicode")
    (read, wrote), wrong = _tokens(asked, reply.get("usage"), written + thoughts)
    thought = min(wrote, _thought(reply.get("usage"), len(thoughts) + len(written) - len(text)))
    usage = Usage(1, 0, 0, read, wrote, seconds)
    completion = Completion(without_known(text), usage, asked.limit if is_cut else 0, thought)
    return ParsedReply(completion, odd | wrong, ends_thoughts_alone(written))


def _said(message: Mapping[str, Any]) -> tuple[str, str]:
    """What a message says, thoughts in tags included, and the thoughts that stand in a field or a part of their own."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [part for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    written = "".join(part["text"] for part in texts if part.get("type") in ("text", "output_text"))
    thoughts = [message.get(name) for name in ("reasoning_content", "reasoning")]
    return written, next((found for found in thoughts if isinstance(found, str)), "")


# --- tokens ----------------------------------------------------------------------------------------------------------


def _tokens(asked: RequestedModel, usage: Any, said: str) -> tuple[tuple[int, int], dict[str, str]]:
    """Tokens read and written, 0 where the server does not say; what cannot be, more or none, is counted here instead.

    No tokeniser makes more tokens of a text than it has bytes. Servers that leave thoughts out of what was written have
    them in the total.
    """
    counts = usage if isinstance(usage, dict) else {}
    read, written, total = (_count(counts.get(f"{name}_tokens")) for name in ("prompt", "completion", "total"))
    if read:
        written = max(written, total - read)
    odd = {}
    if read > len(asked.prompt.encode(errors="surrogatepass")) + TEMPLATE_TOKENS:
        odd["prompt_tokens"] = f"says that a prompt of {len(asked.prompt):,} characters had {read:,} tokens"
        read = tokens_at_most(asked.prompt)
    if written > asked.limit + END_TOKENS:
        odd["completion_tokens"] = f"says that it wrote {written:,} tokens where {asked.limit:,} were the limit"
        written = min(asked.limit, tokens_at_most(said))
    elif not written and said.strip() and counts.get("completion_tokens") == 0:
        odd["completion_tokens"] = f"says of a reply of {len(said):,} characters that it wrote no tokens"
        written = min(asked.limit, tokens_at_most(said))
    return (read, written), {name: f"{problem}: such numbers are estimated here" for name, problem in odd.items()}


def _thought(usage: Any, characters: int) -> int:
    """The tokens of the thoughts as the server says them, or by an estimate of the ``characters`` that it shows."""
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    said = _count(details.get("reasoning_tokens")) if isinstance(details, dict) else 0
    return said or characters // AVERAGE_CHARACTERS_A_TOKEN


def _count(value: Any) -> int:
    """A count as the server says it; 0 for what is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


# --- who wrote it ----------------------------------------------------------------------------------------------------

_SNAPSHOT = r"\d{4}-\d\d-\d\d|\d\d-\d{4}|\d\d-\d\d|\d{3,8}|latest"
_QUANTISED = r"(?:ud-)?i?q\d\w*|bf16|fp?16|fp?32|fp?8|int[48]|awq|gptq|gguf"
_SAME = re.compile(rf"(?:[-_.](?:{_SNAPSHOT}|{_QUANTISED}))+", re.IGNORECASE)


def _of_another_model(asked: RequestedModel, replied: Any) -> dict[str, str]:
    """What to say of a reply by another model that is accepted. Raises `AccessRefused`: it is not."""
    if not isinstance(replied, str) or is_same_model(asked.model, replied):
        return {}
    name = redacted(shown(replied))
    if asked.accepts != ANY and not (asked.accepts and is_same_model(asked.accepts, replied)):
        raise AccessRefused(
            f"the reply is by another model, {name}: name that one, or accept its replies with the option accept_model"
        )
    return {"model": f"replies as {name}, which accept_model allows"}


def is_same_model(asked: str, replied: str) -> bool:
    """Whether the model that a server names in a reply is the one that was asked for.

    Case does not count, nor do folders and providers before the last slash: OpenRouter and LiteLLM add and drop them,
    llama.cpp names a path to a ``.gguf`` file. A tag (``:8b`` of Ollama, ``:free`` of OpenRouter) or a revision
    (``@main`` of ``transformers serve``) counts where both names have one; ``:latest`` is none. Of what is left, one
    name may go on with a date, a number of three digits or more, ``latest`` or how the weights are quantised:
    ``gpt-4.1-mini-2025-04-14`` is ``gpt-4.1-mini``, ``gpt-4.1-mini`` is not ``gpt-4.1``. vLLM and Ollama repeat the
    name that they were asked for, or the first of several; a server that names none is believed.
    """
    if not replied.strip() or asked.lower() == replied.lower():
        return True
    (name, tag), (other, other_tag) = map(_name_and_tag, (asked, replied))
    if tag and other_tag and tag != other_tag:
        return False
    short, long = sorted((name, other), key=len)
    return short == long or (long.startswith(short) and _SAME.fullmatch(long[len(short) :]) is not None)


def _name_and_tag(model: str) -> tuple[str, str]:
    last = re.split(r"[/\\]", model.strip().lower())[-1]
    name, _, tag = last.replace("@", ":", 1).partition(":")
    return name.removesuffix(".gguf").removesuffix("-latest"), "" if tag == "latest" else tag
