"""What questions are drafted from: documents, their passages, and what is known of their words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.models.embedded.lexicon import Lexicon
from ragsmith.models.embedded.thesaurus import Thesaurus
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.text.bm25 import BM25
from ragsmith.types import Chunk, Document, Span


class Material:
    """Documents, cut into passages as a search cuts them by default; indexes of words are built on first use."""

    def __init__(self, documents: Sequence[Document], language: str = "en") -> None:
        self.documents = {document.id: document for document in documents}
        self.passages = chunk_documents(documents)
        self.language = language

    def text(self, span: Span) -> str:
        """The text of a span."""
        return self.documents[span.doc].text[span.start : span.end]

    def passage(self, span: Span) -> Chunk:
        """The passage that a span begins in.

        Raises:
            KeyError: none does.
        """
        for passage in self._of_document[span.doc]:
            if passage.start <= span.start < passage.end:
                return passage
        raise KeyError(span)

    @cached_property
    def words(self) -> BM25:
        """BM25 over the passages, in their order."""
        return BM25([passage.text for passage in self.passages])

    @cached_property
    def lexicon(self) -> Lexicon:
        """Counts of the words of the passages."""
        return Lexicon([passage.text for passage in self.passages])

    @cached_property
    def thesaurus(self) -> Thesaurus:
        """Words of the documents that are related, by static word vectors."""
        return Thesaurus(self.lexicon, WordLlamaEmbedder())

    @cached_property
    def _of_document(self) -> dict[str, list[Chunk]]:
        found: dict[str, list[Chunk]] = {id_: [] for id_ in self.documents}
        for passage in self.passages:
            found[passage.doc].append(passage)
        return found
