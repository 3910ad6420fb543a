"""Find the words that a model quoted in the passage that it was shown: its line breaks may differ, nothing else may."""

from __future__ import annotations

import re

from ragsmith.labelling.drafting.draft import Quote
from ragsmith.types import Chunk

_SHOWN_BREAK = re.compile(r"\n[^\S\n]*> ?")
"""A line break as prompts show it."""


def place_in(passage: Chunk, said: str) -> tuple[int, int] | None:
    """Where, in the document of ``passage``, the words stand there exactly, but for white space; None unless once."""
    exact = [match.start() for match in re.finditer(re.escape(said), passage.text)]
    if len(exact) == 1:
        return passage.start + exact[0], passage.start + exact[0] + len(said)
    parts = _SHOWN_BREAK.sub("\n", said).split()
    if exact or not parts:
        return None
    found = list(re.finditer(r"\s+".join(map(re.escape, parts)), passage.text))
    if len(found) != 1:
        return None
    return passage.start + found[0].start(), passage.start + found[0].end()


def quote_of(passage: Chunk, said: str) -> Quote:
    """The words as the document has them, with their place; as they were said where that is not clear."""
    place = place_in(passage, said)
    if place is None:
        return Quote(passage.doc, said)
    start, end = place
    return Quote(passage.doc, passage.text[start - passage.start : end - passage.start], start)
