"""TAT-QA's pages become Markdown with a table; gold are paragraphs and the rows that an answer was taken from."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.dataset import load_dataset, write_dataset
from ragsmith.datasets.importers.tatqa import import_tatqa
from ragsmith.datasets.splits import BY_DOCUMENT, split
from ragsmith.errors import DatasetError
from ragsmith.text.markdown import BlockType, blocks

DATA = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "tatqa_dev"

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
    found = [(block.kind is BlockType.PROSE, document.text[block.start : block.end]) for block in blocks(document.text)]
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
    rows = table.splitlines()
    assert found == [
        ["First paragraph.", "Second paragraph\nin two lines."],
        [rows[3]],
        [rows[2], rows[3], "First paragraph."],
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
        "q1: no row of the table holds the answer, so the whole table is its evidence",
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
        ({}, "dev.json: an object stands here instead of a list of pages; give a file in TAT-QA's layout"),
        ([], "data: has no questions"),
        ([page()], "data: has no questions"),
        ([7], "dev.json: page 1: an integer stands here instead of an object"),
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


def test_the_published_pages_are_imported_completely(tmp_path: Path) -> None:
    if not DATA.is_dir():
        pytest.skip("tatqa_dev is not beside the checkout")
    imported = import_tatqa(DATA)
    data = imported.dataset
    assert (len(data.documents), sum(len(document.text) for document in data.documents)) == (278, 532_640)
    assert (len(data.examples), data.merged) == (1_668, ())
    types = Counter(example.type for example in data.examples)
    assert (types["arithmetic/table"], types["span/text"], types["count/table"], len(types)) == (497, 349, 12, 11)
    # 2,568 in the source's count, which takes every row with a number of the derivation; one row a number is taken here
    assert sum(len(example.evidence) for example in data.examples) == 2_465
    assert (imported.located, imported.total, len(imported.notes)) == (2_066, 2_205, 139)
    write_dataset(data, tmp_path / "written")
    assert load_dataset(tmp_path / "written") == data
    assert split(data).rule == BY_DOCUMENT
