"""Where quotations stand: exactly, and in one place only; their line breaks may differ, nothing else may."""

from __future__ import annotations

import re
from dataclasses import replace

from ragsmith.datasets.evidence import occurrences
from ragsmith.labelling.drafting.draft import Draft, DraftQuote
from ragsmith.labelling.drafting.material import DraftingCorpus
from ragsmith.types import Chunk

_SHOWN_BREAK = re.compile(r"\n[^\S\n]*> ?")
"""A line break as prompts show it."""


def located(draft: Draft, material: DraftingCorpus) -> Draft | str:
    """Return the draft with the place of every quotation, or why there is none.

    A quotation that stands in the draft's own passage once is that one; otherwise it must stand in its document once.
    """
    places: list[DraftQuote] = []
    for quote in draft.quotes:
        found = _place(quote, draft, material)
        if isinstance(found, str):
            return found
        places.append(found)
    if draft.answerable and not places:
        return "it has an answer and quotes nothing"
    if not draft.answerable and places:
        return "it has no answer in the documents and quotes them"
    if len({quote.span for quote in places}) < len(places):
        return "it quotes the same words twice"
    return replace(draft, quotes=tuple(places))


def _place(quote: DraftQuote, draft: Draft, material: DraftingCorpus) -> DraftQuote | str:
    document = material.documents.get(quote.doc)
    if document is None:
        return f"it quotes {quote.doc!r}, which is no document"
    if not quote.text.strip():
        return "a quotation is blank"
    if quote.start is not None:
        stands = document.text.startswith(quote.text, quote.start)
        return quote if stands else f"{quote.text!r} does not stand at {quote.start} of {quote.doc!r}"
    starts = occurrences(quote.text, document.text)
    if quote.doc == draft.passage.doc:
        last = draft.passage.end - len(quote.text)
        starts = [start for start in starts if draft.passage.start <= start <= last] or starts
    if len(starts) != 1:
        return f"{quote.text!r} stands {'nowhere' if not starts else f'{len(starts)} times'} in {quote.doc!r}"
    return replace(quote, start=starts[0])


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


def quote_of(passage: Chunk, said: str) -> DraftQuote:
    """The words as the document has them, with their place; as they were said where that is not clear."""
    place = place_in(passage, said)
    if place is None:
        return DraftQuote(passage.doc, said)
    start, end = place
    return DraftQuote(passage.doc, passage.text[start - passage.start : end - passage.start], start)
