"""Statistics of a data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE, chunk_documents
from ragsmith.datasets.places import sections, stripped_span, whole_document_span
from ragsmith.datasets.splits import MIN_QUESTIONS, leaks, split
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


EARLY = 0.2


def describe(dataset: Dataset) -> dict[str, object]:
    """Return counts of documents, questions and evidence, ready for JSON.

    Sizes are in characters. ``early_share`` probes position bias: the share of evidence whose middle is in the first
    20 % of its document, 0.2 if evenly distributed. Statistics of evidence are None without evidence.
    """
    divided = split(dataset)
    found = leaks(dataset, divided)
    return {
        "name": dataset.name,
        "title": dataset.title,
        "description": dataset.description,
        "licence": dataset.licence,
        "language": dataset.language,
        "languages": dict(Counter(document.language for document in dataset.documents).most_common()),
        "digest": dataset.digest,
        "documents": len(dataset.documents),
        "merged": [list(pair) for pair in dataset.merged],
        "characters": sum(len(document.text) for document in dataset.documents),
        "words": sum(len(document.text.split()) for document in dataset.documents),
        "chunks": len(chunk_documents(dataset.documents)),
        "questions": len(dataset.examples),
        "types": dict(sorted(Counter(example.type for example in dataset.examples).items())),
        "unanswerable": sum(not example.answerable for example in dataset.examples),
        "without_evidence": sum(example.answerable and not example.evidence for example in dataset.examples),
        "drafted": sum(example.drafted for example in dataset.examples),
        "multi_document_share": _mean(len({s.doc for s in e.evidence}) > 1 for e in dataset.examples if e.evidence),
        "evidence": _evidence(dataset),
        "split": {
            "rule": divided.rule,
            "search": len(divided.search),
            "test": len(divided.test),
            "unused": len(divided.unused),
            "leaks": {"near": found.near, "shared": found.shared},
        },
    }


def _evidence(dataset: Dataset) -> dict[str, object]:
    spans = [span for example in dataset.examples for span in example.evidence]
    lengths = [span.end - span.start for span in spans]
    coarse = coarseness(dataset)
    pointed = sum(bool(example.evidence) for example in dataset.examples)
    sizes = {document.id: len(document.text) for document in dataset.documents}
    early = [(span.start + span.end) / 2 < EARLY * sizes[span.doc] for span in spans]
    return {
        "spans": len(spans),
        "per_question": len(spans) / pointed if pointed else None,
        "documents": len({span.doc for span in spans}),
        "median_length": median(lengths) if lengths else None,
        "longest": max(lengths, default=None),
        "early_share": _mean(early),
        "whole_documents": coarse.documents,
        "whole_sections": coarse.sections,
        "longer_than_chunks": coarse.longer,
    }


def _mean(shares: Iterable[bool]) -> float | None:
    values = list(shares)
    return sum(values) / len(values) if values else None
