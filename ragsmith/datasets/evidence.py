"""Locate gold evidence in documents, and check its offsets.

Evidence has one of three forms: ``doc``, ``start``, ``end`` and ``text`` are checked against the document. ``text``,
with or without ``doc``, must occur exactly once, or in copies of one statement (`ragsmith.datasets.statements`), which
are then one piece of gold with several places. ``doc``, with or without a ``heading``, a ``page``, ``rows`` or
``lines`` (`ragsmith.datasets.places`), is coarse evidence: the whole text of that place; ``text`` with such a place
must occur exactly once in the place. ``any``, a list of such entries, is one piece of gold that stands in each of
these places.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragsmith.datasets.documents import Documents, copies_of, find_document_id, resolve_document_path
from ragsmith.datasets.places import PLACES, locate_place, whole_document_span
from ragsmith.datasets.statements import StatementIndex
from ragsmith.text.files import TextError, shorten
from ragsmith.text.jsonl import Record, key_problems, name_type, text_problems
from ragsmith.text.markdown import BlockType, parse_blocks
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Document, Modality, RepeatedSpan, Span, places_of

KEYS = ("doc", "start", "end", "text")
ANY = "any"
"""Key of evidence that stands in several places."""
MAX_LISTED_PLACES = 5
"""Maximum number of occurrences listed in a message about an ambiguous text."""

TEXT_DIFFERS = "text differs from document"
OUT_OF_RANGE = "is outside document"
"""Phrases in messages about wrong offsets, by which these are recognised."""


def count_moved(mistakes: Iterable[str]) -> int:
    """Count the mistakes about evidence whose offsets are wrong, as after an edit of documents."""
    return sum(TEXT_DIFFERS in mistake or OUT_OF_RANGE in mistake for mistake in mistakes)


def sort_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the distinct ``spans`` in the order of documents and offsets."""
    return tuple(sorted(set(spans), key=lambda span: (span.doc, span.start, span.end)))


def join_places(places: Iterable[Span]) -> Span:
    """Return one piece of gold that stands in all of these ``places``, of which there is at least one, in order."""
    first, *others = sort_spans(place for span in places for place in places_of(span))
    return RepeatedSpan(first.doc, first.start, first.end, tuple(others)) if others else first


def gold_record(gold: Span, texts: Mapping[str, str]) -> dict[str, object]:
    """Return evidence with offsets for ``gold``, with all its places; ``texts`` maps documents to their texts."""
    places = [evidence_record(place, texts[place.doc]) for place in places_of(gold)]
    return {"any": places} if len(places) > 1 else places[0]


def entry_places(entry: object) -> list[object]:
    """Return the entries of the places of an ``entry`` of evidence, which may be invalid; by default itself."""
    places = entry.get(ANY) if isinstance(entry, dict) else None
    return places if isinstance(places, list) else [entry]


def evidence_record(span: Span, text: str) -> dict[str, object]:
    """Return evidence with offsets for a ``span`` of the document with this ``text``."""
    return {"doc": span.doc, "start": span.start, "end": span.end, "text": text[span.start : span.end]}


