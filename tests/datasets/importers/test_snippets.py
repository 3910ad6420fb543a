"""Labelled spans of LegalBench-RAG and Chroma's evaluation become evidence."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from ragsmith.datasets.dataset import load_dataset, write_dataset
from ragsmith.datasets.importers import import_dataset, recognise_format
from ragsmith.errors import DatasetError, Notice

LEASE = "# Lease\n\nThe rent is due on the third day. Pets are allowed.\n"
START = LEASE.index("The rent")
END = LEASE.index(" Pets")


def check(imported_to: Path) -> None:
    data = load_dataset(imported_to)
    [example] = data.examples
    [span] = example.evidence
    assert data.documents[0].text[span.start : span.end] == LEASE[START:END]


def legalbench(folder: Path, *snippets: dict[str, object]) -> Path:
    (folder / "corpus" / "leases").mkdir(parents=True)
    (folder / "corpus" / "leases" / "one.txt").write_text(LEASE)
    (folder / "benchmarks").mkdir()
    tests = [{"query": "When is the rent due?", "snippets": list(snippets)}]
    (folder / "benchmarks" / "leases.json").write_text(json.dumps({"tests": tests}))
    return folder


def test_legalbench_rag(tmp_path: Path) -> None:
    good = {"file_path": "leases/one.txt", "span": [START, END], "answer": LEASE[START:END]}
    far = {"file_path": "leases/one.txt", "span": [START, 999]}
    source = legalbench(tmp_path / "legal", good, far)
    assert recognise_format(source).name == "legalbench-rag"
    imported = import_dataset(source)
    assert (imported.located, imported.total, imported.match_counts) == (1, 2, {"exact": 1})
    assert imported.notes == (f"q001: [{START}, 999) of leases/one.txt is outside its {len(LEASE)} characters",)
    write_dataset(imported.dataset, tmp_path / "mine")
    check(tmp_path / "mine")


@pytest.mark.parametrize("path", ["../one.txt", "leases/two.txt", "/etc/hostname"])
def test_a_file_that_is_not_in_the_corpus_is_not_read(tmp_path: Path, path: str) -> None:
    source = legalbench(tmp_path / "legal", {"file_path": path, "span": [0, 3]})
    (tmp_path / "legal" / "one.txt").write_text(LEASE)
    with pytest.raises(DatasetError, match="is missing"):
        import_dataset(source)


@pytest.mark.parametrize("shift", [0, 2])
def test_references_of_chroma_s_evaluation(tmp_path: Path, shift: int) -> None:
    """Where the text that is given does not stand at its offsets, but stands once, it is there."""
    (tmp_path / "chroma" / "corpora").mkdir(parents=True)
    (tmp_path / "chroma" / "corpora" / "lease.md").write_text(LEASE)
    reference = {"content": LEASE[START:END], "start_index": START + shift, "end_index": END + shift}
    with (tmp_path / "chroma" / "questions_df.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "references", "corpus_id"])
        rows.writerow(["When is the rent due?", json.dumps([reference]), "lease"])
    assert recognise_format(tmp_path / "chroma").name == "chroma"
    imported = import_dataset(tmp_path / "chroma")
    assert (imported.located, imported.total) == (1, 1)
    write_dataset(imported.dataset, tmp_path / "mine")
    check(tmp_path / "mine")


def test_control_characters_of_a_document_are_dropped_and_its_quotations_found(tmp_path: Path) -> None:
    good = {"file_path": "leases/one.txt", "span": [START + 1, END + 1], "answer": LEASE[START:END]}
    source = legalbench(tmp_path / "legal", good)
    (source / "corpus" / "leases" / "one.txt").write_text(f"\x02{LEASE}")
    with pytest.warns(Notice, match=r"^one\.txt: 1 control character was removed$"):
        imported = import_dataset(source)
    assert (imported.located, imported.total) == (1, 1)
    write_dataset(imported.dataset, tmp_path / "mine")
    check(tmp_path / "mine")
