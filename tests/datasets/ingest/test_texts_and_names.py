"""Texts are decoded, named after their files, and compared with each other."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.datasets.dataset import load_documents
from ragsmith.datasets.ingest.decoding import decode_text
from ragsmith.datasets.ingest.ingest import ingest_folder
from ragsmith.datasets.ingest.naming import choose_file_name, choose_titles, clean_title, title_from_name
from ragsmith.datasets.ingest.near_duplicates import MIN_SIMILARITY, find_near_duplicates, find_versions
from ragsmith.datasets.ingest.readers.part import FilePart
from ragsmith.text.files import TextError

SENTENCE = "The gate is shut at nine, and the keeper's lamp costs 3 crowns.\n"
LEGACY = (
    ("Das Gerät darf nicht über 60 °C erwärmt werden. Schließen Sie die Tür.", "cp1252"),
    ("Le délai est de trois mois à compter de la réception.", "latin-1"),
    ("naïve “quotes” – and a dash", "cp1252"),
    ("Zażółć gęślą jaźń, proszę. Pompa musi być napełniona.", "cp1250"),
    ("İstanbul'da yağmur yağıyor, şöyle güzel bir gün.", "cp1254"),
    ("Насос должен быть заполнен до первого пуска.", "cp1251"),
    ("ポンプは最初の運転前に満たす必要があります。", "shift_jis"),
    ("泵在首次启动前必须注满。", "gb18030"),
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_is_read_with_and_without_a_mark(encoding: str) -> None:
    text, notes = decode_text(SENTENCE.encode(encoding))
    assert text == SENTENCE
    assert bool(notes) == (not encoding.startswith("utf-8"))


@pytest.mark.parametrize(("sentence", "encoding"), LEGACY)
def test_older_encodings_are_guessed_and_that_is_said(sentence: str, encoding: str) -> None:
    pytest.importorskip("charset_normalizer", reason="needs the extra documents")
    text, notes = decode_text(sentence.encode(encoding))
    assert text == sentence
    assert "(guessed)" in notes[0]


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufeff")))
def test_any_text_in_utf_8_is_what_it_was(text: str) -> None:
    assert decode_text(text.encode()) == (text, ())


def test_line_ends_are_made_one_and_colours_of_a_terminal_are_left_out() -> None:
    log = b"".join(b"line %d is here and goes on for a while\r\n" % n for n in range(20)) + b"\x1b[31mred\x1b[0m\rend"
    text, notes = decode_text(log)
    assert text.endswith("while\nred\nend")
    assert "\r" not in text
    assert notes == ("9 control characters were removed",)


@pytest.mark.parametrize(
    "data", [bytes(range(256)), b"\0" * 40, b"abc\0def" * 9, b"\xff\xfe\0", b"\x01\x02\x03\x04text"]
)
def test_what_is_no_text_is_refused(data: bytes) -> None:
    pytest.importorskip("charset_normalizer", reason="needs the extra documents")
    with pytest.raises(TextError, match=r"binary data|begins as UTF-16-LE, but is not valid"):
        decode_text(data)


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
    assert choose_file_name(source, FilePart("", ending, name=part), set()) == file


def test_identifiers_that_are_taken_are_not_given_again() -> None:
    part = FilePart("", ".txt")
    assert choose_file_name("a.txt", part, {"a"}) == "a.txt.txt"
    assert choose_file_name("a.txt", part, {"a", "a.txt"}) == "a.txt~2.txt"
    assert choose_file_name("a.txt", part, {"a", "a.txt", "a.txt~2"}) == "a.txt~3.txt"


def test_long_names_are_cut_and_stay_apart() -> None:
    first, second = (choose_file_name("é" * 120 + f"{n}" * 20 + ".log", FilePart("", ".txt"), set()) for n in (1, 2))
    assert first != second
    assert all(len(name.encode()) <= 255 and name.endswith(".txt") for name in (first, second))


WORDS = [f"word{n}" for n in range(400)]


def counted(texts: dict[str, str]) -> set[tuple[str, str]]:
    """The pairs by their definition, one after the other."""

    def runs(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"\w+", text.lower())
        return {tuple(words[at : at + 5]) for at in range(len(words) - 4)}

    sets = {name: runs(text) for name, text in texts.items()}
    return {
        (a, b)
        for a, b in combinations(sorted(sets), 2)
        if len(sets[a] & sets[b]) >= MIN_SIMILARITY * len(sets[a] | sets[b])
    }


def test_pairs_are_those_of_the_definition() -> None:
    random = Random(3)
    texts: dict[str, str] = {}
    for number in range(40):
        words = random.choices(WORDS, k=300)
        texts[f"{number:02d}"] = " ".join(words)
        for changes in (1, 5, 12, 40):
            other = list(words)
            for at in random.sample(range(300), changes):
                other[at] = random.choice(WORDS)
            texts[f"{number:02d}-{changes}"] = " ".join(other)
    found = find_near_duplicates(texts)
    expected = counted(texts)
    assert len(expected) >= 80
    missed = expected - {(pair.first, pair.second) for pair in found}
    assert {(pair.first, pair.second) for pair in found} <= expected
    assert len(missed) <= 0.02 * len(expected)
    assert [pair.similarity for pair in found] == sorted((pair.similarity for pair in found), reverse=True)


def test_case_and_punctuation_do_not_count_and_short_texts_are_compared_whole() -> None:
    texts = {"a": "The gate, is SHUT.", "b": "the gate is shut", "c": "the gate is open", "d": "", "e": "!?"}
    assert [(pair.first, pair.second, pair.similarity) for pair in find_near_duplicates(texts)] == [("a", "b", 1.0)]


def test_versions_are_documents_that_differ_in_numbers_and_dates_alone() -> None:
    texts = {
        "dated": "Prices of 2024-05-03: the ferry costs 9, the lift 12.",
        "2023": "Prices of 3 May 2023: the ferry costs 1,200.50, the lift 7.",
        "2024": "Prices of July 2024: the ferry costs 9, the lift 12.",
        "other": "Prices of July 2024: the ferry costs 9, the tram 12.",
        "copy": "PRICES of July 2024, the ferry costs 9; the lift 12",
        "a": "The gate may be shut.",
        "b": "The gate may be, shut",
        "x86": "The build for x86 runs on all our machines.",
        "x64": "The build for x64 runs on all our machines.",
        "table": "year: 2020; lamps: 4\n" * 9,
        "later": "year: 2021; lamps: 6\n" * 9,
    }
    assert find_versions(texts) == (("2023", "2024", "copy", "dated"),)


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("Leave policy", "Leave policy"),
        (" The  new\x07 office\n", "The new office"),
        ("untitled", ""),
        ("Untitled document (2)", ""),
        ("Neues Dokument", ""),
        ("Microsoft Word", ""),
        ("PowerPoint Presentation", ""),
        ("Book1", ""),
        ("TeX output 2024.01.31:1200", ""),
        ("---", ""),
        ("Microsoft Word - leave_policy.docx", "leave policy"),
        ("Microsoft Word - Document1", ""),
        (r"C:\Users\ada\Desktop\price-list 2024.indd", "price list 2024"),
        ("Word of mouth", "Word of mouth"),
        ("Node.js", "Node.js"),
    ],
)
def test_a_title_that_a_program_wrote_says_nothing(written: str, title: str) -> None:
    assert clean_title(written) == title


def test_a_title_falls_back_to_heading_file_name_and_sheet() -> None:
    assert choose_titles(
        [
            (FilePart("# One\n\nText\n\n# Two\n", title="untitled"), "a.pdf"),
            (FilePart("Text\n", title="Microsoft Word"), "hr/leave_policy.pdf"),
            (FilePart("month: May\n", ".csv", title="Book1", name="Prices"), "lists.xlsx"),
            (FilePart("pass\n", ".py"), "tool.py"),
        ]
    ) == ["One", "leave policy", "lists: Prices", None]


@pytest.mark.parametrize(("number", "shared"), [(2, False), (3, True)])
def test_a_title_that_many_documents_share_falls_back(number: int, shared: bool) -> None:
    pages = [(FilePart(f"# A {n}\n\n# B\n", title="Intranet"), f"page_{n}.html") for n in range(number)]
    assert choose_titles(pages) == [f"A {n}" if shared else "Intranet" for n in range(number)]
    minutes = [(FilePart("# Minutes\n\nText\n"), f"2024/{n}/minutes.md") for n in range(number)]
    assert choose_titles(minutes) == [f"2024 {n} minutes" if shared else "Minutes" for n in range(number)]


def test_an_update_chooses_the_titles_of_a_new_data_set(tmp_path: Path) -> None:
    files, updated, fresh = tmp_path / "files", tmp_path / "updated", tmp_path / "fresh"
    for number in range(4):
        folder = files / f"team {number}"
        folder.mkdir(parents=True)
        (folder / "rules.md").write_text(f"---\ntitle: Our rules\n---\nRule {number} of the team.\n")
        ingest_folder(files, updated)
    ingest_folder(files, fresh)
    titles = [{each.id: each.title for each in load_documents(made).documents} for made in (updated, fresh)]
    assert titles[0] == titles[1] == {f"team {n}/rules": f"team {n} rules" for n in range(4)}
