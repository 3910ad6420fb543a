"""Questions whose answer takes several sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.registry import drafting_method
from ragsmith.labelling.drafting.replies import FORM, MATERIAL, WORDING, DraftReply, questions_in
from ragsmith.text.words import words
from ragsmith.types import Chunk

SHORTEST = 12
"""Words of a long answer."""

PROMPT = f"""Write questions whose answer takes several points of this text: how something is done, what has to be
observed, what something consists of, how things compare.

The text is from {{title}}.
{MATERIAL}

{{>text}}

{WORDING}
The answer has two to five sentences and every point; "quotes" has the words for each point.

{FORM}
"""


def parse(reply: str) -> tuple[DraftReply, ...]:
    """Read questions whose answers have `SHORTEST` words or more.

    Raises:
        ValueError: the reply is anything else.
    """
    found = questions_in(reply)
    for written in found:
        if len(words(written.answer)) < SHORTEST:
            raise ValueError(
                f"the answer {written.answer[:60]!r} has fewer than {SHORTEST} words; expected every point"
            )
    return found


@drafting_method(
    type="long_answer", prompt=PROMPT, parse=parse, max_tokens=1024, paper="https://arxiv.org/abs/1907.09190"
)
def long_answer(passage: Chunk, links: Links) -> Sequence[Chunk]:
    """Ask for an answer of several sentences."""
    return (passage,)
