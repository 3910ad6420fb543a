"""AutoRAG passages with offsets are joined to files, others become documents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from dataset_folder import spans_of
from pyarrow import parquet

from ragsmith.datasets.dataset import write_dataset
from ragsmith.datasets.importers import import_dataset, recognise_format
from ragsmith.errors import DatasetError, MissingExtra, Notice

PAGE = "The kiln is lit on Monday. It cools until Wednesday. Pots are glazed on Thursday."
CUTS = {"c1": (0, 26), "c2": (20, 52), "c3": (53, 82)}


def published(folder: Path, corpus: list[dict[str, Any]], questions: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(corpus), folder / "corpus.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(questions), folder / "qa.parquet")
    return folder


def passages(**more: Any) -> list[dict[str, Any]]:
    return [
        {"doc_id": id_, "contents": PAGE[start:end], "path": "in/kiln.txt", "start_end_idx": [start, end], **more}
        for id_, (start, end) in CUTS.items()
    ]


QUESTIONS = [
    {"qid": "q1", "query": "When is the kiln lit?", "retrieval_gt": [["c1"]], "generation_gt": ["On Monday."]},
    {
        "qid": "q2",
        "query": "How long does it cool?",
        "retrieval_gt": [["c2", "c9"]],
        "generation_gt": ["Until Wednesday."],
    },
]


def test_passages_that_overlap_become_their_file_again(tmp_path: Path) -> None:
    corpus = passages()
    corpus[2] |= {"contents": PAGE[52:], "start_end_idx": [52, 82]}  # leaves no gap
    source = published(tmp_path / "pots", corpus, QUESTIONS)
    assert recognise_format(source).name == "autorag"
    imported = import_dataset(source)
    assert [document.text for document in imported.dataset.documents] == [f"{PAGE}\n"]
    assert (imported.located, imported.total, imported.match_counts) == (2, 3, {"exact": 2})
    assert imported.notes == (
        "q2: there is no passage 'c9'",
        "1 questions need one of several passages: all of these are their evidence",
    )
    write_dataset(imported.dataset, tmp_path / "mine")
    assert spans_of(tmp_path / "mine") == {
        "q1": ["The kiln is lit on Monday."],
        "q2": ["onday. It cools until Wednesday."],
    }


@pytest.mark.parametrize("change", [{"path": None}, {"start_end_idx": None}, {"contents": "Something else."}, {}])
def test_passages_that_do_not_fit_are_documents(tmp_path: Path, change: dict[str, Any]) -> None:
    """The last, because between the second and the third a character is missing."""
    corpus = [{**row, **change, "contents": f"{row['contents']}{change.get('contents', '')}"} for row in passages()]
    imported = import_dataset(published(tmp_path / "pots", corpus, QUESTIONS[:1]))
    assert {document.id for document in imported.dataset.documents} == set(CUTS)
    assert imported.match_counts == {"whole passages, which became documents": 1}
    write_dataset(imported.dataset, tmp_path / "mine")
    assert spans_of(tmp_path / "mine") == {"q1": [corpus[0]["contents"]]}


def test_what_is_not_in_the_layout_is_said(tmp_path: Path) -> None:
    source = published(tmp_path / "pots", passages(), [{"qid": "q", "query": "Why?", "retrieval_gt": [[1]]}])
    with pytest.raises(DatasetError, match="'retrieval_gt' must be lists of identifiers of passages"):
        import_dataset(source)
    (source / "qa.parquet").write_bytes(b"no parquet")
    with pytest.raises(DatasetError, match=r"qa\.parquet: is not a Parquet file"):
        import_dataset(source)
    (source / "qa.parquet").unlink()
    with pytest.raises(DatasetError, match=r"qa\.parquet: is missing"):
        import_dataset(source)


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = published(tmp_path / "pots", passages(), QUESTIONS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as where it is not installed
    with pytest.raises(MissingExtra, match=r"pyarrow is not installed: run  pip install 'ragsmith\[parquet\]'"):
        import_dataset(source)


def test_control_characters_are_dropped_and_said(tmp_path: Path) -> None:
    corpus = [{"doc_id": "c1", "contents": "The kiln\x07 is lit on Monday."}]
    source = published(tmp_path / "pots", corpus, QUESTIONS[:1])
    with pytest.warns(Notice, match=r"^corpus\.parquet: control characters were removed$"):
        imported = import_dataset(source)
    assert [document.text for document in imported.dataset.documents] == ["The kiln is lit on Monday.\n"]
