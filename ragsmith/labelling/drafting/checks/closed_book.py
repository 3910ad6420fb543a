"""Can a question be answered without the documents? The model is asked without any passage, and compared."""

from __future__ import annotations

import re

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.replies import chat_task, object_in, text_of
from ragsmith.models.tasks import Task
from ragsmith.text.words import terms

NAME = "closed_book"

PROMPT = """Answer this question from what you know. You are shown nothing, and cannot look anything up.

Question: {question}

Reply with JSON and nothing else: {"known": true, "answer": "..."} with a short answer if you know it for certain, or
{"known": false, "answer": ""} if you do not know it or could only guess.
"""

SAME = 0.7
"""Share of the words of an answer, without those of its question, that another has to have to be the same."""

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def parse(reply: str) -> str:
    """The answer that is known; "" where none is.

    Raises:
        ValueError: the reply is neither, or says both.
    """
    found = object_in(reply, ("known", "answer"))
    known, answer = found["known"], found["answer"]
    if type(known) is not bool or not isinstance(answer, str):
        raise ValueError("'known' must be true or false, and 'answer' a text")
    if not known and answer.strip():
        raise ValueError("the reply gives an answer that it says is not known")
    return text_of(answer, "answer") if known else ""


CLOSED_BOOK: Task[str] = chat_task(NAME, PROMPT, parse, 256)


def problem(draft: Draft, known: str) -> str | None:
    """What is wrong with a draft whose question the model answered with ``known`` without any document."""
    return f"the model answers it without the documents: {known!r}" if same(draft, known) else None


def same(draft: Draft, other: str) -> bool:
    """Whether an answer is that of a draft: it has the same numbers, and most of the words that tell something."""
    own = frozenset(terms(draft.answer))
    telling = own - frozenset(terms(draft.question)) or own
    if not telling or not other:
        return False
    if not set(_NUMBER.findall(draft.answer)) <= set(_NUMBER.findall(other)):
        return False
    return len(telling & frozenset(terms(other))) >= SAME * len(telling)
