"""What a data set holds, in numbers."""

from __future__ import annotations

from collections import Counter
from statistics import fmean, median

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.splits import leaks, split
from ragsmith.types import Dataset

EARLY = 0.2


def describe(dataset: Dataset) -> dict[str, object]:
    """Return counts of documents, questions and evidence, as plain data.

    Sizes are in characters. ``early_share`` is a probe for position bias: the share of evidence whose middle lies in
    the first 20 % of its document; with evidence all over the text it would be near 0.2.
    """
    divided = split(dataset)
    found = leaks(dataset, divided)
    return {
        "name": dataset.name,
        "title": dataset.title,
        "description": dataset.description,
        "licence": dataset.licence,
        "language": dataset.language,
        "digest": dataset.digest,
        "documents": len(dataset.documents),
        "merged": [list(pair) for pair in dataset.merged],
        "characters": sum(len(document.text) for document in dataset.documents),
        "words": sum(len(document.text.split()) for document in dataset.documents),
        "chunks": len(chunk_documents(dataset.documents)),
        "questions": len(dataset.examples),
        "types": dict(sorted(Counter(example.type for example in dataset.examples).items())),
        "multi_document_share": fmean(len({span.doc for span in e.evidence}) > 1 for e in dataset.examples),
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
    sizes = {document.id: len(document.text) for document in dataset.documents}
    early = [(span.start + span.end) / 2 < EARLY * sizes[span.doc] for span in spans]
    return {
        "spans": len(spans),
        "per_question": len(spans) / len(dataset.examples),
        "documents": len({span.doc for span in spans}),
        "median_length": median(lengths),
        "longest": max(lengths),
        "early_share": sum(early) / len(early),
    }
