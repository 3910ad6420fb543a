"""Compare two collections of documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ragsmith.datasets.evidence import join_places
from ragsmith.digest import digest
from ragsmith.types import Document, Example, Span, places_of


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """The sorted identifiers of added, changed and removed documents."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def __str__(self) -> str:
        counts = (("added", self.added), ("changed", self.changed), ("removed", self.removed))
        summary = ", ".join(f"{len(names):,} {change}" for change, names in counts if names)
        return summary or "none added, changed or removed"


def content_digests(documents: Iterable[Document]) -> dict[str, str]:
    """Return the digests of the text and modality of documents by identifier."""
    return {document.id: digest("content", document.modality, document.text) for document in documents}


def compare_contents(before: Mapping[str, str], after: Mapping[str, str]) -> DocumentChanges:
    """Compare the `content_digests` of two collections before and after a change."""
    both = before.keys() & after.keys()
    return DocumentChanges(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(name for name in both if before[name] != after[name])),
        tuple(sorted(before.keys() - after.keys())),
    )


def select_answerable(
    examples: Iterable[Example], before: Iterable[Document], after: Iterable[Document]
) -> tuple[Example, ...]:
    """Return the ``examples`` whose evidence also occurs in the documents ``after``, with the spans there.

    The text of the evidence must be at the same span or occur exactly once in the document; of gold in several places,
    one must remain. Questions without evidence are included.
    """
    old_texts = {document.id: document.text for document in before}
    new_texts = {document.id: document.text for document in after}
    answerable = []
    for example in examples:
        moved = [
            [
                _relocate(place, old_texts[place.doc][place.start : place.end], new_texts.get(place.doc, ""))
                for place in places_of(span)
            ]
            for span in example.evidence
        ]
        found = [[place for place in places if place] for places in moved]
        if all(found):
            answerable.append(replace(example, evidence=tuple(map(join_places, found))))
    return tuple(answerable)


def _relocate(span: Span, quote: str, text: str) -> Span | None:
    """Return the span of ``quote`` in ``text``; None if it does not occur or is ambiguous."""
    if text[span.start : span.end] == quote:
        return span
    start = text.find(quote)
    return Span(span.doc, start, start + len(quote)) if start >= 0 and text.find(quote, start + 1) < 0 else None
