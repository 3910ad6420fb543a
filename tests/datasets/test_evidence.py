"""Evidence is located by its text or a named place, and optional keys may be omitted."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dataset_folder import ALPHA, BETA, evidence, questions, record, small_dataset
from first_law import first_law
from hypothesis import given, settings
from hypothesis import strategies as st
from pdf_file import pdf

from ragsmith.datasets.dataset import describe, load_dataset, make_dataset, validate_dataset, write_dataset
from ragsmith.datasets.evidence import EvidenceChecker
from ragsmith.datasets.places import strip_span
from ragsmith.datasets.questions import write_offsets
from ragsmith.errors import DatasetError
from ragsmith.types import Dataset, Document, Example, Modality, Origin, Span

GUIDE = """# Guide

Before anything else.

## Leave

Twenty-eight days a year.

### Carrying over

Five of them, until March.

## Trips

By train.

### Carrying over

Nothing is carried over.
"""


def found(folder: Path, *entries: Any) -> list[str]:
    """The text that these entries of evidence mean, in the order of documents."""
    questions(folder, record(1, evidence=list(entries)))
    dataset = load_dataset(folder)
    texts = {document.id: document.text for document in dataset.documents}
    return [texts[span.doc][span.start : span.end] for span in dataset.examples[0].evidence]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = small_dataset(tmp_path / "small")
    (folder / "documents" / "guide.md").write_text(GUIDE)
    (folder / "documents" / "table.csv").write_text("part,price\nbolt,3\n,\nnut,1\nring,2\n")
    (folder / "documents" / "print.pdf").write_bytes(pdf(["First page."], [], ["Third page."]))
    return folder


def test_words_that_stand_once_are_found(folder: Path) -> None:
    assert found(folder, {"text": "It ends in May."}) == ["It ends in May."]
    assert found(folder, {"doc": "beta", "text": "Its second line"}, {"text": "train"}) == ["Its second line", "train"]
    assert found(folder, {"text": "part: nut; price: 1"}) == ["part: nut; price: 1"]


def test_words_that_a_heading_has_as_well_are_found_below_it(folder: Path) -> None:
    (folder / "documents" / "pumps.md").write_text("# Sealing rings\n\nSealing rings wear out.\n")
    assert found(folder, {"text": "Sealing rings"}) == ["Sealing rings"]
    assert load_dataset(folder).examples[0].evidence == (Span("pumps", 17, 30),)


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"doc": "beta"}, BETA.strip()),
        ({"doc": "guide", "heading": "Trips"}, GUIDE[GUIDE.index("By train") :].strip()),
        ({"doc": "guide", "heading": "leave > carrying  over"}, "Five of them, until March."),
        ({"doc": "guide", "lines": [3, 7]}, "Before anything else.\n\n## Leave\n\nTwenty-eight days a year."),
        ({"doc": "guide", "lines": [19, 19]}, "Nothing is carried over."),
        ({"doc": "table.csv", "rows": [2, 3]}, "part: nut; price: 1\npart: ring; price: 2"),
        ({"doc": "print.pdf", "page": 1}, "First page."),
        ({"doc": "print.pdf", "page": 3}, "Third page."),
        ({"doc": "guide", "heading": "Trips", "text": "carried over"}, "carried over"),
    ],
)
def test_a_place_is_all_of_its_text(folder: Path, entry: dict[str, Any], text: str) -> None:
    assert found(folder, entry) == [text]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"doc": "guide", "heading": "Carrying over"}, "2 times; give the headings above it, too: 'Guide > "),
        ({"doc": "print.pdf", "page": 2}, "page 2 of document 'print.pdf' has no text; name another place"),
        ({"doc": "print.pdf", "page": 4}, "document 'print.pdf' has no page 4; its pages are 1 to 3"),
        ({"doc": "table.csv", "rows": [0, 1]}, "document 'table.csv' has no rows [0, 1]; its rows are 1 to 3"),
        ({"doc": "guide", "lines": [2, 2]}, "lines [2, 2] of document 'guide' has no text"),
        ({"doc": "guide", "lines": [5, 5]}, "is mostly a heading; mark the text below it"),
    ],
)  # fmt: skip
def test_a_place_that_is_none_is_a_mistake(folder: Path, entry: dict[str, Any], problem: str) -> None:
    questions(folder, record(1, evidence=[entry]))
    (mistake,) = validate_dataset(folder)
    assert mistake.startswith("questions.jsonl:1 (q1): evidence 1: ")
    assert problem in mistake


@pytest.mark.parametrize("path", ["guide.md", "documents/guide.md", "small/documents/guide.md", "./guide.md"])
def test_a_path_names_its_document(folder: Path, path: str) -> None:
    text = "It ends in May."
    start = (folder / "documents" / "alpha.md").read_text().index(text)
    exact = {"doc": path.replace("guide", "alpha"), "start": start, "end": start + len(text), "text": text}
    assert found(folder, {"doc": path}) == found(folder, {"doc": "guide"})
    assert found(folder, exact) == [text]


def test_a_path_below_another_folder_is_not_guessed(folder: Path) -> None:
    questions(folder, record(1, evidence=[{"doc": "archive/guide"}]))
    (mistake,) = validate_dataset(folder)
    assert "'archive/guide' is a path; did you mean 'guide'?" in mistake


def test_headings_of_the_same_name_and_place_are_told_apart_by_lines(folder: Path) -> None:
    (folder / "documents" / "log.md").write_text("# Log\n\nOne.\n\n# Log\n\nTwo.\n")
    questions(folder, record(1, evidence=[{"doc": "log", "heading": "Log"}]))
    (mistake,) = validate_dataset(folder)
    lines = [json.loads(given) for given in re.findall(r"\[\d+, \d+\]", mistake)]
    assert [found(folder, {"doc": "log", "lines": given}) for given in lines] == [["One."], ["Two."]]


WORDS = st.lists(
    st.sampled_from(["ada", "ben", "cyd", "de", "a", "\n\n", "# ada\n", "e\u0301"]), min_size=1, max_size=30
)


@settings(max_examples=200, deadline=None)
@given(words=st.lists(WORDS, min_size=1, max_size=3), data=st.data())
def test_text_is_found_where_it_stands_once_and_else_refused(words: list[list[str]], data: st.DataObject) -> None:
    documents = {str(n): Document(str(n), "", " ".join(some), Modality.CODE) for n, some in enumerate(words)}
    source = data.draw(st.sampled_from(sorted(documents.values(), key=lambda document: document.id)))
    start = data.draw(st.integers(0, len(source.text) - 1))
    end = data.draw(st.integers(start + 1, min(len(source.text), start + 12)))
    text = source.text[start:end]
    if not text.strip():
        return
    everywhere = {
        (document.text, at)
        for document in documents.values()
        for at in range(len(document.text))
        if document.text.startswith(text, at)
    }
    span, problems = EvidenceChecker(documents).span({"text": text})
    if len(everywhere) == 1:
        assert span is not None
        assert documents[span.doc].text[span.start : span.end] == text
        assert problems == []
    else:
        assert span is None
        assert f"occurs {len(everywhere)} times" in problems[0]


# --- rows that say less ----------------------------------------------------------------------------------------------


def test_what_a_row_leaves_out(folder: Path) -> None:
    asked = {"question": "Q?", "answer": "A."}
    questions(
        folder,
        {"id": "a", **asked},
        {"id": "b", **asked, "evidence": []},
        {"id": "c", "question": "Q?", "answerable": False},
    )
    plain = Example("a", "Q?", "A.", "unspecified", ())
    assert load_dataset(folder).examples == (
        plain, replace(plain, id="b"), replace(plain, id="c", answer="", answerable=False)
    )  # fmt: skip
    described = describe(load_dataset(folder))
    assert (described["unanswerable"], described["without_evidence"], described["drafted"]) == (1, 2, 0)
    json.dumps(described, allow_nan=False)


def test_where_a_question_came_from(folder: Path) -> None:
    origin = {
        **{
            "by": "drafted",
            "method": "headings",
            "model": "m",
            "prompt": "0f",
            "reviewed": "mended",
            "reviewer": "Ada",
        },
        "passage": {"doc": "alpha", "start": 3, "end": 9},
    }
    questions(folder, record(1, origin=origin), record(2))
    first, second = load_dataset(folder).examples
    assert first.origin == Origin("drafted", "headings", "m", "0f", Span("alpha", 3, 9), "mended", "Ada")
    assert (first.drafted, second.drafted, second.origin) == (True, False, None)


def test_of_an_origin_the_digest_counts_whether_it_was_drafted(folder: Path) -> None:
    digests = {}
    for name, origin in (
        ("written", None),
        ("drafted", {"by": "drafted"}),
        ("reviewed", {"by": "drafted", "model": "m", "reviewed": "accepted"}),
    ):
        questions(folder, record(1, origin=origin))
        digests[name] = load_dataset(folder).digest
    assert digests["written"] != digests["drafted"] == digests["reviewed"]
    questions(folder, record(1), record(2, evidence=None))
    answerable = load_dataset(folder).digest
    questions(folder, record(1), record(2, evidence=None, answerable=False))
    assert load_dataset(folder).digest != answerable


def test_the_digest_of_what_version_0_1_could_say_is_what_it_was() -> None:
    assert first_law().digest == "cd5565f8d8b2d9cef5557aefac3876e4"
    assert load_dataset("workshop").digest == "f52d0ee2b82f69d3ed21f9e8ecf19144"


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Z"]), min_size=1, max_size=8)
ORIGINS = st.builds(
    Origin,
    by=st.just("drafted"),
    method=TEXT | st.just(""),
    model=TEXT | st.just(""),
    prompt=TEXT | st.just(""),
    passage=st.none() | st.just(Span("d", 0, 3)),
    reviewed=st.sampled_from(["", "accepted", "mended"]),
    reviewer=TEXT | st.just(""),
)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    documents = [Document("d", "d", "Gold. Silver. Tin."), Document("t.csv", "t.csv", "a: 1\n", Modality.TABLE)]
    spans = st.lists(st.sampled_from([Span("d", 0, 5), Span("d", 6, 13), Span("t.csv", 0, 4)]), unique=True)
    examples = [Example("first", draw(TEXT), draw(TEXT), draw(TEXT), tuple(draw(spans)))]
    for number in range(draw(st.integers(0, 4))):
        answerable = draw(st.booleans())
        answer = draw(TEXT) if answerable or draw(st.booleans()) else ""
        gold = tuple(draw(spans)) if answerable else ()
        type_ = draw(TEXT | st.just("unspecified"))
        origin = draw(st.none() | ORIGINS)
        examples.append(Example(f"q{number}", draw(TEXT), answer, type_, gold, None, answerable, origin))
    return make_dataset({"name": "n"}, documents, examples)


@settings(max_examples=50, deadline=None)
@given(dataset=datasets())
def test_whatever_rows_say_is_read_back(tmp_path_factory: pytest.TempPathFactory, dataset: Dataset) -> None:
    folder = tmp_path_factory.mktemp("data") / "written"
    write_dataset(dataset, folder)
    assert load_dataset(folder) == dataset


# --- offsets are written ---------------------------------------------------------------------------------------------


def test_found_offsets_are_written_and_nothing_else_changes(folder: Path) -> None:
    coarse = {"doc": "guide", "heading": "Trips"}
    odd = '{"question" : "Odd?", "id": "q3",  "answer": "No.", "evidence": []}\r'
    quoted = record(1, evidence=[{"text": "It ends in May."}, coarse], note=None)
    questions(folder, quoted, record(2), odd, record(4, evidence=[coarse]))
    before = (folder / "questions.jsonl").read_bytes().decode().split("\n")
    examples = load_dataset(folder).examples
    assert write_offsets(folder) == 1
    after = (folder / "questions.jsonl").read_bytes().decode().split("\n")
    assert after[1:] == before[1:]
    assert json.loads(after[0])["evidence"] == [evidence("alpha", ALPHA, "It ends in May."), coarse]
    assert load_dataset(folder).examples == examples
    assert write_offsets(folder) == 0
    assert (folder / "questions.jsonl").read_bytes().decode().split("\n") == after


def test_with_a_mistake_nothing_is_written(folder: Path) -> None:
    questions(folder, record(1, evidence=[{"text": "It ends in May."}]), record(2, evidence=[{"text": "nowhere"}]))
    before = (folder / "questions.jsonl").read_bytes()
    with pytest.raises(DatasetError, match="occurs in no document"):
        write_offsets(folder)
    assert (folder / "questions.jsonl").read_bytes() == before


def test_pages_survive_as_offsets_where_a_data_set_is_written(folder: Path, tmp_path: Path) -> None:
    questions(folder, record(1, evidence=[{"doc": "print.pdf", "page": 3}]))
    write_dataset(load_dataset(folder), tmp_path / "copy")
    (example,) = load_dataset(tmp_path / "copy").examples
    document = next(d for d in load_dataset(tmp_path / "copy").documents if d.id == example.evidence[0].doc)
    assert strip_span(document, 0, 12) == Span(document.id, 0, 11)
    assert document.text[example.evidence[0].start : example.evidence[0].end] == "Third page."
