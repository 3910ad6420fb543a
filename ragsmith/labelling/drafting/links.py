"""Links between passages of different documents: a shared name, a reference, or the same heading."""

from collections import defaultdict
from collections.abc import Iterator

from ragsmith.digest import digest
from ragsmith.labelling.drafting.material import MAX_LINKED, MIN_CHARACTERS, DraftingCorpus, find_names
from ragsmith.types import Chunk

MIN_TITLE_CHARACTERS = 8
"""Minimum length in characters of a title whose mention is a reference; shorter ones may be common words."""


class Links:
    """Finder of linked passages in other documents."""

    def __init__(self, material: DraftingCorpus) -> None:
        self.material = material
        self._headed: defaultdict[str, list[Chunk]] = defaultdict(list)
        self._opening: dict[str, Chunk] = {}
        for passage in material.passages:
            if len(passage.text) < MIN_CHARACTERS:
                continue
            self._opening.setdefault(passage.doc, passage)
            if passage.headings:
                self._headed[passage.headings[-1].casefold()].append(passage)
        self._titles = {
            document.title: doc
            for doc, document in material.documents.items()
            if len(document.title) >= MIN_TITLE_CHARACTERS
        }

    def find(self, passage: Chunk) -> Chunk | None:
        """Return a passage that shares a rare name, is referred to, or has the same heading, in this order; or None."""
        for others in (self._named(passage), self._referred(passage), self._alike(passage)):
            found = {
                other.id: other for other in others if other.doc != passage.doc and len(other.text) >= MIN_CHARACTERS
            }
            if found:
                return found[min(found, key=lambda id_: digest("link", passage.id, id_))]
        return None

    def _named(self, passage: Chunk) -> Iterator[Chunk]:
        for name in find_names(passage.text):
            yield from self.material.entities.get(name, ())

    def _referred(self, passage: Chunk) -> Iterator[Chunk]:
        for title, doc in self._titles.items():
            if doc != passage.doc and title in passage.text and doc in self._opening:
                yield self._opening[doc]

    def _alike(self, passage: Chunk) -> Iterator[Chunk]:
        headed = self._headed.get(passage.headings[-1].casefold(), []) if passage.headings else []
        if len(headed) <= MAX_LINKED:  # headings such as "Introduction" are in every document
            yield from headed
