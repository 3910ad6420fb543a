# ruff: noqa: E501 - programs stand on one line each, so that they can be compared
"""Source code of any language is cut at its definitions, and every chunk says in which of them it lies."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.datasets.chunking.chunking import chunk_documents, section_starts
from ragsmith.types import Chunk, Document, Modality, Span

PYTHON = dedent('''\
    """Pumps."""

    import os


    # Everything that moves water.
    @final
    class Pump:
        """A pump."""

        # Air must be out.
        def prime(self):
            return os.fill()

        async def run(self):
            return 2


    if os:
        def drain():
            pass
    ''')


def chunks(text: str, size: int = 900, name: str = "a.py") -> tuple[Chunk, ...]:
    return chunk_documents([Document(name, name, text, Modality.CODE)], size=size)


def shape(text: str, size: int, name: str) -> list[tuple[int, tuple[str, ...], str]]:
    return [(chunk.section, chunk.headings, chunk.text) for chunk in chunks(text, size, name)]


def test_python_is_cut_at_definitions_with_what_stands_right_above_them() -> None:
    assert shape(PYTHON, 70, "a.py") == [
        (0, (), '"""Pumps."""\n\nimport os'),
        (1, ("class Pump",), '# Everything that moves water.\n@final\nclass Pump:\n    """A pump."""'),
        (1, ("class Pump", "def prime"), "    # Air must be out.\n    def prime(self):\n        return os.fill()"),
        (1, ("class Pump", "async def run"), "    async def run(self):\n        return 2"),
        (2, (), "if os:\n    def drain():\n        pass"),
    ]


def test_small_neighbours_are_packed() -> None:
    assert shape("a = 1\n\ndef f():\n    pass\n\n\ndef g():\n    pass\n", 40, "a.py") == [
        (0, (), "a = 1\n\ndef f():\n    pass"),
        (1, ("def g",), "def g():\n    pass"),
    ]


def test_the_layout_says_nearly_the_same_where_python_does_not_parse() -> None:
    broken = PYTHON + "\n\nprint 'Python 2'\n"
    expected = [headings for _, headings, _ in shape(PYTHON, 70, "a.py")]
    assert [headings for _, headings, _ in shape(broken, 70, "a.py")][: len(expected) - 1] == expected[:-1]


def test_a_comment_is_no_heading_and_a_string_no_comment() -> None:
    text = 'def f():\n    return """\n# not above g"""\ndef g():\n    return 1\n'
    assert shape(text, 45, "a.py") == [
        (0, ("def f",), 'def f():\n    return """\n# not above g"""'),
        (1, ("def g",), "def g():\n    return 1"),
    ]
    assert shape("# A\n\n# B\n", 5, "a.sh") == [(0, (), "# A"), (1, (), "# B")]


def test_a_long_definition_is_cut_at_blank_lines_then_at_lines() -> None:
    text = "def f():\n    a = 1\n    b = 2\n\n    c = 3\n"
    assert [found for *_, found in shape(text, 32, "a.py")] == ["def f():\n    a = 1\n    b = 2", "    c = 3"]
    assert [found for *_, found in shape(text, 20, "a.py")] == ["def f():\n    a = 1", "    b = 2\n\n    c = 3"]
    assert {headings for _, headings, _ in shape(text, 20, "a.py")} == {("def f",)}


@pytest.mark.parametrize(
    ("name", "text", "size", "expected"),
    [
        (
            "a.go",
            "// Prime fills.\nfunc (p *Pump) Prime() {\n\tfill()\n}\n\ntype Pump struct {\n\tlevel int\n}\n",
            60,
            [("func Prime",), ("type Pump",)],
        ),
        ("a.c", "int prime(struct pump *p,\n          int x)\n{\n  y();\n}\n\nint b(void) {\n  z();\n}\n", 60, [("prime()",), ("b()",)]),
        (
            "a.cpp",  # nothing is indented under the namespace
            "namespace water {\n\nclass Pump {\n  int level;\n};\n\nint a(int b) {\n  return b;\n}\n\n}\n",
            40,
            [("namespace water",), ("namespace water", "class Pump"), ("namespace water", "a()")],
        ),
        (
            "a.ts",
            "export const prime = async (pump) => {\n  fill();\n};\n\nexport default class Pump {\n  run(x) {\n    y();\n  }\n}\n",
            60,
            [("const prime",), ("class Pump",)],
        ),
        (
            "a.java",
            "public class Pump {\n  @Override\n  public List<String> prime(int x) {\n    if (x > 0) {\n    }\n  }\n}\n",
            88,
            [("class Pump",), ("class Pump", "prime()")],
        ),
        ("a.rs", "impl<'a> Pump<'a> {\n    pub fn prime(&'a self) {\n        x()\n    }\n}\n", 62, [("impl Pump",), ("impl Pump", "fn prime")]),
        ("a.rb", "module Water\n  class Pump\n    def prime\n    end\n  end\nend\n", 60, [("module Water",)]),
        ("a.sql", "CREATE TABLE parts (\n  id int\n);\ncreate view v as\nselect 1\nfrom x;\n", 45, [("CREATE TABLE parts",), ("CREATE VIEW v",)]),
        ("a.yml", "one:\n- a: 1\n- b: 2\ntwo:\n  c: 3\n", 20, [("one",), ("two",)]),
        ("a.toml", "[one]\na = 1\n\n[[two]]\nb = 2\n", 15, [("[one]",), ("[[two]]",)]),
        ("a.json", '{\n  "a": {\n    "b": 1\n  },\n  "c": [\n    1\n  ]\n}\n', 25, [("a",), ("c",)]),
        ("a.css", "a {\n  b: c;\n}\n\n.d {\n  e: f;\n}\n", 20, [("a",), (".d",)]),
        ("a.sh", "prime() {\n  fill\n}\nservice water start\n", 25, [("prime()",), ()]),
    ],
)  # fmt: skip
def test_languages(name: str, text: str, size: int, expected: list[tuple[str, ...]]) -> None:
    found = [chunk.headings for chunk in chunks(text, size, name) if chunk.text not in "{}"]
    assert found == expected


