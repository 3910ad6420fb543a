"""Split documents into chunks: contiguous slices along the structure of text, source code or tables."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import MappingProxyType

from ragsmith.datasets.chunking.pieces import (
    ChunkSlice,
    Extent,
    TextSlice,
    balance_units,
    group_slices,
    majority_modality,
    split_code,
    split_lines,
    split_long_units,
    split_prose,
    visible_lines,
)
from ragsmith.datasets.chunking.source import cut_source
from ragsmith.datasets.document_types.tables import CELL_SEPARATOR
from ragsmith.errors import UsageError
from ragsmith.text.markdown import BlockType, MarkdownBlock, parse_blocks
from ragsmith.types import Chunk, Document, Modality

_MODALITY: Mapping[BlockType, Modality] = MappingProxyType(
    {BlockType.CODE: Modality.CODE, BlockType.TABLE: Modality.TABLE}
)


@dataclass(frozen=True, slots=True)
class MarkdownSection:
    """The blocks below a heading; ``headings`` is the path without the title of the document."""

    headings: tuple[str, ...]
    blocks: tuple[MarkdownBlock, ...]


def cut_markdown(text: str, size: int) -> Iterator[ChunkSlice]:
    """Yield the chunks of a Markdown text, without headings."""
    for number, section in enumerate(iter_sections(text)):
        pieces = (
            TextSlice(start, end, _MODALITY.get(block.kind, Modality.PROSE))
            for block in section.blocks
            for start, end in _split_block(text, block, size)
        )
        for group in group_slices(pieces, size):
            yield ChunkSlice(group[0].start, group[-1].end, number, section.headings, majority_modality(group))


def iter_sections(text: str) -> Iterator[MarkdownSection]:
    """Yield the sections of a Markdown text that have content, in order."""
    path: list[tuple[int, str]] = []
    content: list[MarkdownBlock] = []
    titled = False
    for block in parse_blocks(text):
        if block.kind is not BlockType.HEADING:
            content.append(block)
            continue
        if content:
            yield MarkdownSection(tuple(heading for _, heading in path), tuple(content))
            content = []
        while path and path[-1][0] >= block.level:
            path.pop()
        if block.level == 1 and not titled:
            titled = True  # the title of the document is in every chunk
        else:
            path.append((block.level, block.heading))
    if content:
        yield MarkdownSection(tuple(heading for _, heading in path), tuple(content))


def _split_block(text: str, block: MarkdownBlock, size: int) -> Iterable[Extent]:
    """Return the extents of a block: the whole block if it fits, else its pieces."""
    if block.end - block.start <= size:
        return [(block.start, block.end)]
    cut = {BlockType.PROSE: split_prose, BlockType.CODE: split_code}.get(block.kind, split_lines)
    return cut(text, block.start, block.end, size)


_CELL = re.compile(rf"\S.*?(?:{CELL_SEPARATOR.rstrip()}(?=\s)|$)", re.DOTALL)


def cut_table(text: str, size: int) -> Iterator[ChunkSlice]:
    """Yield the chunks of a table with a line for each row: ``column: value; column: value``."""
    for group in group_slices(_iter_rows(text, size), size, apart=True):
        yield ChunkSlice(group[0].start, group[-1].end, 0, (), Modality.TABLE)


def _iter_rows(text: str, size: int) -> Iterator[TextSlice]:
    for at, end in visible_lines(text, 0, len(text)):
        start = end - len(text[at:end].lstrip())
        if end - start <= size:
            yield TextSlice(start, end)
        else:
            cells = (match.span() for match in _CELL.finditer(text, start, end))
            parts = balance_units(split_long_units(text, cells, size), end, size)
            yield from (TextSlice(*part, whole=False) for part in parts)


DEFAULT_SIZE = 900
"""Default maximum size of a chunk, in characters."""

_WORD_START = re.compile(r"(?<!\S)\S")


def chunk_documents(documents: Sequence[Document], *, size: int = DEFAULT_SIZE) -> tuple[Chunk, ...]:
    """Return the chunks of all documents, in the order of documents and text.

    A chunk has at most ``size`` characters. Chunks do not overlap, and every visible character is in exactly one,
    except headings of a text. Identifiers are like ``document#0003``. Raises ``UsageError`` for a size below 1.
    """
    if size < 1:
        raise UsageError(f"a chunk size of {size} characters is too small; give at least 1")
    return tuple(chunk for document in documents for chunk in _iter_chunks(document, size))


def cut_documents(documents: Sequence[Document], size: int, overlap: int = 0) -> tuple[Chunk, ...]:
    """Return the chunks of ``chunk_documents``, each extended by up to ``overlap`` preceding characters.

    Extended chunks begin with a whole word of the same section, and do not start before the previous chunk.
    """
    chunks = chunk_documents(documents, size=size)
    if not overlap:
        return chunks
    texts = {document.id: document.text for document in documents}
    found = []
    for before, chunk in zip((None, *chunks), chunks, strict=False):
        start = chunk.start
        if before is not None and (before.doc, before.section) == (chunk.doc, chunk.section):
            word = _WORD_START.search(texts[chunk.doc], max(before.start, start - overlap), start)
            start = word.start() if word else start
        found.append(replace(chunk, start=start, text=texts[chunk.doc][start : chunk.end]))
    return tuple(found)


def section_starts(document: Document) -> list[int]:
    """Return the sorted offsets of the sections of a document, for chunks of the default size."""
    starts: dict[int, int] = {}
    for part in _cut_document(document, DEFAULT_SIZE):
        starts.setdefault(part.section, part.start)
    return list(starts.values())


def _cut_document(document: Document, size: int) -> Iterator[ChunkSlice]:
    if document.modality is Modality.CODE:
        return cut_source(document.text, size, PurePath(document.id).suffix.lower())
    return (cut_table if document.modality is Modality.TABLE else cut_markdown)(document.text, size)


def _iter_chunks(document: Document, size: int) -> Iterator[Chunk]:
    for index, part in enumerate(_cut_document(document, size)):
        yield Chunk(
            id=f"{document.id}#{index:04d}",
            doc=document.id,
            index=index,
            start=part.start,
            end=part.end,
            text=document.text[part.start : part.end],
            title=document.title,
            headings=part.headings,
            section=part.section,
            modality=part.modality,
            language=document.language,
        )