class EvidenceChecker:
    """A checker that validates and locates evidence in ``documents``."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.headings = {
            document.id: [(b.start, b.end) for b in parse_blocks(document.text) if b.kind is BlockType.HEADING]
            for document in documents.values()
            if document is not None and document.modality is Modality.PROSE  # only prose has headings
        }
        readable = [document for document in documents.values() if document is not None]
        # Identical documents are merged, so their common text counts as one occurrence.
        self._distinct = list(
            {(document.text, document.modality): document for document in reversed(readable)}.values()
        )
        self._distinct.reverse()
        self._texts = {document.id: document.text for document in readable}
        self._names = {
            **{place: document.id for document in readable for place in copies_of(document)},
            **{id_: id_ for id_ in documents},
        }
        self._has_unreadable = len(readable) < len(documents)

    def spans(self, evidence: object) -> tuple[tuple[Span, ...], list[str]]:
        """Return the valid spans, sorted, and a message for each mistake."""
        if not isinstance(evidence, list):
            return (), [f"'evidence' must be a list, not {name_type(evidence)}"]
        spans: dict[Span, int] = {}
        problems: list[str] = []
        for number, entry in enumerate(evidence, start=1):
            span, mistakes = self.span(entry)
            if span is not None and spans.setdefault(span, number) != number:
                mistakes = [f"repeats evidence {spans[span]}; keep one of them"]
            problems.extend(f"evidence {number}: {problem}" for problem in mistakes)
        return sort_spans(spans), problems

    def span(self, entry: object) -> tuple[Span | None, list[str]]:
        """Return the span of one entry of ``evidence``, or its mistakes."""
        if not isinstance(entry, dict):
            return None, [f"must be an object with the keys {', '.join(KEYS)}, or 'text' alone, not {name_type(entry)}"]
        if ANY in entry:
            return self._join(entry)
        if lacks_offsets(entry):
            return self._locate(entry)
        return self._check_offsets(entry)

    def _join(self, entry: Record) -> tuple[Span | None, list[str]]:
        """Return the places of one piece of gold as one span."""
        problems = list(key_problems(entry, required=(ANY,)))
        listed = entry_places(entry)
        if len(listed) < 2 or any(isinstance(place, dict) and ANY in place for place in listed):
            problems.append(f"{ANY!r} must be a list of two or more places, each written as evidence of its own")
        if problems:
            return None, problems
        found = [self.span(place) for place in listed]
        problems = [f"place {number}: {problem}" for number, (_, each) in enumerate(found, start=1) for problem in each]
        places = [span for span, _ in found if span]
        if len({*places}) < len(places):
            problems.append(f"{ANY!r} has the same place twice; keep one of them")
        return (None if problems or len(places) < len(listed) else join_places(places)), problems

    def _check_offsets(self, entry: Record) -> tuple[Span | None, list[str]]:
        """Check evidence with offsets."""
        problems = [
            *key_problems(entry, required=KEYS),
            *text_problems(entry, ("doc", "text")),
            *_iter_offset_problems(entry),
        ]
        doc, start, end, text = (entry.get(key) for key in KEYS)
        if problems or not (isinstance(doc, str) and isinstance(start, int) and isinstance(end, int)):
            return None, problems
        span = Span(self._document_id(doc), start, end)
        if span.doc not in self.documents:
            return None, [_describe_unknown_document(doc, self.documents)]
        document = self.documents[span.doc]
        if document is None:  # its mistake is reported already
            return None, []
        if problem := _find_text_problem(span, str(text), document) or self._heading_problem(span):
            return None, [problem]
        return span, []

    def _locate(self, entry: Record) -> tuple[Span | None, list[str]]:
        """Locate evidence without offsets."""
        if problems := list(_iter_key_problems(entry)):
            return None, problems
        text = str(entry["text"]) if "text" in entry else None
        doc = str(entry.get("doc", ""))
        document = self.documents.get(id_ := self._document_id(doc))
        if "doc" in entry and document is None:  # an unreadable document is reported already
            return None, [] if id_ in self.documents else [_describe_unknown_document(doc, self.documents)]
        key = next((key for key in PLACES if key in entry), None)
        try:
            if document is None:
                return self._locate_unique(str(text), [_document_span(document) for document in self._distinct]), []
            place = locate_place(document, key, entry[key]) if key else whole_document_span(document)
            if text is not None:
                return self._locate_unique(text, [place if key else _document_span(document)], key), []
            return self._reject_heading(place), []
        except TextError as error:
            return None, [error.reason] if error.reason else []

    def _document_id(self, path: str) -> str:
        """Return the identifier of the document that evidence names by it, by its path, or by that of a copy."""
        name = resolve_document_path(path, self._names)
        return self._names.get(name, name)

    def _reject_heading(self, span: Span) -> Span:
        """Return ``span``; raise ``TextError`` if most of it is a heading."""
        if problem := self._heading_problem(span):
            raise TextError(problem)
        return span

    def _locate_unique(self, text: str, scopes: Sequence[Span], key: str | None = None) -> Span:
        """Locate ``text``, which must occur once in ``scopes``: spans of documents, or of a place of the kind ``key``.

        Occurrences in headings are ignored, as chunks have no headings. Raises ``TextError``.
        """
        occurrences = [
            Span(scope.doc, start, start + len(text))
            for scope in scopes
            for start in find_occurrences(text, self._texts[scope.doc], scope.start, scope.end)
        ]
        below = [span for span in occurrences if not self._heading_problem(span)]
        if copies := self._find_copies(text, below, scopes):
            return join_places(copies)
        if len(below) > 1:
            listed = ", ".join(f"[{span.start}, {span.end}) of {span.doc!r}" for span in below[:MAX_LISTED_PLACES])
            more = f" and {len(below) - MAX_LISTED_PLACES} more" if len(below) > MAX_LISTED_PLACES else ""
            raise TextError(
                f"the text {shorten(text)} occurs {len(below)} times: {listed}{more}; give more of the words around "
                f"it, or 'doc' and a place ('heading', 'page', 'rows', 'lines'), or all that say the same in {ANY!r}"
            )
        if not occurrences:
            raise TextError(self._describe_missing(text, scopes, key))
        return below[0] if below else self._reject_heading(occurrences[0])

    def _find_copies(self, text: str, occurrences: Sequence[Span], scopes: Sequence[Span]) -> list[Span]:
        """Return the places of ``text`` in ``scopes`` if all of its ``occurrences`` are in one repeated statement.

        Only documents with the same words are searched for copies with other white space or punctuation.
        """
        words = re.compile(r"\W+".join(re.findall(r"\w+", text)) or re.escape(text))
        holding = [scope for scope in scopes if words.search(self._texts[scope.doc], scope.start, scope.end)]
        if not occurrences or (len(holding) == len(occurrences) == 1):
            return []
        index = StatementIndex(document for scope in holding if (document := self.documents[scope.doc]))
        if len({index.text_of(span) for span in occurrences}) > 1:
            return []
        extents = {scope.doc: scope for scope in holding}
        copies = [
            place
            for place in index.copies(occurrences[0])
            if extents[place.doc].start <= place.start and place.end <= extents[place.doc].end
        ]
        return [occurrences[0], *copies] if copies else []

    def _describe_missing(self, text: str, scopes: Sequence[Span], key: str | None) -> str:
        """Return why ``text`` is not found; "" if it may be in an unreadable document, which is reported separately."""
        if len(scopes) == 1 and (document := self.documents[scopes[0].doc]):
            if key and text in document.text:
                return (
                    f"the text {shorten(text)} occurs in document {document.id!r}, but not at this {key!r}; correct one"
                )
            near = describe_near_miss(text, document) or _describe_absence(document)
            return f"the text {shorten(text)} is not found in document {document.id!r}: {near}"
        if self._has_unreadable:
            return ""
        near_misses = ((document.id, describe_near_miss(text, document)) for document in self._distinct)
        doc, why = next(((doc, near) for doc, near in near_misses if near), ("", ""))
        nearest = f": in {doc!r}, {why}" if why else "; copy the words of a document exactly"
        return f"the text {shorten(text)} occurs in no document{nearest}"

    def _heading_problem(self, span: Span) -> str | None:
        """Return a message if most of the span is a heading: chunks have no headings, so none would be relevant."""
        overlaps = (min(end, span.end) - max(start, span.start) for start, end in self.headings.get(span.doc, ()))
        if 2 * sum(overlap for overlap in overlaps if overlap > 0) <= span.end - span.start:
            return None
        return f"[{span.start}, {span.end}) of document {span.doc!r} is mostly a heading; mark the text below it"


def _document_span(document: Document) -> Span:
    return Span(document.id, 0, len(document.text))


def _iter_key_problems(entry: Record) -> Iterator[str]:
    """Yield the mistakes in the keys of evidence without offsets."""
    yield from key_problems(entry, required=(), optional=(*KEYS, *PLACES))
    yield from text_problems(entry, ("doc", "text"))
    places = [key for key in PLACES if key in entry]
    if len(places) > 1:
        yield f"gives {' and '.join(map(repr, places))}; keep one of them"
    if places and "doc" not in entry:
        yield f"{places[0]!r} is a place in a document; add 'doc'"
    elif "doc" not in entry and "text" not in entry:
        yield "has no position; give 'text', words that occur in one document once, or 'doc'"


def lacks_offsets(entry: Record) -> bool:
    """Whether evidence has no offsets."""
    return "start" not in entry and "end" not in entry


def _iter_offset_problems(entry: Record) -> Iterator[str]:
    for key in ("start", "end"):
        if key in entry and type(entry[key]) is not int:  # True and False are integers to isinstance
            yield f"{key!r} must be an integer, not {name_type(entry[key])}"


def _describe_unknown_document(doc: str, documents: Documents) -> str:
    if id_ := find_document_id(doc, documents):
        return f"{shorten(doc)} is a path; did you mean {id_!r}? write that, which is the identifier"
    return f"there is no document {shorten(doc)}; {did_you_mean(doc, documents)}"


def _find_text_problem(span: Span, text: str, document: Document) -> str | None:
    """Return why ``text`` is not at ``span``, and where it occurs."""
    at = f"[{span.start}, {span.end})"
    if span.start < 0 or span.end > len(document.text):
        length = len(document.text)
        return f"{at} {OUT_OF_RANGE} {span.doc!r} of {length} characters{_describe_occurrence(span, text, document)}"
    if span.start >= span.end:
        return f"{at} is empty: 'start' must be below 'end'{_describe_occurrence(span, text, document)}"
    found = document.text[span.start : span.end]
    if found == text:
        return None
    return f"{TEXT_DIFFERS} {span.doc!r} at {at}: found {shorten(found)}{_describe_occurrence(span, text, document)}"


def _describe_occurrence(span: Span, text: str, document: Document) -> str:
    """Return where ``text`` occurs in the document, or why it does not."""
    starts = find_occurrences(text, document.text)
    if starts:
        nearest = min(starts, key=lambda start: abs(start - span.start))
        which = f", the nearest of {len(starts)}" if len(starts) > 1 else ""
        return f"; the text is at [{nearest}, {nearest + len(text)}){which}"
    near = describe_near_miss(text, document)
    return f"; {near or _describe_absence(document)}"


def describe_near_miss(text: str, document: Document) -> str | None:
    """Return how ``text`` differs from the document if only in Unicode form or white space."""
    if text in document.text:
        return None
    if unicodedata.normalize("NFC", text) in unicodedata.normalize("NFC", document.text):
        return "the document has it in the other Unicode form (NFC or NFD): use the same form in both"
    if " ".join(text.split()) in " ".join(document.text.split()):
        return "only white space or line ends differ: copy the text exactly"
    return None


def _describe_absence(document: Document) -> str:
    """Return that a text does not occur in a document, with how the loaded text differs from the file."""
    if document.modality is Modality.TABLE:
        return "the text does not occur in the document, which is read as one line 'column: value; ...' a row"
    is_pdf = document.id.lower().endswith(".pdf")
    return f"the text does not occur in the document{', which is the text extracted from the PDF' if is_pdf else ''}"


def find_occurrences(text: str, source: str, start: int = 0, end: int | None = None) -> Sequence[int]:
    """Return the offsets of all occurrences of ``text`` in ``source[start:end]``; occurrences may overlap."""
    starts = []
    at = source.find(text, start, end)
    while at >= 0:
        starts.append(at)
        at = source.find(text, at + 1, end)
    return starts
