"""Blocks of a Markdown text."""

import pytest

from ragsmith.text.markdown import BlockType, find_title, parse_blocks


def shape(text):
    return [(block.kind.name, text[block.start : block.end]) for block in parse_blocks(text)]


def test_headings_paragraphs_lists_tables_and_code():
    text = (
        "# Title\n\nA paragraph\nof two lines.\n- item one\n- item two\n\n  more of two\n\n- item three\n\nAfter.\n"
        "## Table ##\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\n# not a heading\n\nx = 1\n```\nEnd"
    )
    assert shape(text) == [
        ("HEADING", "# Title"),
        ("PROSE", "A paragraph\nof two lines."),
        ("LINES", "- item one\n- item two\n\n  more of two\n\n- item three"),
        ("PROSE", "After."),
        ("HEADING", "## Table ##"),
        ("TABLE", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("CODE", "```python\n# not a heading\n\nx = 1\n```"),
        ("PROSE", "End"),
    ]


@pytest.mark.parametrize(
    ("line", "level", "heading"),
    [
        ("# A", 1, "A"),
        ("###### A b", 6, "A b"),
        ("   ## A ##", 2, "A"),
        ("# A#", 1, "A#"),
        ("#\tC#", 1, "C#"),
        ("# #x", 1, "#x"),
    ],
)
def test_atx_headings(line, level, heading):
    (block,) = parse_blocks(line)
    assert (block.kind, block.level, block.heading) == (BlockType.HEADING, level, heading)


@pytest.mark.parametrize("line", ["#A", "####### A", "    # A", "a # b", "== A ==", "#"])
def test_what_is_no_heading(line):
    assert [block.kind for block in parse_blocks(line)] == [BlockType.PROSE]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# a\n```",
        "~~~\n# a\n```\n# b\n~~~",
        "````\n# a\n```\n# b\n````",
        "- x\n\n      ```\n# a\n      ```",
        "```\n# never closed",
    ],
)
def test_no_heading_inside_fenced_code(text):
    assert BlockType.HEADING not in [block.kind for block in parse_blocks(text)]


def test_inline_code_is_not_a_fence():
    assert shape("```x``` y\n# A")[1] == ("HEADING", "# A")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_line_ends(end):
    assert shape(f"# A{end}{end}b{end}{end}c") == [("HEADING", "# A"), ("PROSE", "b"), ("PROSE", "c")]


def test_the_title_is_the_first_heading_of_level_one():
    assert find_title("## No\n\n```\n# no\n```\n# Yes\n# Later") == "Yes"
    assert find_title("plain") is None


@pytest.mark.parametrize(
    "line", ["# a" + " " * 200_000 + "b", " " * 200_000 + "|", "`" * 200_000, "-" * 200_000 + "|x", "| - " * 50_000]
)
def test_hostile_lines_do_not_hang(line):
    text = f"a | b\n{line}\n{line}"
    visible = sum(len(text[block.start : block.end].replace("\n", "").replace(" ", "")) for block in parse_blocks(text))
    assert visible == len(text.replace("\n", "").replace(" ", ""))
