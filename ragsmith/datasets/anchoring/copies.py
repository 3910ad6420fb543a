"""Find the copies of evidence that a question means."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from ragsmith.datasets.anchoring.answers import extract_terms
from ragsmith.datasets.statements import StatementIndex
from ragsmith.types import Document, Span


class CopyFinder:
    """A finder of copies of evidence in ``documents``, whose index ``statements`` is.

    Copies are left out in documents that the question does not mean: those that lack a term of the question which is in
    the title of the document with the evidence, or in this document alone.
    """

    def __init__(self, documents: Sequence[Document], statements: StatementIndex) -> None:
        self._documents = documents
        self._statements = statements

    def find(self, span: Span, question: str) -> tuple[Span, ...]:
        """Return the copies of the text of ``span`` that answer ``question`` as well."""
        asked = extract_terms(question) & self._terms[span.doc]
        naming = {term for term in asked if self._frequencies[term] == 1 or term in self._titles[span.doc]}
        return tuple(place for place in self._statements.copies(span) if naming <= self._terms[place.doc])

    @cached_property
    def _titles(self) -> Mapping[str, frozenset[str]]:
        """The terms of the titles of documents."""
        return {document.id: extract_terms(document.title) for document in self._documents}

    @cached_property
    def _terms(self) -> Mapping[str, frozenset[str]]:
        """The terms of documents with their titles."""
        return {document.id: extract_terms(f"{document.title}\n{document.text}") for document in self._documents}

    @cached_property
    def _frequencies(self) -> Counter[str]:
        """The number of documents with each term."""
        return Counter(term for terms in self._terms.values() for term in terms)
