"""Split documents into chunks: contiguous slices along the structure of text, source code or tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath

from ragsmith.datasets.chunking.markdown import cut_markdown
from ragsmith.datasets.chunking.pieces import ChunkSlice
from ragsmith.datasets.chunking.source import cut_source
from ragsmith.datasets.chunking.tables import cut_table
from ragsmith.errors import UsageError
from ragsmith.types import Chunk, Document, Modality

DEFAULT_SIZE = 900

_WORD_START = re.compile(r"(?<!\S)\S")


def chunk_documents(documents: Sequence[Document], *, size: int = DEFAULT_SIZE) -> tuple[Chunk, ...]:
    """Return the chunks of all documents, in the order of documents and text.

    A chunk has at most ``size`` characters. Chunks do not overlap, and every visible character is in exactly one,
    except headings of a text. Identifiers are like ``document#0003``. Raises ``UsageError`` for a size below 1.
    """
    if size < 1:
        raise UsageError(f"a chunk size of {size} characters is too small; give at least 1")
    return tuple(chunk for document in documents for chunk in _chunks(document, size))


def cut_documents(documents: Sequence[Document], size: int, overlap: int = 0) -> tuple[Chunk, ...]:
    """Return the chunks of ``chunk_documents``, each extended by up to ``overlap`` characters of the one before.

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
    """Return the offsets of the sections of a document, sorted, as chunks of the default size number them."""
    starts: dict[int, int] = {}
    for part in _parts(document, DEFAULT_SIZE):
        starts.setdefault(part.section, part.start)
    return list(starts.values())


def _parts(document: Document, size: int) -> Iterator[ChunkSlice]:
    if document.modality is Modality.CODE:
        return cut_source(document.text, size, PurePath(document.id).suffix.lower())
    return (cut_table if document.modality is Modality.TABLE else cut_markdown)(document.text, size)


def _chunks(document: Document, size: int) -> Iterator[Chunk]:
    for index, part in enumerate(_parts(document, size)):
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
