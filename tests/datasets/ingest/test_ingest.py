"""A folder of many file types becomes documents, and every file left out is reported."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mixed_folder import ENTRIES, NEEDED, Mixed, entries, sentences, written

import ragsmith as library
from ragsmith.api.datasets import IngestReport
from ragsmith.datasets.dataset import load_documents
from ragsmith.datasets.ingest.ingest import FileOutcome, ingest_folder
from ragsmith.datasets.sources import read_sources
from ragsmith.errors import DatasetError, UsageError

for package in NEEDED:
    pytest.importorskip(package, reason="needs the extra documents, and python-docx to write a file to read")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    return written(tmp_path_factory.mktemp("intake") / "files")


@pytest.fixture(scope="module")
def made(mixed: Mixed) -> IngestReport:
    return library.init_dataset(mixed.folder, mixed.folder.parent / "made")


def text_of(made: IngestReport, doc: str) -> str:
    return next(document.text for document in made.result.documents if document.id == doc)


def test_everything_in_the_folder_is_a_document_a_duplicate_or_a_line_that_says_why_not(
    mixed: Mixed, made: IngestReport
) -> None:
    there = entries(mixed.folder)
    assert len(there) == ENTRIES
    files = made.result.files
    assert [file.source for file in files] == there
    assert {file.source for file in files if file.outcome is FileOutcome.DUPLICATE} == mixed.duplicates
    assert {file.source for file in files if file.outcome is FileOutcome.SKIPPED} == mixed.aside
    refused = {file.source: file.reason for file in files if file.outcome is FileOutcome.REFUSED}
    assert refused.keys() == mixed.refused.keys()
    assert [name for name, reason in mixed.refused.items() if reason not in refused[name]] == []
    converted = [file for file in files if file.outcome is FileOutcome.ADDED]
    assert Counter(doc for file in converted for doc in file.docs) == Counter(d.id for d in made.result.documents)
    assert all(file.docs for file in converted)
    assert {file.kind for file in converted} == mixed.kinds


def test_the_documents_are_a_data_set_that_is_loaded_and_recommended_for(made: IngestReport, tmp_path: Path) -> None:
    loaded = load_documents(made.result.output)
    assert loaded.documents == tuple(sorted(made.result.documents, key=lambda document: document.id))
    found = library.recommend(made.result.output, calls=1, output=tmp_path / "winner.yaml")
    assert found.corpus.documents == len(loaded.documents)
    reply = library.ask(tmp_path / "winner.yaml", "Who keeps the Inchfield station?")
    assert reply.sources[0].doc == "web/inchfield.html"


@pytest.mark.parametrize(
    ("doc", "number"),
    [
        ("handbook/birchholm", 1),
        ("handbook/deep/er/still/coldwell", 2),
        ("handbook/windows", 4),
        ("handbook/utf16", 5),
        ("handbook/utf16_without_mark", 6),
        ("handbook/harcombe.rst", 7),
        ("office/kestrel.pptx", 11),
        ("books/waterworks.epub", 12),
        ("books/waterworks.epub", 13),
        ("books/oakhanger.pdf", 14),
        ("data/reports.jsonl", 3),
    ],
)
def test_sentences_come_through_word_by_word_and_in_order(made: IngestReport, doc: str, number: int) -> None:
    text = text_of(made, doc)
    places = [text.find(sentence) for sentence in sentences(number)]
    found = [place for place in places if place >= 0]
    assert len(found) >= 3
    assert found == sorted(found) or doc == "office/kestrel.pptx"  # the notes come last there
    assert "\r" not in text


def test_headings_and_tables_of_office_and_pages_are_those_of_markdown(made: IngestReport) -> None:
    word = text_of(made, "office/juniper_hill-Station_v2.docx")
    assert "# The Pinder station" not in word
    assert word.startswith("# The Juniper Hill station\n")
    assert "\n## Upkeep\n\n| part | crowns |\n| --- | --- |\n| gland | 13 |\n" in word
    assert word.index("## Upkeep") < word.index("| rotor | 99 |") < word.index("- When the gauge")
    page = text_of(made, "web/inchfield.html")
    assert "| pump 1 | 40 kW |" in page
    assert not any(beside in page for beside in ("var x", "Home", "Copyright"))
    assert "| yellow | no water |" in text_of(made, "handbook/rules.rst")
    assert "Keepers carry a lamp at night." in text_of(made, "handbook/rules.rst")
    assert "See the basin for its size" in text_of(made, "handbook/rules.rst")


def test_sheets_records_and_tables_are_rows_that_name_their_columns(made: IngestReport) -> None:
    assert "month: February; litres: 76500; share: 85%\n" in text_of(made, "office/readings.xlsx/Readings.csv")
    assert text_of(made, "office/readings.xlsx/Valves and old.csv") == "valve: bypass; turns: 12\n"
    assert text_of(made, "tables/pipes.csv") == "pipe: main; metres: 412,5\npipe: branch; metres: 97,0\n"
    assert text_of(made, "tables/ragged.csv") == "town: Alderbrook; fee: 3; fee 2: 4\ntown: Birchholm; fee: 5\n"
    assert text_of(made, "data/alarms.json.csv") == "alarm: A1; bar: 3; horn: yes\nalarm: B2; bar: 5; horn: no\n"
    assert text_of(made, "data/visits.jsonl.csv").startswith("visit: 0; station: Alderbrook; minutes: 10\n")


def test_titles_come_from_the_content_and_then_from_the_words_of_the_name(made: IngestReport) -> None:
    titles = {document.id: document.title for document in made.result.documents}
    expected = {
        "README": "The Alderbrook station",
        "web/inchfield.html": "The Inchfield station",
        "web/prices.htm": "Prices of water",
        "office/contract.docx": "Contract of Kestrel Bay",
        "office/kestrel.pptx": "Larkspur for visitors",
        "office/readings.xlsx/Readings.csv": "Readings of the upper basin",
        "office/staff 2024.xlsx/Keepers.csv": "staff 2024: Keepers",
        "books/waterworks.epub": "A book of waterworks",
        "books/oakhanger.pdf": "Oakhanger in print",
        "books/scan_of-plan.pdf": "scan of plan",
        "mail/2024/bypass.eml": "Bypass at Fenwick",
        "handbook/utf16_without_mark": "utf16 without mark",
        "code/valve.py": "code/valve.py",
    }
    assert {id_: titles[id_] for id_ in expected} == expected


def test_where_each_document_comes_from_is_written_down(mixed: Mixed, made: IngestReport) -> None:
    rows = {row.doc: row for row in read_sources(made.result.output) if row.doc}
    assert rows.keys() == {document.id for document in made.result.documents}
    book = rows["books/oakhanger.pdf"]
    assert (book.source, book.kind, book.file) == ("books/oakhanger.pdf", "PDF", "books/oakhanger.pdf.md")
    assert book.converter.startswith("ragsmith PDF 1, pypdf ")
    text = text_of(made, "books/oakhanger.pdf")
    assert [text[start:].split(" ", 2)[:2] for start in book.pages] == [["The", "Oakhanger"], ["When", "the"]]
    repeated = {row.source: row.duplicate_of for row in read_sources(made.result.output) if row.duplicate_of}
    assert repeated.keys() == mixed.duplicates


def test_pages_of_what_was_converted_can_be_evidence(made: IngestReport, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    shutil.copytree(made.result.output, folder)
    row = {
        "id": "q1",
        "question": "Which bar?",
        "answer": "17",
        "evidence": [{"doc": "books/oakhanger.pdf", "page": 2}],
    }
    (folder / "questions.jsonl").write_text(json.dumps(row) + "\n")
    (span,) = library.load_dataset(folder).examples[0].evidence
    text = text_of(made, "books/oakhanger.pdf")
    assert text[span.start : span.end].startswith("When the gauge at Oakhanger falls below 17 bar")


def test_the_language_of_each_document_is_told(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "en.md").write_text("The gate of the house is shut at nine, and it is not opened for anybody.\n" * 5)
    (files / "de.md").write_text("Das Tor des Hauses wird um neun geschlossen und ist nicht f\u00fcr alle offen.\n" * 5)
    made = library.init_dataset(files, tmp_path / "made")
    assert made.summary.languages == {"de": 1, "en": 1}
    assert {row.doc: row.language for row in read_sources(tmp_path / "made")} == {"de": "de", "en": "en"}


def test_texts_that_are_nearly_the_same_are_told_and_both_kept(made: IngestReport) -> None:
    assert [(pair.first, pair.second) for pair in made.result.near] == [("README", "copies/nearly alderbrook")]


def test_the_same_folder_gives_the_same_data_set(mixed: Mixed, made: IngestReport, tmp_path: Path) -> None:
    ingest_folder(mixed.folder, tmp_path / made.result.output.name)

    def contents(folder: Path) -> dict[str, bytes]:
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    assert contents(tmp_path / made.result.output.name) == contents(made.result.output)


def test_the_command_names_every_file_that_is_no_document(
    mixed: Mixed, tmp_path: Path, ragsmith: Callable[..., Any]
) -> None:
    ended = ragsmith("dataset", "init", mixed.folder, "-o", tmp_path / "made")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    for name in (*mixed.refused, *mixed.aside):
        assert [line for line in lines if f": {name.replace(chr(10), chr(92) + 'n')}: " in line], name
    for name in mixed.duplicates:
        assert [line for line in lines if line.startswith(f"  {name} has the same text as ")], name
    assert "59 files: 43 added, 3 duplicate, 12 refused, 1 left aside" in lines
    [sizes] = [line for line in lines if line.startswith("chunk sizes that a search may compare with the default (--")]
    assert sizes.endswith("; `recommend` takes the default, with which its effects were learned")
    assert (
        lines[-1]
        == f"next: ragsmith recommend {tmp_path / 'made'}  or  ragsmith dataset draft {tmp_path / 'made'} --llm MODEL"
    )
    again = json.loads(ragsmith("dataset", "init", mixed.folder, "-o", tmp_path / "made", "--json").out)
    assert again["outcomes"] == {"duplicate": 3, "left aside": 1, "refused": 12, "unchanged": 43}
    assert len(again["files"]) == ENTRIES


def test_what_cannot_be_taken_in_is_one_sentence(tmp_path: Path, ragsmith: Callable[..., Any]) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "empty.md").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("Dear all")
    for folder, output, said in (
        (tmp_path / "none", tmp_path / "made", "is not a folder; give the folder with your files"),
        (files, files, "would be read and written to: give another folder"),
        (files, tmp_path / "full", "has files and is not a data set; give a new folder after -o"),
        (files, tmp_path / "made", "empty.md: is empty"),
    ):
        ended = ragsmith("dataset", "init", folder, "-o", output)
        assert ended.code == 2
        assert said in ended.err
    assert not (tmp_path / "made").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "full"]


def test_the_data_set_may_lie_in_the_folder_and_is_not_taken_in_again(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("One.")
    for _ in range(2):
        taken = ingest_folder(tmp_path, tmp_path / "made")
        assert [file.source for file in taken.files] == ["a.md"]
        assert [document.id for document in taken.documents] == ["a"]


def test_a_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "pump.md").write_text("Pump 1 runs at 40 per cent of its power.\n")
    with (tmp_path / "files" / "big.log").open("wb") as log:
        log.truncate((128 << 20) + 1)
    [refused] = ingest_folder(tmp_path / "files", tmp_path / "made").with_outcome(FileOutcome.REFUSED)
    assert (refused.source, refused.reason.partition(";")[0]) == ("big.log", "is larger than the limit of 128 MiB")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_or_folder_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    files = tmp_path / "files"
    (files / "closed").mkdir(parents=True)
    (files / "a.md").write_text("One.")
    (files / "b.md").write_text("Two.")
    (files / "b.md").chmod(0)
    (files / "closed").chmod(0)
    try:
        taken = ingest_folder(files, tmp_path / "made")
        assert [file.source for file in taken.with_outcome(FileOutcome.REFUSED)] == ["b.md", "closed"]
    finally:
        (files / "closed").chmod(0o755)


def test_nothing_is_left_where_nothing_can_be_read(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.bin").write_bytes(bytes(range(256)))
    with pytest.raises(DatasetError, match=r"has no file that can be read; .*\na.bin: is binary data"):
        ingest_folder(files, tmp_path / "deep" / "made")
    with pytest.raises(UsageError, match="is a file; give a new folder after -o"):
        ingest_folder(files, files / "a.bin")
