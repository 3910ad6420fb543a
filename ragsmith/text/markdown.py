"""Block structure of Markdown, as far as chunking needs it: headings, and the blocks between them.

Only ATX headings outside fenced code are recognised (CommonMark 0.31, section 4.2).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto


class BlockType(Enum):
    """The type of a block: chunking splits prose at sentences, lists and tables at line ends, fenced code at blank
    lines.
    """

    HEADING = auto()
    PROSE = auto()
    LINES = auto()  # a list
    TABLE = auto()
    CODE = auto()


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """The characters ``[start, end)`` without surrounding white space; only headings have ``level`` and ``heading``."""

    kind: BlockType
    start: int
    end: int
    level: int = 0
    heading: str = ""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line without its line end, and its offsets with it."""

    text: str
    start: int
    end: int

    @property
    def blank(self) -> bool:
        return not self.text.strip()


_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(?=\S)")
_CLOSING = re.compile(r"(?<!\S)#+$")
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])[ \t]+\S")
_TABLE_RULE = re.compile(r"(?:\|\s*)?:?-+:?\s*(?:\|\s*:?-+:?\s*)+\|?|\|\s*:?-+:?\s*\|")


def find_title(text: str) -> str | None:
    """Return the first heading of level 1, or ``None``."""
    return next((b.heading for b in parse_blocks(text) if b.kind is BlockType.HEADING and b.level == 1), None)


def parse_blocks(text: str) -> Iterator[MarkdownBlock]:
    """Yield the headings, paragraphs, lists, tables and fenced code of ``text``, in order.

    Every character that is not white space belongs to exactly one block.
    """
    lines = [_Line(m.group().rstrip("\r\n"), *m.span()) for m in _LINE.finditer(text)]
    first = 0
    while first < len(lines):
        if lines[first].blank:
            first += 1
        elif match := _HEADING.match(lines[first].text):
            heading = _CLOSING.sub("", lines[first].text[match.end() :].rstrip()).rstrip()
            yield _make_block(BlockType.HEADING, lines[first : first + 1], len(match[1]), heading)
            first += 1
        else:
            kind, end = _find_extent(lines, first)
            yield _make_block(kind, lines[first:end])
            first = end


def _make_block(kind: BlockType, lines: list[_Line], level: int = 0, heading: str = "") -> MarkdownBlock:
    first, last = lines[0], lines[-1]
    start = first.start + len(first.text) - len(first.text.lstrip())
    return MarkdownBlock(kind, start, last.start + len(last.text.rstrip()), level, heading)


def _find_extent(lines: list[_Line], at: int) -> tuple[BlockType, int]:
    """Return the type of the block that begins at line ``at``, and the line after its last visible one."""
    if _FENCE.match(lines[at].text):
        return BlockType.CODE, _trim_blank_lines(lines, at, _find_fence_end(lines, at))
    if _ITEM.match(lines[at].text):
        return BlockType.LINES, _trim_blank_lines(lines, at, _find_list_end(lines, at))
    if _begins_table(lines, at):
        return BlockType.TABLE, _find_paragraph_end(lines, at, in_table=True)
    return BlockType.PROSE, _find_paragraph_end(lines, at, in_table=False)


def _find_fence_end(lines: list[_Line], at: int) -> int:
    """Return the line after the closing fence; unclosed code extends to the end of the text."""
    opening = _FENCE.match(lines[at].text)
    fence = opening[1] if opening else ""
    closing = re.compile(rf"\s*{re.escape(fence[:1])}{{{len(fence)},}}\s*")
    for i in range(at + 1, len(lines)):
        if closing.fullmatch(lines[i].text):
            return i + 1
    return len(lines)


def _find_list_end(lines: list[_Line], at: int) -> int:
    """Return the line after a list: items, their indented content, and lazy continuation lines."""
    i = at
    while i < len(lines):
        line = lines[i]
        if _HEADING.match(line.text):
            break
        after_blank = i > at and lines[i - 1].blank
        if after_blank and not line.blank and not _ITEM.match(line.text) and not line.text.startswith(("  ", "\t")):
            break
        i = _find_fence_end(lines, i) if _FENCE.match(line.text) else i + 1
    return i


def _find_paragraph_end(lines: list[_Line], at: int, *, in_table: bool) -> int:
    """Return the line after a paragraph or a table."""
    for i in range(at + 1, len(lines)):
        line = lines[i]
        if line.blank or _HEADING.match(line.text) or _FENCE.match(line.text):
            return i
        if not in_table and (_ITEM.match(line.text) or _begins_table(lines, i)):
            return i
    return len(lines)


def _begins_table(lines: list[_Line], at: int) -> bool:
    """Whether a header row with its delimiter row begins at line ``at``."""
    following = lines[at + 1].text if at + 1 < len(lines) else ""
    return "|" in lines[at].text and bool(_TABLE_RULE.fullmatch(following.strip()))


def _trim_blank_lines(lines: list[_Line], at: int, after: int) -> int:
    """Return ``after`` without the blank lines before it."""
    while after > at + 1 and lines[after - 1].blank:
        after -= 1
    return after
