"""The record of a run: written and read again, and refused where a newer ragsmith wrote it."""

from __future__ import annotations

import ast
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import ragsmith
from ragsmith.api.arguments import SettingChanges
from ragsmith.api.settings import settings_of
from ragsmith.datasets.splits import split
from ragsmith.errors import UsageError
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.testbed import Setup
from ragsmith.pipelines.space import Space
from ragsmith.records.record import VERSION, RunRecord, RunSettings
from ragsmith.strategies import GeneticSettings

GENETIC = GeneticSettings(population=4, generations=1, elitism=1)


def test_a_record_is_read_as_it_was_written(tiny_setup: Setup, space: Space) -> None:
    settings = RunSettings("random", GENETIC, seed=3, max_evaluations=9, fitness=Fitness(Weights(1, 0)), probes=False)
    record = RunRecord.begun(tiny_setup, space, settings, split(tiny_setup.dataset))
    plain = json.loads(json.dumps(record.plain()))
    assert plain["version"] == VERSION
    assert RunRecord.read(plain) == record


@pytest.mark.parametrize("stored", [None, [], {}, {"version": VERSION}, {"space": "tiny"}, {"version": "2"}])
def test_what_is_no_record_is_refused(stored: Any) -> None:
    with pytest.raises(UsageError, match=r"cannot be read .*: give another cache with --cache"):
        RunRecord.read(stored)


def test_a_record_of_a_newer_ragsmith_is_refused() -> None:
    with pytest.raises(UsageError, match=f"record version {VERSION + 1}; this one reads up to {VERSION}.: update"):
        RunRecord.read({"version": VERSION + 1})


def test_every_setting_of_a_search_is_an_argument_and_is_read_somewhere() -> None:
    """A setting that is declared and read by no code would be accepted in silence."""
    declared = {field.name for kind in (RunSettings, GeneticSettings) for field in fields(kind)}
    elsewhere = {"budget", "genetic", "racing", "price", "machine", "measuring"}  # given by others, or worked out
    assert declared - elsewhere == SettingChanges.__annotations__.keys() - {"race", "objective"}
    package = Path(ragsmith.__file__).parent
    nodes = (node for path in package.rglob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    assert declared <= {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def test_a_setting_that_nothing_reads_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SettingChanges.__annotations__, "patience", int)
    with pytest.raises(UsageError, match="the setting 'patience' is declared and read by nothing"):
        settings_of(None, None, {"patience": 3})
    with pytest.raises(UsageError, match="unknown setting 'patients': did you mean 'patience'"):
        settings_of(None, None, {"patients": 3})
