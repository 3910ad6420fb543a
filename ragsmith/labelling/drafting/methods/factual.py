"""Questions for one fact."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.registry import drafting_method
from ragsmith.labelling.drafting.replies import FORM, MATERIAL, WORDING
from ragsmith.types import Chunk

PROMPT = f"""Write questions about a fact that this text states: a time, an amount, a name, a condition, a reason.

The text is from {{title}}.
{MATERIAL}

{{>text}}

{WORDING}
The answer is short: the fact itself, in a phrase or a sentence.

{FORM}
"""


@drafting_method(type="factual", prompt=PROMPT, paper="https://arxiv.org/abs/2202.05144")
def factual(passage: Chunk, links: Links) -> Sequence[Chunk]:
    """Ask for one fact."""
    return (passage,)
