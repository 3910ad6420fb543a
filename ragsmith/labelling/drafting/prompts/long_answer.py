"""Questions whose answer takes several sentences."""

from __future__ import annotations

from ragsmith.labelling.drafting.prompts.prompt import (
    FORM,
    MATERIAL,
    WORDING,
    Prompt,
    Written,
    alone,
    ask,
    questions_in,
)
from ragsmith.text.words import words

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


def parse(reply: str) -> tuple[Written, ...]:
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


LONG_ANSWER = Prompt("long_answer", "long_answer", ask("long_answer", PROMPT, parse, 1024), alone)
