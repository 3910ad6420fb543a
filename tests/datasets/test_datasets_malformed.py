# ruff: noqa: E501 - sentences are quoted whole, so that they can be searched for
"""Every way a data set can be wrong is one sentence with file, line and id; all of them come at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dataset_folder import questions, record, small_dataset

from ragsmith.datasets.dataset import load_dataset, validate_dataset
from ragsmith.errors import DatasetError

Break = Callable[[Path], object]


def lines(*given: Any) -> Break:
    """Replace the questions."""
    return lambda folder: questions(folder, *given)


def file(name: str, data: bytes) -> Break:
    """Write a file."""
    return lambda folder: (folder / name).write_bytes(data)


def link(name: str, target: str) -> Break:
    """Put a symbolic link in place of a file."""

    def replace(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return replace


def in_folder(name: str, *files: str) -> Break:
    """Make a folder of documents with these files."""

    def fill(folder: Path) -> None:
        (folder / name).mkdir()
        for inner in files:
            (folder / name / inner).write_text("a")

    return fill


def large(name: str, mebibytes: int) -> Break:
    """Make a file of zero bytes."""

    def grow(folder: Path) -> None:
        with (folder / name).open("wb") as handle:
            handle.truncate((mebibytes << 20) + 1)

    return grow


def no_documents(folder: Path) -> None:
    for path in (folder / "documents").iterdir():
        path.unlink()
    questions(folder, record(1))


ANY_KIND = "text (.md, .txt), source code (.py, .pyi, ...), tables (.csv, .tsv) or PDF (.pdf)"
CONVERT = "convert the folder with  ragsmith dataset init  or move the file away"

ROWS = [json.loads(line) for line in Path(__file__).with_name("malformed.jsonl").read_text().splitlines()]
"""Mistakes that are in the text of one file: ``case``, ``file``, ``text`` and the sentence, ``mistake``."""
MALFORMED: list[tuple[Break, str]] = [
    (lambda f: (f / "dataset.yaml").unlink(), "dataset.yaml: is missing; check its name and folder"),
    (no_documents, f"documents/: has no documents; put {ANY_KIND} files there"),
    (
        file("documents/c.pdf", b"%PDF"),
        "documents/c.pdf: is not a PDF file that can be read (PdfStreamError: Stream has ended unexpectedly); save it again as PDF",
    ),
    (file("documents/c.pdf", b""), "documents/c.pdf: is empty; add text or remove the file"),
    (
        link("documents/c.pdf", "/etc/passwd"),
        "documents/c.pdf: is a symbolic link, which is not followed; put the file itself here",
    ),
    (large("documents/c.pdf", 128), "documents/c.pdf: is larger than the limit of 128 MiB; split it"),
    (file("documents/c.csv", b"a,b\n1,\x00\n"), "documents/c.csv:2: control character U+0000; remove it"),
    (
        file("documents/c.py", b"x = 1\n# \xe9\n"),
        "documents/c.py:2: byte 0xe9 at offset 8 is not UTF-8; save the file as UTF-8",
    ),
    (link("documents/c", "/etc"), "documents/c: is a symbolic link, which is not followed; put the folder itself here"),
    (
        in_folder("documents/c", "alpha.md", "alpha.txt"),
        "documents/c/alpha.txt: has the same identifier 'c/alpha' as c/alpha.md; rename one of them",
    ),
    (
        file("documents/c.md", b"a\n\xff"),
        "documents/c.md:2: byte 0xff at offset 2 is not UTF-8; save the file as UTF-8",
    ),
    (
        file("documents/c.md", b"\xef\xbb\xbfa"),
        "documents/c.md:1: starts with a byte order mark; save it as UTF-8 without BOM",
    ),
    (
        link("documents/c.md", "/etc/passwd"),
        "documents/c.md: is a symbolic link, which is not followed; put the file itself here",
    ),
    (lambda f: os.mkfifo(f / "documents/c.md"), "documents/c.md: is not a regular file"),
    (large("documents/c.md", 128), "documents/c.md: is larger than the limit of 128 MiB; split it"),
    (
        link("questions.jsonl", "/dev/zero"),
        "questions.jsonl: is a symbolic link, which is not followed; put the file itself here",
    ),
    (large("questions.jsonl", 256), "questions.jsonl: is larger than the limit of 256 MiB; split it"),
    (
        lines(record(1), b'{"id": "\xff"}'),
        "questions.jsonl:2: byte 0xff at offset 191 is not UTF-8; save the file as UTF-8",
    ),
    (lines("[" * 100_000), "questions.jsonl:1: the JSON is nested too deeply; flatten it"),
    (
        lines('{"id": ' + "9" * 5000 + "}"),
        "questions.jsonl:1: not valid JSON: a number has too many digits; shorten it",
    ),
]

CASES = [*MALFORMED, *((file(row["file"], row["text"].encode()), row["mistake"]) for row in ROWS)]


@pytest.mark.parametrize(("spoil", "mistake"), CASES, ids=[mistake for _, mistake in CASES])
def test_one_mistake_is_one_sentence(tmp_path: Path, spoil: Break, mistake: str) -> None:
    folder = small_dataset(tmp_path / "small")
    spoil(folder)
    found = validate_dataset(folder)
    assert mistake in found
    cascades = [other for other in found if other != mistake and "there is no document" not in other]
    assert cascades == []
    with pytest.raises(DatasetError) as refusal:
        load_dataset(folder)
    assert refusal.value.mistakes == found


def test_mistakes_of_the_whole_folder_come_together_in_the_order_of_files_and_lines(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    (folder / "dataset.yaml").write_text("name: small\ntitel: Small\n")
    (folder / "documents" / "beta.txt").write_bytes(b"\xff")
    (folder / "documents" / "notes.docx").write_bytes(b"x")
    in_beta = {"doc": "beta", "start": 0, "end": 9, "text": "it cannot be checked"}
    questions(folder, record(1, type=""), "oops", record(1, evidence=[in_beta]), record(4, evidence=[{}]))
    places = [mistake.split(": ")[0] for mistake in validate_dataset(folder)]
    assert places == [
        "dataset.yaml:2",
        "documents/beta.txt:1",
        "documents/notes.docx",
        "questions.jsonl:1 (q1)",
        "questions.jsonl:2",
        "questions.jsonl:3 (q1)",
        "questions.jsonl:4 (q4)",
    ]


def test_a_missing_folder_is_one_mistake(tmp_path: Path) -> None:
    (mistake,) = validate_dataset(tmp_path / "nothing")
    assert "is neither a folder nor the name of a data set" in mistake


def test_documents_folder_missing_or_linked(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    (folder / "documents").rename(tmp_path / "elsewhere")
    expected = f"documents/: is missing; create this folder and put {ANY_KIND} files there"
    assert validate_dataset(folder)[0] == expected
    (folder / "documents").symlink_to(tmp_path / "elsewhere")
    assert validate_dataset(folder)[0].startswith("documents/: is a symbolic link, which is not followed")
    (folder / "documents").unlink()
    (folder / "documents").write_text("a file")
    assert validate_dataset(folder)[0].startswith("documents/: is not a folder")


def test_messages_never_carry_line_breaks_or_controls(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    (folder / "documents" / "new\nline\x1b.md").write_text("a")
    questions(folder, record(1, id="a\x1b[31m", **{"k\x1b": 1}, evidence=[{"doc": "x\x1b\n"}]))
    for mistake in validate_dataset(folder):
        assert mistake.isprintable()
