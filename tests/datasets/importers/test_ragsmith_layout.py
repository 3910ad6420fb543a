"""The published RAGSmith layout becomes documents and exact spans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.importers.ragsmith_layout import import_ragsmith_layout
from ragsmith.errors import DatasetError

BODY = "Lead words. == Act == The same words. == Omission == The same words. Other words."


def chunk(number: int, content: str, start: int, section: str = "Lead") -> dict[str, Any]:
    return {
        "id": f"art_c{number}", "section": section, "heading_path": section, "content": content, "start_char": start,
    }  # fmt: skip


def question(*chunks: str) -> dict[str, Any]:
    return {"question": "Q?", "answer": "A.", "category": "LONG_ANSWER", "reranked_relative_chunk_ids": list(chunks)}


def article(*questions: dict[str, Any], front: str = "---\nid: art\n---\n") -> dict[str, Any]:
    chunks = [
        chunk(0, "Lead words.", 0),
        chunk(1, "== Act == The same words.", 20, "== Act =="),
        chunk(2, "The same words.", 49, "== Omission =="),
        chunk(3, "No such words.", 3),
    ]
    about = {"id": "art", "title": "The Act (law)", "content": front + BODY}
    return {"article": about, "chunks": chunks, "questions": {"items": list(questions)}}


def write(folder: Path, record: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "art.json").write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize("front", ["---\nid: art\n---\n", ""])
def test_chunks_become_the_nearest_exact_spans_without_their_headings(tmp_path: Path, front: str) -> None:
    folder = write(tmp_path / "my layout", article(question("art_c1"), question("art_c0", "art_c2"), front=front))
    imported = import_ragsmith_layout(folder)
    (document,) = imported.dataset.documents
    assert (document.id, document.title) == ("art", "The Act (law)")
    assert document.text == f"# The Act (law)\n\n{BODY}\n"
    found = [[document.text[s.start : s.end] for s in e.evidence] for e in imported.dataset.examples]
    assert found == [["The same words."], ["Lead words.", "The same words."]]
    second = document.text.index("The same words.", document.text.index("Omission"))
    assert imported.dataset.examples[0].evidence[0].start == document.text.index("The same words.")
    assert imported.dataset.examples[1].evidence[1].start == second
    assert [(e.id, e.type) for e in imported.dataset.examples] == [
        ("art-q01", "long_answer"),
        ("art-q02", "long_answer"),
    ]
    assert (imported.located, imported.total, imported.notes) == (3, 3, ())
    assert imported.dataset.name == "my-layout"


def test_gold_that_is_not_found_is_counted_and_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", article(question("art_c0", "art_c3"), question("art_c9")))
    imported = import_ragsmith_layout(folder)
    assert (imported.located, imported.total) == (1, 3)
    assert imported.notes == (
        "art-q01: chunk art_c3 does not occur in its article",
        "art-q02: chunk art_c9 does not occur in its article",
        "art-q02: left out, because none of its evidence was found",
    )
    assert [e.id for e in imported.dataset.examples] == ["art-q01"]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ([], "art.json: the file: expected an object, found a list"),
        ({"questions": []}, "art.json: the file: 'article' is missing; give a file in RAGSmith's layout"),
        ({**article(), "chunks": [1]}, "art.json: the file, chunk 1: expected an object, found an integer"),
        (article({"question": "Q?"}), "art.json: the questions, item 1: 'reranked_relative_chunk_ids' is missing"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, record: object, reason: str) -> None:
    with pytest.raises(DatasetError) as refusal:
        import_ragsmith_layout(write(tmp_path / "data", record))
    assert str(refusal.value).startswith(reason)


def test_a_folder_without_articles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"has no \*\.json files"):
        import_ragsmith_layout(tmp_path)
