"""Drafting methods that show the model one passage."""

from collections.abc import Sequence

from ragsmith.digest import digest
from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.registry import drafting_method
from ragsmith.labelling.drafting.replies import (
    DRAFTS,
    FORM,
    MATERIAL,
    WORDING,
    DraftReply,
    items_in,
    questions_in,
    text_of,
)
from ragsmith.models.tasks import ReplyForm
from ragsmith.plugins import Count
from ragsmith.text.words import words
from ragsmith.types import Chunk, Modality

FACTUAL = f"""{{>text}}

The text is from {{title}}.
{MATERIAL}

Write questions about a fact that this text states: a time, an amount, a name, a condition, a reason.

{WORDING}
The answer is short: the fact itself, in a phrase or a sentence.

{FORM}
"""


@drafting_method(type="factual", prompt=FACTUAL, paper="https://arxiv.org/abs/2202.05144")
def factual(passage: Chunk, links: Links) -> Sequence[Chunk]:
    """Ask for one fact."""
    return (passage,)


INTERPRETATION = f"""{{>text}}

The text is from {{title}}.
{MATERIAL}

Write questions that this text answers by what follows from it: somebody describes a situation of their
own, or asks why or what if, and what the text states decides it.

{WORDING}
The answer says what follows and why, in one or two sentences; it adds nothing that the text does not support.

{FORM}
"""


@drafting_method(type="interpretation", prompt=INTERPRETATION, max_tokens=640, paper="https://arxiv.org/abs/1809.01494")
def interpretation(passage: Chunk, links: Links) -> Sequence[Chunk]:
    """Ask for the consequences of the text in a situation that it does not describe."""
    return (passage,)


MIN_ANSWER_WORDS = 12
"""Minimum number of words of a long answer."""

LONG_ANSWER = f"""{{>text}}

The text is from {{title}}.
{MATERIAL}

Write questions whose answer takes several points of this text: how something is done, what has to be
observed, what something consists of, how things compare.

{WORDING}
The answer has two to five sentences and every point; "quotes" has the words for each point.

{FORM}
"""


def parse_long_answer(reply: str) -> tuple[DraftReply, ...]:
    """Parse questions whose answers have at least `MIN_ANSWER_WORDS` words.

    Raises:
        ValueError: the reply has another form.
    """
    found = questions_in(reply)
    for written in found:
        if len(words(written.answer)) < MIN_ANSWER_WORDS:
            raise ValueError(
                f"the answer {written.answer[:60]!r} has fewer than {MIN_ANSWER_WORDS} words; expected every point"
            )
    return found


@drafting_method(
    type="long_answer",
    prompt=LONG_ANSWER,
    parse=parse_long_answer,
    form=DRAFTS,
    max_tokens=1024,
    paper="https://arxiv.org/abs/1907.09190",
)
def long_answer(passage: Chunk, links: Links) -> Sequence[Chunk]:
    """Ask for an answer of several sentences."""
    return (passage,)


TABLE = f"""{{>text}}

The table is from {{title}}.
{MATERIAL}

Write questions that this table answers: the value of one entry, or which of the rows has the most, the
least, or a certain value.

{WORDING}
The answer has the value with its unit. "quotes" has the whole line of each row that it takes.

{FORM}
"""


@drafting_method(type="table", prompt=TABLE, paper="https://arxiv.org/abs/2105.07624")
def tables(passage: Chunk, links: Links) -> Sequence[Chunk]:
    """Ask for entries and rows of a table."""
    return (passage,) if passage.modality is Modality.TABLE or links.material.has_table(passage) else ()


CODE = f"""{{>text}}

The code is from {{title}}.
{MATERIAL}

Write questions of somebody who uses or changes this code: what does the work, what it expects and returns,
what happens with an odd input, which default it has.

{WORDING}
Ask for what the code does; name a function or a setting only if it has to be known to ask. "quotes" has whole lines.

{FORM}
"""


@drafting_method(type="code", prompt=CODE, paper="https://arxiv.org/abs/2109.08365")
def code(passage: Chunk, links: Links) -> Sequence[Chunk]:
    """Ask what source code does, expects and returns."""
    return (passage,) if passage.modality is Modality.CODE else ()


ANSWER = "The documents do not say."

NEAR_MISS = f"""{{>text}}

The text is from {{title}}.
{MATERIAL}

Write questions that a reader would expect this text to answer, and that it does not answer: they are on
its subject and ask for a detail, a case or a number that is not in it.

{WORDING}

Reply with JSON and nothing else, in this form:
{{"questions": [{{"question": "...", "missing": "..."}}]}}
"missing" says what the text would have to state to answer the question, and does not. If there is no such question,
reply {{"questions": []}}
"""


def parse_near_misses(reply: str) -> tuple[DraftReply, ...]:
    """Parse questions without an answer.

    Raises:
        ValueError: the reply has another form.
    """
    found = []
    for item in items_in(reply, ("question", "missing")):
        text_of(item["missing"], "missing")
        found.append(DraftReply(text_of(item["question"], "question"), ANSWER, ()))
    return tuple(found)


@drafting_method(
    type="unanswerable",
    prompt=NEAR_MISS,
    parse=parse_near_misses,
    form=ReplyForm("near_misses", {"questions": [{"question": str, "missing": str}]}, None),
    max_tokens=384,
    answerable=False,
    paper="https://arxiv.org/abs/1806.03822",
)
def near_misses(passage: Chunk, links: Links, *, every: Count = 6) -> Sequence[Chunk]:
    """Ask questions that the documents seem to answer and do not.

    One in ``every`` passages is used, as such questions are a small part of those that users ask.
    """
    return () if int(digest("near miss", passage.id)[:6], 16) % every else (passage,)
