"""Statistics of a data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import median

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.coarse import coarseness
from ragsmith.datasets.splits import leaks, split
from ragsmith.types import Dataset

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
