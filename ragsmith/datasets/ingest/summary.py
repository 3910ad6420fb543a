"""Statistics of ingested documents, and chunk sizes that suit their paragraphs and sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from ragsmith.datasets.chunking.chunking import section_starts
from ragsmith.datasets.ingest.ingest import IngestResult
from ragsmith.text.markdown import BlockType, blocks
from ragsmith.types import Modality

WHOLE_PARAGRAPHS, WHOLE_SECTIONS = 0.9, 0.75
"""Shares of the paragraphs and of the sections that fit into a chunk of the smaller and the larger size."""

SMALLEST, LARGEST, STEP = 300, 2_400, 100
"""Chunk sizes in characters: smaller ones have too little context, larger ones exceed the embedded models' input."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of the documents in a data set; ``kinds`` counts files, ``languages`` documents by language code.

    ``tables`` are table documents and tables within prose. ``paragraphs`` and ``sections`` are quantiles of their
    lengths in characters at `WHOLE_PARAGRAPHS` and `WHOLE_SECTIONS`, 0 without any.
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
    """Return the statistics of ingested documents."""
    headings = tables = 0
    paragraphs: list[int] = []
    sections: list[int] = []
    for document in taken.documents:
        borders = [*section_starts(document), len(document.text)]
        sections.extend(after - start for start, after in pairwise(borders))
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
    """Return one or two chunk sizes for these lengths of paragraphs and sections, rounded up and bounded."""
    found = [min(LARGEST, max(SMALLEST, STEP * ceil(length / STEP))) for length in (paragraphs, sections) if length]
    return tuple(sorted(set(found)))


def _within(lengths: Sequence[int], share: float) -> int:
    """Return the quantile of ``lengths`` at ``share``, 0 without any."""
    return sorted(lengths)[ceil(share * len(lengths)) - 1] if lengths else 0
