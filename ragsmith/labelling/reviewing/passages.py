"""Passages for reviewers: the text around the evidence of a draft, with the quotes marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragsmith.types import Document, Span, TitledSpan

CONTEXT_CHARACTERS = 300
"""Minimum number of characters shown before and after a quote, unless the document ends."""

EXPANSION_CHARACTERS = 1200
"""Characters added at both ends of a passage with each request for more."""


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A piece of a passage within the same quotes; ``marks`` are the indices of these in the spans."""

    start: int
    text: str
    marks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReviewPassage(TitledSpan):
    """The characters ``[start, end)`` of a document, in pieces; ``whole`` if that is the entire document."""

    whole: bool
    pieces: tuple[MarkedText, ...]

    @property
    def text(self) -> str:
        """The passage without marks."""
        return "".join(piece.text for piece in self.pieces)


def make_passages(
    spans: Sequence[Span], sources: Sequence[Span], documents: Mapping[str, Document], more: int = 0
) -> tuple[ReviewPassage, ...]:
    """Return the passages with the quotes ``spans`` and the ``sources`` of the draft, without overlaps.

    ``more`` is the number of requests for more text.
    """
    wanted = [_widen(span, documents[span.doc].text, CONTEXT_CHARACTERS) for span in spans if span.doc in documents]
    wanted += [_widen(span, documents[span.doc].text, 0) for span in sources if span.doc in documents]
    if more:
        wanted = [_widen(span, documents[span.doc].text, more * EXPANSION_CHARACTERS) for span in wanted]
    order = list(dict.fromkeys(span.doc for span in wanted))
    merged = _merge(sorted(wanted, key=lambda span: (order.index(span.doc), span.start)))
    return tuple(_make_passage(span, spans, documents[span.doc]) for span in merged)


def _widen(span: Span, text: str, by: int) -> Span:
    """Extend ``span`` by a number of characters on both sides, and then to the ends of lines if these are near."""
    start, end = max(0, span.start - by), min(len(text), span.end + by)
    line, after = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    after = len(text) if after < 0 else after
    return Span(
        span.doc,
        line if start - line <= CONTEXT_CHARACTERS else start,
        after if after - end <= CONTEXT_CHARACTERS else end,
    )


def _merge(ordered: Sequence[Span]) -> list[Span]:
    """Merge passages that overlap, touch or are close to each other."""
    found: list[Span] = []
    for span in ordered:
        if found and found[-1].doc == span.doc and span.start <= found[-1].end + CONTEXT_CHARACTERS:
            last = found.pop()
            span = Span(last.doc, last.start, max(last.end, span.end))  # noqa: PLW2901
        found.append(span)
    return found


def _make_passage(shown: Span, spans: Sequence[Span], document: Document) -> ReviewPassage:
    marked = [(at, span) for at, span in enumerate(spans) if span.doc == shown.doc]
    ends = {place for _, span in marked for place in (span.start, span.end) if shown.start < place < shown.end}
    pieces = [
        MarkedText(start, document.text[start:end], tuple(at for at, s in marked if s.start < end and start < s.end))
        for start, end in pairwise(sorted({shown.start, shown.end} | ends))
    ]
    whole = shown.start == 0 and shown.end == len(document.text)
    return ReviewPassage(document.id, document.title, shown.start, shown.end, whole, tuple(pieces))
