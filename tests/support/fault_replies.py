"""What a small model would reply: to every prompt of ragsmith something readable, and always the same.

Sentences are picked by the words that they share with the question, so that a search has something to tell apart.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

DIMENSIONS = 64
_WORD = re.compile(r"[^\W_]{3,}")
_SENTENCE = re.compile(r"[^.!?\n]{15,300}[.!?]")


def words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def overlap(text: str, other: str) -> float:
    """Share of the words of ``text`` that ``other`` has."""
    wanted = words(text)
    return len(wanted & words(other)) / len(wanted) if wanted else 0.0


def number(text: str, below: int) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % below


# --- chat ------------------------------------------------------------------------------------------------------------


def chat_reply(prompt: str) -> str:
    """A reply in the form that ``prompt`` asks for; a plain sentence to one that is not known."""
    for mark, reply in REPLIES:
        if mark in prompt:
            return reply(prompt)
    return f"It is known about {_topic(prompt)} that it matters."


def _question(prompt: str) -> str:
    found = re.search(r"^Question: (.*)$", prompt, re.MULTILINE)
    return found[1].strip() if found else prompt[:200]


def _topic(text: str, most: int = 5) -> str:
    return " ".join([word for word in dict.fromkeys(_WORD.findall(text)) if len(word) > 4][:most]) or "this matter"


def _enclosed(prompt: str, *names: str) -> str:
    """The material, which is enclosed in ``<NAME>`` and ``</NAME>``: that of ``names``, or all of it."""
    blocks = re.findall(r"^<(\w+)>\n(.*?)\n?</\1>$", prompt, re.DOTALL | re.MULTILINE)
    return "\n".join(text for name, text in blocks if not names or name in names)


def _passages(prompt: str, *names: str) -> list[str]:
    material = re.split(r"^\[\d+\] ?", _enclosed(prompt, *names), flags=re.MULTILINE)
    return [text.strip() for text in material[1:]] or [material[0]]


def _sentences(text: str) -> list[str]:
    """Its sentences, without anything that could be taken for a mark."""
    plain = re.sub(r"[^\w\s.,;:!?%'()-]", " ", re.sub(r"[\[{(]\d+[\])}]", " ", text))
    return [" ".join(match.split()).lstrip("-:;,.() 0123456789") for match in _SENTENCE.findall(plain)]


def _best(question: str, passages: Sequence[str], most: int) -> list[tuple[int, str]]:
    """The sentences that share most words with the question, with the numbers of their passages."""
    found = [(i, s) for i, text in enumerate(passages, 1) for s in _sentences(text) if len(words(s)) > 2]
    return sorted(found, key=lambda pair: -overlap(question, pair[1]))[:most]


def _answer(prompt: str) -> str:
    best = _best(_question(prompt), _passages(prompt, "context"), 2)
    if not best:
        return "The passages do not contain the answer."
    return " ".join(f"{sentence} [{passage}]" for passage, sentence in best)


def _summary(prompt: str) -> str:
    best = _best(_question(prompt), _passages(prompt), 4)
    return " ".join(sentence for _, sentence in best) or f"The passages are about {_topic(_enclosed(prompt))}."


def _judge(prompt: str) -> str:
    return f"Score: {1 + round(4 * overlap(_enclosed(prompt, 'reference'), _enclosed(prompt, 'answer')))}"


def _claims(prompt: str) -> str:
    text = re.sub(r"\[[\d, ]+\]", "", _enclosed(prompt))
    return "\n".join(_sentences(text)) or "NONE"


def _support(prompt: str) -> str:
    told, claims = _enclosed(prompt, "passages"), _passages(prompt, "claims")
    return "\n".join(f"{n}: {'yes' if overlap(claim, told) > 0.7 else 'no'}" for n, claim in enumerate(claims, 1))


def _ranking(prompt: str) -> str:
    question, passages = _question(prompt), _passages(prompt)
    order = sorted(range(len(passages)), key=lambda i: -overlap(question, passages[i]))
    return " > ".join(f"[{i + 1}]" for i in order)


def _evidence(prompt: str) -> str:
    return str(1 + round(99 * max(overlap(_question(prompt), text) for text in _passages(prompt))))


def _sufficient(prompt: str) -> str:
    return "Sufficient" if overlap(_question(prompt), _enclosed(prompt)) > 0.6 else "Insufficient"


def _asked_for(prompt: str) -> int:
    found = re.search(r"(?:Write|at most) (\d+) ", prompt)
    return int(found[1]) if found else 3


def _questions(prompt: str) -> str:
    topic = _topic(_enclosed(prompt) or _question(prompt), 8)
    openings = (
        "What is",
        "How does one explain",
        "Why does one speak of",
        "When applies",
        "Who decides on",
        "Where is",
    )
    return "\n".join(f"{openings[i % len(openings)]} {topic}?" for i in range(_asked_for(prompt)))


def _sampled(prompt: str) -> str:
    topic = _topic(_question(prompt), 8)
    return "\n".join(
        f"<query>{topic} aspect {i}</query>\n<probability>0.{3 + i}</probability>" for i in range(_asked_for(prompt))
    )


def _review(prompt: str) -> str:
    if number(prompt, 3):
        return "Verdict: ok"
    return f"Verdict: revise\n- missing: what is said about {_topic(_question(prompt))}"


def _written_out(prompt: str) -> str:
    *_, question = _enclosed(prompt).splitlines()
    return question if words(question) else "What is meant?"


def _passage(prompt: str) -> str:
    topic = _topic(_question(prompt), 8)
    return f"The matter of {topic} is settled by rule. It depends on {topic}, and on the time at which it is asked."


def _code(prompt: str) -> str:
    return f"def {'_'.join(_topic(_question(prompt), 3).lower().split())}(value):\n    return value + 1"


def _relations(prompt: str) -> str:
    names = list(dict.fromkeys(re.findall(r"\b[A-Z][a-z]{3,}\b", _enclosed(prompt))))[:6]
    return "\n".join(f"{a} | is mentioned with | {b}" for a, b in pairwise(names)) or "NONE"


REPLIES = (
    ("the word Score", _judge),
    ("Split it into the separate statements", _claims),
    ("Decide for each claim whether", _support),
    ("Rank them by how much they help", _ranking),
    ("Which conditions on these fields", lambda prompt: "NONE"),
    ("Reply with one whole number from 1 to 100", _evidence),
    ("Reply with one word: Sufficient", _sufficient),
    ("<probability>", _sampled),
    ("One wording a line", _questions),
    ("One question a line", _questions),
    ("Take a step back", lambda prompt: f"What is the rule about {_topic(_question(prompt))}?"),
    ("Write that question so that somebody who has", _written_out),
    ("Which conditions on these fields", lambda prompt: "NONE"),
    ("Rewrite this question as one query", lambda prompt: _topic(_question(prompt), 8)),
    ("source code, configuration or commands", _code),
    ("rows of a table", lambda prompt: f"subject: {_topic(_question(prompt))} | value: {number(prompt, 100)}"),
    ("Write a passage of four to six sentences", _passage),
    ("Write a note of two to four sentences", _passage),
    ("Write a heading of three to eight words", lambda prompt: f"About {_topic(_enclosed(prompt), 4)}"[:70]),
    ("Verdict: revise", _review),
    ("Rewrite the draft as", _answer),
    ("Answer the question from them", _answer),
    ("Answer this question from what you know", lambda _: '{"known": false, "answer": ""}'),
    ("Does one of them answer the", lambda _: '{"text": 0, "words": ""}'),
    ("Summarise", _summary),
    ("Update the summary", _summary),
    ("subject | relation | object", _relations),
)
"""What marks a prompt, and who replies; the first that fits."""


# --- vectors and scores ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1 << 16)
def _word_vector(word: str, dimensions: int) -> tuple[float, ...]:
    stream = hashlib.shake_256(word.encode()).digest(dimensions)
    return tuple(byte - 127.5 for byte in stream)


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """The sum of the vectors of its words, of length 1: texts that share words are near each other."""
    found = [_word_vector(word, dimensions) for word in _WORD.findall(text.lower())]
    total = [sum(column) for column in zip(_word_vector(f" {text}", dimensions), *found, strict=True)]
    length = math.sqrt(sum(value * value for value in total))
    return [round(value / length, 6) for value in total]


def scores(query: str, texts: Sequence[Any]) -> list[float]:
    """How well each text goes with the query, in [0, 1]; a text may stand in an object, as some servers have it."""
    return [round(overlap(query, text["text"] if isinstance(text, dict) else text), 6) for text in texts]
