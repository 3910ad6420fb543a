"""Lists of questions are read in several formats, their columns recognised, and mistakes reported."""

import csv
import json
import re
import sys
from zipfile import ZipFile

import openpyxl
import pytest

from ragsmith.datasets.anchoring.question_lists import ListedQuestion, QuotedEvidence, read_question_list
from ragsmith.errors import DatasetError, MissingExtra, Notice


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    "head", ["question,answer", "Query,Ground Truth", "user_input,reference", " Q , EXPECTED_ANSWER "]
)
def test_columns_are_known_by_their_usual_names(tmp_path, head):
    path = write(tmp_path, "list.csv", f"{head}\nHow far?,A mile.\n")
    assert read_question_list(path) == [ListedQuestion(2, "q001", "How far?", "A mile.")]


def test_all_formats_say_the_same(tmp_path):
    expected = [
        ListedQuestion(2, "a", "How far?", "1 mile; or two", "plain", (QuotedEvidence("It is a mile."),), ("roads.md",))
    ]
    cells = ["a", "How far?", "1 mile; or two", "plain", "It is a mile.", "roads.md"]
    names = ["id", "question", "answer", "type", "quote", "document"]
    record = dict(zip(names, cells, strict=True))
    book = openpyxl.Workbook()
    for row in (names, cells):
        book.active.append(row)
    book.save(tmp_path / "list.xlsx")
    files = {
        "list.tsv": "\t".join(names) + "\n" + "\t".join(cells) + "\n",
        "list.csv": "\ufeff" + ",".join(names) + "\r\n" + ",".join(f'"{cell}"' for cell in cells) + "\r\n\r\n",
        "excel.csv": ";".join(names) + "\n" + ";".join(f'"{cell}"' for cell in cells) + "\n",
        "list.jsonl": json.dumps(record) + "\n\n",
        "list.json": json.dumps({"questions": [record]}),
    }
    paths = [tmp_path / "list.xlsx", *(write(tmp_path, name, text) for name, text in files.items())]
    for path in paths:
        [found] = read_question_list(path)
        assert [
            ListedQuestion(
                2, *(getattr(found, key) for key in ("id", "question", "answer", "type", "quotations", "docs"))
            )
        ] == (expected), path.name


def test_numbers_of_a_workbook_are_read_as_they_are_seen(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["Question", "Answer"])
    book.active.append(["How many?", 28])
    book.active.append(["How long?", 2.5])
    book.save(tmp_path / "list.xlsx")
    assert [asked.answer for asked in read_question_list(tmp_path / "list.xlsx")] == ["28", "2.5"]


def workbook(path, *rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_a_sheet_that_is_cut_off_is_said_in_a_sentence(tmp_path):
    whole = workbook(tmp_path / "whole.xlsx", ["question", "answer"], ["How many?", 28])
    with ZipFile(whole) as given, ZipFile(tmp_path / "list.xlsx", "w") as cut:
        for name in given.namelist():
            cut.writestr(name, given.read(name)[:-200] if name.endswith("sheet1.xml") else given.read(name))
    with pytest.raises(DatasetError, match=r"^list\.xlsx: is not a readable XLSX workbook"):
        read_question_list(tmp_path / "list.xlsx")


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("part.MAX_UNPACKED", "unpacks to more than the limit of 3 bytes"),
        ("office.MAX_CELLS", "has more than 3 cells in the sheet 'Sheet'; split it"),
    ],
)
def test_a_workbook_has_limits(tmp_path, monkeypatch, limit, said):
    monkeypatch.setattr(f"ragsmith.datasets.ingest.readers.{limit}", 3)
    with pytest.raises(DatasetError, match=said):
        read_question_list(workbook(tmp_path / "list.xlsx", ["question", "answer"], ["How many?", 28]))


def test_a_cell_may_be_long(tmp_path):
    csv.field_size_limit(131_072)  # as it is before anything has read a table
    path = write(tmp_path, "list.csv", f"question,answer\nWhat?,{'word ' * 40_000}\n")
    assert len(read_question_list(path)[0].answer) == 199_999


def test_a_cell_says_whether_a_question_can_be_answered(tmp_path):
    cells = {"true": True, "": True, "Yes": True, "1": True, "FALSE": False, " no ": False, "0": False}
    text = "".join(f"What?,That.,{cell}\n" for cell in cells)
    path = write(tmp_path, "list.csv", f"question,answer,Answerable\n{text}")
    assert [asked.answerable for asked in read_question_list(path)] == list(cells.values())
    book = workbook(tmp_path / "list.xlsx", ["question", "answer", "answerable"], ["What?", "", False], ["Who?", "I."])
    assert [asked.answerable for asked in read_question_list(book)] == [False, True]


def test_a_cell_may_hold_several_quotations(tmp_path):
    rows = [
        ["q", "contexts"],
        ["How far?", "['A mile.', \"It's far.\"]"],
        ["Where?", '["Here."]'],
        ["Who?", "[sic] he"],
    ]
    text = "\n".join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows)
    asked = read_question_list(write(tmp_path, "list.csv", text))
    texts = [tuple(quotation.text for quotation in each.quotations) for each in asked]
    assert texts == [("A mile.", "It's far."), ("Here.",), ("[sic] he",)]


