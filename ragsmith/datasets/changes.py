"""Compare two collections of documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ragsmith.digest import digest
from ragsmith.types import Document, Example, Span


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """Sorted identifiers of added, changed and removed documents."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def __str__(self) -> str:
        counts = (("added", self.added), ("changed", self.changed), ("removed", self.removed))
        said = ", ".join(f"{len(names):,} {how}" for how, names in counts if names)
        return said or "none added, changed or removed"


def contents(documents: Iterable[Document]) -> dict[str, str]:
    """Map identifiers to digests of text and modality."""
    return {document.id: digest("content", document.modality, document.text) for document in documents}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> DocumentChanges:
    """Compare the `contents` of two collections."""
    both = before.keys() & after.keys()
    return DocumentChanges(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(name for name in both if before[name] != after[name])),
        tuple(sorted(before.keys() - after.keys())),
    )


def still_answerable(
    examples: Iterable[Example], before: Iterable[Document], after: Iterable[Document]
) -> tuple[Example, ...]:
    """Return the ``examples`` whose evidence is still in the documents ``after``, with its present spans.

    Evidence is searched for at its old span, else anywhere in its document, where it must occur once. Questions without
    evidence are kept.
    """
    then = {document.id: document.text for document in before}
    now = {document.id: document.text for document in after}
    found = []
    for example in examples:
        spans = [
            _moved(span, then[span.doc][span.start : span.end], now.get(span.doc, "")) for span in example.evidence
        ]
        if all(spans):
            found.append(replace(example, evidence=tuple(span for span in spans if span)))
    return tuple(found)


def _moved(span: Span, said: str, text: str) -> Span | None:
    if text[span.start : span.end] == said:
        return span
    start = text.find(said)
    return Span(span.doc, start, start + len(said)) if start >= 0 and text.find(said, start + 1) < 0 else None
