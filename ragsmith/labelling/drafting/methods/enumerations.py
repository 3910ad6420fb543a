"""Questions from lists: what belongs to what the sentence before the list announces."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft, Quote
from ragsmith.labelling.drafting.material import Material
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import terms, words
from ragsmith.types import Chunk, Modality

_LIST = re.compile(
    r"(?P<intro>[^\n.:]{12,160}):\s*\n\s*\n?(?P<items>(?:[ \t]*(?:[-*+•]|\d+[.)]|\([a-z]\))[ \t]+[^\n]+(?:\n|$)){2,})"
)
_INLINE = re.compile(r"(?P<intro>[A-Z][^\n.:;]{12,120}): (?P<items>[^\n.:;]{4,}(?:; [^\n.:;]{4,}){1,})\.")
_MARK = re.compile(r"^[ \t]*(?:[-*+•]|\d+[.)]|\([a-z]\))[ \t]+", re.MULTILINE)
_NOUN = re.compile(r"\b([a-z]{3,}(?:[^su]s))$")
_POINTS = re.compile(r"\b(?:the following|these|as follows|such as|namely|including|this way)\b:?", re.IGNORECASE)


def enumerations(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``A claim needs the following papers: ...`` -> ``What belongs to this: a claim needs papers?`` and its items."""
    if passage.modality is not Modality.PROSE or passage.language != ENGLISH:
        return []
    drafts: list[Draft] = []
    for pattern in (_LIST, _INLINE):
        for found in pattern.finditer(passage.text):
            intro = " ".join(_POINTS.sub(" ", found["intro"]).split()).strip(" ,")
            if len(terms(intro)) < 2:
                continue
            items = [item.strip(" ;.,") for item in _MARK.split(found["items"].strip()) if item.strip()]
            if pattern is _INLINE:
                items = [item.strip() for item in found["items"].split(";")]
            heading = passage.headings[-1].strip(" .:") if passage.headings else passage.title
            if noun := _NOUN.search(intro):
                question = f"Which {noun[1]} are named where it is about {material.inside(heading)}?"
            else:
                question = f"What belongs to the list after this: {material.inside(intro)}?"
            if len(words(question)) > 28:
                continue
            text = found.group().strip()
            start = passage.start + found.start() + found.group().index(text[0])
            quote = Quote(passage.doc, text, start)
            answer = "; ".join(" ".join(item.split()) for item in items) + "."
            drafts.append(Draft(question, answer, (quote,), "long_answer", "enumerations", passage.span))
    return drafts
