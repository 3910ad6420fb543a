"""Data sets are read exactly, identified by content, merged, described and written back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from dataset_folder import ALPHA, BETA, evidence, questions, record, small_dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.datasets.dataset import describe, load_dataset, make_dataset, validate_dataset, write_dataset
from ragsmith.errors import DatasetError, UsageError
from ragsmith.types import Document, Example, Modality, Span


def test_reads_documents_and_questions_as_they_are(tmp_path: Path) -> None:
    dataset = load_dataset(small_dataset(tmp_path / "small"))
    assert (dataset.name, dataset.title, dataset.licence, dataset.language) == ("small", "Small", "CC0", "en")
    assert dataset.documents == (Document("alpha", "Alpha", ALPHA), Document("beta", "beta", BETA))
    assert [example.id for example in dataset.examples] == ["q1", "q2", "q3"]
    texts = {document.id: document.text for document in dataset.documents}
    found = [texts[span.doc][span.start : span.end] for span in dataset.examples[1].evidence]
    assert found == ["It ends in May.", "Its second line"]
    assert dataset.examples[0] == Example(
        "q1", "Question 1?", "Since 1990.", "factual", (Span("alpha", 9, 41),), None
    )  # fmt: skip


def test_the_name_alone_is_needed(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    (folder / "dataset.yaml").write_text("name: no\n")
    dataset = load_dataset(folder)
    expected = ("no", "no", "", "not stated", "en")
    assert (dataset.name, dataset.title, dataset.description, dataset.licence, dataset.language) == expected


def test_offsets_count_code_points_of_the_text_as_loaded(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    text = "😀 é e\u0301\r\nGold here.\r\n"
    (folder / "documents" / "emoji.md").write_bytes(text.encode())
    questions(folder, record(1, evidence=[{"doc": "emoji", "start": 8, "end": 18, "text": "Gold here."}]))
    assert validate_dataset(folder) == ()


def test_dot_files_and_blank_lines_are_ignored(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    before = load_dataset(folder)
    (folder / "documents" / ".DS_Store").write_bytes(b"\x00")
    questions(folder, record(1), "", json.dumps(record(2)) + "\r", record(3), "")
    assert validate_dataset(folder) == ()
    assert load_dataset(folder).documents == before.documents


def test_a_unicode_line_separator_does_not_end_a_question(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    questions(folder, json.dumps(record(1, answer="a\u2028b"), ensure_ascii=False))
    assert load_dataset(folder).examples[0].answer == "a\u2028b"


def test_the_digest_ignores_names_order_and_times(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    digest = load_dataset(folder).digest
    rows = (folder / "questions.jsonl").read_text().splitlines()
    (folder / "questions.jsonl").write_text("\n".join(reversed(rows)))
    (folder / "dataset.yaml").write_text("name: other\nlicence: MIT\n")
    (folder / "documents" / "beta.txt").rename(folder / "documents" / "beta.md")
    os.utime(folder / "documents" / "alpha.md", (0, 0))
    folder.rename(tmp_path / "moved")
    again = load_dataset(tmp_path / "moved")
    assert again.digest == digest
    assert [example.id for example in again.examples] == ["q1", "q2", "q3"]


@pytest.mark.parametrize(
    "change",
    [{"id": "q9"}, {"question": "Why?"}, {"answer": "May"}, {"type": "other"},
     {"evidence": [evidence("alpha", ALPHA, "It ends in May.")]}],
)  # fmt: skip
def test_the_digest_changes_with_every_field_of_a_question(tmp_path: Path, change: dict[str, object]) -> None:
    folder = small_dataset(tmp_path / "small")
    questions(folder, record(1))
    before = load_dataset(folder).digest
    questions(folder, record(1, **change))
    assert load_dataset(folder).digest != before
    questions(folder, record(1, split="test"))
    assert load_dataset(folder).digest != before


def test_the_digest_changes_with_a_document(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    before = load_dataset(folder).digest
    (folder / "documents" / "beta.txt").write_bytes(BETA.encode() + b" ")
    assert load_dataset(folder).digest != before


def test_identical_documents_are_merged(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    (folder / "documents" / "zeta.md").write_bytes(ALPHA.encode())
    copy = [evidence("zeta", ALPHA, "It ends in May."), evidence("alpha", ALPHA, "It ends in May.")]
    questions(folder, record(1, evidence=copy), record(2))
    dataset = load_dataset(folder)
    assert dataset.merged == (("zeta", "alpha"),)
    assert [document.id for document in dataset.documents] == ["alpha", "beta"]
    assert dataset.examples[0].evidence == (Span("alpha", 42, 57),)


@settings(max_examples=30, deadline=None)
@given(
    title=st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20).filter(str.strip),
    body=st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=40),
)
def test_any_text_survives_writing(tmp_path_factory: pytest.TempPathFactory, title: str, body: str) -> None:
    text = f"Gold.\r\n{body}"
    example = Example("q", f"Q: {title}", f"A {body}", "factual", (Span("d", 0, 5),), "test")
    about = {"name": "n", "title": title, "description": title, "licence": "no", "language": "no"}
    dataset = make_dataset(about, [Document("d", "d", text)], [example])
    folder = tmp_path_factory.mktemp("data") / "written"
    write_dataset(dataset, folder)
    assert load_dataset(folder) == dataset


def test_writing_never_overwrites(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    dataset = load_dataset(folder)
    with pytest.raises(UsageError, match="is not an empty folder; give a new one"):
        write_dataset(dataset, folder)
    (tmp_path / "empty").mkdir()
    write_dataset(dataset, tmp_path / "empty")
    assert validate_dataset(tmp_path / "empty") == ()


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (Document("../up", "../up", "Gold."), "is not the path of a file without its suffix"),
        (Document("a", " ", "Gold."), "the title of 'a' is blank; write it"),
        (Document("a", "a", "Gold.", Modality.CODE), "has no file name suffix of code"),
        (Document("a.py", "a.py", "Gold.", Modality.TABLE), "has no file name suffix of table"),
        (Document("a.csv", "a.csv", "Gold.", Modality.TABLE), "is not a table with a line 'column: value; ...'"),
        (Document("a", "a", "Go\x00ld."), "control character U+0000"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(tmp_path: Path, document: Document, reason: str) -> None:
    example = Example("q", "Q", "A", "t", (Span(document.id, 0, 4),))
    dataset = make_dataset({"name": "n"}, [document], [example])
    with pytest.raises(DatasetError, match=reason.replace("+", r"\+")):
        write_dataset(dataset, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_describe_counts_a_worked_example() -> None:
    text = "First words. " * 10  # 130 characters, 20 words
    documents = [Document("a", "a", text), Document("b", "b", "One. Two. Three. Four."), Document("c", "c", text)]
    examples = [
        Example("q1", "A?", "a", "factual", (Span("a", 0, 12), Span("b", 5, 9))),
        Example("q2", "B?", "b", "factual", (Span("a", 104, 116),)),
        Example("q3", "C?", "c", "long", (Span("a", 20, 32),)),
    ]
    described = describe(make_dataset({"name": "n"}, documents, examples))
    assert described["documents"] == 2
    assert described["merged"] == [["c", "a"]]
    assert (described["characters"], described["words"], described["chunks"]) == (152, 24, 2)
    assert described["questions"] == 3
    assert described["types"] == {"factual": 2, "long": 1}
    assert described["multi_document_share"] == pytest.approx(1 / 3)
    assert described["evidence"] == {
        "spans": 4,
        "per_question": pytest.approx(4 / 3),
        "documents": 2,
        "median_length": 12,
        "longest": 12,
        "early_share": 0.25,  # middles at 6/130, 7/22, 110/130 and 26/130, which is 0.2 and not below
        **{"whole_documents": 0, "whole_sections": 0, "longer_than_chunks": 0},
    }
    assert described["split"] == {
        "rule": "too small to split, nothing is claimed",
        **{"search": 3, "test": 0, "unused": 0, "leaks": {"near": 0, "shared": 0}},
    }
    json.dumps(described, allow_nan=False)
