"""A run counts its look at the test questions across caches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stored import recorded

from ragsmith.comparison.questions import HoldoutUse
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.runs.run import Run
from ragsmith.store.store import Store

SETTINGS = RunSettings(strategy="random", max_evaluations=3, warm_start=False, probes=False, racing=None)


def searched(cache: Path, setup: Experiment, space: Space, settings: RunSettings = SETTINGS) -> RunRecord:
    with Store.open(cache) as store:
        return recorded(store, Run(setup, space, store, settings).go())


def rivals(record: RunRecord) -> frozenset[tuple[str, str]]:
    """The compared pipelines, without the steps of the winner."""
    return frozenset(pair for pair in record.test.items() if pair[0] not in ("leader", "estimate"))


def test_each_search_that_tests_another_winner_is_a_look_whatever_its_folder(
    tmp_path: Path, tiny_setup: Experiment, space: Space
) -> None:
    first = searched(tmp_path / "one.sqlite", tiny_setup, space)
    tested = len(first.split.test)
    assert first.look == HoldoutUse(1, tested, tested)
    again = searched(tmp_path / "two.sqlite", tiny_setup, space)
    assert (again.test, again.look) == (first.test, first.look)  # the same winner against the same others
    numbers = {}
    for seed in range(50, 54):
        found = searched(tmp_path / f"{seed}.sqlite", tiny_setup, space, replace(SETTINGS, seed=seed))
        assert found.look is not None
        numbers[rivals(found)] = found.look.number
    numbers[rivals(first)] = 1
    assert sorted(numbers.values()) == list(range(1, len(numbers) + 1))
    assert len(numbers) > 1


def test_a_record_keeps_groups_and_look(tmp_path: Path, tiny_setup: Experiment, space: Space) -> None:
    found = searched(tmp_path / "cache.sqlite", tiny_setup, space)
    assert found.split.groups is not None
    assert found.split.search_groups is not None
    assert sorted(q for group in found.split.groups.groups for q in group) == sorted(found.split.test)
    assert sorted(q for group in found.split.search_groups.groups for q in group) == sorted(found.split.search)
    assert RunRecord.from_dict(found.to_dict()) == found
