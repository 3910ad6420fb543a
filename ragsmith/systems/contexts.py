"""Locate the contexts of another system in the documents of a data set."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ragsmith.datasets.anchoring.matches import EvidenceMatch
from ragsmith.datasets.anchoring.quotations import QuotationFinder
from ragsmith.datasets.documents import find_document_id
from ragsmith.datasets.places import whole_document_span
from ragsmith.datasets.relevance import ChunkMap
from ragsmith.digest import digest
from ragsmith.errors import DatasetError
from ragsmith.index.index import Corpus
from ragsmith.systems.answers import Context, GivenAnswer
from ragsmith.text.files import shorten
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Chunk, Chunks, Span


@dataclass(frozen=True)
class LocatedAnswer:
    """An answer with its contexts as ``chunks``, best first; those that were not found are in no document."""

    given: GivenAnswer
    chunks: Chunks


class ContextLocator:
    """Locates contexts in the documents of ``corpus``; ``merged`` maps the ids of duplicates to those that remain.

    ``not_found`` lists the contexts that are in no document, or in several places, with the reason.
    """

    def __init__(self, corpus: Corpus, merged: Mapping[str, str]) -> None:
        self._corpus = corpus
        self._merged = merged
        self._own = {chunk.id: chunk for chunk in corpus.chunks}
        self._found: dict[str, Span | str] = {}
        self.not_found: list[str] = []

    @cached_property
    def _quotations(self) -> QuotationFinder:
        return QuotationFinder(tuple(self._corpus.documents.values()))

    @cached_property
    def _chunk_map(self) -> ChunkMap:
        return ChunkMap(self._corpus.chunks)

    def locate(self, question: str, given: GivenAnswer) -> LocatedAnswer:
        """Return the answer to ``question`` with its contexts located.

        Raises:
            DatasetError: a context names a document that does not exist, or a place that is not in it.
        """
        found = []
        for place, context in enumerate(given.contexts, 1):
            span = self._span(context, f"question {question!r}, context {place}")
            if isinstance(span, str):
                self.not_found.append(f"question {question!r}, context {place}: {span}: {shorten(context.text or '')}")
            found.append(self._chunk(span, context, place - 1))
        return LocatedAnswer(given, tuple(found))

    def _span(self, context: Context, where: str) -> Span | str:
        """Return the place of a context, or why there is none."""
        doc = None if context.doc is None else self._merged.get(context.doc, context.doc)
        documents = self._corpus.documents
        doc = doc and (find_document_id(doc, documents) or doc)
        if doc is not None and doc not in documents:
            raise DatasetError([f"{where}: there is no document {doc!r}; {did_you_mean(doc, documents)}"])
        if doc is not None and context.start is not None and context.end is not None:
            if not 0 <= context.start < context.end <= len(documents[doc].text):
                raise DatasetError(
                    [
                        f"{where}: [{context.start}, {context.end}) is not in {doc!r}, which has "
                        f"{len(documents[doc].text):,} characters; offsets count them from 0"
                    ]
                )
            return Span(doc, context.start, context.end)
        if context.text is None:
            assert doc is not None
            return whole_document_span(documents[doc])
        key = f"{doc}\n{context.text}"
        if key not in self._found:
            match = self._quotations.find(context.text, None if doc is None else {doc})
            self._found[key] = match.span if isinstance(match, EvidenceMatch) else match.reason
        return self._found[key]

    def _chunk(self, span: Span | str, context: Context, place: int) -> Chunk:
        """Return a context as a chunk, with the title, section and modality of the chunk that it has most of."""
        if isinstance(span, str):
            text = context.text or ""
            return Chunk(f"not found {digest(text)[:16]}", "", place, 0, len(text), text)
        text = self._corpus.text(span) if context.text is None else context.text
        near = self._chunk_map.overlaps(span)
        most = self._own[max(near, key=lambda id_: (near[id_], id_))] if near else None
        document = self._corpus.documents[span.doc]
        return Chunk(
            f"{span.doc} [{span.start}, {span.end})",
            span.doc,
            place,
            span.start,
            span.end,
            text,
            document.title,
            most.headings if most else (),
            most.section if most else 0,
            document.modality,
            language=document.language,
        )
