"""A chat model that drafts as it is told: it quotes what it is shown, word for word, but for some replies.

What it says depends on the prompt alone. Of its replies some are no JSON, some twice in a row, some misquote, some hold
no question or one that nobody can answer, and some claim to know an answer, or to find it in another passage: so most
filters have something to do.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from fault_kinds import completion, endpoint, reply_to

AGAIN = "Your last reply could not be used"
_WORD = re.compile(r"[^\W\d_][\w-]{3,}")
_SENTENCE = re.compile(r"[A-Z|][^\n]*?[.;|](?=\s|$)")
_NUMBERED = re.compile(r"^\[(\d+)\] ?", re.MULTILINE)


def draw(text: str, of: int, what: str = "") -> int:
    """A number below ``of`` that belongs to a text."""
    return int(hashlib.sha256(f"{what} {text}".encode()).hexdigest()[:8], 16) % of


def shown(prompt: str) -> list[str]:
    """The texts that a prompt shows."""
    found = re.search(r"^<(texts?)>\n(.*?)\n</\1>$", prompt, re.DOTALL | re.MULTILINE)
    block = found[2] if found else ""
    return [part.strip() for part in _NUMBERED.split(block)[2::2]] if _NUMBERED.match(block) else [block]


def draft_reply(prompt: str, facts: Sequence[str] = ()) -> str:
    """The reply to a prompt of `ragsmith.labelling.drafting`; ``facts`` are known without documents."""
    first = prompt.partition(f"\n\n{AGAIN}")[0]
    tried = AGAIN in prompt
    if draw(first, 10, "malformed") == 0 and (not tried or draw(first, 3, "always") == 0):
        return ('{"questions": [{"question": "What', "Sure! Which one do you mean?", '{"questions": {}}', "[]")[
            draw(first, 4)
        ]
    if '"known"' in first:
        return _known(first, facts)
    if '{"text": 0' in first:
        return _found(first)
    if draw(first, 15, "none") == 0:
        return '```json\n{"questions": []}\n```'
    if '"missing"' in first:
        [text] = shown(first)
        asks = [f"How much did {_topic(one)} cost in the year before the flood?" for one in _sentences(text)[:1]]
        return json.dumps({"questions": [{"question": one, "missing": "The price."} for one in asks]})
    if '"words"' in first:
        return _of_both(first)
    [text] = shown(first)
    found = sorted(_sentences(text), key=lambda one: draw(one, 1000, first.partition("Write questions")[2][:60]))[:2]
    quotes = [_misquoted(one) if draw(first + one, 10, "misquoted") == 0 else one for one in found]
    items = [_item(one, [quote], long="two to five" in first) for one, quote in zip(found, quotes, strict=True)]
    reply = json.dumps({"questions": items}, ensure_ascii=False)
    return f"```json\n{reply}\n```" if draw(first, 3, "fence") == 0 else reply


def _item(sentence: str, quotes: Sequence[Any], *, long: bool = False) -> dict[str, Any]:
    words = _WORD.findall(sentence)
    half = max(len(words) // 2, 1)
    topic, answer = " ".join(words[:half][:6]), " ".join(words[half:]) or sentence
    asks = {
        0: f"What does this section say about {topic}?",
        1: f"Why {words[0]}?",
        2: f"What goes with {topic}, is it {answer}?",
        3: "What was it that they had to do with that?",
    }.get(draw(sentence, 20, "wording"), f"What goes with {topic} on that occasion?")
    answer += " as is laid down there for each of the cases that may arise in practice" * (long and "is it" not in asks)
    if draw(sentence, 20, "short") == 0 and quotes and isinstance(quotes[0], str):
        quotes = [words[0]]
    return {"question": asks, "answer": answer, "quotes": quotes}


def _of_both(prompt: str) -> str:
    pairs = [(number, _sentences(text)) for number, text in enumerate(shown(prompt), 1)]
    if any(not found for _, found in pairs):
        return '{"questions": []}'
    quotes = [{"text": number, "words": found[draw(prompt, len(found))]} for number, found in pairs]
    return json.dumps({"questions": [_item(" ".join(str(quote["words"]) for quote in quotes), quotes)]})


def _known(prompt: str, facts: Sequence[str]) -> str:
    asked = set(_WORD.findall(prompt.partition("Question: ")[2].partition("\n")[0]))
    fact = max(facts, key=lambda one: len(asked & set(_WORD.findall(one))), default="")
    known = bool(fact) and draw(prompt, 8, "known") == 0
    return json.dumps({"known": known, "answer": fact if known else ""})


def _found(prompt: str) -> str:
    texts = shown(prompt)
    number = draw(prompt, len(texts)) + 1
    found = _sentences(texts[number - 1])
    if not found or draw(prompt, 6, "found"):
        return '{"text": 0, "words": ""}'
    said = found[0] if draw(prompt, 2, "exactly") else _misquoted(found[0])
    return json.dumps({"text": number, "words": said})


def _sentences(text: str) -> list[str]:
    return [one for one in dict.fromkeys(_SENTENCE.findall(text)) if len(_WORD.findall(one)) >= 6]


def _topic(sentence: str) -> str:
    return " ".join(_WORD.findall(sentence)[1:4])


def _misquoted(sentence: str) -> str:
    words = sentence.split(" ")
    return " ".join([*words[:2], "evidently", *words[2:]])


def answering(facts: Sequence[str]) -> Any:
    """To be the ``answer`` of a `FaultServer`."""

    def answer(path: str, body: Any) -> Any:
        if endpoint(path, body) != "chat":
            return reply_to("POST" if body else "GET", path, body)
        prompt = body["messages"][-1]["content"]
        reply = draft_reply(prompt, facts)
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(reply) // 4 + 1}
        return completion(reply) | {"usage": usage | {"total_tokens": sum(usage.values())}}

    return answer
