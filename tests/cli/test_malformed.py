"""Every malformed data set and space, given to a search: exit code 2, file and line in a sentence, nothing computed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dataset_folder import small_dataset
from test_datasets_malformed import CASES as DATASETS
from test_space import MALFORMED as SPACES

Command = Callable[..., Any]

PLACE = re.compile(r"error: \S*?(dataset\.yaml|questions\.jsonl|documents|space\.yaml)\S*?:? ")
LINE = re.compile(r"(questions\.jsonl|space\.yaml):\d+[: ]")


def refused(shown: Any, here: Path) -> list[str]:
    """The sentences of a refusal that left nothing behind."""
    assert shown.code == 2
    assert shown.out == ""
    assert "Traceback" not in shown.err
    sentences = shown.err.splitlines()
    assert sentences
    assert all(PLACE.match(sentence) for sentence in sentences), sentences
    assert not (here / "cache.sqlite").exists()
    assert not (here / "reports").exists()
    return sentences


@pytest.mark.parametrize(("damage", "said"), [row[1:] for row in DATASETS], ids=[row[0] for row in DATASETS])
def test_a_malformed_data_set_is_refused(
    damage: Callable[[Path], object],
    said: str,
    ragsmith: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    damage(small_dataset(tmp_path / "data"))
    sentences = refused(ragsmith("search", "--dataset", "data"), tmp_path)
    assert any(said in sentence for sentence in sentences), sentences


@pytest.mark.parametrize(("text", "line", "said"), [row[1:] for row in SPACES], ids=[row[0] for row in SPACES])
def test_a_malformed_space_is_refused(
    text: str, line: int, said: str, ragsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small_dataset(tmp_path / "data")
    Path("space.yaml").write_text(text, encoding="utf-8")
    [sentence] = refused(ragsmith("search", "--dataset", "data", "--space", "space.yaml"), tmp_path)
    assert f"space.yaml:{line}:" in sentence
    assert said in sentence


def test_there_are_many_and_most_have_a_line() -> None:
    assert len(DATASETS) + len(SPACES) >= 20
    assert sum(bool(LINE.search(said)) for _, _, said in DATASETS) >= 10


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (("runs", "--cache", "nowhere.sqlite"), "usage", "there is no cache 'nowhere.sqlite'"),
        (("export", "--dataset", "law", "--cache", "nowhere.sqlite"), "usage", "there is no cache"),
        (("search", "--dataset", "law", "--seed", "-1"), "usage", "--seed"),
        (("runs", "--unknown"), "usage", "--unknown"),
        (("plan", "--dataset"), "usage", "--dataset"),
    ],
)
def test_an_error_of_a_command_that_prints_json_is_json_too(
    ragsmith: Callable[..., Any], arguments: tuple[str, ...], kind: str, said: str
) -> None:
    ended = ragsmith(arguments[0], "--json", *arguments[1:])
    error = json.loads(ended.out)["error"]
    assert (error["kind"], error["exit_code"]) == (kind, ended.code) == (kind, 2)
    assert said in error["message"]
    assert said in ended.err, "people read it, too"
    assert ragsmith(*arguments).out == ""
