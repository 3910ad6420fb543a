"""Annotations do not affect the data set, and are validated as strictly as questions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from annotations import Annotation, ReaderJudgement, read_annotations

from ragsmith.datasets.annotations import FILE, read_answers
from ragsmith.datasets.dataset import load_dataset, validate_dataset
from ragsmith.errors import DatasetError

ROW: dict[str, Any] = {
    "id": "ferry-1",
    "cluster": "quay",
    "traits": ["other_words"],
    "paraphrase": "It leaves at 7 a.m.",
    "wrong": "At nine.",
    "wrong_kind": "number",
}


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_folder, tmp_path / "island")


def write(folder: Path, *rows: dict[str, Any]) -> None:
    (folder / FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_they_change_neither_the_digest_nor_the_verdict_of_validate(folder: Path) -> None:
    before = load_dataset(folder)
    write(folder, ROW)
    (folder / "clusters.yaml").write_text("quay: [ferry]\n")
    (folder / "CARD.md").write_text("# Data card\n")
    assert load_dataset(folder) == before
    assert load_dataset(folder).digest == before.digest
    assert validate_dataset(folder) == ()


def test_they_are_read(folder: Path) -> None:
    read = {"from_spans": True, "without_documents": False, "mended": "a word"}
    again = {"from_spans": True, "without_documents": True}
    more = {"wordings": ["How", "When"], "group": "g", "second_reading": read, "third_reading": again}
    write(folder, ROW, {**ROW, "id": "ferry-2", **more})
    found = read_annotations(folder)
    assert found["ferry-1"] == Annotation(
        "ferry-1", "quay", ("other_words",), "It leaves at 7 a.m.", "At nine.", "number"
    )
    other = found["ferry-2"]
    assert (other.wordings, other.group) == (("How", "When"), "g")
    assert other.readings == (ReaderJudgement(True, False, "a word"), ReaderJudgement(True, True))


def test_a_data_set_without_them_has_none(tiny_folder: Path) -> None:
    assert read_annotations(tiny_folder) == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wrong_kind": "joke"}, "there is no wrong_kind 'joke'"),
        ({"traits": ["table", "hard"]}, "there is no trait 'hard'"),
        ({"traits": "table"}, "'traits' is not a list of texts"),
        ({"paraphrase": " "}, "'paraphrase' is not a text"),
        ({"wordings": [""]}, "'wordings' is not a list of texts"),
        ({"colour": "red"}, "colour"),
        ({"second_reading": {"from_spans": "yes"}}, "'second_reading' is not"),
        ({"third_reading": {"from_spans": True}}, "'third_reading' is not"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_question(folder: Path, change: dict[str, Any], said: str) -> None:
    write(folder, ROW, {**ROW, "id": "ferry-2", **change})
    with pytest.raises(DatasetError) as refusal:
        read_annotations(folder)
    [mistake] = refusal.value.mistakes
    assert mistake.startswith(f"{FILE}:2 (ferry-2): ")
    assert said in mistake


def test_all_mistakes_are_listed_at_once(folder: Path) -> None:
    (folder / FILE).write_text(f"[]\n{json.dumps(ROW)}\n{json.dumps(ROW)}\n{{\n")
    with pytest.raises(DatasetError) as refusal:
        read_annotations(folder)
    assert [mistake.split(" ")[0].rstrip(":") for mistake in refusal.value.mistakes] == [
        f"{FILE}:{n}" for n in (1, 3, 4)
    ]


def test_a_judge_is_calibrated_on_the_answers_alone(folder: Path) -> None:
    write(folder, ROW)
    keys = ("id", "paraphrase", "wrong", "wrong_kind")
    assert read_answers(folder) == {"ferry-1": {key: ROW[key] for key in keys}}
    write(folder, ROW, {**ROW, "id": "ferry-2", "paraphrase": " "}, {"id": "ferry-3", **dict.fromkeys(("wrong",), "a")})
    with pytest.raises(DatasetError) as refusal:
        read_answers(folder)
    assert [mistake.split(":")[1] for mistake in refusal.value.mistakes] == ["2", "3", "3"]
    write(folder, {**ROW, "wrong_kind": "joke"})
    with pytest.raises(DatasetError, match="there is no wrong_kind 'joke': the known ones are number, negation"):
        read_answers(folder)
