"""Statistics of ingested documents, and chunk sizes that suit their paragraphs and sections."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from ragsmith.datasets.chunking.chunking import section_starts
from ragsmith.datasets.ingest.ingest import IngestResult
from ragsmith.text.markdown import BlockType, parse_blocks
from ragsmith.types import Modality

PARAGRAPH_QUANTILE, SECTION_QUANTILE = 0.9, 0.75
"""Shares of paragraphs and of sections that fit into a chunk of the smaller and of the larger suggested size."""

MIN_CHUNK_SIZE, MAX_CHUNK_SIZE, CHUNK_SIZE_STEP = 300, 2_400, 100
"""Bounds and step of suggested chunk sizes, in characters: smaller chunks have too little context, larger ones exceed
the input of embedding models."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of the documents in a data set; ``kinds`` counts files, ``languages`` documents by language code.

    ``tables`` are table documents and tables within prose. ``paragraphs`` and ``sections`` are quantiles of their
    lengths, in characters, at `PARAGRAPH_QUANTILE` and `SECTION_QUANTILE`, 0 without any.
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


def summarise(result: IngestResult) -> Summary:
    """Return the statistics of ingested documents."""
    headings = tables = 0
    paragraphs: list[int] = []
    sections: list[int] = []
    for document in result.documents:
        borders = [*section_starts(document), len(document.text)]
        sections.extend(after - start for start, after in pairwise(borders))
        if document.modality is Modality.TABLE:
            tables += 1
            paragraphs.extend(map(len, document.text.splitlines()))
        elif document.modality is Modality.PROSE:
            for block in parse_blocks(document.text):
                headings += block.kind is BlockType.HEADING
                tables += block.kind is BlockType.TABLE
                paragraphs.extend([block.end - block.start] if block.kind is BlockType.PROSE else [])
    fine, coarse = _quantile(paragraphs, PARAGRAPH_QUANTILE), _quantile(sections, SECTION_QUANTILE)
    return Summary(
        documents=len(result.documents),
        characters=sum(len(document.text) for document in result.documents),
        words=sum(len(document.text.split()) for document in result.documents),
        headings=headings,
        tables=tables,
        kinds=dict(sorted(Counter(file.kind for file in result.files if file.kind).items())),
        languages=dict(sorted(Counter(document.language for document in result.documents).items())),
        paragraphs=fine,
        sections=coarse,
        chunk_sizes=suggest_chunk_sizes(fine, coarse),
    )


def suggest_chunk_sizes(paragraphs: int, sections: int) -> tuple[int, ...]:
    """Return one or two chunk sizes for these lengths of paragraphs and sections, rounded up and bounded."""
    rounded = [CHUNK_SIZE_STEP * ceil(length / CHUNK_SIZE_STEP) for length in (paragraphs, sections) if length]
    return tuple(sorted({min(MAX_CHUNK_SIZE, max(MIN_CHUNK_SIZE, size)) for size in rounded}))


def _quantile(lengths: Sequence[int], share: float) -> int:
    """Return the quantile of ``lengths`` at ``share``, 0 without any."""
    return sorted(lengths)[ceil(share * len(lengths)) - 1] if lengths else 0