def test_sections_begin_where_splits_may_separate_questions() -> None:
    text = "".join(f"def f{n}():\n    return '{'x' * 400}'\n\n\n" for n in range(5))
    document = Document("a.py", "a.py", text, Modality.CODE)
    starts = [text.index(f"def f{n}") for n in (0, 2, 4)]
    assert section_starts(document) == starts
    assert [chunk.section for chunk in chunks(text)] == [0, 1, 2]
    assert [chunk.span for chunk in chunks(text)][1] == Span("a.py", starts[1], starts[2] - 3)


SUFFIXES = (".py", ".js", ".c", ".go", ".sql", ".yaml", ".toml", ".json", ".css", ".sh", ".rb")
HEADS = (
    *[
        "def f():",
        "class A:",
        "class B {",
        "int f(int a)",
        "func (p *P) g() {",
        "if x:",
        "} else {",
        "{",
        "}",
        "end",
        "[t]",
        "create table t (",
        ");",
        "# comment",
        "// c",
        "/*",
        " * d",
        "*/",
        "@dec",
        '"""',
        "'a",
        "key:",
        '"k": {',
        "- a: 1",
        "x = 1",
        "return 1",
        "async def h(): pass",
        "a; b",
    ],
    *("", "", "\t", "long word " * 4, "w" * 30, "\x0c", "é\x85\u2028"),
)
line = st.tuples(st.integers(0, 3), st.sampled_from(HEADS)).map(lambda drawn: "  " * drawn[0] + drawn[1])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(line, max_size=25), st.integers(1, 90), st.sampled_from(SUFFIXES), st.sampled_from(["\n", "\r\n", "\r"])
)
def test_every_visible_character_is_in_exactly_one_chunk(lines: list[str], size: int, suffix: str, end: str) -> None:
    text = end.join(lines)
    found = chunks(text, size, f"a{suffix}")
    covered: list[int] = []
    for chunk in found:
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip()
        assert len(chunk.text) <= size
        assert chunk.modality is Modality.CODE
        covered += [at for at in range(chunk.start, chunk.end) if not text[at].isspace()]
    assert covered == [at for at, character in enumerate(text) if not character.isspace()]
    assert [chunk.id for chunk in found] == [f"a{suffix}#{index:04d}" for index in range(len(found))]
    numbers = [chunk.section for chunk in found]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(set(numbers))))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["def f{}():\n    return {}\n", "class C{}:\n    x = {}\n\n    def m(self):\n        pass\n", "x{} = {}\n"]
        ),
        max_size=6,
    )
)
def test_python_that_parses_is_never_cut_within_what_fits(parts: list[str]) -> None:
    text = "\n\n".join(part.format(number, number) for number, part in enumerate(parts))
    whole = [part.format(number, number).rstrip() for number, part in enumerate(parts)]
    for size in (75, 120, 10_000):
        found = [chunk.text for chunk in chunks(text, size)]
        assert all(sum(definition in chunk for chunk in found) == 1 for definition in whole)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.c", "class a {\n" * 20_000),
        ("a.c", '"\\"' * 500_000),
        ("a.c", ("/*" * 400 + "\n") * 500),
        ("a.py", "(" * 100_000),
        ("a.py", "if x:\n  pass\n" + "elif x:\n  pass\n" * 5_000),
        ("a.yaml", "a :" * 100_000),
        ("a.c", "int f(int a)\n" * 20_000),
    ],
)
def test_hostile_files_do_not_hang(name: str, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    visible = sum(not character.isspace() for character in text)
    assert sum(len("".join(chunk.text.split())) for chunk in chunks(text, 900, name)) == visible
    assert capfd.readouterr() == ("", "")


def test_the_file_s_own_warnings_stay_in_the_file() -> None:
    assert len(chunks('x = "\\d"\ny = x is "a"\n')) == 1
