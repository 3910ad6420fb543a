"""Questions that a table answers."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.registry import drafting_method
from ragsmith.labelling.drafting.replies import FORM, MATERIAL, WORDING
from ragsmith.types import Chunk, Modality

PROMPT = f"""Write questions that this table answers: the value of one entry, or which of the rows has the most, the
least, or a certain value.

The table is from {{title}}.
{MATERIAL}

{{>text}}

{WORDING}
The answer has the value with its unit. "quotes" has the whole line of each row that it takes.

{FORM}
"""


@drafting_method(type="table", prompt=PROMPT, paper="https://arxiv.org/abs/2105.07624")
def tables(passage: Chunk, links: Links) -> Sequence[Chunk]:
    """Ask for entries and rows of a table."""
    return (passage,) if passage.modality is Modality.TABLE or links.material.has_table(passage) else ()
