"""The record of a run is restored from the store, and refused if it is malformed."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import ragsmith as package
from ragsmith.api.arguments import SettingChanges
from ragsmith.api.searching import resolve_settings
from ragsmith.datasets.splits import split
from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings

GENETIC = GeneticSettings(population=4, generations=1, elitism=1)


def test_a_record_is_read_as_it_was_written(tiny_setup: Experiment, space: Space) -> None:
    settings = RunSettings("random", GENETIC, seed=3, max_evaluations=9, fitness=Fitness(Weights(1, 0)), probes=False)
    record = RunRecord.create(tiny_setup, space, settings, split(tiny_setup.dataset))
    plain = json.loads(json.dumps(record.to_dict()))
    assert RunRecord.from_dict(plain) == record


@pytest.mark.parametrize("stored", [None, [], {}, {"space": "tiny"}])
def test_what_is_no_record_is_refused(stored: Any) -> None:
    with pytest.raises(UsageError, match=r"cannot be read .*: give another cache with --cache"):
        RunRecord.from_dict(stored)


@pytest.mark.parametrize("change", [{"told": ...}, {"version": 2}, {"settings": {}}])
def test_a_record_that_lacks_something_or_has_more_is_refused(
    tiny_setup: Experiment, space: Space, change: dict[str, Any]
) -> None:
    plain = RunRecord.create(tiny_setup, space, RunSettings(), split(tiny_setup.dataset)).to_dict() | change
    with pytest.raises(UsageError, match="give another cache with --cache"):
        RunRecord.from_dict({name: value for name, value in plain.items() if value is not ...})


def test_a_command_refuses_a_record_that_cannot_be_read(
    tmp_path: Path, tiny_setup: Experiment, space: Space, ragsmith: Callable[..., Any]
) -> None:
    plain = RunRecord.create(tiny_setup, space, RunSettings(), split(tiny_setup.dataset)).to_dict()
    cache = tmp_path / "cache.sqlite"
    with Store.open(cache) as store:
        store.put_run("run", tiny_setup.dataset.digest, {**plain, "version": 2})
    ended = ragsmith("runs", "--cache", cache)
    assert (ended.code, ended.out) == (2, "")
    assert "cannot be read" in ended.err


def test_every_setting_of_a_search_is_an_argument_and_is_read_somewhere() -> None:
    """A setting that is declared and read by no code would be accepted in silence."""
    declared = {field.name for kind in (RunSettings, GeneticSettings) for field in fields(kind)}
    elsewhere = {"budget", "genetic", "racing", "price", "machine", "measuring"}  # given by others, or worked out
    assert declared - elsewhere == SettingChanges.__annotations__.keys() - {"race", "objective"}
    folder = Path(package.__file__).parent
    nodes = (node for path in folder.rglob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    assert declared <= {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def test_a_setting_that_nothing_reads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SettingChanges.__annotations__, "patience", int)
    with pytest.raises(UsageError, match="the setting 'patience' is declared, but not used"):
        resolve_settings(None, None, {"patience": 3})
