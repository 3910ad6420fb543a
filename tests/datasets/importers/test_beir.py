"""Relevance judgements in BEIR's and TREC's form become coarse evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragsmith.datasets.dataset import load_dataset, write_dataset
from ragsmith.datasets.importers import import_dataset, recognise_format
from ragsmith.errors import DatasetError

CORPUS = [
    {"_id": "d/1", "title": "Oak", "text": "The oak grows slowly. Its wood is hard."},
    {"_id": "d2", "title": "", "text": "The willow stands by the water."},
    {"_id": "d3", "title": "A very long title of a note on alders and birches", "text": "Short."},
    {"_id": "d4", "title": "", "text": " "},
]
QUERIES = [{"_id": "q1", "text": "hard wood"}, {"_id": "q2", "text": "tree at a river"}, {"_id": "q3", "text": "palms"}]
BEIR = {"qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td/1\t1\nq1\td2\t0\nq2\td2\t2\nq2\td3\t1\nq2\td9\t1\n"}
TREC = {"trec.qrels": "q1 0 d/1 1\nq1 0 d2 0\nq2 0 d2 2\nq2 0 d3 1\nq2 0 d9 1\n"}


def published(folder: Path, files: dict[str, str]) -> Path:
    texts = {
        name: "".join(json.dumps(row) + "\n" for row in rows)
        for name, rows in (("corpus", CORPUS), ("queries", QUERIES))
    }
    for name, text in {**{f"{name}.jsonl": text for name, text in texts.items()}, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("judgements", [BEIR, TREC])
def test_relevant_documents_are_evidence_as_wholes(tmp_path: Path, judgements: dict[str, str]) -> None:
    source = published(tmp_path / "trees", judgements)
    assert recognise_format(source).name == "beir"
    imported = import_dataset(source)
    assert (imported.located, imported.total, imported.match_counts) == (3, 4, {"whole documents": 3})
    assert imported.notes == (
        "q2: there is no document 'd9'",
        "q3: left out, because none of its evidence was found",
    )
    write_dataset(imported.dataset, tmp_path / "mine")
    data = load_dataset(tmp_path / "mine")
    texts = {document.id: document.text for document in data.documents}
    found = {e.question: [texts[s.doc][s.start : s.end] for s in e.evidence] for e in data.examples}
    assert found == {
        "hard wood": ["# Oak\n\nThe oak grows slowly. Its wood is hard."],
        "tree at a river": [
            "The willow stands by the water.",
            "A very long title of a note on alders and birches\n\nShort.",
        ],
    }
    assert not any(example.answer or example.split for example in data.examples)


def test_judgements_of_several_parts_are_the_split(tmp_path: Path) -> None:
    head = "query-id\tcorpus-id\tscore\n"
    parts = {"qrels/train.tsv": f"{head}q1\td/1\t1\n", "qrels/test.tsv": f"{head}q2\td2\t1\n"}
    imported = import_dataset(published(tmp_path / "trees", parts))
    assert {example.id: example.split for example in imported.dataset.examples} == {"q1": "search", "q2": "test"}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "has no judgements; give the folder with corpus.jsonl, queries.jsonl and qrels/*.tsv"),
        ({"qrels/test.tsv": "q1\td2\n"}, "test.tsv:1: is not a judgement"),
        ({"qrels/test.tsv": "q1\td2\tgood\n"}, "test.tsv:1: is not a judgement"),
        ({"qrels/test.tsv": "q9\td2\t1\n"}, "no query has a relevant document; do the files belong together?"),
        ({**BEIR, "queries.jsonl": "{\n"}, "queries.jsonl:1: not valid JSON"),
        ({**BEIR, "corpus.jsonl": '{"_id": "a", "text": "x"}\n' * 2}, "the document 'a' occurs twice"),
    ],
)
def test_what_is_not_in_the_layout_is_said(tmp_path: Path, files: dict[str, str], said: str) -> None:
    with pytest.raises(DatasetError) as caught:
        import_dataset(published(tmp_path / "trees", files), "beir")
    assert said in str(caught.value)
