"""Check that gold evidence stands where it says it stands: every span against the text of its document."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from ragsmith.datasets.documents import Documents
from ragsmith.text.files import shown
from ragsmith.text.jsonl import Record, key_problems, kind, text_problems
from ragsmith.text.markdown import Kind, blocks
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Document, Modality, Span

KEYS = ("doc", "start", "end", "text")


class EvidenceChecker:
    """Compares evidence with the documents."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.headings = {
            document.id: [(b.start, b.end) for b in blocks(document.text) if b.kind is Kind.HEADING]
            for document in documents.values()
            if document is not None and document.modality is Modality.PROSE  # nothing else has Markdown's headings
        }

    def spans(self, evidence: object) -> tuple[tuple[Span, ...], list[str]]:
        """Return the spans that are right, sorted, and a sentence for everything that is wrong."""
        if not isinstance(evidence, list):
            return (), [f"'evidence' must be a list, not {kind(evidence)}"]
        if not evidence:
            return (), ["'evidence' is empty; give the passage that holds the answer"]
        spans: dict[Span, int] = {}
        problems: list[str] = []
        for number, entry in enumerate(evidence, start=1):
            span, found = self._span(entry)
            if span is not None and spans.setdefault(span, number) != number:
                found = [f"repeats evidence {spans[span]}; keep one of them"]
            problems.extend(f"evidence {number}: {problem}" for problem in found)
        return tuple(sorted(spans, key=lambda span: (span.doc, span.start, span.end))), problems

    def _span(self, entry: object) -> tuple[Span | None, list[str]]:
        if not isinstance(entry, dict):
            return None, [f"must be an object with the keys {', '.join(KEYS)}, not {kind(entry)}"]
        problems = [
            *key_problems(entry, required=KEYS),
            *text_problems(entry, ("doc", "text")),
            *_offset_problems(entry),
        ]
        doc, start, end, text = (entry.get(key) for key in KEYS)
        if problems or not (isinstance(doc, str) and isinstance(start, int) and isinstance(end, int)):
            return None, problems
        span = Span(unicodedata.normalize("NFC", doc), start, end)
        if span.doc not in self.documents:
            return None, [_unknown_document(doc, self.documents)]
        document = self.documents[span.doc]
        if document is None:  # its own mistake is reported already
            return None, []
        if problem := _text_problem(span, str(text), document) or self._heading_problem(span):
            return None, [problem]
        return span, []

    def _heading_problem(self, span: Span) -> str | None:
        """A chunk counts when it covers half of a span, and headings are in no chunk: such a span is never found."""
        overlaps = (min(end, span.end) - max(start, span.start) for start, end in self.headings.get(span.doc, ()))
        if 2 * sum(overlap for overlap in overlaps if overlap > 0) <= span.end - span.start:
            return None
        return f"[{span.start}, {span.end}) of document {span.doc!r} is mostly a heading; mark the text below it"


def _offset_problems(entry: Record) -> Iterator[str]:
    for key in ("start", "end"):
        if key in entry and type(entry[key]) is not int:  # True and False are integers to isinstance
            yield f"{key!r} must be an integer, not {kind(entry[key])}"


def _unknown_document(doc: str, documents: Documents) -> str:
    if "/" in doc or "\\" in doc:
        return f"{shown(doc)} is a path; name a document by its file name, without the ending of .md and .txt"
    return f"there is no document {shown(doc)}; {did_you_mean(doc, documents)}"


def _text_problem(span: Span, text: str, document: Document) -> str | None:
    """Return why ``text`` does not stand at ``span``, and where it does."""
    at = f"[{span.start}, {span.end})"
    if span.start < 0 or span.end > len(document.text):
        length = len(document.text)
        return f"{at} lies outside document {span.doc!r} of {length} characters{_elsewhere(span, text, document)}"
    if span.start >= span.end:
        return f"{at} is empty: 'start' must be below 'end'{_elsewhere(span, text, document)}"
    found = document.text[span.start : span.end]
    if found == text:
        return None
    return f"text differs from document {span.doc!r} at {at}: found {shown(found)}{_elsewhere(span, text, document)}"


def _elsewhere(span: Span, text: str, document: Document) -> str:
    """Return a hint at where ``text`` stands in the document, or at why it does not."""
    starts = occurrences(text, document.text)
    if starts:
        nearest = min(starts, key=lambda start: abs(start - span.start))
        which = f", the nearest of {len(starts)}" if len(starts) > 1 else ""
        return f"; the text stands at [{nearest}, {nearest + len(text)}){which}"
    if unicodedata.normalize("NFC", text) in unicodedata.normalize("NFC", document.text):
        return "; the document has it in the other Unicode form (NFC or NFD): use the same form in both"
    if " ".join(text.split()) in " ".join(document.text.split()):
        return "; only white space or line ends differ: copy the text exactly"
    return f"; the text stands nowhere in the document{_as_loaded(document)}"


def _as_loaded(document: Document) -> str:
    """Return what offsets point into where that is not what the file shows."""
    if document.modality is Modality.TABLE:
        return ", which is read as one line 'column: value; ...' a row"
    return ", which is the text extracted from the PDF" if document.id.lower().endswith(".pdf") else ""


def occurrences(text: str, whole: str, first: int = 0) -> Sequence[int]:
    """Return every offset of ``whole``, from ``first`` on, at which ``text`` stands; occurrences may overlap."""
    starts = []
    at = whole.find(text, first)
    while at >= 0:
        starts.append(at)
        at = whole.find(text, at + 1)
    return starts
