"""Questions from sentences that say what something is (as Heilman and Smith 2009 transform copular sentences)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft, Quote
from ragsmith.labelling.drafting.material import Material
from ragsmith.text.words import sentences
from ragsmith.types import Chunk, Modality

_IS = re.compile(r"(?P<subject>(?:An?|The) [\w' -]{3,60}?) (?P<verb>is|are) (?P<rest>(?:an?|the|any) [^.]{20,})\.")


def definitions(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``A lien is a right to keep ...`` -> ``What is a lien?``"""
    if passage.modality is not Modality.PROSE or material.language != "en":
        return []
    drafts = []
    for start, end in sentences(passage.text):
        sentence = passage.text[start:end]
        if found := _IS.fullmatch(sentence):
            subject = found["subject"][0].lower() + found["subject"][1:]
            question = f"What {found['verb']} {subject}?"
            quote = Quote(passage.doc, sentence, passage.start + start)
            drafts.append(Draft(question, sentence, (quote,), "factual", "definitions", passage.span))
    return drafts
