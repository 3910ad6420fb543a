"""Replies that never repeat: what `fault_replies` says, in words that only this prompt is answered with.

So it is with real models: two prompts hardly ever have the same reply, whereas the same prompt, at temperature 0, has.
Verdicts, scores and rankings are few, and repeat. Tokens are counted by words and marks, as tokenisers do in the main.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from fault_kinds import completion, endpoint, reply_to
from fault_replies import chat_reply

_TOKEN = re.compile(r"\w{1,6}|[^\w\s]")
_VERDICT = re.compile(r"Score: \d|\d+|Sufficient|Insufficient|Verdict: ok|NONE|(\[\d+\]( > )?)+|(\d+: (yes|no)\n?)+")
_SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "zo", "hy", "wo")


def tokens(text: str) -> int:
    return len(_TOKEN.findall(text))


def own_word(prompt: str) -> str:
    """A word that belongs to this prompt alone."""
    return "".join(_SYLLABLES[byte % 16] for byte in hashlib.sha256(prompt.encode()).digest()[:8])


def distinct_reply(prompt: str) -> str:
    """The reply of `chat_reply` with a word of its own, where it is a text."""
    reply, word = chat_reply(prompt), own_word(prompt)
    if _VERDICT.fullmatch(reply.strip()) or " | " in reply:
        return reply
    if "<query>" in reply:
        return reply.replace("</query>", f" {word}</query>")
    if reply.endswith("?"):
        return reply.replace("?", f" {word}?")
    return f"{reply} {word.capitalize()}."


def answer(path: str, body: Any) -> Any:
    """To be the ``answer`` of a `FaultServer`."""
    if endpoint(path, body) != "chat":
        return reply_to("POST" if body else "GET", path, body)
    prompt = body["messages"][-1]["content"]
    return _counted(prompt, distinct_reply(prompt))


def answer_at_length(times: int) -> Callable[[str, Any], Any]:
    """`answer`, whose sentences are said so many times, each time in other words."""

    def long_answer(path: str, body: Any) -> Any:
        if endpoint(path, body) != "chat":
            return answer(path, body)
        prompt = body["messages"][-1]["content"]
        reply = distinct_reply(prompt)
        if reply.endswith(".") and not _VERDICT.fullmatch(reply):
            reply = " ".join([reply, *(distinct_reply(f"{prompt}{i * ' '}") for i in range(1, times))])
        return _counted(prompt, reply)

    return long_answer


def _counted(prompt: str, reply: str) -> Any:
    usage = {"prompt_tokens": tokens(prompt), "completion_tokens": tokens(reply)}
    return completion(reply) | {"usage": usage | {"total_tokens": sum(usage.values())}}
