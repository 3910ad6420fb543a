"""Find where the quotations of a draft stand: exactly, and in one place only."""

from __future__ import annotations

from dataclasses import replace

from ragsmith.datasets.evidence import occurrences
from ragsmith.labelling.drafting.draft import Draft, Quote
from ragsmith.labelling.drafting.material import Material


def located(draft: Draft, material: Material) -> Draft | str:
    """Return the draft with the place of every quotation, or why there is none.

    A quotation that stands in the draft's own passage once is that one; otherwise it must stand in its document once.
    """
    places: list[Quote] = []
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


def _place(quote: Quote, draft: Draft, material: Material) -> Quote | str:
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
