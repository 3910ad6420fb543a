"""Statistics of a data set."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE, chunk_documents
from ragsmith.datasets.places import find_sections, strip_span, whole_document_span
from ragsmith.datasets.splits import MIN_QUESTIONS, count_leaks, split
from ragsmith.types import Dataset, Document, Span

WHOLE_DOCUMENT_SHARE = 0.9
"""Minimum share of the characters of a document for a span that counts as the whole document."""


@dataclass(frozen=True, slots=True)
class Coarseness:
    """Numbers of all spans, and of spans longer than a chunk: whole documents, whole sections and ``longer`` others."""

    spans: int
    documents: int
    sections: int
    longer: int

    def __str__(self) -> str:
        counts = {"a whole document": self.documents, "a whole section": self.sections, "another passage": self.longer}
        listed = ", ".join(f"{count} of {self.spans} spans {what}" for what, count in counts.items() if count)
        return (
            f"evidence is longer than a chunk of {DEFAULT_SIZE} characters ({listed}): it identifies the document or "
            "section with the answer, not the passage; for whole documents and spans longer than two chunks, documents "
            "or sections are ranked instead of chunks; quote the sentences with the answer to rank chunks"
        )


def count_coarse_evidence(dataset: Dataset) -> Coarseness:
    """Count the coarse evidence of ``dataset``; the same span of two questions counts twice."""
    texts = {document.id: document for document in dataset.documents}
    spans = [span for example in dataset.examples for span in example.evidence]
    long = [span for span in spans if span.end - span.start > DEFAULT_SIZE]
    sections = {
        doc: frozenset(strip_span(texts[doc], section.start, section.end) for section in find_sections(texts[doc]))
        for doc in {span.doc for span in long}
    }
    documents = sum(_is_whole_document(span, texts) for span in long)
    parts = sum(
        not _is_whole_document(span, texts) and strip_span(texts[span.doc], span.start, span.end) in sections[span.doc]
        for span in long
    )
    return Coarseness(len(spans), documents, parts, len(long) - documents - parts)


def dataset_warnings(dataset: Dataset) -> Iterator[str]:
    """Yield warnings about a valid data set, one sentence each."""
    if len(dataset.examples) < MIN_QUESTIONS:
        yield (
            f"there are {len(dataset.examples)} questions, fewer than {MIN_QUESTIONS}: none is held out for a test, so "
            "that no claim about the result of a search is possible; write more"
        )
    coarse = count_coarse_evidence(dataset)
    if coarse.documents + coarse.sections + coarse.longer:
        yield str(coarse)


def _is_whole_document(span: Span, texts: Mapping[str, Document]) -> bool:
    """Whether a span is a document, except for up to a tenth, such as its title."""
    whole = whole_document_span(texts[span.doc])
    return span.end - span.start >= WHOLE_DOCUMENT_SHARE * (whole.end - whole.start)


EARLY_SHARE = 0.2
"""Share of a document that counts as its beginning, for the probe of position bias."""


def describe(dataset: Dataset) -> dict[str, object]:
    """Return counts of documents, questions and evidence, ready for JSON.

    Sizes are in characters. ``early_share`` probes position bias: the share of evidence whose middle is in the first
    20 % of its document, 0.2 if evenly distributed. Statistics of evidence are None without evidence.
    """
    parts = split(dataset)
    leaks = count_leaks(dataset, parts)
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
        "evidence": _describe_evidence(dataset),
        "split": {
            "rule": parts.rule,
            "search": len(parts.search),
            "test": len(parts.test),
            "unused": len(parts.unused),
            "leaks": {"near": leaks.near, "shared": leaks.shared},
        },
    }


def _describe_evidence(dataset: Dataset) -> dict[str, object]:
    spans = [span for example in dataset.examples for span in example.evidence]
    lengths = [span.end - span.start for span in spans]
    coarse = count_coarse_evidence(dataset)
    with_evidence = sum(bool(example.evidence) for example in dataset.examples)
    sizes = {document.id: len(document.text) for document in dataset.documents}
    early = [(span.start + span.end) / 2 < EARLY_SHARE * sizes[span.doc] for span in spans]
    return {
        "spans": len(spans),
        "per_question": len(spans) / with_evidence if with_evidence else None,
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
