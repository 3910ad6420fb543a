"""The parts of documents that may answer a question: sentences, table rows and lines of code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ragsmith.datasets.anchoring.folded import fold
from ragsmith.text.markdown import BlockType, MarkdownBlock, blocks
from ragsmith.text.words import sentences, terms
from ragsmith.types import Document, Modality


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """The characters ``[start, end)`` of a document with their ``context``: headings and the header of a table."""

    start: int
    end: int
    context: str
    is_row: bool


def document_parts(document: Document) -> Iterator[DocumentPart]:
    """Yield the parts of ``document`` that can be evidence, in order: no headings or separator rows of tables."""
    found = list(blocks(document.text)) if document.modality is Modality.PROSE else []
    headings = [block for block in found if block.kind is BlockType.HEADING]
    tables = [block for block in found if block.kind is BlockType.TABLE]
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


def comparison_terms(text: str, read: Callable[[str], Iterable[str]] = terms) -> frozenset[str]:
    """Return the terms of a text as ``read`` finds them, and its numbers without commas."""
    numbers = {word.replace(",", "") for word, _, _ in fold(text).words() if any(map(str.isdecimal, word))}
    return frozenset(term for term in read(text) if not term.isdecimal()) | numbers


def number_words(words: frozenset[str]) -> frozenset[str]:
    """Return the ``words`` that have a digit."""
    return frozenset(word for word in words if any(map(str.isdecimal, word)))