def test_columns_with_other_names_can_be_named(tmp_path):
    path = write(tmp_path, "list.csv", "answer,was gefragt wird,question\nA,How far?,hidden\n")
    [found] = read_question_list(path, {"question": "was gefragt wird"})
    assert (found.question, found.answer) == ("How far?", "A")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("list.csv", "", "list.csv: has no rows"),
        ("list.csv", "\ufeff\n\n", "list.csv: has no rows"),
        ("list.csv", "question,answer\n", "list.csv: has no rows"),
        ("list.csv", "Frage,Antwort\nx,y\n", "no column of questions was recognised ('Frage', 'Antwort')"),
        ("list.csv", "question,note\nx,y\n", "no column of answers or quotations was recognised ('question', 'note')"),
        ("list.csv", "question,question\nx,y\n", "list.csv:1: the column 'question' occurs 2 times"),
        ("list.csv", "question,answer\na,b,c\n", "list.csv:2: the row has 3 cells, the header 2"),
        ("list.csv", 'question,answer\na,"b\n', "list.csv:2: the row that begins here is not valid CSV"),
        ("list.csv", "question,answer\n,b\n", "list.csv:2: the question is blank"),
        ("list.csv", "id,question,answer\n1,a,b\n1,c,d\n", "list.csv:3: the id '1' is used on line 2 already"),
        ("list.csv", "question,answer,split\na,b,test\nc,d,\n", "list.csv:3: has no 'split', but line 2 has; give all"),
        ("list.csv", "question,answer,split\na,b,train\n", "'split' must be 'search', 'test' or 'unused', not 'train'"),
        ("list.jsonl", '{"question": "a"\n', "list.jsonl:1: not valid JSON"),
        (
            "list.jsonl",
            '{"question": ["a", "b"], "answer": "c"}\n',
            "list.jsonl:1: the question is a list; write a text",
        ),
        ("list.json", "3", "expected a list of questions, found an integer"),
        ("list.json", "[3]", "entry 1 is an integer, not an object"),
        ("list.docx", "question", "is not a list of questions; give a file that ends in one of .csv"),
        ("list.xlsx", "question", "list.xlsx: is a damaged archive; save it again"),
        ("list.csv", "question,answer,answerable\na,b,perhaps\n", "'answerable' must be true or false, not 'perhaps'"),
    ],
)
def test_what_cannot_be_read_is_said_where_it_is(tmp_path, name, text, said):
    with pytest.raises(DatasetError) as caught:
        read_question_list(write(tmp_path, name, text))
    assert said in str(caught.value)


def test_all_mistakes_are_listed_at_once(tmp_path):
    with pytest.raises(DatasetError) as caught:
        read_question_list(write(tmp_path, "list.csv", "id,question,answer,split\n1,,a,\n2,b,c,no\n3,d,e,\n3,f,g,\n"))
    assert [mistake.split(": ")[0] for mistake in caught.value.mistakes] == ["list.csv:2", "list.csv:3", "list.csv:5"]


@pytest.mark.parametrize(("encoding", "guess"), [("cp1252", "cp1252 (guessed)"), ("utf-16-le", "utf-16-le")])
def test_the_encoding_is_guessed_as_that_of_documents_is(tmp_path, encoding, guess):
    (tmp_path / "list.csv").write_bytes(
        "question,answer\nWo ist es schön?,Im Café der Müllerstraße.\n".encode(encoding)
    )
    with pytest.warns(Notice, match=f"^list.csv: was decoded from {re.escape(guess)}$"):
        [found] = read_question_list(tmp_path / "list.csv")
    assert (found.question, found.answer) == ("Wo ist es schön?", "Im Café der Müllerstraße.")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.csv", f"question,answer{' ' * 200}\nWho\x07 rings?,The host\x7f.\n"),
        ("list.jsonl", r'{"question": "Who\u0007 rings?", "answer": "The host\ud800."}'),
        ("list.json", r'[{"question": "Who\u0007 rings?", "answer": "The \u0099host."}]'),
    ],
)
def test_control_characters_are_dropped_and_counted(tmp_path, name, text):
    with pytest.warns(Notice, match=f"^{name}: 2 control characters were removed$"):
        [found] = read_question_list(write(tmp_path, name, text))
    assert (found.question, found.answer) == ("Who rings?", "The host.")


def test_escapes_of_other_characters_are_kept(tmp_path):
    text = r'{"question": "Is \\u0007 an escape, \u00e9 a letter, \ud83d\ude00 a face?", "answer": "Yes:\u0009all."}'
    [found] = read_question_list(write(tmp_path, "list.jsonl", text))
    assert (found.question, found.answer) == ("Is \\u0007 an escape, é a letter, 😀 a face?", "Yes:\tall.")


def test_a_workbook_without_the_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)  # as where it is not installed
    with pytest.raises(MissingExtra, match=r"openpyxl is not installed: run  pip install 'ragsmith\[documents\]'"):
        read_question_list(write(tmp_path, "list.xlsx", ""))
