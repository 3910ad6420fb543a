"""Questions that the documents seem to answer and do not."""

from __future__ import annotations

from ragsmith.digest import digest
from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.prompts.prompt import MATERIAL, WORDING, Prompt, Written, ask, items_in, text_of
from ragsmith.types import Chunk

EVERY = 6
"""Of so many passages, one is asked for a near-miss: they are a small part of what people ask."""

ANSWER = "The documents do not say."

PROMPT = f"""Write questions that a reader would expect this text to answer, and that it does not answer: they are on
its subject and ask for a detail, a case or a number that is not in it.

The text is from {{title}}.
{MATERIAL}

{{>text}}

{WORDING}

Reply with JSON and nothing else, in this form:
{{"questions": [{{"question": "...", "missing": "..."}}]}}
"missing" says what the text would have to state to answer the question, and does not. If there is no such question,
reply {{"questions": []}}
"""


def parse(reply: str) -> tuple[Written, ...]:
    """Read questions without an answer.

    Raises:
        ValueError: the reply is anything else.
    """
    found = []
    for item in items_in(reply, ("question", "missing")):
        text_of(item["missing"], "missing")
        found.append(Written(text_of(item["question"], "question"), ANSWER, ()))
    return tuple(found)


def now_and_then(passage: Chunk, links: Links) -> tuple[Chunk, ...]:
    """The passage, if it is one of `EVERY`."""
    return () if int(digest("near miss", passage.id)[:6], 16) % EVERY else (passage,)


NEAR_MISSES = Prompt(
    "almost_said", "unanswerable", ask("almost_said", PROMPT, parse, 384), now_and_then, answerable=False
)
