"""Split Markdown and plain text: headings delimit sections, in which whole blocks are merged up to the size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ragsmith.datasets.chunking.pieces import ChunkSlice, Extent, TextSlice, code, grouped, lines, majority, prose
from ragsmith.text.markdown import BlockType, MarkdownBlock, blocks
from ragsmith.types import Modality

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
    for number, section in enumerate(sections(text)):
        pieces = (
            TextSlice(start, end, _MODALITY.get(block.kind, Modality.PROSE))
            for block in section.blocks
            for start, end in _extents(text, block, size)
        )
        for group in grouped(pieces, size):
            yield ChunkSlice(group[0].start, group[-1].end, number, section.headings, majority(group))


def sections(text: str) -> Iterator[MarkdownSection]:
    """Yield the sections of a Markdown text that have content, in order."""
    path: list[tuple[int, str]] = []
    content: list[MarkdownBlock] = []
    titled = False
    for block in blocks(text):
        if block.kind is not BlockType.HEADING:
            content.append(block)
            continue
        if content:
            yield MarkdownSection(tuple(heading for _, heading in path), tuple(content))
            content = []
        while path and path[-1][0] >= block.level:
            path.pop()
        if block.level == 1 and not titled:
            titled = True  # every chunk has the title of the document
        else:
            path.append((block.level, block.heading))
    if content:
        yield MarkdownSection(tuple(heading for _, heading in path), tuple(content))


def _extents(text: str, block: MarkdownBlock, size: int) -> Iterable[Extent]:
    """Return a block whole if it fits, else split as suits its type."""
    if block.end - block.start <= size:
        return [(block.start, block.end)]
    cut = {BlockType.PROSE: prose, BlockType.CODE: code}.get(block.kind, lines)
    return cut(text, block.start, block.end, size)
