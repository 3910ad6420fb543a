"""RAGAS test sets, LlamaIndex data sets and one's own lists have texts that are located or become documents."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from dataset_folder import spans_of

from ragsmith.datasets.dataset import load_documents, write_dataset
from ragsmith.datasets.importers import import_dataset, recognise_format
from ragsmith.errors import DatasetError, UsageError
from ragsmith.types import DRAFTED, Origin

CUT = "Bread is baked at four in the morning."
SOLD = "It is sold from six on."
PAGE = f"# Bakery\n\n{CUT} {SOLD}\n"
ASKED = [("When is bread baked?", [CUT, SOLD], "At four."), ("When is it sold?", [SOLD], "From six on.")]
RAGAS = [
    {"user_input": question, "reference_contexts": texts, "reference": answer, "synthesizer_name": "single_hop"}
    for question, texts, answer in ASKED
]
LLAMA = {
    "examples": [
        {"query": question, "query_by": by, "reference_contexts": texts[:1], "reference_answer": answer}
        for by, (question, texts, answer) in zip(
            ({"model_name": "gpt-4", "type": "ai"}, {"model_name": "", "type": "human"}), ASKED, strict=True
        )
    ]
}


@pytest.mark.parametrize("name", ["testset.json", "testset.jsonl", "testset.csv"])
def test_a_test_set_of_ragas_is_drafted_and_its_texts_are_documents(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".csv":  # as pandas writes it
        with path.open("w", newline="") as file:
            rows = csv.DictWriter(file, RAGAS[0])
            rows.writeheader()
            rows.writerows({**row, "reference_contexts": repr(row["reference_contexts"])} for row in RAGAS)
    else:
        path.write_text(json.dumps(RAGAS) if name.endswith("json") else "".join(json.dumps(r) + "\n" for r in RAGAS))
    assert recognise_format(path).name == "ragas"
    imported = import_dataset(path)
    assert (imported.located, imported.total) == (3, 3)
    assert imported.match_counts == {"whole texts, which became documents": 3}
    assert {document.text for document in imported.dataset.documents} == {f"{CUT}\n", f"{SOLD}\n"}
    assert {e.origin for e in imported.dataset.examples} == {Origin(DRAFTED, "ragas single_hop")}
    write_dataset(imported.dataset, tmp_path / "mine")
    assert list(spans_of(tmp_path / "mine").values()) == [[CUT, SOLD], [SOLD]]


def test_texts_are_looked_for_in_documents_that_are_given(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "bakery.md").write_text(PAGE)
    lost = {**RAGAS[1], "user_input": "Who?", "reference_contexts": ["Nobody knows who bakes the bread here."]}
    (tmp_path / "testset.json").write_text(
        json.dumps([RAGAS[0], {**RAGAS[1], "reference_contexts": [SOLD.upper()]}, lost])
    )
    imported = import_dataset(tmp_path / "testset.json", documents=load_documents(tmp_path / "pages"))
    assert (imported.located, imported.total, imported.match_counts) == (3, 4, {"exact": 2, "normalised": 1})
    assert imported.notes == (
        "q003: 'Nobody knows who bakes the bread here.': neither the quotation nor a similar text was found",
        "q003: left out, because none of its evidence was found",
    )
    write_dataset(imported.dataset, tmp_path / "mine")
    assert list(spans_of(tmp_path / "mine").values()) == [[CUT, SOLD], [SOLD]]


def test_llama_index_says_which_queries_a_model_wrote(tmp_path: Path) -> None:
    (tmp_path / "rag_dataset.json").write_text(json.dumps(LLAMA))
    assert recognise_format(tmp_path).name == "llama-index"
    imported = import_dataset(tmp_path)
    assert (imported.located, imported.total) == (2, 2)
    origins = {example.question: example.origin for example in imported.dataset.examples}
    assert origins == {"When is bread baked?": Origin(DRAFTED, "llama_index", "gpt-4"), "When is it sold?": None}
    write_dataset(imported.dataset, tmp_path / "mine")
    assert list(spans_of(tmp_path / "mine").values()) == [[CUT], [SOLD]]


@pytest.mark.parametrize("name", ["list.csv", "list.json"])
def test_a_list_with_contexts_is_a_data_set_of_its_own(tmp_path: Path, name: str) -> None:
    rows = [{"question": "When is bread baked?", "answer": "At four.", "context": CUT}]
    text = (
        json.dumps(rows) if name == "list.json" else f"question,answer,context\nWhen is bread baked?,At four.,{CUT}\n"
    )
    (tmp_path / name).write_text(text)
    assert recognise_format(tmp_path / name).name == "list"
    imported = import_dataset(tmp_path / name)
    [example] = imported.dataset.examples
    assert (example.answer, example.origin) == ("At four.", None)
    write_dataset(imported.dataset, tmp_path / "mine")
    assert list(spans_of(tmp_path / "mine").values()) == [[CUT]]


def test_an_answer_that_is_missing_leaves_the_question_out(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(f"question,answer,context\nWhen?,At four.,{CUT}\nWho?,,{CUT}\n")
    imported = import_dataset(tmp_path / "list.csv")
    assert imported.notes == ("q002: left out, because it has no answer and others have one",)


def test_documents_are_for_formats_that_have_none(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "bakery.md").write_text(PAGE)
    (tmp_path / "squad.json").write_text('{"data": []}')
    with pytest.raises(UsageError, match="the format 'squad' has its own documents; omit --documents"):
        import_dataset(tmp_path / "squad.json", "squad", load_documents(tmp_path / "pages"))


def test_a_folder_with_two_lists_is_not_chosen_from(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(f"question,answer,context\nWhen?,At four.,{CUT}\n")
    with pytest.raises(DatasetError, match=r"has 2 lists of questions .*; give the one file"):
        import_dataset(tmp_path)
