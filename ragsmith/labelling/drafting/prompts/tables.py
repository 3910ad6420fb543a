"""Questions that a table answers."""

from __future__ import annotations

from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.prompts.prompt import FORM, MATERIAL, WORDING, Prompt, ask, questions_in
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

parse = questions_in


def with_table(passage: Chunk, links: Links) -> tuple[Chunk, ...]:
    """The passage, if rows of a table stand in it."""
    if passage.modality is Modality.TABLE:
        return (passage,)
    rows = (row for table in links.material.tables(passage.doc) for row in table.rows)
    return (passage,) if any(passage.start <= row.start < passage.end for row in rows) else ()


TABLES = Prompt("table_rows", "table", ask("table_rows", PROMPT, parse, 512), with_table)
