"""Titles from file names, and file names of documents."""

from __future__ import annotations

import pytest

from ragsmith.datasets.ingest.naming import document_file_name, title_from_name
from ragsmith.datasets.ingest.readers.part import FilePart


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("contracts/master_service-Agreement_v2.docx", "master service Agreement v2"),
        ("ANNUAL  report 2024.pdf", "ANNUAL report 2024"),
        ("a.b.c.md", "a b c"),
        ("my%20file+of%20mine.txt", "my file of mine"),
        ("___.txt", "___"),
        ("版本_二.txt", "版本 二"),
        ("v1.2-notes.md", "v1 2 notes"),
    ],
)
def test_a_name_is_read_as_words(name: str, title: str) -> None:
    assert title_from_name(name) == title


@pytest.mark.parametrize(
    ("source", "ending", "part", "file"),
    [
        ("a/b.md", ".md", "", "a/b.md"),
        ("b.markdown", ".md", "", "b.md"),
        ("b.txt", ".txt", "", "b.txt"),
        ("b.docx", ".md", "", "b.docx.md"),
        ("b.py", ".py", "", "b.py"),
        ("b.csv", ".csv", "", "b.csv"),
        ("b.xlsx", ".csv", "Q1.2024", "b.xlsx/Q1.2024.csv"),
        ("LICENCE", ".txt", "", "LICENCE.txt"),
        ("..odd/. x?.md", ".md", "", "_..odd/_. x_.md"),
    ],
)
def test_the_file_of_a_text_is_called_after_its_source(source: str, ending: str, part: str, file: str) -> None:
    assert document_file_name(source, FilePart("", ending, name=part), set()) == file


def test_identifiers_that_are_taken_are_not_given_again() -> None:
    part = FilePart("", ".txt")
    assert document_file_name("a.txt", part, {"a"}) == "a.txt.txt"
    assert document_file_name("a.txt", part, {"a", "a.txt"}) == "a.txt~2.txt"
    assert document_file_name("a.txt", part, {"a", "a.txt", "a.txt~2"}) == "a.txt~3.txt"


def test_long_names_are_cut_and_stay_apart() -> None:
    first, second = (document_file_name("é" * 120 + f"{n}" * 20 + ".log", FilePart("", ".txt"), set()) for n in (1, 2))
    assert first != second
    assert all(len(name.encode()) <= 255 and name.endswith(".txt") for name in (first, second))
