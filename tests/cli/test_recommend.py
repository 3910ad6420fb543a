"""``ragsmith recommend`` and ``ragsmith effects``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from effects import main as learn_effects

from ragsmith.effects.knowledge import SHIPPED
from ragsmith.effects.recommending import Recommendation, alike
from ragsmith.evaluation.baselines import baseline

Command = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "talks"
    documents.mkdir()
    (documents / "talk.txt").write_text("Ann: Where is the key?\nBob: It is in the shed.\n" * 9)
    return documents


def test_what_is_named_is_told_once_and_the_file_is_asked(ragsmith: Command, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "winner.yaml"
    ended = ragsmith("recommend", folder, "-o", file, "--calls", 1)
    assert ended.code == 0
    blocks = [block for block in ended.out.split("\n\n") if " a question" in block]
    told = [block.partition(": ")[2] for block in blocks]
    assert len(set(told)) == len(told) > 0
    assert blocks[0].startswith("at most 1 call a question")
    assert "any number of calls" in blocks[-1].splitlines()[0]
    assert "take care: these documents are of the kind conversation" in ended.out
    assert ended.out.splitlines()[-1] == f"{file}: the pipeline of at most 1 call"
    assert "shed" in ragsmith("ask", file, "Where is the key?").out
    verified = ragsmith("verify", file)
    assert verified.code == 2
    assert "a pipeline that was recommended has none; its techniques, models and documents are at hand" in verified.err
    file.write_text(file.read_text().replace("embedder: wordllama:", "embedder: before:"))
    assert "recommended has none; its models are others: embedder wordllama:" in ragsmith("verify", file).err
    ragsmith("recommend", folder, "-o", file, "--calls", 1)
    assert ragsmith("recommend", folder, "-o", file, "--calls", 1).err == ""
    file.write_text("something of mine")
    assert f"{file} replaces a file of that name" in ragsmith("recommend", folder, "-o", file, "--calls", 1).err


def test_classes_of_costs_are_together_where_the_same_is_recommended() -> None:
    one = Recommendation(baseline("naive"), 1, 1.0, 0.01, 0.02, -0.03, 0.05, (), 7, ())
    two, most, other = (replace(one, most_calls=2), replace(one, most_calls=None), replace(one, most_calls=2, gain=0.3))
    assert alike([one, two, most]) == [[one, two, most]]
    assert alike([one, other, most]) == [[one], [other], [most]]
    assert alike([one, two, replace(most, gain=0.3)]) == [[one, two], [replace(most, gain=0.3)]]
    assert alike([]) == []


def test_for_programs(ragsmith: Command, folder: Path, tmp_path: Path) -> None:
    found = json.loads(ragsmith("recommend", folder, "-o", tmp_path / "w.yaml", "--json").out)
    assert [one["most_calls"] for one in found["classes"]] == [1, 2, None]
    assert found["kind"] == "conversation"
    assert found["winner"] == str(tmp_path / "w.yaml")


@pytest.mark.parametrize("calls", ["0", "few", "-1"])
def test_calls_are_a_number(ragsmith: Command, folder: Path, calls: str) -> None:
    ended = ragsmith("recommend", folder, "--calls", calls)
    assert (ended.code, "--calls is" in ended.err) == (2, True)


def test_what_is_no_folder_is_refused(ragsmith: Command, tmp_path: Path) -> None:
    ended = ragsmith("recommend", tmp_path / "nothing")
    assert ended.code == 2
    assert "neither a folder nor the name of a data set" in ended.err


def test_what_ships_is_shown_with_what_was_checked(ragsmith: Command) -> None:
    shown = ragsmith("effects", "show")
    assert shown.code == 0
    assert "retrieval.bm25" in shown.out
    assert "what the other data sets name for each" in shown.out
    checked = json.loads(ragsmith("effects", "show", "--validate", "--json").out)["checked"]
    assert {one["dataset"] for one in checked} >= {"law", "workshop"}
    assert ragsmith("effects", "show", "--validate").out in shown.out


def test_a_file_that_does_not_say_how_it_was_made_is_shown(ragsmith: Command, tmp_path: Path) -> None:
    plain = json.loads(SHIPPED.read_text())
    del plain["made"]
    before = tmp_path / "before.json"
    before.write_text(json.dumps(plain))
    shown = ragsmith("effects", "show", "--effects", before)
    assert shown.code == 0, shown.err
    assert "retrieval.bm25" in shown.out
    assert "drawn from" not in shown.out
    assert "drawn from the space 'default' with seed 0" in ragsmith("effects", "show").out


def test_a_file_is_learned_and_used(ragsmith: Command, tiny_folder: Path, tiny_space: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in tiny_folder.iterdir():
        if file.is_file():
            (other / file.name).write_text(file.read_text().replace("name: island", "name: another"))
    (other / "documents").mkdir()
    for file in (tiny_folder / "documents").iterdir():
        (other / "documents" / file.name).write_text(file.read_text() + "\nNothing more is known of it.\n")
    made = tmp_path / "effects.json"
    learn_effects(
        [
            "--own",
            str(tiny_folder),
            str(other),
            "--space",
            str(tiny_space),
            "--pipelines",
            "6",
            "-o",
            str(made),
            "--cache",
            str(tmp_path / "c.sqlite"),
        ]
    )
    named = ragsmith("recommend", "law", "--effects", made, "--space", tiny_space, "-o", tmp_path / "w.yaml")
    assert named.code == 0, named.err


def test_one_data_set_is_refused(tiny_folder: Path, tiny_space: Path, tmp_path: Path) -> None:
    learning = ["--own", str(tiny_folder), "--space", str(tiny_space), "--cache", str(tmp_path / "c.sqlite")]
    with pytest.raises(SystemExit, match="2 data sets or more"):
        learn_effects(learning)
