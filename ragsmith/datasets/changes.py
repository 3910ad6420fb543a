"""Compare two collections of documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragsmith.digest import digest
from ragsmith.types import Document


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
