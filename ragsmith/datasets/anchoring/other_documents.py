"""Put a data set on other documents: the questions whose evidence these contain, with its present spans."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragsmith.datasets.anchoring.matches import NoMatch
from ragsmith.datasets.anchoring.repair import EvidenceRepair, OldEvidence, RepairedEvidence
from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.evidence import find_occurrences, join_places, sort_spans
from ragsmith.types import Dataset, Document, Example, Span, places_of

Found = Mapping[Span, Sequence[Span]]
"""The present spans of each place of evidence; empty if it is not found, or not with certainty."""


def put_on_documents(data: Dataset, other: Dataset) -> Dataset:
    """Return a data set with the documents of ``other``, and the questions of ``data`` whose evidence they contain.

    Evidence is located as by a repair (`EvidenceRepair`): it may have moved, also to another document, and some of its
    words may have changed. A text of few words must occur exactly once in its document, or have moved as the evidence
    around it. Of gold in several places, one must remain. Questions without evidence are included.
    """
    documents = (*other.documents, *other.duplicates)
    found = _find_evidence(data, documents)
    examples = [_move_evidence(example, found) for example in data.examples]
    remaining = [moved for moved, example in zip(examples, data.examples, strict=True) if moved]
    languages = {document.id: document.language for document in documents}
    return make_dataset({"name": data.name}, documents, remaining, languages=languages)


def _find_evidence(data: Dataset, documents: Sequence[Document]) -> Found:
    """Return the spans in ``documents`` of all evidence of ``data``; pieces near each other move together."""
    before = {document.id: document.text for document in data.documents}
    after = {document.id: document.text for document in documents}
    places = [place for example in data.examples for span in example.evidence for place in places_of(span)]
    pieces = {place: OldEvidence(place, before[place.doc][place.start : place.end]) for place in places}
    repaired = EvidenceRepair(documents).repair(pieces.values())
    return {place: _present_spans(repaired[piece], piece, after) for place, piece in pieces.items()}


def _present_spans(outcome: RepairedEvidence | NoMatch, piece: OldEvidence, after: Mapping[str, str]) -> Sequence[Span]:
    if isinstance(outcome, RepairedEvidence):
        return [match.span for match in outcome.matches]
    doc = piece.span.doc
    starts = find_occurrences(piece.text, after.get(doc, ""))
    return [Span(doc, start, start + len(piece.text)) for start in starts] if len(starts) == 1 else []


def _move_evidence(example: Example, found: Found) -> Example | None:
    """Return a question with the present spans of its evidence; None if a piece is not found."""
    moved: list[Span] = []
    for gold in example.evidence:
        places = places_of(gold)
        spans = [span for place in places for span in found[place]]
        if not spans:
            return None
        moved += [join_places(spans)] if len(places) > 1 else spans
    return replace(example, evidence=sort_spans(moved))
