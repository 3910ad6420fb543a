"""What an intake found, in numbers, and which chunk sizes go with the lengths of its paragraphs and sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from ragsmith.datasets.chunking.chunking import section_starts
from ragsmith.datasets.ingest.ingest import IngestResult
from ragsmith.text.markdown import BlockType, blocks
from ragsmith.types import Document, Modality

WHOLE_PARAGRAPHS, WHOLE_SECTIONS = 0.9, 0.75
"""Shares of the paragraphs, and of the sections, that stay whole at the smaller and at the larger size."""

SMALLEST, LARGEST, STEP = 300, 2_400, 100
"""Chunk sizes in characters: below there is too little to go by, beyond the embedded models read no further."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Numbers of what is in a data set now; ``kinds`` count files, ``languages`` documents by their code.

    ``tables`` are table documents and those within prose. ``paragraphs`` and ``sections`` are the lengths in characters
    that the shares `WHOLE_PARAGRAPHS` and `WHOLE_SECTIONS` of them stay within, 0 where there are none.
    """

    documents: int
    characters: int
    words: int
    headings: int
    tables: int
    kinds: Mapping[str, int]
    languages: Mapping[str, int]
    paragraphs: int
    sections: int
    chunk_sizes: tuple[int, ...]


def summarise(taken: IngestResult) -> Summary:
    """Count what is in the documents of an intake."""
    headings = tables = 0
    paragraphs: list[int] = []
    sections: list[int] = []
    for document in taken.documents:
        sections.extend(_sections(document))
        if document.modality is Modality.TABLE:
            tables += 1
            paragraphs.extend(map(len, document.text.splitlines()))
        elif document.modality is Modality.PROSE:
            for block in blocks(document.text):
                headings += block.kind is BlockType.HEADING
                tables += block.kind is BlockType.TABLE
                paragraphs.extend([block.end - block.start] if block.kind is BlockType.PROSE else [])
    fine, coarse = _within(paragraphs, WHOLE_PARAGRAPHS), _within(sections, WHOLE_SECTIONS)
    return Summary(
        documents=len(taken.documents),
        characters=sum(len(document.text) for document in taken.documents),
        words=sum(len(document.text.split()) for document in taken.documents),
        headings=headings,
        tables=tables,
        kinds=dict(sorted(Counter(file.kind for file in taken.files if file.kind).items())),
        languages=dict(sorted(Counter(document.language for document in taken.documents).items())),
        paragraphs=fine,
        sections=coarse,
        chunk_sizes=chunk_sizes(fine, coarse),
    )


def chunk_sizes(paragraphs: int, sections: int) -> tuple[int, ...]:
    """Return the one or two sizes that suit: of most paragraphs, and of most sections, in steps and within bounds."""
    found = [min(LARGEST, max(SMALLEST, STEP * ceil(length / STEP))) for length in (paragraphs, sections) if length]
    return tuple(sorted(set(found)))


def _sections(document: Document) -> Iterator[int]:
    starts = section_starts(document)
    yield from (after - start for start, after in pairwise([*starts, len(document.text)]))


def _within(lengths: Sequence[int], share: float) -> int:
    """The least length that this share of the lengths does not exceed."""
    return sorted(lengths)[ceil(share * len(lengths)) - 1] if lengths else 0
