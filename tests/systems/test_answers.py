"""Rows of another system: what may be in them, and a sentence for each mistake."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragsmith.errors import DatasetError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.systems.answers import Context, GivenAnswer, match_rows, read_rows

GOOD = {"id": "coast-1", "answer": "It is.", "contexts": []}


def rows(tmp_path: Path, *listed: Any) -> Path:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in listed))
    return path


def ids(setup: Experiment) -> list[str]:
    return [example.id for example in setup.dataset.examples]


def read(tmp_path: Path, setup: Experiment, *listed: Any) -> dict[str, GivenAnswer]:
    return match_rows(read_rows(rows(tmp_path, *listed)), setup.dataset)


def test_a_row_may_name_its_question_by_id_or_text_and_its_fields_as_other_tools_do(
    tmp_path: Path, tiny_setup: Experiment
) -> None:
    first, second, third = tiny_setup.dataset.examples[:3]
    found = read(
        tmp_path,
        tiny_setup,
        {"question_id": first.id, "response": "A", "retrieved_contexts": ["some text"], "reference": "not read"},
        {"user_input": f"  {second.question} ", "answer": "B", "contexts": [{"doc": "x", "start": 1, "end": 4}]},
        {"id": third.id, "answer": "C", "contexts": [{"doc": "x"}], "cost": 0.25, "seconds": 2},
    )
    assert found == {
        first.id: GivenAnswer("A", (Context("some text"),)),
        second.id: GivenAnswer("B", (Context(doc="x", start=1, end=4),)),
        third.id: GivenAnswer("C", (Context(doc="x"),), 0.25, 2.0),
    }


def test_a_list_in_one_file_is_read_alike(tmp_path: Path, tiny_setup: Experiment) -> None:
    listed = [{"id": id_, "answer": "x", "contexts": []} for id_ in ids(tiny_setup)]
    whole = tmp_path / "answers.json"
    whole.write_text(json.dumps(listed, indent=1))
    assert match_rows(read_rows(whole), tiny_setup.dataset) == read(tmp_path, tiny_setup, *listed)


def test_a_failure_has_a_reason_and_no_answer(tmp_path: Path, tiny_setup: Experiment) -> None:
    [id_, *_] = ids(tiny_setup)
    assert read(tmp_path, tiny_setup, {"id": id_, "error": "out of quota"}) == {
        id_: GivenAnswer("", error="out of quota")
    }


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": None, "answer": "x", "contexts": []}, "names no question; add its 'id', or its text as 'question'"),
        ({"id": "shore-9", "answer": "x", "contexts": []}, "'island' has no question 'shore-9'; known: "),
        ({"id": None, "question": "Why?", "answer": "x"}, "'island' has no question 'Why?'; give its text"),
        ({"contexts": []}, "'answer' is missing; a question that failed has an 'error'"),
        ({"answer": 3, "contexts": []}, "'answer' must be a text, not an integer"),
        ({"answer": "x"}, "'contexts' is missing; give what was retrieved, best first, or []"),
        ({"answer": "x", "contexts": "text"}, "'contexts' must be a list, not a text"),
        ({"answer": "x", "contexts": [3]}, "context 1 is an integer; give a text, or an object with 'doc'"),
        ({"answer": "x", "contexts": ["a", {"start": 3, "end": 4}]}, "context 2 needs a 'text', or a 'doc'"),
        ({"answer": "x", "contexts": [{"doc": "x", "start": 3}]}, "context 1 needs a 'text', or a 'doc'"),
        ({"answer": "x", "contexts": [{"doc": "x", "start": "3", "end": 4}]}, "context 1: 'text' and 'doc' are texts"),
        (
            {"question": "Why?", "answer": "x", "contexts": []},
            "and another text than this question, 'Why?'; correct one",
        ),
        ({"answer": "half \ud800", "contexts": []}, "has half a character in a text, which is not valid Unicode"),
        ({"answer": "x", "contexts": [{"text": "\udfff"}]}, "has half a character in a text"),
        ({"answer": "x", "contexts": [], "cost": -1}, "'cost' must be a number from 0 on, not '-1'"),
        ({"answer": "x", "contexts": [], "seconds": "2"}, "'seconds' must be a number from 0 on, not '2'"),
    ],
)
def test_mistakes_are_one_sentence_with_their_line(
    row: dict[str, Any], said: str, tmp_path: Path, tiny_setup: Experiment
) -> None:
    first, second, *_ = ids(tiny_setup)
    with pytest.raises(DatasetError) as error:
        read(tmp_path, tiny_setup, {"id": first, "answer": "y", "contexts": []}, {"id": second, **row})
    [mistake] = error.value.mistakes
    assert said in mistake
    assert mistake.startswith(f"{tmp_path / 'answers.jsonl'}:2: ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('"text"', "expected a JSON object, found a text; write {...}"),
        ('{"answer": "x", "cost": NaN}', "not valid JSON: NaN is not a number; write a finite one"),
        ('{"answer": "x"', "not valid JSON: "),
    ],
)
def test_lines_that_are_no_rows_are_named(line: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as error:
        read_rows(rows(tmp_path, GOOD, line))
    assert said in str(error.value)
    assert "answers.jsonl:2: " in str(error.value)


def test_all_mistakes_are_listed_and_a_question_is_answered_once(tmp_path: Path, tiny_setup: Experiment) -> None:
    [id_, *_] = ids(tiny_setup)
    good = {"id": id_, "answer": "y", "contexts": []}
    with pytest.raises(DatasetError) as error:
        read(tmp_path, tiny_setup, good, good, {"id": "shore", "answer": "", "contexts": []})
    path = tmp_path / "answers.jsonl"
    again, unknown = error.value.mistakes
    assert again == f"{path}:2: answers '{id_}' like {path}:1; keep one of them"
    assert unknown.startswith(f"{path}:3: 'island' has no question 'shore'")


def test_an_id_of_their_own_is_no_mistake_beside_the_text_of_a_question(tmp_path: Path, tiny_setup: Experiment) -> None:
    example = tiny_setup.dataset.examples[0]
    row = {"id": 17, "question": unicodedata.normalize("NFD", example.question), "answer": "x", "contexts": []}
    assert list(read(tmp_path, tiny_setup, row)) == [example.id]


def test_questions_with_the_same_text_have_the_same_answer(tmp_path: Path, tiny_setup: Experiment) -> None:
    first, second, *others = tiny_setup.dataset.examples
    same = replace(tiny_setup.dataset, examples=(first, replace(second, question=first.question), *others))
    row = {"question": first.question, "answer": "x", "contexts": []}
    assert match_rows(read_rows(rows(tmp_path, row)), same).keys() == {first.id, second.id}
    with pytest.raises(DatasetError, match=f"answers '{first.id}' like "):
        match_rows(read_rows(rows(tmp_path, {**row, "id": first.id}, {**row, "id": second.id})), same)


def test_of_many_mistakes_the_first_are_listed_and_the_others_counted(tmp_path: Path, tiny_setup: Experiment) -> None:
    with pytest.raises(DatasetError) as error:
        read(tmp_path, tiny_setup, *[{"id": f"x{number}", "answer": "", "contexts": []} for number in range(20)])
    assert len(error.value.mistakes) == 6
    assert error.value.mistakes[-1] == "and 15 more rows"
