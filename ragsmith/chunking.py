"""Cut documents into chunks: contiguous slices that follow the document's own structure.

Headings delimit sections and are not part of a chunk's text. Within a section, whole paragraphs, lists, tables and code
are packed while they fit; what is longer than a chunk is cut where it hurts least.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragsmith.errors import UsageError
from ragsmith.markdown import Block, Kind, blocks
from ragsmith.text import sentences
from ragsmith.types import Chunk, Document

DEFAULT_SIZE = 900

Extent = tuple[int, int]

_INLINE_HEADING = re.compile(r"(={2,6}) .+ \1")
_LINE = re.compile(r"[^\r\n]+")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Section:
    """The blocks under one heading; ``headings`` is the path below the document's title."""

    headings: tuple[str, ...]
    blocks: tuple[Block, ...]


def chunk_documents(documents: Sequence[Document], *, size: int = DEFAULT_SIZE) -> tuple[Chunk, ...]:
    """Return the chunks of all documents, in the order of documents and text.

    ``size`` is the most characters a chunk may have. Chunks do not overlap, and every visible character outside
    headings lies in exactly one. The identifier is ``document#0003``. Raises ``UsageError`` for a size below 1.
    """
    if size < 1:
        raise UsageError(f"a chunk size of {size} characters is too small; give at least 1")
    return tuple(chunk for document in documents for chunk in _chunks(document, size))


def sections(text: str) -> Iterator[Section]:
    """Yield the sections of a Markdown text that have content, in order."""
    path: list[tuple[int, str]] = []
    content: list[Block] = []
    titled = False
    for block in blocks(text):
        if block.kind is not Kind.HEADING:
            content.append(block)
            continue
        if content:
            yield Section(tuple(heading for _, heading in path), tuple(content))
            content = []
        while path and path[-1][0] >= block.level:
            path.pop()
        if block.level == 1 and not titled:
            titled = True  # the document's title is on every chunk already
        else:
            path.append((block.level, block.heading))
    if content:
        yield Section(tuple(heading for _, heading in path), tuple(content))


def _chunks(document: Document, size: int) -> Iterator[Chunk]:
    index = 0
    for section in sections(document.text):
        pieces = (piece for block in section.blocks for piece in _pieces(document.text, block, size))
        for start, end in _pack(pieces, size):
            yield Chunk(
                id=f"{document.id}#{index:04d}",
                doc=document.id,
                index=index,
                start=start,
                end=end,
                text=document.text[start:end],
                title=document.title,
                headings=section.headings,
            )
            index += 1


def _pieces(text: str, block: Block, size: int) -> Iterable[Extent]:
    """Return a block whole if it fits, else cut at the ends of lines or sentences, then at spaces, then anywhere."""
    if block.end - block.start <= size:
        return [(block.start, block.end)]
    units = _lines(text, block, size) if block.kind is Kind.LINES else _sentences(text, block.start, block.end)
    return _level(_within(text, units, size), block.end, size)


def _lines(text: str, block: Block, size: int) -> Iterator[Extent]:
    """Yield the lines of a block, and the sentences of a line that is too long."""
    for line in _LINE.finditer(text, block.start, block.end):
        if not (visible := line.group().strip()):
            continue
        start = line.start() + line.group().index(visible)
        end = start + len(visible)
        yield from [(start, end)] if end - start <= size else _sentences(text, start, end)


def _sentences(text: str, first: int, last: int) -> Iterator[Extent]:
    """Yield the sentences; a heading inside the line (``== So ==``) goes with the sentence after it."""
    heading: int | None = None
    for start, end in sentences(text[first:last]):
        begin = first + start if heading is None else heading
        if _INLINE_HEADING.fullmatch(text, first + start, first + end):
            heading = begin
            continue
        yield begin, first + end
        heading = None
    if heading is not None:
        yield heading, last


def _within(text: str, units: Iterable[Extent], size: int) -> Iterator[Extent]:
    """Cut units that are too long at spaces, and words that are too long after ``size`` characters."""
    for start, end in units:
        if end - start <= size:
            yield start, end
            continue
        words = (word.span() for word in _WORD.finditer(text, start, end))
        parts = ((at, min(at + size, last)) for first, last in words for at in range(first, last, size))
        yield from _pack(parts, size)


def _level(units: Iterable[Extent], last: int, size: int) -> Iterator[Extent]:
    """Join units to pieces of about equal length up to ``last``: a block just over the size leaves no crumb."""
    current: Extent | None = None
    aim = 0.0
    for start, end in units:
        if current is not None:
            short, long = current[1] - current[0], end - current[0]
            if long <= size and long - aim < aim - short:
                current = (current[0], end)
                continue
            yield current
        current = (start, end)
        aim = (last - start) / -(-(last - start) // size)
    if current is not None:
        yield current


def _pack(pieces: Iterable[Extent], size: int) -> Iterator[Extent]:
    """Join neighbours greedily while they fit into ``size`` characters together."""
    current: Extent | None = None
    for start, end in pieces:
        if current is not None and end - current[0] <= size:
            current = (current[0], end)
            continue
        if current is not None:
            yield current
        current = (start, end)
    if current is not None:
        yield current
