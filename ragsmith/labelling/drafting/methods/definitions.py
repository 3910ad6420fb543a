"""Questions from sentences that say what something is (as Heilman and Smith 2009 transform copular sentences)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods.statements import asked, statements
from ragsmith.types import Chunk

_SAYS_WHAT = re.compile(r"(?:an?|the|any|one of|every) ")
_MEANS = {"mean", "refer", "denote", "describe", "comprise", "constitute", "consist"}


def definitions(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``A lien is a right to keep ...`` -> ``What is a lien?``"""
    drafts: list[Draft] = []
    for quote, found in statements(passage, material):
        if found.verb in {"is", "are", "was", "were"} and _SAYS_WHAT.match(found.rest):
            drafts += asked(passage, quote, f"What {found.verb} {found.subject}", quote.text, "definitions")
        elif found.base in _MEANS:
            wanted = "consist of" if found.base == "consist" else "refer to" if found.base == "refer" else found.base
            question = f"What {found.auxiliary} {found.subject} {wanted}"
            drafts += asked(passage, quote, question, quote.text, "definitions")
    return drafts
