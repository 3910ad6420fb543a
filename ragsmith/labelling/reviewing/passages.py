"""What a reviewer reads of the documents: the text around a draft's evidence, with the quotes marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragsmith.types import Document, Span

AROUND = 300
"""Characters that are shown before and after a quote at least, where the document has them."""

FURTHER = 1200
"""Characters by which a passage grows at both ends when more is asked for."""


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Characters of a passage that are in the same quotes; ``marks`` are their positions among the spans."""

    start: int
    text: str
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReviewPassage:
    """The characters ``[start, end)`` of a document, in pieces; ``whole`` where that is all of it."""

    doc: str
    title: str
    start: int
    end: int
    whole: bool
    pieces: tuple[MarkedText, ...]

    @property
    def text(self) -> str:
        """The passage without marks."""
        return "".join(piece.text for piece in self.pieces)


def passages(
    spans: Sequence[Span], sources: Sequence[Span], documents: Mapping[str, Document], more: int = 0
) -> tuple[ReviewPassage, ...]:
    """The passages that hold ``spans``, the quotes, and ``sources``, what the draft was made of; each text once.

    ``more`` says how often more of the documents was asked for.
    """
    wanted = [_widened(span, documents[span.doc].text, AROUND) for span in spans if span.doc in documents]
    wanted += [_widened(span, documents[span.doc].text, 0) for span in sources if span.doc in documents]
    if more:
        wanted = [_widened(span, documents[span.doc].text, more * FURTHER) for span in wanted]
    order = list(dict.fromkeys(span.doc for span in wanted))
    merged = _merged(sorted(wanted, key=lambda span: (order.index(span.doc), span.start)))
    return tuple(_passage(span, spans, documents[span.doc]) for span in merged)


def _widened(span: Span, text: str, by: int) -> Span:
    """``span`` and so many characters on both sides, then up to the ends of the lines if these are near."""
    start, end = max(0, span.start - by), min(len(text), span.end + by)
    line, after = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    after = len(text) if after < 0 else after
    return Span(span.doc, line if start - line <= AROUND else start, after if after - end <= AROUND else end)


def _merged(ordered: Sequence[Span]) -> list[Span]:
    """Passages that touch, or nearly, are one."""
    found: list[Span] = []
    for span in ordered:
        if found and found[-1].doc == span.doc and span.start <= found[-1].end + AROUND:
            last = found.pop()
            span = Span(last.doc, last.start, max(last.end, span.end))  # noqa: PLW2901
        found.append(span)
    return found


def _passage(shown: Span, spans: Sequence[Span], document: Document) -> ReviewPassage:
    cuts = {shown.start, shown.end}
    for span in spans:
        if span.doc == shown.doc:
            cuts |= {place for place in (span.start, span.end) if shown.start < place < shown.end}
    places = sorted(cuts)
    pieces = []
    for start, end in pairwise(places):
        marks = [at for at, s in enumerate(spans) if s.doc == shown.doc and s.start < end and start < s.end]
        pieces.append(MarkedText(start, document.text[start:end], tuple(marks)))
    whole = shown.start == 0 and shown.end == len(document.text)
    return ReviewPassage(document.id, document.title, shown.start, shown.end, whole, tuple(pieces))
