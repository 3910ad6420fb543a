"""Cut Markdown and plain text: headings delimit sections, and whole blocks are packed within them while they fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ragsmith.datasets.chunking.pieces import Extent, Part, Piece, code, grouped, lines, majority, prose
from ragsmith.text.markdown import Block, Kind, blocks
from ragsmith.types import Modality

_MODALITY: Mapping[Kind, Modality] = MappingProxyType({Kind.CODE: Modality.CODE, Kind.TABLE: Modality.TABLE})


@dataclass(frozen=True, slots=True)
class Section:
    """The blocks under one heading; ``headings`` is the path below the document's title."""

    headings: tuple[str, ...]
    blocks: tuple[Block, ...]


def cut_markdown(text: str, size: int) -> Iterator[Part]:
    """Yield the parts of a Markdown text; headings are in none of them."""
    for number, section in enumerate(sections(text)):
        pieces = (
            Piece(start, end, _MODALITY.get(block.kind, Modality.PROSE))
            for block in section.blocks
            for start, end in _extents(text, block, size)
        )
        for group in grouped(pieces, size):
            yield Part(group[0].start, group[-1].end, number, section.headings, majority(group))


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


def _extents(text: str, block: Block, size: int) -> Iterable[Extent]:
    """Return a block whole if it fits, else cut where that kind of block is hurt least."""
    if block.end - block.start <= size:
        return [(block.start, block.end)]
    cut = {Kind.PROSE: prose, Kind.CODE: code}.get(block.kind, lines)
    return cut(text, block.start, block.end, size)
