# ruff: noqa: E501 - contents of files are easier to see when each is on one line
"""Single readers: what they keep, what they refuse, and which file each gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from mixed_folder import zipped

from ragsmith.datasets.document_types.tables import render_table
from ragsmith.datasets.ingest.ingest import FileOutcome, ingest_folder
from ragsmith.datasets.ingest.readers.part import READERS, FilePart, Reader, choose_reader, reader
from ragsmith.text.files import TextError

OWN = '''
import re

from ragsmith.datasets.ingest.readers.part import FilePart, reader


@reader("subtitles", suffixes=(".srt",))
def read_subtitles(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Read the text of subtitles, without times."""
    lines = [line for line in data.decode().splitlines() if line and not re.match(r"[0-9:,> -]+$", line)]
    return (FilePart("\\n".join(lines) + "\\n"),)
'''
SPOKEN = "1\n00:00:01,000 --> 00:00:02,000\nThe oak is tall.\n\n2\n00:00:02,000 --> 00:00:03,000\nIt is nine metres.\n"


def only(name_of_reader: str, data: str | bytes, name: str = "x") -> FilePart:
    (part,) = READERS[name_of_reader].read(data.encode() if isinstance(data, str) else data, name)
    return part


def package(name: str) -> None:
    pytest.importorskip(name, reason="needs the extra documents")


@pytest.mark.parametrize(
    "data", [b"PK\x03\x04", b"%PDF-1.4", b"\x7fELF\x02", bytes(9), b"hello", b"<html>", b"MZ\x00\x01\x02"]
)
@pytest.mark.parametrize("name", ["a.md", "a.docx", "a.xlsx", "a.pdf", "a.txt", "a", "a.py", "a.html", "a.json"])
def test_every_file_gets_a_reader_or_a_reason(data: bytes, name: str) -> None:
    try:
        found: Reader | str = choose_reader(data, name)
    except TextError as error:
        found = error.reason
    assert "; " in found if isinstance(found, str) else found in list(READERS)


@pytest.mark.parametrize("reader", list(READERS), ids=lambda reader: reader.name)
def test_a_reader_is_described_and_has_its_own_endings(reader: Reader) -> None:
    assert reader.summary.endswith(".")
    assert reader.suffixes or reader.member or reader.name == "PDF"
    others = [suffix for other in READERS if other != reader for suffix in other.suffixes]
    assert not set(reader.suffixes) & set(others)
    for package_needed in reader.needs:
        package({"python-pptx": "pptx", "beautifulsoup4": "bs4"}.get(package_needed, package_needed))
    assert reader.converter.startswith(f"ragsmith {reader.name} {reader.edition}")
    for data in (b"", b"\xff\xfe", b"PK\x03\x04", b"%PDF-", b"{", b"plain"):
        with suppress(TextError):
            assert all(isinstance(part, FilePart) for part in reader.read(data, "x"))


def test_a_file_of_ones_own_brings_a_reader_for_a_suffix(tmp_path: Path, ragsmith: Callable[..., Any]) -> None:
    (tmp_path / "subtitling.py").write_text(OWN)
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "oak.srt").write_text(SPOKEN)
    own = ("--import", tmp_path / "subtitling.py")
    listed = ragsmith("dataset", "init", *own, "--help")
    command = ("dataset", "init", tmp_path / "films", "-o", tmp_path / "made")
    ended = ragsmith(*command, *own)
    again = json.loads(ragsmith(*command, *own, "--json").out)
    READERS.remove("subtitles")
    assert "without times. (.srt)" in " ".join(listed.out.split())
    assert ended.code == 0, ended.err
    [document] = (tmp_path / "made" / "documents").iterdir()
    assert document.read_text() == "The oak is tall.\nIt is nine metres.\n"
    assert again["outcomes"] == {"unchanged": 1}
    without = json.loads(ragsmith(*command, "--json").out)
    assert without["outcomes"] == {"added": 1}


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (b"{\\rtf1 hello}", "a.doc", "is Rich Text; save it as DOCX"),
        (b"{\\rtf1 hello}", "a.txt", "is Rich Text; save it as DOCX"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + "EncryptedPackage".encode("utf-16-le"), "a.docx", "is encrypted"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(99), "a.msg", "is an Outlook message; save it as .eml"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(99), "a.xls", "save it as XLSX"),
        (zipped({"mimetype": b"x", "content.xml": b"x"}), "a.odt", "is OpenDocument; save it as DOCX, XLSX or PPTX"),
        (b"plain words", "a.pdf", "is named .pdf, but is not such a file"),
        (b"PAR1" + bytes(99), "a.parquet", "is a Parquet table; save it as CSV"),
        (b"<svg></svg>", "a.svg", "is a picture"),
        (b"\x1f\x8b\x08\x00" + bytes(99), "a.csv", "is a compressed file, despite its name"),
    ],
)
def test_what_is_told_by_its_bytes_is_refused_with_advice(data: bytes, name: str, reason: str) -> None:
    with pytest.raises(TextError, match=reason):
        choose_reader(data, name)


@pytest.mark.parametrize(
    "text", ["MZ is a plate of the district", "BZh, he said", "RIFFs of a guitar", "GIF89 is a format"]
)
def test_words_that_begin_like_a_binary_file_are_words(text: str, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_text(text)
    assert [document.text for document in ingest_folder(tmp_path / "files", tmp_path / "made").documents] == [text]


def test_a_file_whose_reader_is_not_installed_says_what_to_type(ragsmith: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.html").write_text("<html><p>Hello</p></html>")
    (tmp_path / "files" / "b.md").write_text("Hello")

    @reader("pages", suffixes=(".html",), needs=("ragsmith-has-no-such-package",))
    def read_pages(data: bytes, name: str) -> tuple[FilePart, ...]:
        raise AssertionError(name)

    (refused,) = ingest_folder(tmp_path / "files", tmp_path / "made").with_outcome(FileOutcome.REFUSED)
    shown = ragsmith("dataset", "init", tmp_path / "files", "-o", tmp_path / "made")
    READERS.remove("pages")
    assert refused.source == "a.html"
    assert refused.reason.endswith("is not installed: run  pip install 'ragsmith[documents]'")
    assert refused.install == "pip install 'ragsmith[documents]'"
    assert shown.out.splitlines()[-1] == (
        "to read 1 more file, install what is missing and repeat this command:  pip install 'ragsmith[documents]'"
    )


def test_an_archive_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    package("mammoth")
    monkeypatch.setattr("ragsmith.datasets.ingest.readers.part.MAX_UNPACKED", 1000)
    bomb = zipped({"word/document.xml": b" " * 2000})
    with pytest.raises(TextError, match="unpacks to more than the limit of 1000 bytes"):
        choose_reader(bomb, "a.docx").read(bomb, "a.docx")


@pytest.mark.parametrize(
    "inside", ["word/document.xml", "ppt/presentation.xml", "xl/workbook.xml", "META-INF/container.xml"]
)
@pytest.mark.parametrize("content", [b"", b"<", b"<a/>", bytes(50)])
def test_a_damaged_package_is_a_reason(inside: str, content: bytes) -> None:
    for name in ("mammoth", "pptx", "openpyxl", "bs4"):
        package(name)
    data = zipped({inside: content})
    reader = choose_reader(data, "a.docx")
    try:
        found = "".join(part.text for part in reader.read(data, "a")).strip()
    except TextError as error:
        found = error.reason
    assert not found or "save it again" in found


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\nlayout: page\ntitle: 'The gate: its rules'\n---\nText", "The gate: its rules"),
        ("The gate\n========\n\nText", "The gate"),
        ("Text\n\n---\n\ntitle: none", None),
    ],
)
def test_markdown_may_say_its_title_in_other_ways(text: str, title: str | None) -> None:
    part = only("Markdown", text)
    assert (part.title, part.text) == (title, text)


def test_a_page_keeps_its_structure_and_quotations_stay_as_they_are() -> None:
    package("bs4")
    page = """<html><head><title> A  page </title><style>p {}</style></head><body><header><h1>Gate_rules</h1></header>
    <p>It *costs* 3_000 [crowns] &amp; <a href="https://example.org">more</a>.<br>Next line.</p><img src="x.png" alt="a gate">
    <pre><code>if a:
    b()</code></pre><ol><li>One</li><li>Two<ul><li>Inner</li></ul></li></ol>
    <table><tr><td>a</td><td>b|c</td></tr><tr><td>1</td><td></td></tr></table></body></html>"""
    part = only("HTML", page)
    assert part.title == "A page"
    assert part.text.startswith("# Gate_rules\n\nIt *costs* 3_000 [crowns] & more.")
    assert "a gate" in part.text
    assert "```\nif a:\n    b()\n```" in part.text
    assert "1. One\n2. Two\n   - Inner" in part.text
    assert "| a | b\\|c |\n| --- | --- |\n| 1 |  |" in part.text
    assert "https://" not in part.text


def test_a_page_is_decoded_as_it_says() -> None:
    package("bs4")
    assert "für" in only("HTML", "<meta charset=iso-8859-1><p>für</p>".encode("latin-1")).text
    assert "für" in only("HTML", "<p>für</p>".encode()).text
    assert "水" in only("HTML", "<p>水</p>".encode("utf-16")).text


@pytest.mark.parametrize("declared", ["<meta charset=utf-16>", '<?xml version="1.0" encoding="UTF-16"?>'])
@pytest.mark.parametrize("end", ["", "\n"])  # every second page has bytes for whole pairs
def test_a_page_that_is_readable_is_not_utf_16_whatever_it_says(declared: str, end: str) -> None:
    package("bs4")
    assert (
        only("HTML", f"{declared}<body>The pump für Wasser is red</body>{end}").text == "The pump für Wasser is red\n"
    )


def test_rst_embeds_no_picture_from_disk(tmp_path: Path) -> None:
    package("docutils")
    package("bs4")
    secret = tmp_path / "secret.svg"
    secret.write_text('<svg xmlns="http://www.w3.org/2000/svg"><title>pass</title><text>the password</text></svg>')
    text = f"Top\n===\n\n.. image:: {secret}\n   :alt: A gate\n   :loading: embed\n\nText |it|.\n\n.. |it| image:: {secret}\n   :loading: embed\n   :alt: A lock\n"
    part = only("RST", text)
    assert "pass" not in part.text
    assert "A gate" in part.text
    assert "Text A lock." in part.text


def workbook(**cells: str) -> bytes:
    """A workbook with these cells, the last of which has a format alone if it is blank."""
    import openpyxl  # noqa: PLC0415

    book = openpyxl.Workbook()
    for place, value in cells.items():
        book.active[place] = value or None
        book.active[place].number_format = "0.00"
    data = BytesIO()
    book.save(data)
    return data.getvalue()


def test_cells_that_have_a_format_alone_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    package("openpyxl")
    monkeypatch.setattr("ragsmith.datasets.ingest.readers.office.MAX_CELLS", 4)
    cells = {"A1": "part", "B1": "crowns", "A9": "seal", "B9": "3"}
    assert only("XLSX", workbook(**cells, XFD9="")).text == "part,crowns\nseal,3\n"
    with pytest.raises(TextError, match="has more than 4 cells in the sheet 'Sheet'; split it"):
        READERS["XLSX"].read(workbook(**cells, C1="colour"), "x")
    monkeypatch.setattr("ragsmith.datasets.ingest.readers.office.MAX_ROWS", 8)
    with pytest.raises(TextError, match="has more than 8 rows in the sheet 'Sheet'; split it"):
        READERS["XLSX"].read(workbook(**cells), "x")


def test_rst_reads_no_other_file_and_loses_nothing_that_it_cannot_read(tmp_path: Path) -> None:
    package("docutils")
    package("bs4")
    secret = tmp_path / "secret.txt"
    secret.write_text("the password")
    text = f"Top\n===\n\n.. include:: {secret}\n\n====  ==\nab    c\n====  ==\nabcdefgh  12\n====  ==\n\n.. tip:: Kept.\n\n.. mine::\n\n   Kept, too.\n"
    part = only("RST", text)
    assert "password" not in part.text
    assert "abcdefgh  12" in part.text
    assert "1 passages are not valid reStructuredText and were not converted" in part.notes
    assert "Kept." in part.text
    assert "Kept, too." in part.text
    assert part.title == "Top"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,2\n", ["a: 1; b: 2"]),
        ("a;b\n1,5;2\n3,5;4\n", ["a: 1,5; b: 2", "a: 3,5; b: 4"]),
        ("a\tb\n1\t2\n", ["a: 1; b: 2"]),
        ("a|b\n1|2\n", ["a: 1; b: 2"]),
        (",b,b\n1,2,3\n", ["column 1: 1; b: 2; b 2: 3"]),
        ("a,b\n1\n1,2,3\n", ["a: 1", "a: 1; b: 2; column 3: 3"]),
        ('a,b\n"one\ntwo",2\n', ["a: one two; b: 2"]),
        ("a\n1\n", ["a: 1"]),
    ],
)
def test_tables_are_read_however_they_are_separated(text: str, rows: list[str]) -> None:
    part = only("tables", text, "x.csv")
    assert render_table(part.text, ",").splitlines() == rows


def test_records_are_rows_or_sections_and_other_json_is_code() -> None:
    nested = [{"id": 1, "tags": ["a", "b"], "size": {"w": 2}, "none": None}, {"id": 2, "ok": True}]
    for part in (only("JSON", json.dumps(nested)), only("JSON Lines", "\n".join(map(json.dumps, nested)))):
        assert render_table(part.text, ",").splitlines() == ["id: 1; tags: a, b; size.w: 2", "id: 2; ok: yes"]
    long = [{"name": "First", "text": "One.\n\nTwo.", "year": 1990}, {"name": "Second", "text": "Three."}]
    part = only("JSON", json.dumps(long))
    assert part.text == "## First\n\nyear: 1990\n\nOne.\n\nTwo.\n\n## Second\n\ntext: Three.\n"
    assert only("JSON", '{"a": 1}').ending == ".json"
    assert "\n  " in only("JSON", json.dumps({str(n): n for n in range(900)})).text
    assert "was not converted: " in only("JSON", "{oops").notes[0]
    with pytest.raises(TextError, match="not valid JSON"):
        READERS["JSON Lines"].read(b'{"a": 1}\n{oops\n', "x")


def test_a_notebook_keeps_texts_code_and_short_outputs() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# T\n", "text"]},
        {"cell_type": "code", "source": "print('```')", "outputs": [{"output_type": "stream", "text": ["x" * 3000]}]},
        {"cell_type": "code", "source": "1", "outputs": [{"data": {"text/plain": ["1"], "image/png": "aaaa"}}]},
    ]
    text = only("notebook", json.dumps({"cells": cells, "metadata": {"language_info": {"name": "julia"}}})).text
    assert text.startswith("# T\ntext\n\n````julia\nprint('```')\n````\n\n```text\n" + "x" * 2000 + "...\n```\n")
    assert text.endswith("```julia\n1\n```\n\n```text\n1\n```\n")


def test_an_e_mail_has_its_subject_decoded_and_its_plain_text() -> None:
    raw = (
        b"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nFrom: a@example.org\r\nContent-Type: text/plain; charset=iso-8859-1\r\n"
        b"Content-Transfer-Encoding: 8bit\r\n\r\nSch\xf6n.\r\n"
    )
    part = only("e-mail", raw)
    assert part.text == "# Grüße\n\nFrom: a@example.org\n\nSchön.\n"
    assert part.title == "Grüße"
    with pytest.raises(TextError, match="has none of the fields of an e-mail"):
        READERS["e-mail"].read(b"just text", "x.eml")
