"""``ragsmith dataset import`` and ``ragsmith dataset show DATASET DOC``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.dataset import load_dataset, make_dataset, write_dataset

Command = Callable[..., Any]

HOTPOTQA = [
    {
        "_id": "q1",
        "question": "Which tree is old?",
        "answer": "The oak",
        "type": "bridge",
        "context": [["Oak", ["The oak is a tree.", " It is old."]]],
        "supporting_facts": [["Oak", 1]],
    }
]
TATQA = [
    {
        "table": {"uid": "t", "table": [["", "2019"], ["Sales", "44.1"]]},
        "paragraphs": [{"uid": "p", "order": 1, "text": "Sales rose."}],
        "questions": [
            {
                "uid": "q1",
                "question": "What were sales in 2019?",
                "answer": ["44.1"],
                "derivation": "",
                "answer_type": "span",
                "answer_from": "table",
                "rel_paragraphs": [],
                "scale": "million",
            }
        ],
    }
]
RAGSMITH = {
    "article": {"id": "oak", "title": "Oak", "content": "The oak is a tree. It is old."},
    "chunks": [{"id": "c1", "section": "Lead", "content": "It is old.", "start_char": 19}],
    "questions": {
        "items": [
            {"question": "What is old?", "answer": "It.", "category": "FACT", "reranked_relative_chunk_ids": ["c1"]}
        ]
    },
}
LAYOUTS = {"hotpotqa": HOTPOTQA, "tatqa": TATQA, "ragsmith": RAGSMITH}


def published(folder: Path, **files: object) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("told", [True, False])
def test_a_published_data_set_is_imported_and_can_be_loaded(
    ragsmith: Command, tmp_path: Path, layout: str, told: bool
) -> None:
    source = published(tmp_path / "published", data=LAYOUTS[layout])
    option = ["--format", layout] if told else []
    shown = ragsmith("dataset", "import", source, "-o", tmp_path / "mine", *option)
    assert (shown.code, shown.err) == (0, "")
    assert "1 documents, 1 questions; 1 of 1 pieces of evidence located exactly (100.0 %)" in shown.out
    assert len(load_dataset(tmp_path / "mine").examples) == 1
    assert ragsmith("dataset", "validate", tmp_path / "mine").code == 0


def test_a_file_that_tells_nothing_does_not_hide_the_format(ragsmith: Command, tmp_path: Path) -> None:
    source = published(tmp_path / "published", corpus={"Elm": ["The elm is tall."]}, data=HOTPOTQA)
    assert "2 documents, 1 questions" in ragsmith("dataset", "import", source, "-o", tmp_path / "mine").out


def test_what_was_not_found_is_said(ragsmith: Command, tmp_path: Path) -> None:
    lost = [{**HOTPOTQA[0], "supporting_facts": [["Oak", 1], ["Elm", 0]]}]
    source = published(tmp_path / "published", data=lost)
    shown = ragsmith("dataset", "import", source, "-o", tmp_path / "mine")
    assert "1 of 2 pieces of evidence located exactly (50.0 %)" in shown.out
    assert "q1: sentence 0 of 'Elm' does not occur there exactly once" in shown.out.splitlines()
    found = json.loads(ragsmith("dataset", "import", source, "-o", tmp_path / "again", "--json").out)
    assert (found["located"], found["total"], len(found["notes"])) == (1, 2, 1)


@pytest.mark.parametrize(
    ("files", "options", "said"),
    [
        ({}, [], "has no *.json files; give the folder or the file that was published"),
        ({"a": HOTPOTQA, "b": TATQA}, [], "has files in several formats (hotpotqa, tatqa); name one with --format"),
        ({"a": {"Oak": ["It is old."]}}, [], "is in no known format; name one with --format"),
        ({"a": '[\n{"_id": }]'}, [], "error: a.json:2: not valid JSON: Expecting value at column 9"),
        ({"a": TATQA}, ["--format", "hotpotqa"], "error: a.json: question 1: '_id' is missing"),
        ({"a": TATQA}, ["--format", "tatqas"], "unknown format 'tatqas': did you mean 'tatqa'?"),
    ],
)
def test_what_cannot_be_imported_is_refused_in_a_sentence(
    ragsmith: Command, tmp_path: Path, files: dict[str, object], options: list[str], said: str
) -> None:
    source = published(tmp_path / "published", **files)
    shown = ragsmith("dataset", "import", source, "-o", tmp_path / "mine", *options)
    assert (shown.code, shown.out, len(shown.err.splitlines())) == (2, "", 1)
    assert said in shown.err
    assert not (tmp_path / "mine").exists()


def test_a_folder_that_is_not_there_is_refused(ragsmith: Command, tmp_path: Path) -> None:
    shown = ragsmith("dataset", "import", tmp_path / "nothing", "-o", tmp_path / "mine")
    assert shown.code == 2
    assert "there is no such folder or file" in shown.err


# --- dataset show DATASET DOC ----------------------------------------------------------------------------------------


def test_a_document_is_printed_as_it_was_loaded(ragsmith: Command, tiny_folder: Path) -> None:
    for document in load_dataset(tiny_folder).documents:
        shown = ragsmith("dataset", "show", tiny_folder, document.id)
        assert (shown.code, shown.out) == (0, document.text.removesuffix("\n") + "\n")


def test_evidence_offsets_point_into_the_text_that_is_printed(ragsmith: Command, tiny_folder: Path) -> None:
    data = load_dataset(tiny_folder)
    texts = {document.id: document.text for document in data.documents}
    for example in data.examples[:5]:
        [span] = example.evidence
        place = ("dataset", "show", tiny_folder, span.doc, "--start", span.start, "--end", span.end)
        assert ragsmith(*place).out == texts[span.doc][span.start : span.end] + "\n"
        found = json.loads(ragsmith(*place, "--json").out)
        assert found["text"] == texts[span.doc][span.start : span.end]
        assert (found["id"], found["length"]) == (span.doc, len(texts[span.doc]))


def test_a_document_is_shown_before_there_are_questions(ragsmith: Command, tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "parts.csv").write_text("part,price\nDX-1,12.50\n")
    shown = ragsmith("dataset", "show", tmp_path, "parts.csv")
    assert shown.out == "part: DX-1; price: 12.50\n"
    assert shown.err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ferri"], "has no document 'ferri'; did you mean 'ferry'? known: ferry, lighthouse"),
        (["ferry", "--start", "9", "--end", "5"], "[9, 5) is no part of 'ferry': give --start and --end from 0 to"),
        (["ferry", "--end", "999999"], "[0, 999999) is no part of 'ferry'"),
        (["ferry", "--start", "-1"], "[-1, 424) is no part of 'ferry'"),
        (["--start", "3"], "--start and --end are places in a document: name one after the data set"),
    ],
)
def test_a_place_that_is_not_there_is_refused(
    ragsmith: Command, tiny_folder: Path, arguments: list[str], said: str
) -> None:
    shown = ragsmith("dataset", "show", tiny_folder, *arguments)
    assert (shown.code, shown.out, len(shown.err.splitlines())) == (2, "", 1)
    assert said in shown.err


def test_a_split_of_one_s_own_that_leaks_is_valid_and_warned_of(ragsmith: Command, tmp_path: Path) -> None:
    law = load_dataset("law")
    marked = [replace(e, split="test" if n % 2 else "search") for n, e in enumerate(law.examples)]
    write_dataset(make_dataset({"name": "mine"}, law.documents, marked), tmp_path / "mine")
    checked = ragsmith("dataset", "validate", tmp_path / "mine")
    assert checked.code == 0
    assert re.fullmatch(
        r"warning: \d+ of 100 test questions have gold within 900 characters of a search question's, "
        r"\d+ share a relevant chunk with one: the test is less unseen than it should be\.\n",
        checked.err,
    )
    assert "valid" in checked.out


def test_texts_are_looked_for_in_documents_of_one_s_own(ragsmith: Command, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "oak.md").write_text("# Oak\n\nThe oak is a tree. It is old, and its bark is grey.\n")
    contexts = ["it is old and its bark is grey", "The oak is a tree.", "Nothing of this kind is written there."]
    rows = [{"user_input": "How old is it?", "reference": "Old.", "reference_contexts": contexts}]
    source = published(tmp_path / "published", testset=rows)
    options = ("--documents", tmp_path / "pages")
    shown = ragsmith("dataset", "import", source, "-o", tmp_path / "mine", *options)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[0].endswith(
        "1 documents, 1 questions; 2 of 3 pieces of evidence located (66.7 %): 1 normalised, 1 exact"
    )
    assert len(load_dataset(tmp_path / "mine").examples[0].evidence) == 2
    found = json.loads(ragsmith("dataset", "import", source, "-o", tmp_path / "again", *options, "--json").out)
    assert (found["located"], found["total"], found["how"]) == (2, 3, {"normalised": 1, "exact": 1})
