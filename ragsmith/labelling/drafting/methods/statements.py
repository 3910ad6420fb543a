"""The plain statements of a passage: sentences whose subject, verb and rest are told apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ragsmith.labelling.drafting.draft import Draft, Quote
from ragsmith.labelling.drafting.english.clauses import Clause, clause
from ragsmith.labelling.drafting.material import Material
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import sentences, words
from ragsmith.types import Chunk, Modality

LONGEST_QUESTION = 26
"""Words: nobody asks in longer sentences."""

_STANDS_FOR = frozenset({"It", "He", "She"})
"""Pronouns that stand for the title of an article."""

_TAIL = re.compile(r"\s*(?:[,;:](?=\s)|\s[-–—]\s).*$", re.DOTALL)
_LOOSE_END = re.compile(r"(?:[\s,;:]|\b(?:and|or|of|in|on|at|by|for|with|to|from|the|an?|that|than|as|about)\b)+$")


def statements(passage: Chunk, material: Material) -> Iterator[tuple[Quote, Clause]]:
    """Yield sentences of English prose that are plain statements, and their clauses, in order."""
    if passage.modality is not Modality.PROSE or passage.language != ENGLISH:
        return
    for start, end in sentences(passage.text):
        sentence = passage.text[start:end]
        if "\n\n" in sentence or "|" in sentence:
            continue
        plain = " ".join(sentence.split())
        opens, _, after = plain.partition(" ")
        if opens in _STANDS_FOR and material.is_about_title(passage.doc):
            plain = f"{passage.title} {after}"
        if (found := clause(plain)) is not None:
            yield (
                Quote(passage.doc, sentence, passage.start + start),
                replace(found, subject=material.inside(found.subject)),
            )


def asked(passage: Chunk, quote: Quote, question: str, answer: str, method: str, type_: str = "factual") -> list[Draft]:
    """The draft of a question and its answer, which are tidied; none where nothing sensible is left of them."""
    text = _LOOSE_END.sub("", question.strip().rstrip("?").strip())
    text = " ".join(text.split())
    if not 4 <= len(words(text)) <= LONGEST_QUESTION or len(words(answer)) < 1:
        return []
    text = f"{text[0].upper()}{text[1:]}?"
    reply = " ".join(answer.split()).strip(" ,;:")
    reply = f"{reply[0].upper()}{reply[1:]}" if reply else reply
    reply = reply if reply.endswith(".") else f"{reply}."
    return [Draft(text, reply, (quote,), type_, method, passage.span)]


def without_tail(rest: str, least: int = 4) -> str:
    """The rest of a statement up to its first comma, where at least so many words are left."""
    short = _TAIL.sub("", rest)
    return short if len(words(short)) >= least else rest
