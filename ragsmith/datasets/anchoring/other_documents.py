"""Put a data set on other documents: the questions whose evidence these contain, with its present spans.

A repair knows only the text of evidence. Here the earlier documents are known as well, so evidence that is too short or
was edited too much is located by the paragraph around it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from ragsmith.datasets.anchoring.matches import NoMatch
from ragsmith.datasets.anchoring.repair import EvidenceRepair, OldEvidence, RepairedEvidence
from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.evidence import find_occurrences, join_places, sort_spans
from ragsmith.grouping import group_values
from ragsmith.types import Dataset, Document, Example, Span, places_of

MIN_KEPT = 0.8
"""Minimum share of the characters of a piece of evidence that are kept in its paragraph."""

PARAGRAPH_BREAK = "\n\n"


def put_on_documents(data: Dataset, other: Dataset) -> Dataset:
    """Return a data set with the documents of ``other``, and the questions of ``data`` whose evidence they contain.

    Evidence is located as by a repair (`EvidenceRepair`): it may have moved, also to another document, and some of its
    words may have changed. Of gold in several places, one must remain. Questions without evidence are included.
    """
    documents = (*other.documents, *other.duplicates)
    places = {place for example in data.examples for span in example.evidence for place in places_of(span)}
    before = {document.id: document.text for document in data.documents}
    found = _find_places(places, before, {document.id: document for document in documents})
    moved = (_move_evidence(example, found) for example in data.examples)
    languages = {document.id: document.language for document in documents}
    return make_dataset({"name": data.name}, documents, [each for each in moved if each], languages=languages)


def _move_evidence(example: Example, found: Mapping[Span, Sequence[Span]]) -> Example | None:
    """Return a question with the present spans of its evidence; None if a piece is not found."""
    moved: list[Span] = []
    for gold in example.evidence:
        places = places_of(gold)
        spans = [span for place in places for span in found[place]]
        if not spans:
            return None
        moved += [join_places(spans)] if len(places) > 1 else spans
    return replace(example, evidence=sort_spans(moved))


def _find_places(
    places: Iterable[Span], before: Mapping[str, str], after: Mapping[str, Document]
) -> dict[Span, Sequence[Span]]:
    """Return the present spans of each place, in its document or else in another; none if they are uncertain."""
    found: dict[Span, Sequence[Span]] = {}
    pieces = ((place.doc, OldEvidence(place, before[place.doc][place.start : place.end])) for place in places)
    by_document = group_values(pieces)
    for doc, old in by_document.items():
        if doc in after:
            found |= _find_in_document(old, before[doc], after[doc])
    if lost := [piece for old in by_document.values() for piece in old if not found.get(piece.span)]:
        elsewhere = EvidenceRepair(list(after.values())).repair(lost)
        found |= {piece.span: _present_spans(outcome) for piece, outcome in elsewhere.items()}
    return found


def _find_in_document(pieces: Sequence[OldEvidence], before: str, after: Document) -> dict[Span, Sequence[Span]]:
    """Return the present spans of pieces in their document: by their texts, else by the paragraphs around them."""
    repair = EvidenceRepair([after])
    found = {
        piece.span: _present_spans(outcome) or _only_occurrence(piece, after)
        for piece, outcome in repair.repair(pieces).items()
    }
    around = {piece: _paragraph(piece, before) for piece in pieces if not found[piece.span]}
    moved = repair.repair(around.values())
    for piece, paragraph in around.items():
        if len(spans := _present_spans(moved[paragraph])) == 1:
            found[piece.span] = _align(piece, paragraph, spans[0], after.text)
    return found


def _present_spans(outcome: RepairedEvidence | NoMatch) -> Sequence[Span]:
    return [match.span for match in outcome.matches] if isinstance(outcome, RepairedEvidence) else []


def _only_occurrence(piece: OldEvidence, document: Document) -> Sequence[Span]:
    """Return the span of a piece, however short, that occurs exactly once."""
    starts = find_occurrences(piece.text, document.text)
    return [Span(document.id, start, start + len(piece.text)) for start in starts] if len(starts) == 1 else []


def _paragraph(piece: OldEvidence, text: str) -> OldEvidence:
    """Return the paragraphs of ``text`` that a piece is in."""
    start = text.rfind(PARAGRAPH_BREAK, 0, piece.span.start) + 1
    end = text.find(PARAGRAPH_BREAK, piece.span.end)
    span = Span(piece.span.doc, start, end if end >= 0 else len(text))
    return OldEvidence(span, text[span.start : span.end])


def _align(piece: OldEvidence, paragraph: OldEvidence, moved: Span, text: str) -> Sequence[Span]:
    """Return the span of a piece in its paragraph, which is at ``moved`` now; none if most of the piece is gone."""
    start = piece.span.start - paragraph.span.start
    end = start + len(piece.text)
    blocks = SequenceMatcher(None, paragraph.text, text[moved.start : moved.end], autojunk=False).get_matching_blocks()
    kept = [
        at - block.a + block.b for block in blocks for at in range(max(start, block.a), min(end, block.a + block.size))
    ]
    if len(kept) < MIN_KEPT * len(piece.text):
        return []
    return [Span(moved.doc, moved.start + kept[0], moved.start + kept[-1] + 1)]
