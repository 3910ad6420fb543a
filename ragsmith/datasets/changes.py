"""How the documents of one collection differ from those of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragsmith.digest import digest
from ragsmith.types import Document


@dataclass(frozen=True, slots=True)
class Changes:
    """The identifiers of documents that were added, whose text changed, and that were removed, sorted."""

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
    """Identifier to a digest of what a document says: its text, and the kind of text that it is."""
    return {document.id: digest("content", document.modality, document.text) for document in documents}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> Changes:
    """What happened to the `contents` of a collection."""
    both = before.keys() & after.keys()
    return Changes(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(name for name in both if before[name] != after[name])),
        tuple(sorted(before.keys() - after.keys())),
    )
