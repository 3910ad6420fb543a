"""Count coarse evidence: whole documents, whole sections and passages longer than chunks.

`ragsmith.datasets.relevance` describes how it is scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE
from ragsmith.datasets.places import sections, stripped_span, whole_document_span
from ragsmith.datasets.splits import MIN_QUESTIONS
from ragsmith.types import Dataset, Document, Span

WHOLE = 0.9
"""Share of a document's characters from which a span counts as the whole document."""


@dataclass(frozen=True, slots=True)
class Coarseness:
    """Counts of the ``spans`` longer than a chunk: whole ``documents``, whole ``sections`` and ``longer`` others."""

    spans: int
    documents: int
    sections: int
    longer: int

    def __str__(self) -> str:
        counts = {"a whole document": self.documents, "a whole section": self.sections, "another passage": self.longer}
        listed = ", ".join(f"{count} of {self.spans} spans {what}" for what, count in counts.items() if count)
        return (
            f"evidence is longer than a chunk of {DEFAULT_SIZE} characters ({listed}): it says which document or "
            "section answers, not where; where it is a whole document, or longer than two chunks, documents or "
            "sections are ranked, not chunks; quote the sentences that answer to have these ranked"
        )


def coarseness(dataset: Dataset) -> Coarseness:
    """Count the coarse evidence of ``dataset``; the same span of two questions counts twice."""
    texts = {document.id: document for document in dataset.documents}
    spans = [span for example in dataset.examples for span in example.evidence]
    long = [span for span in spans if span.end - span.start > DEFAULT_SIZE]
    known = {
        doc: frozenset(stripped_span(texts[doc], section.start, section.end) for section in sections(texts[doc]))
        for doc in {span.doc for span in long}
    }
    documents = sum(_is_whole(span, texts) for span in long)
    parts = sum(
        not _is_whole(span, texts) and stripped_span(texts[span.doc], span.start, span.end) in known[span.doc]
        for span in long
    )
    return Coarseness(len(spans), documents, parts, len(long) - documents - parts)


def dataset_warnings(dataset: Dataset) -> Iterator[str]:
    """Yield warnings about a valid data set, one sentence each."""
    if len(dataset.examples) < MIN_QUESTIONS:
        yield (
            f"there are {len(dataset.examples)} questions, fewer than {MIN_QUESTIONS}: none is held out for a test, so "
            "that nothing can be claimed of what a search finds; write more"
        )
    found = coarseness(dataset)
    if found.documents + found.sections + found.longer:
        yield str(found)


def _is_whole(span: Span, texts: Mapping[str, Document]) -> bool:
    """Whether a span is a document, perhaps without its title or last line."""
    everything = whole_document_span(texts[span.doc])
    return span.end - span.start >= WHOLE * (everything.end - everything.start)
