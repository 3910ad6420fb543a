# ruff: noqa: E501 - sentences are quoted whole, so that they can be searched for
"""Every way a data set can be wrong is one sentence with file, line and id; all of them come at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dataset_folder import ALPHA, BETA, evidence, questions, record, small_dataset

from ragsmith.datasets.dataset import load_dataset, validate_dataset
from ragsmith.errors import DatasetError

Break = Callable[[Path], object]


def lines(*given: Any) -> Break:
    """Replace the questions."""
    return lambda folder: questions(folder, *given)


def with_evidence(*given: Any) -> Break:
    """One question with this evidence."""
    return lines(record(1, evidence=list(given)))


def changed(**changes: Any) -> Break:
    """Evidence that is right but for ``changes``; ``None`` removes a key."""
    entry = {**evidence("alpha", ALPHA, "It ends in May."), **changes}
    return with_evidence({key: value for key, value in entry.items() if value is not None})


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
Q1 = "questions.jsonl:1 (q1): "
E1 = Q1 + "evidence 1: "
NFD = "cafe\u0301"

MALFORMED: list[tuple[str, Break, str]] = [
    # dataset.yaml
    ("no manifest", lambda f: (f / "dataset.yaml").unlink(), "dataset.yaml: is missing"),
    (
        "unknown key",
        file("dataset.yaml", b"name: a\nlicense: MIT\n"),
        "dataset.yaml:2: unknown key 'license'; did you mean 'licence'? known: description, language, languages, licence, name, title, titles",
    ),
    ("no name", file("dataset.yaml", b"title: A\n"), "dataset.yaml:1: the key 'name' is missing; add it"),
    (
        "number",
        file("dataset.yaml", b"name: a\ntitle: 3\n"),
        "dataset.yaml:2: 'title' must be text, not an integer; put it in quotes",
    ),
    ("blank", file("dataset.yaml", b'name: a\ntitle: " "\n'), "dataset.yaml:2: 'title' is blank; write it"),
    (
        "path as name",
        file("dataset.yaml", b"name: ../a\n"),
        "dataset.yaml:1: 'name' must be letters, digits, '-', '_' and '.', not '../a'",
    ),
    (
        "not keys",
        file("dataset.yaml", b"- a\n"),
        "dataset.yaml:1: a list stands here instead of keys; write 'name: ...'",
    ),
    (
        "twice",
        file("dataset.yaml", b"name: a\nname: b\n"),
        "dataset.yaml:2: duplicate key 'name', first on line 1; keep one of them",
    ),
    (
        "titles are a list",
        file("dataset.yaml", b"name: a\ntitles: [A]\n"),
        "dataset.yaml:2: 'titles' must be titles by document, not a list; write 'document: title'",
    ),
    (
        "title is a number",
        file("dataset.yaml", b"name: a\ntitles:\n  alpha: 3\n"),
        "dataset.yaml:3: the title of 'alpha' must be text, not an integer; put it in quotes",
    ),
    (
        "title of no document",
        file("dataset.yaml", b"name: a\ntitles:\n  alfa: A\n"),
        "dataset.yaml:3: 'titles' names a document, but there is no document 'alfa'; did you mean 'alpha'? known: alpha, beta",
    ),
    # documents
    ("no documents", no_documents, f"documents/: has no documents; put {ANY_KIND} files there"),
    ("empty document", file("documents/c.md", b" \n"), "documents/c.md: is empty; add text or remove the file"),
    (
        "unknown kind",
        file("documents/c.docx", b"PK"),
        f"documents/c.docx: is of no kind that can be read: {ANY_KIND}; {CONVERT}",
    ),
    (
        "broken PDF",
        file("documents/c.pdf", b"%PDF"),
        "documents/c.pdf: is not a PDF file that can be read (PdfStreamError: Stream has ended unexpectedly); save it again as PDF",
    ),
    ("empty PDF", file("documents/c.pdf", b""), "documents/c.pdf: is empty; add text or remove the file"),
    (
        "linked PDF",
        link("documents/c.pdf", "/etc/passwd"),
        "documents/c.pdf: is a symbolic link, which is not followed; put the file itself here",
    ),
    ("large PDF", large("documents/c.pdf", 64), "documents/c.pdf: is larger than the limit of 64 MiB; split it"),
    ("empty table", file("documents/c.csv", b"\n"), "documents/c.csv: is empty; add text or remove the file"),
    (
        "table of a header",
        file("documents/c.csv", b"a,b\n,\n"),
        "documents/c.csv: has a header but no rows; add rows or remove the file",
    ),
    (
        "ragged table",
        file("documents/c.csv", b'a,b\n"1\n2",3\n4,5,6\n'),
        "documents/c.csv:4: the row has 3 cells, the header 2 columns; quote a cell that holds a separator",
    ),
    (
        "column twice",
        file("documents/c.tsv", b"a\tb\ta\n1\t2\t3\n"),
        "documents/c.tsv:1: the header names the column 'a' 2 times; rename all but one",
    ),
    (
        "column without name",
        file("documents/c.csv", b"a, \n1,2\n"),
        "documents/c.csv:1: column 2 has no name in the header; give it one",
    ),
    (
        "other separator",
        file("documents/c.csv", b"a;b\n1;2\n"),
        "documents/c.csv:1: the cells seem to be separated by ';'; separate them by ','",
    ),
    (
        "open quote",
        file("documents/c.csv", b'a,b\n1,2\n3,"4\n5,6\n'),
        "documents/c.csv:3: the row that begins here is not valid CSV (unexpected end of data); quote a cell that holds a separator, a quote or a line break, and double its quotes",
    ),
    (
        "NUL in a table",
        file("documents/c.csv", b"a,b\n1,\x00\n"),
        "documents/c.csv:2: control character U+0000; remove it",
    ),
    (
        "not UTF-8 code",
        file("documents/c.py", b"x = 1\n# \xe9\n"),
        "documents/c.py:2: byte 0xe9 at offset 8 is not UTF-8; save the file as UTF-8",
    ),
    (
        "linked folder",
        link("documents/c", "/etc"),
        "documents/c: is a symbolic link, which is not followed; put the folder itself here",
    ),
    (
        "clash in a folder",
        in_folder("documents/c", "alpha.md", "alpha.txt"),
        "documents/c/alpha.txt: has the same identifier 'c/alpha' as c/alpha.md; rename one of them",
    ),
    (
        "clash",
        file("documents/alpha.txt", b"a"),
        "documents/alpha.txt: has the same identifier 'alpha' as alpha.md; rename one of them",
    ),
    (
        "not UTF-8",
        file("documents/c.md", b"a\n\xff"),
        "documents/c.md:2: byte 0xff at offset 2 is not UTF-8; save the file as UTF-8",
    ),
    (
        "BOM",
        file("documents/c.md", b"\xef\xbb\xbfa"),
        "documents/c.md:1: starts with a byte order mark; save it as UTF-8 without BOM",
    ),
    ("control", file("documents/c.md", b"a\n\nb\x1b[0m"), "documents/c.md:3: control character U+001B; remove it"),
    (
        "link",
        link("documents/c.md", "/etc/passwd"),
        "documents/c.md: is a symbolic link, which is not followed; put the file itself here",
    ),
    ("pipe", lambda f: os.mkfifo(f / "documents/c.md"), "documents/c.md: is not a regular file"),
    ("large", large("documents/c.md", 16), "documents/c.md: is larger than the limit of 16 MiB; split it"),
    # the file of questions
    ("no questions", lines(""), "questions.jsonl: has no questions; write one JSON object a line"),
    (
        "questions link",
        link("questions.jsonl", "/dev/zero"),
        "questions.jsonl: is a symbolic link, which is not followed; put the file itself here",
    ),
    (
        "questions large",
        large("questions.jsonl", 256),
        "questions.jsonl: is larger than the limit of 256 MiB; split it",
    ),
    (
        "bytes",
        lines(record(1), b'{"id": "\xff"}'),
        "questions.jsonl:2: byte 0xff at offset 191 is not UTF-8; save the file as UTF-8",
    ),
    # a line of it
    (
        "broken JSON",
        lines(record(1), "{'id': 1}"),
        "questions.jsonl:2: not valid JSON: Expecting property name enclosed in double quotes at column 2; mend it",
    ),
    (
        "cut line",
        lines('{"id": "q1", "ques'),
        "questions.jsonl:1: not valid JSON: Unterminated string starting at column 14; mend it",
    ),
    ("list", lines("[1]"), "questions.jsonl:1: a list stands here instead of a JSON object; write {...}"),
    (
        "duplicate key",
        lines('{"id": "a", "id": "b"}'),
        "questions.jsonl:1: the key 'id' is given twice; keep one of them",
    ),
    ("NaN", lines('{"id": NaN}'), "questions.jsonl:1: not valid JSON: NaN is not a number; write a finite one"),
    ("deep", lines("[" * 100_000), "questions.jsonl:1: the JSON is nested too deeply; flatten it"),
    (
        "digits",
        lines('{"id": ' + "9" * 5000 + "}"),
        "questions.jsonl:1: not valid JSON: a number has too many digits; shorten it",
    ),
    # a question
    ("missing key", lines(record(1, question=None)), Q1 + "the key 'question' is missing; add it"),
    (
        "answers on some",
        lines(record(1), record(2, answer=None)),
        "questions.jsonl:2 (q2): 'answer' is missing here but given on line 1; give all or none",
    ),
    (
        "unknown question key",
        lines(record(1, evidences=[])),
        Q1
        + "unknown key 'evidences'; did you mean 'evidence'? known: answer, answerable, evidence, id, origin, question, split, type",
    ),
    ("answer is a number", lines(record(1, answer=1990)), Q1 + "'answer' must be text, not an integer"),
    ("blank question", lines(record(1, question=" \n")), Q1 + "'question' is blank; write it"),
    ("surrogate", lines(record(1, answer="a\ud800")), Q1 + "'answer' has a control character U+D800; remove it"),
    ("no id", lines(record(1, id=None)), "questions.jsonl:1: the key 'id' is missing; add it"),
    (
        "id of lines",
        lines(record(1, id="a\nb")),
        "questions.jsonl:1: 'id' must be one line of at most 200 printable characters without spaces around it",
    ),
    (
        "same id",
        lines(record(1), record(2), record(1)),
        "questions.jsonl:3 (q1): the id is used on line 1 already; give each question its own",
    ),
    ("split name", lines(record(1, split="train")), Q1 + "'split' must be 'search', 'test' or 'unused', not 'train'"),
    (
        "splits on some",
        lines(record(1, split="test"), record(2), record(3)),
        "questions.jsonl:2 (q2): 'split' is missing here and on 1 more lines but given on line 1; give all or none",
    ),
    # evidence
    (
        "nothing to score by",
        lines(record(1, answer=None, evidence=[]), record(2, answer=None)),
        Q1
        + "there is nothing to score it by; give 'answer', 'evidence' or both, or '\"answerable\": false' if the documents"
        " have no answer",
    ),
    ("evidence is text", lines(record(1, evidence="alpha")), Q1 + "'evidence' must be a list, not a text"),
    (
        "evidence of texts",
        with_evidence("alpha"),
        E1 + "must be an object with the keys doc, start, end, text, or 'text' alone, not a text",
    ),
    ("no text", changed(text=None), E1 + "the key 'text' is missing; add it"),
    ("evidence key", changed(begin=1), E1 + "unknown key 'begin'; known: doc, end, start, text"),
    ("boolean offset", changed(start=True), E1 + "'start' must be an integer, not a boolean"),
    ("fraction", changed(end=52.0), E1 + "'end' must be an integer, not a fraction"),
    (
        "unknown document",
        changed(doc="Alpha"),
        E1 + "there is no document 'Alpha'; did you mean 'alpha'? known: alpha, beta",
    ),
    (
        "path",
        changed(doc="../alpha"),
        E1 + "'../alpha' is a path; name a document by its file name, without the ending of .md and .txt",
    ),
    (
        "reversed",
        changed(start=52, end=42),
        E1 + "[52, 42) is empty: 'start' must be below 'end'; the text stands at [42, 57)",
    ),
    (
        "negative",
        changed(start=-1),
        E1 + "[-1, 57) lies outside document 'alpha' of 58 characters; the text stands at [42, 57)",
    ),
    (
        "beyond",
        changed(end=99),
        E1 + "[42, 99) lies outside document 'alpha' of 58 characters; the text stands at [42, 57)",
    ),
    (
        "shifted",
        changed(start=41, end=56),
        E1 + "text differs from document 'alpha' at [41, 56): found ' It ends in May'; the text stands at [42, 57)",
    ),
    (
        "one of several",
        changed(start=0, end=5, text="e"),
        E1
        + "text differs from document 'alpha' at [0, 5): found '# Alp'; the text stands at [11, 12), the nearest of 4",
    ),
    (
        "made up",
        changed(text="It ends in June"),
        E1
        + "text differs from document 'alpha' at [42, 57): found 'It ends in May.'; the text stands nowhere in the document",
    ),
    (
        "NFD",
        with_evidence({**evidence("beta", BETA, "caf\u00e9"), "text": NFD}),
        E1
        + "text differs from document 'beta' at [39, 43): found 'caf\u00e9'; the document has it in the other Unicode form"
        " (NFC or NFD): use the same form in both",
    ),
    (
        "line ends",
        with_evidence({"doc": "beta", "start": 0, "end": 25, "text": "Beta has no heading.\nIts"}),
        E1
        + "text differs from document 'beta' at [0, 25): found 'Beta has no heading.\\r\\nIts'; only white space or line"
        " ends differ: copy the text exactly",
    ),
    (
        "repeated",
        with_evidence(*[evidence("alpha", ALPHA, "It ends in May.")] * 2),
        Q1 + "evidence 2: repeats evidence 1; keep one of them",
    ),
    (
        "heading",
        with_evidence(evidence("alpha", ALPHA, "# Alpha")),
        E1 + "[0, 7) of document 'alpha' is mostly a heading; mark the text below it",
    ),
    # evidence without offsets; ALPHA has lines 1 to 4, BETA is a document without headings
    (
        "no place at all",
        with_evidence({}),
        E1 + "names no place; give 'text', words that stand in one document once, or 'doc'",
    ),
    (
        "unknown key beside text",
        with_evidence({"text": "It ends in May.", "begin": 1}),
        E1 + "unknown key 'begin'; known: doc, end, heading, lines, page, rows, start, text",
    ),
    ("blank text", with_evidence({"text": " "}), E1 + "'text' is blank; write it"),
    (
        "text of no document",
        with_evidence({"text": "It ends in June."}),
        E1 + "the text 'It ends in June.' stands in no document; copy the words of a document exactly",
    ),
    (
        "text in other white space",
        with_evidence({"text": "Beta has no heading. Its second line"}),
        E1
        + "the text 'Beta has no heading. Its second line' stands in no document: in 'beta', only white space or line ends"
        " differ: copy the text exactly",
    ),
    (
        "text of another document",
        with_evidence({"doc": "beta", "text": "It ends in May."}),
        E1 + "the text 'It ends in May.' is not found in document 'beta': the text stands nowhere in the document",
    ),
    (
        "text that stands often",
        with_evidence({"text": "ha"}),
        E1
        + "the text 'ha' stands 2 times: [16, 18) of 'alpha', [5, 7) of 'beta'; give more of the words around it, or 'doc'"
        " and a place ('heading', 'page', 'rows', 'lines')",
    ),
    (
        "text of a heading",
        with_evidence({"text": "# Alpha"}),
        E1 + "[0, 7) of document 'alpha' is mostly a heading; mark the text below it",
    ),
    (
        "unknown document alone",
        with_evidence({"doc": "beto"}),
        E1 + "there is no document 'beto'; did you mean 'beta'? known: alpha, beta",
    ),
    (
        "two places",
        with_evidence({"doc": "alpha", "page": 1, "lines": [1, 2]}),
        E1 + "gives 'page' and 'lines'; keep one of them",
    ),
    ("place without document", with_evidence({"page": 1}), E1 + "'page' is a place in a document; add 'doc'"),
    (
        "page of what has none",
        with_evidence({"doc": "alpha", "page": 1}),
        E1 + "document 'alpha' has no pages, as a PDF has; give 'heading' or 'lines'",
    ),
    ("page in words", with_evidence({"doc": "alpha", "page": "1"}), E1 + "'page' must be an integer, not a text"),
    (
        "unknown heading",
        with_evidence({"doc": "alpha", "heading": "Alfa"}),
        E1 + "document 'alpha' has no heading 'Alfa'; did you mean 'Alpha'? known: Alpha",
    ),
    (
        "heading of what has none",
        with_evidence({"doc": "beta", "heading": "Beta"}),
        E1 + "document 'beta' has no headings; give 'lines', or 'text'",
    ),
    ("heading number", with_evidence({"doc": "alpha", "heading": 1}), E1 + "'heading' must be text, not an integer"),
    (
        "rows of prose",
        with_evidence({"doc": "beta", "rows": [1, 2]}),
        E1 + "document 'beta' is not a table, so it has no rows; give 'lines'",
    ),
    (
        "line beyond the end",
        with_evidence({"doc": "beta", "lines": [2, 9]}),
        E1 + "document 'beta' has no lines [2, 9]; its lines are 1 to 2, and the first goes first",
    ),
    (
        "lines backwards",
        with_evidence({"doc": "beta", "lines": [2, 1]}),
        E1 + "document 'beta' has no lines [2, 1]; its lines are 1 to 2, and the first goes first",
    ),
    (
        "one line",
        with_evidence({"doc": "beta", "lines": 2}),
        E1 + "'lines' must be a list of two integers, the first and the last, not 2",
    ),
    (
        "text not at its place",
        with_evidence({"doc": "beta", "text": "Beta has", "lines": [2, 2]}),
        E1 + "the text 'Beta has' stands in document 'beta', but not at this 'lines'; mend one",
    ),
    (
        "found twice",
        with_evidence({"text": "It ends in May."}, evidence("alpha", ALPHA, "It ends in May.")),
        Q1 + "evidence 2: repeats evidence 1; keep one of them",
    ),
    # what the documents do not answer
    ("answerable in words", lines(record(1, answerable="no")), Q1 + "'answerable' must be true or false, not a text"),
    (
        "evidence of what has no answer",
        lines(record(1, answerable=False), record(2)),
        Q1 + "'answerable' is false, but there is evidence for an answer; remove one of them",
    ),
    (
        "nothing has an answer",
        lines(record(1, answerable=False, evidence=[]), record(2, answerable=False, evidence=None)),
        Q1 + "'answerable' is false here and on every other line; add some that the documents answer",
    ),
    # where a question came from
    ("origin in a word", lines(record(1, origin="drafted")), Q1 + "'origin' must be an object, not a text"),
    ("origin of nobody", lines(record(1, origin={})), Q1 + "origin: the key 'by' is missing; add it"),
    (
        "origin written",
        lines(record(1, origin={"by": "me"})),
        Q1 + "origin: 'by' must be 'drafted', not 'me'; leave 'origin' out where a person wrote it",
    ),
    (
        "origin rejected",
        lines(record(1, origin={"by": "drafted", "reviewed": "rejected"})),
        Q1 + "origin: 'reviewed' must be 'accepted' or 'mended', not 'rejected'",
    ),
    (
        "origin nowhere",
        lines(record(1, origin={"by": "drafted", "passage": {"doc": "alpha", "start": 5, "end": 5}})),
        Q1 + "origin: passage: 'start' and 'end' must be integers from 0 up, in order, not [5, 5]",
    ),
]


@pytest.mark.parametrize(("spoil", "mistake"), [case[1:] for case in MALFORMED], ids=[case[0] for case in MALFORMED])
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
