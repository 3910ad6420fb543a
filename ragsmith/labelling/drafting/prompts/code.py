"""Questions that source code answers."""

from __future__ import annotations

from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.prompts.prompt import FORM, MATERIAL, WORDING, Prompt, ask, questions_in
from ragsmith.types import Chunk, Modality

PROMPT = f"""Write questions of somebody who uses or changes this code: what does the work, what it expects and returns,
what happens with an odd input, which default it has.

The code is from {{title}}.
{MATERIAL}

{{>text}}

{WORDING}
Ask for what the code does; name a function or a setting only if it has to be known to ask. "quotes" has whole lines.

{FORM}
"""

parse = questions_in


def with_code(passage: Chunk, links: Links) -> tuple[Chunk, ...]:
    """The passage, if it is source code."""
    return (passage,) if passage.modality is Modality.CODE else ()


CODE = Prompt("source_code", "code", ask("source_code", PROMPT, parse, 512), with_code)
