"""TAT-QA's pages become Markdown with a table; gold are paragraphs and the rows that an answer was taken from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ragsmith.datasets.dataset import load_dataset, write_dataset
from ragsmith.datasets.importers.tatqa import AnswerDerivation, Cells, find_rows, import_tatqa
from ragsmith.errors import DatasetError
from ragsmith.text.markdown import BlockType, parse_blocks

TABLE = [["", "2019", "2018"], ["Fixed  Price", "$  1,452.4", "1,146.2"], ["Other | rest", "44.1"]]
TEXT = """\
|  | 2019 | 2018 |
| --- | --- | --- |
| Fixed Price | $ 1,452.4 | 1,146.2 |
| Other \\| rest | 44.1 |  |

First paragraph.

Second paragraph
in two lines.
"""


def question(number: int, source: str, answer: object, **changes: object) -> dict[str, Any]:
    base: dict[str, Any] = {
        "uid": f"q{number}",
        "order": number,
        "question": "What was it?",
        "answer": answer,
        "derivation": "",
        "answer_type": "span",
        "answer_from": source,
        "rel_paragraphs": [],
        "scale": "",
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


def page(*questions: dict[str, Any], **changes: object) -> dict[str, Any]:
    paragraphs = [
        {"uid": "b", "order": 2, "text": "Second paragraph\nin two lines.\n"},
        {"uid": "a", "order": 1, "text": "First paragraph."},
    ]
    base = {"table": {"uid": "t", "table": TABLE}, "paragraphs": paragraphs, "questions": list(questions)}
    return {**base, **changes}


def write(folder: Path, *pages: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "dev.json").write_text(json.dumps(list(pages)))
    return folder


def evidence(folder: Path, *questions: dict[str, Any]) -> list[list[str]]:
    data = import_tatqa(write(folder, page(*questions))).dataset
    return [[TEXT[span.start : span.end] for span in example.evidence] for example in data.examples]


def test_a_page_is_markdown_with_its_table_and_paragraphs(tmp_path: Path) -> None:
    imported = import_tatqa(write(tmp_path / "reports", page(question(1, "text", ["it"], rel_paragraphs=["2"]))))
    [document] = imported.dataset.documents
    assert (document.id, document.title, document.text) == ("page-001", "page-001", TEXT)
    found = [
        (block.kind is BlockType.PROSE, document.text[block.start : block.end]) for block in parse_blocks(document.text)
    ]
    assert found == [(i > 0, part) for i, part in enumerate(TEXT.rstrip().split("\n\n"))]
    write_dataset(imported.dataset, tmp_path / "written")
    assert load_dataset(tmp_path / "written") == imported.dataset


def test_gold_are_labelled_paragraphs_and_the_rows_of_the_answer(tmp_path: Path) -> None:
    found = evidence(
        tmp_path / "data",
        question(1, "text", ["it"], rel_paragraphs=["2", "1"]),
        question(2, "table", ["44.1"]),
        question(3, "table-text", 1408.3, derivation="1,452.4-44.1", rel_paragraphs=["1"]),
        question(4, "table", ["nowhere"]),
    )
    table = TEXT[: TEXT.index("\n\n")]
    lines = table.splitlines()
    assert found == [
        ["First paragraph.", "Second paragraph\nin two lines."],
        [lines[3]],
        [lines[2], lines[3], "First paragraph."],
        [table],
    ]


def test_what_was_not_found_is_counted_and_named(tmp_path: Path) -> None:
    questions = (
        question(1, "table", ["2019", "2018"]),
        question(2, "text", ["it"], rel_paragraphs=["1", "7"]),
        question(3, "text", ["it"]),
    )
    imported = import_tatqa(write(tmp_path / "data", page(*questions)))
    assert (imported.located, imported.total) == (1, 3)
    assert imported.notes == (
        "q1: no row of the table has the answer, so the whole table is its evidence",
        "q2: the page has no paragraph 7",
        "q3: left out, because none of its evidence was found",
    )
    assert [example.id for example in imported.dataset.examples] == ["q1", "q2"]


@pytest.mark.parametrize(
    ("answer", "scale", "reference"),
    [
        (["$1,496.5"], "million", "$1,496.5 million"),
        ([" a ", "", "b"], "", "a; b"),
        (-22.22, "percent", "-22.22 percent"),
        (["12%"], "percent", "12%"),
        (["$5 million"], "million", "$5 million"),
        ("3", "", "3"),
    ],
)
def test_an_answer_says_its_scale(tmp_path: Path, answer: object, scale: str, reference: str) -> None:
    asked = question(1, "text", answer, scale=scale, rel_paragraphs=["1"], answer_type="count")
    [example] = import_tatqa(write(tmp_path / "data", page(asked))).dataset.examples
    assert (example.answer, example.type) == (reference, "count/text")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "dev.json: expected a list of pages, found an object; give a file in TAT-QA's layout"),
        ([], "data: has no questions"),
        ([page()], "data: has no questions"),
        ([7], "dev.json: page 1: expected an object, found an integer"),
        ([page(table={"table": []})], "dev.json: page 1, table: 'table' must be rows of texts"),
        ([page(table={"table": [[1]]})], "dev.json: page 1, table: 'table' must be rows of texts"),
        (
            [page(), page(paragraphs=[{"order": "1"}])],
            "dev.json: page 2, paragraph 1: 'order' is a text, not an integer",
        ),
        (
            [page(paragraphs=[{"order": 1, "text": "a"}] * 2)],
            "dev.json: page 1: two of its 'paragraphs' have the same 'order'",
        ),
        ([page({"uid": "u"})], "dev.json: page 1, question 1 (u): 'answer_from' is missing"),
        (
            [page(question(1, "graph", ["a"]))],
            "dev.json: page 1, question 1 (q1): 'answer_from' is 'graph', not one of text, table, table-text",
        ),
        ([page(question(1, "text", [""]))], "dev.json: page 1, question 1 (q1): 'answer' is blank"),
        ([page(question(1, "text", [["a"]]))], "dev.json: page 1, question 1 (q1): 'answer' must be a text, a number"),
        ([page(question(1, "text", "a", scale=None))], "dev.json: page 1, question 1 (q1): 'scale' is missing"),
        ([page(question(1, "text", "a"))] * 2, "the question 'q1' occurs 2 times; give each file once"),
    ],
)
def test_other_files_are_refused_with_their_place(tmp_path: Path, content: object, said: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "dev.json").write_text(json.dumps(content))
    with pytest.raises(DatasetError) as refusal:
        import_tatqa(folder)
    [mistake] = refusal.value.mistakes
    assert mistake.removeprefix(f"{tmp_path}/").startswith(said)


SALES: Cells = (
    ("", "2019", "2018", "2017"),
    ("Fixed price", "$ 1,452.4", "$ 1,146.2", "$ 1,036.9"),
    ("Other", "44.1", "56.7", "70.8"),
    ("Other, adjusted", "44.1", "2", "(3)"),
    ("Total sales", "$1,496.5", "$1,202.9", "11%"),
)


@pytest.mark.parametrize(
    ("copied", "derivation", "found"),
    [
        ((), "44.1-56.7", (2,)),  # row 3 has 44.1 too, but row 2 has both
        ((), "(44.1-56.7)/56.7", (2,)),
        ((), "(1,452.4 + 1,146.2)/2", (1,)),  # the 2 of an average is not the 2 of row 3
        ((), "1,452.4/1,496.5*100", (1, 4)),
        ((), "(1452.4/1036.9)-1", (1,)),
        ((), "2-3", (3,)),
        ((), "1,027/11%", (4,)),
        ((), "1,496.5>1,202.9", (4,)),
        ((), "9.9-8.8", ()),
        (("2019",), "1,496.5>1,202.9", (4,)),  # how it was worked out says more than a year
        (("2019", "2018"), "", ()),
        (("$1,496.5",), "", (4,)),
        (("(3)",), "", (3,)),
        (("fixed price", "Total sales."), "", (1, 4)),
        (("sales",), "", (4,)),  # a part of a cell
        (("57",), "", ()),
        ((), "Other##Fixed price", (1, 2)),
        ((), "2019##2018", ()),
        ((), "Total sales", (4,)),
        (("2018",), "locate and analyze Other in row 2", ()),
        ((), "", ()),
    ],
)
def test_rows_are_those_that_were_read(copied: tuple[str, ...], derivation: str, found: tuple[int, ...]) -> None:
    assert find_rows(SALES, AnswerDerivation("What was it?", copied, derivation)) == found


def test_of_two_rows_with_a_value_the_one_that_is_asked_for_counts() -> None:
    table: Cells = (("", "2019"), ("Debtors", "255"), ("Cash-settled awards", "255"))
    assert find_rows(table, AnswerDerivation("What was the amount of cash-settled awards?", ("255",), "")) == (2,)


CELL = st.integers(10_000, 10_050).map(str)


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6), st.data())
@hypothesis_settings(max_examples=60)
def test_every_number_of_a_sum_that_is_there_is_covered_and_no_row_is_idle(
    cells: list[tuple[str, str]], data: st.DataObject
) -> None:
    table: Cells = tuple(("label", *row) for row in cells)
    numbers = data.draw(st.lists(CELL, min_size=1, max_size=4))
    found = find_rows(table, AnswerDerivation("What?", (), "+".join(numbers)))
    there = {cell for row in cells for cell in row} & set(numbers)
    assert {cell for i in found for cell in cells[i]} & set(numbers) == there
    assert len(found) <= len(there)
    assert found == tuple(sorted(set(found)))
