"""The record of a run: written and read again, and refused where a newer ragsmith wrote it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.splits import split
from ragsmith.errors import UsageError
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.testbed import Setup
from ragsmith.pipelines.space import Space
from ragsmith.records.record import VERSION, RunRecord, RunSettings
from ragsmith.store.store import Store
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


def test_a_record_of_a_newer_ragsmith_is_refused(store: Store, tmp_path: Path, ragsmith: Callable[..., Any]) -> None:
    with Store.open(tmp_path / "cache.sqlite") as cache:
        cache.put_dataset("data", "island", {})
        cache.put_run("run", "data", {"version": VERSION + 1}, started="2026-01-01T00:00:00+00:00")
    for command in (["runs"], ["report"]):
        ended = ragsmith(*command, "--cache", tmp_path / "cache.sqlite")
        assert (ended.code, ended.out) == (2, "")
        assert f"newer ragsmith (record version {VERSION + 1}; this one reads up to {VERSION}): update" in ended.err
