"""One JSON object a line, parsed strictly."""

import pytest

from ragsmith.text.files import TextError
from ragsmith.text.jsonl import iter_records, key_problems, name_type, parse_record, text_problems


def test_a_good_line():
    assert parse_record('{"a": [1, {"b": "é"}], "c": null}') == {"a": [1, {"b": "é"}], "c": None}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"a": {"b": 1, "b": 2}}', "the key 'b' is given twice; keep one of them"),
        ('{"a": -Infinity}', "not valid JSON: -Infinity is not a number; write a finite one"),
        ('"text"', "expected a JSON object, found a text; write {...}"),
        ("true", "expected a JSON object, found a boolean; write {...}"),
        ('{"a": 1} {"b": 2}', "not valid JSON: Extra data at column 10; mend it"),
    ],
)
def test_refusals(line, reason):
    with pytest.raises(TextError) as refusal:
        parse_record(line)
    assert refusal.value.reason == reason


def test_problems_of_keys_and_texts():
    record = {"a": "x", "b": " ", "c": 3, "zz": None}
    assert list(key_problems(record, required=("a", "d"), optional=("b", "c"))) == [
        "the key 'd' is missing; add it",
        "unknown key 'zz'; known: a, b, c, d",
    ]
    assert list(text_problems(record, ("a", "b", "c", "d"))) == [
        "'b' is blank; write it",
        "'c' must be text, not an integer",
    ]


@pytest.mark.parametrize(("value", "name"), [(True, "a boolean"), (1, "an integer"), (None, "null"), ({}, "an object")])
def test_kinds(value, name):
    assert name_type(value) == name


def test_records_have_the_numbers_of_their_lines() -> None:
    assert list(iter_records('{"a": 1}\n\n{"a": 2}\n')) == [(1, {"a": 1}), (3, {"a": 2})]
    with pytest.raises(TextError) as refusal:
        list(iter_records('{"a": 1}\n[]\n'))
    assert refusal.value.at("rows.jsonl") == "rows.jsonl:2: expected a JSON object, found a list; write {...}"
