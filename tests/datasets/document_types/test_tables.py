"""Tables are read strictly, and their rows are self-contained."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragsmith.datasets.document_types.tables import reconstruct_source, render_table
from ragsmith.text.files import TextError


def test_a_worked_example() -> None:
    source = 'part,price (EUR),note\r\nseal,"1,50","two\nlines"\r\nvalve,,\r\n,,\r\n\r\nhose, 3 ,"say ""no"""\r\n'
    assert render_table(source, ",") == (
        'part: seal; price (EUR): 1,50; note: two lines\npart: valve\npart: hose; price (EUR): 3; note: say "no"\n'
    )


def test_tabs_separate_where_they_should() -> None:
    assert render_table("a\tb\n1,5\t2\n", "\t") == "a: 1,5; b: 2\n"


def test_a_small_file_cannot_become_a_huge_text() -> None:
    with pytest.raises(TextError, match="larger than the limit of 64 MiB") as caught:
        render_table("x" * 100_000 + "\n" + "1\n" * 1_000, ",")
    assert caught.value.line == 673  # the header, and 671 rows of 100,004 characters below 67,108,864


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("a: 1; b: 2\nb: 3\n", "a,b\n1,2\n,3\n"),
        ("a: 1; c: 2\nb: 3; c: 4\na: 5; b: 6\n", "a,b,c\n1,,2\n,3,4\n5,6,\n"),
        ("a: 1, 2; 3\n", 'a\n"1, 2; 3"\n'),
        ("a: 1; b: 2\nb: 3; a: 4\n", "a,b\n1; b: 2,\n,3; a: 4\n"),  # in no order of columns: one cell a row
    ],
)
def test_a_text_becomes_a_table_again(text: str, source: str) -> None:
    assert reconstruct_source(text, ",") == source
    assert render_table(source, ",") == text


@pytest.mark.parametrize(
    "text", ["", "no table\n", "a: 1", "a: 1\n\nb: 2\n", " a: 1\n", "a:  1\n", "a: 1\r\n", ": 1\n"]
)
def test_what_no_table_gives_has_no_source(text: str) -> None:
    assert reconstruct_source(text, ",") is None


cell = st.text("ab1:;, \"'\n\r\t\u2028|#", max_size=8)
name = st.text('ab :;,"\t', min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(name, min_size=1, max_size=4), st.sampled_from([",", "\t"]))
def test_every_table_that_is_read_can_be_written(data: st.DataObject, header: list[str], delimiter: str) -> None:
    rows = data.draw(st.lists(st.lists(cell, min_size=len(header), max_size=len(header)), min_size=1, max_size=5))
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    try:
        text = render_table(file.getvalue(), delimiter)
    except TextError:
        assume(False)
    visible = sum(bool("".join(row).split()) for row in rows)
    assert text.count("\n") == len(text.splitlines()) == visible
    again = reconstruct_source(text, delimiter)
    assert again is not None
    assert render_table(again, delimiter) == text
