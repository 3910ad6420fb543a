"""Questions that source code answers."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.registry import drafting_method
from ragsmith.labelling.drafting.replies import FORM, MATERIAL, WORDING
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


@drafting_method(type="code", prompt=PROMPT, paper="https://arxiv.org/abs/2109.08365")
def code(passage: Chunk, links: Links) -> Sequence[Chunk]:
    """Ask what source code does, expects and returns."""
    return (passage,) if passage.modality is Modality.CODE else ()
