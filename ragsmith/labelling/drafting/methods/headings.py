"""Questions from headings: what a section is about, answered by how it begins."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.digest import digest
from ragsmith.labelling.drafting.draft import Draft, Quote
from ragsmith.labelling.drafting.material import Material
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import sentences, terms
from ragsmith.types import Chunk, Modality

OPENING = 3
"""Sentences of a section that answer what it is about."""

_ABOUT = ("What are the main points on {}", "What should I know about {}", "What is said on {}")
_NUMBERING = re.compile(
    r"^(?:(?:§|Section|Article|Chapter|Part|Step|Book|Division|Rule|Title|Appendix|Clause)\s+[\w.]+[:.)]?\s+"
    r"|(?:\d+[\w.]*|[IVX]+)[.):]?\s+)(?=\w)|[:.]$",
    re.IGNORECASE,
)
_ASKS = re.compile(r"^(?:how|what|when|where|who|why|which|can|do|does|is|are|may|must)\b.*", re.IGNORECASE)
_DOES = re.compile(r"^(?P<verb>\w+)ing\b(?P<rest>.*)")


def headings(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``## Replacing the belt`` -> ``How does replacing the belt work?``"""
    if passage.modality is not Modality.PROSE or passage.language != ENGLISH or not passage.headings:
        return []
    if not material.opens_section(passage):
        return []
    heading = " ".join(_NUMBERING.sub("", passage.headings[-1].strip()).split())
    its = sentences(passage.text)[:OPENING]
    if not its or len(terms(heading)) < 1 or heading == passage.title:
        return []
    inside = material.inside(heading)
    if _ASKS.match(heading):
        question = heading.rstrip("?.! ")
    elif _DOES.match(heading):
        question = f"How does {inside} work"
    else:
        question = _ABOUT[int(digest("heading", heading)[:4], 16) % len(_ABOUT)].format(inside)
    start, end = its[0][0], its[-1][1]
    text = passage.text[start:end]
    quote = Quote(passage.doc, text, passage.start + start)
    return [Draft(f"{question}?", " ".join(text.split()), (quote,), "long_answer", "headings", passage.span)]
