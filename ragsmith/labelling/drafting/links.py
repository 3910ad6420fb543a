"""Passages of different documents that belong together: by a name, by a reference, or by what they are headed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ragsmith.digest import digest
from ragsmith.labelling.drafting.material import MOST_LINKED, SHORTEST, DraftingCorpus, names_in
from ragsmith.types import Chunk

SHORTEST_TITLE = 8
"""Characters of a title that refers to its document where it is mentioned; shorter ones are common words."""


class Links:
    """Finds for a passage one of another document that has to do with it."""

    def __init__(self, material: DraftingCorpus) -> None:
        self.material = material
        self._headed: defaultdict[str, list[Chunk]] = defaultdict(list)
        self._opening: dict[str, Chunk] = {}
        for passage in material.passages:
            if len(passage.text) < SHORTEST:
                continue
            self._opening.setdefault(passage.doc, passage)
            if passage.headings:
                self._headed[passage.headings[-1].casefold()].append(passage)
        self._titles = {
            document.title: doc for doc, document in material.documents.items() if len(document.title) >= SHORTEST_TITLE
        }

    def of(self, passage: Chunk) -> Chunk | None:
        """The passage that shares a rare name, or else is referred to, or else has the same heading; or None."""
        for others in (self._named(passage), self._referred(passage), self._alike(passage)):
            found = {other.id: other for other in others if other.doc != passage.doc and len(other.text) >= SHORTEST}
            if found:
                return found[min(found, key=lambda id_: digest("link", passage.id, id_))]
        return None

    def _named(self, passage: Chunk) -> Iterator[Chunk]:
        for name in names_in(passage.text):
            yield from self.material.entities.get(name, ())

    def _referred(self, passage: Chunk) -> Iterator[Chunk]:
        for title, doc in self._titles.items():
            if doc != passage.doc and title in passage.text and doc in self._opening:
                yield self._opening[doc]

    def _alike(self, passage: Chunk) -> Iterator[Chunk]:
        headed = self._headed.get(passage.headings[-1].casefold(), []) if passage.headings else []
        if len(headed) <= MOST_LINKED:  # what every document has, as "Introduction", links nothing
            yield from headed
