"""Questions on a case: what the text means for a situation that it does not describe itself."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.registry import drafting_method
from ragsmith.labelling.drafting.replies import FORM, MATERIAL, WORDING
from ragsmith.types import Chunk

PROMPT = f"""Write questions that this text answers by what follows from it: somebody describes a situation of their
own, or asks why or what if, and what the text states decides it.

The text is from {{title}}.
{MATERIAL}

{{>text}}

{WORDING}
The answer says what follows and why, in one or two sentences; it adds nothing that the text does not support.

{FORM}
"""


@drafting_method(type="interpretation", prompt=PROMPT, max_tokens=640, paper="https://arxiv.org/abs/1809.01494")
def interpretation(passage: Chunk, links: Links) -> Sequence[Chunk]:
    """Ask what the text means for a situation that it does not describe itself."""
    return (passage,)
