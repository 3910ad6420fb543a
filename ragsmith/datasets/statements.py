"""Find the places of a statement that documents repeat.

Passages are copies if their sentences are equal up to case, white space, punctuation and list marks, and have at least
eight words: shorter ones are often equal by chance. Table rows are no copies, as their meaning depends on the table. No
similarity is estimated, because a wrong copy would count wrong passages as right.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ragsmith.datasets.relevance import count_overlap
from ragsmith.text.folded import fold
from ragsmith.text.markdown import BlockType, MarkdownBlock, parse_blocks
from ragsmith.text.words import sentences
from ragsmith.types import Document, Modality, Span

MIN_WORDS = 8
"""Minimum number of words of a statement; the same as of evidence whose copies `ragsmith dataset check` reports."""

_LIST_NUMBER = re.compile(r"\s*\d+[.)]\s+")


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """The characters ``[start, end)`` of a document with their ``context``: headings and the header of a table."""

    start: int
    end: int
    context: str
    is_row: bool


def iter_parts(document: Document) -> Iterator[DocumentPart]:
    """Yield the parts of ``document`` that can be evidence, in order, without headings and separator rows."""
    markdown_blocks = list(parse_blocks(document.text)) if document.modality is Modality.PROSE else []
    headings = [block for block in markdown_blocks if block.kind is BlockType.HEADING]
    tables = [block for block in markdown_blocks if block.kind is BlockType.TABLE]
    above: list[MarkdownBlock] = []
    for start, end in sentences(document.text):
        while headings and headings[0].start <= start:
            above = [*(block for block in above if block.level < headings[0].level), headings.pop(0)]
        while tables and tables[0].end <= start:
            tables.pop(0)
        if (above and start < above[-1].end) or not any(map(str.isalnum, document.text[start:end])):
            continue
        table = tables[0] if tables and tables[0].start <= start else None
        head = document.text[table.start : table.end].split("\n", 1)[0] if table else ""
        context = " ".join([document.title, *(block.heading for block in above), head])
        yield DocumentPart(start, end, context, is_row=table is not None or document.modality is Modality.TABLE)


def fold_statement(text: str) -> str:
    """Return ``text`` without differences that do not make another statement, and without the number of a list item."""
    return fold(_LIST_NUMBER.sub("", text, count=1) if _LIST_NUMBER.match(text) else text).text


class StatementIndex:
    """An index of the statements of ``documents``, computed when they are asked for."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents: Mapping[str, Document] = {document.id: document for document in documents}
        self._statements: dict[str, list[tuple[Span, str | None]]] = {}

    def text_of(self, span: Span) -> str | None:
        """Return the folded sentences that ``span`` overlaps; None if they are too short, or rows of a table."""
        overlapped = [text for place, text in self._of(span.doc) if place.start < span.end and span.start < place.end]
        known = [text for text in overlapped if text is not None]
        text = " ".join(known)
        return text if known and len(known) == len(overlapped) and len(fold(text).words()) >= MIN_WORDS else None

    def copies(self, span: Span) -> tuple[Span, ...]:
        """Return the other places of the text of ``span`` in the same statement, in order."""
        statement = self.text_of(span)
        if statement is None:
            return ()
        quoted = fold_statement(self._documents[span.doc].text[span.start : span.end])
        found = (self._find(quoted, statement, *place) for place in self._places[_first_words(statement)])
        return tuple(place for place in found if place and not count_overlap(place, span))

    def _find(self, quoted: str, statement: str, doc: str, number: int) -> Span | None:
        """Return the place of ``quoted`` in the sentences of ``doc`` from ``number``, if these are ``statement``."""
        joined = ""
        for place, text in self._of(doc)[number:]:
            joined = f"{joined} {text}".strip()
            if not statement.startswith(joined):
                return None
            if joined == statement:
                start = self._of(doc)[number][0].start
                offsets = next(fold(self._documents[doc].text[start : place.end]).find(quoted), None)
                return Span(doc, start + offsets[0], start + offsets[1]) if offsets else None
        return None

    def _of(self, doc: str) -> list[tuple[Span, str | None]]:
        """Return the sentences of a document with their folded text, which rows of tables have not."""
        if doc not in self._statements:
            document = self._documents[doc]
            self._statements[doc] = [
                (
                    Span(doc, part.start, part.end),
                    None if part.is_row else fold_statement(document.text[part.start : part.end]),
                )
                for part in iter_parts(document)
            ]
        return self._statements[doc]

    @cached_property
    def _places(self) -> Mapping[tuple[str, ...], list[tuple[str, int]]]:
        """The documents and positions of the folded sentences by their first words."""
        places: defaultdict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
        for doc in self._documents:
            for number, (_, text) in enumerate(self._of(doc)):
                if text:
                    places[_first_words(text)].append((doc, number))
        return places


def _first_words(text: str) -> tuple[str, ...]:
    return tuple(text.split(" ", 3)[:3])
