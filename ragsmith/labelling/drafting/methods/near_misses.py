"""Questions that the documents seem to answer and do not."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.digest import digest
from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.registry import drafting_method
from ragsmith.labelling.drafting.replies import MATERIAL, WORDING, DraftReply, items_in, text_of
from ragsmith.plugins import Count
from ragsmith.types import Chunk

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


def parse(reply: str) -> tuple[DraftReply, ...]:
    """Read questions without an answer.

    Raises:
        ValueError: the reply is anything else.
    """
    found = []
    for item in items_in(reply, ("question", "missing")):
        text_of(item["missing"], "missing")
        found.append(DraftReply(text_of(item["question"], "question"), ANSWER, ()))
    return tuple(found)


@drafting_method(
    type="unanswerable",
    prompt=PROMPT,
    parse=parse,
    max_tokens=384,
    answerable=False,
    paper="https://arxiv.org/abs/1806.03822",
)
def near_misses(passage: Chunk, links: Links, *, every: Count = 6) -> Sequence[Chunk]:
    """Ask what the documents seem to answer and do not.

    Of ``every`` passages one is asked about: such questions are a small part of what people ask.
    """
    return () if int(digest("near miss", passage.id)[:6], 16) % every else (passage,)
