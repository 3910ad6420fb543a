"""The same command after a finished run reads it from the store if nothing has changed, else runs again."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import ragsmith
from ragsmith.digest import program_digest
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.records.stored_run import StoredRun
from ragsmith.runs.run import Run, RunOutcome
from ragsmith.runs.run_context import Callbacks, Step
from ragsmith.store.store import ProposalRow, Store
from ragsmith.strategies import GeneticSettings
from ragsmith.techniques.families import FAMILIES

SETTINGS = RunSettings(genetic=GeneticSettings(population=6, generations=3), seed=7, control="random")
AS_BEFORE = ["as it ended before"]


class Searched:
    """A search in a cache of its own, as often as one likes."""

    def __init__(self, cache: Path, setup: Experiment, space: Space) -> None:
        self.cache = cache
        self._setup, self._space = setup, space
        self.first, _ = self.again()

    def again(self, settings: RunSettings = SETTINGS) -> tuple[RunOutcome, list[str]]:
        """How it ended, and the steps that it took."""
        steps: list[Step] = []
        with Store.open(self.cache) as store:
            outcome = Run(self._setup, self._space, store, settings, callbacks=Callbacks(on_step=steps.append)).go()
        return outcome, [step.phase for step in steps]

    def record(self) -> RunRecord:
        """What is kept of it."""
        with Store.open(self.cache, read_only=True) as store:
            row = store.run(self.first.key)
            assert row is not None
            return RunRecord.from_dict(row.value)

    def rewrite(self, record: RunRecord) -> None:
        """Keep another record of it."""
        with Store.open(self.cache) as store:
            store.update_run(self.first.key, "finished", record.to_dict(), finished="later")

    def change(self, statement: str, *values: str) -> None:
        """Change the file from another connection."""
        with closing(sqlite3.connect(self.cache)) as connection, connection:
            assert connection.execute(statement, values).rowcount == 1


@pytest.fixture
def searched(tmp_path: Path, tiny_setup: Experiment, space: Space) -> Searched:
    return Searched(tmp_path / "cache.sqlite", tiny_setup, space)


def test_what_has_ended_is_read_back(searched: Searched) -> None:
    outcome, steps = searched.again()
    assert steps == AS_BEFORE
    assert (outcome.state, outcome.winner) == ("finished", searched.first.winner)
    assert (outcome.computed, outcome.reused) == (0, searched.first.computed + searched.first.reused)


def test_an_answer_that_is_gone_is_computed_again(searched: Searched) -> None:
    assert searched.first.winner is not None
    winner = searched.first.winner
    searched.change("DELETE FROM result WHERE evaluation = ? AND question = ?", winner.key, winner.questions[0])
    outcome, steps = searched.again()
    assert (outcome.computed, outcome.winner) == (1, winner)
    assert len(steps) > 1
    assert searched.again()[1] == AS_BEFORE


def test_an_answer_that_is_damaged_is_computed_again(searched: Searched) -> None:
    assert searched.first.winner is not None
    winner = searched.first.winner
    damage = "UPDATE result SET value = replace(value, 'a', 'e') WHERE evaluation = ? AND question = ?"
    searched.change(damage, winner.key, winner.questions[0])
    outcome, _ = searched.again()
    assert (outcome.computed, outcome.winner) == (1, winner)


def test_a_proposal_that_is_gone_is_listed_again(searched: Searched) -> None:
    with Store.open(searched.cache, read_only=True) as store:
        before = store.proposals(searched.first.key)
    searched.change("DELETE FROM proposal WHERE run = ? AND position = 2", searched.first.key)
    outcome, steps = searched.again()
    assert (outcome.computed, len(steps) > 1) == (0, True)
    with Store.open(searched.cache, read_only=True) as store:
        assert store.proposals(searched.first.key) == before
    assert searched.again()[1] == AS_BEFORE


def test_a_data_set_that_is_called_otherwise_is_reported_by_its_new_name(
    tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    def found(name: str) -> str:
        shutil.copytree(tiny_folder, tmp_path / name, dirs_exist_ok=True)
        manifest = tmp_path / name / "dataset.yaml"
        manifest.write_text(manifest.read_text().replace("name: island", f"name: {name}"))
        result = ragsmith.search(
            tmp_path / name, space=tiny_space, settings=SETTINGS, workers=1, cache=tmp_path / "cache.sqlite"
        )
        assert result.run_report.about.dataset == name
        return result.key

    assert found("island") == found("atoll")


def test_another_program_goes_through_it_once(searched: Searched) -> None:
    """A new version may decide otherwise; where it does not, it need not ask itself again."""
    searched.rewrite(replace(searched.record(), program="an earlier version"))
    outcome, steps = searched.again()
    assert len(steps) > 1
    assert (outcome.computed, outcome.winner) == (0, searched.first.winner)
    assert searched.record().program == program_digest()
    assert searched.again()[1] == AS_BEFORE


def test_what_is_stale_is_not_read_back(searched: Searched) -> None:
    """An answer under a key that the same pipeline has no more was made by other code."""
    record = searched.record()
    assert record.winner is not None
    with Store.open(searched.cache) as store:
        old = next(row for row in store.evaluations(store.datasets()[0].digest) if row.key == record.winner)
        store.put_evaluations([replace(old, key="stale")])
        store.put_results([replace(row, evaluation="stale") for row in store.results(old.key).values()])
    searched.rewrite(replace(record, winner="stale", probes=(replace(record.probes[0], key="stale"),)))
    outcome, steps = searched.again()
    assert len(steps) > 1
    assert outcome.winner == searched.first.winner


def test_other_questions_are_another_search(searched: Searched) -> None:
    """A plan rehearses on samples of the questions of one data set."""
    record = searched.record()
    searched.rewrite(replace(record, split=replace(record.split, search=record.split.search[1:])))
    assert len(searched.again()[1]) > 1


def test_what_failed_is_tried_again(searched: Searched) -> None:
    searched.rewrite(replace(searched.record(), failed=1))
    assert len(searched.again()[1]) > 1


class Proposed:
    """What a run has proposed: its winner, whom a race dropped before another arm let it finish."""

    def __init__(self, winner: str) -> None:
        self._row = ProposalRow(0, 0, [0] * len(FAMILIES), winner, {"fitness": None, "dropped": 3})

    def proposals(self, run: str) -> list[ProposalRow]:
        return [self._row]


@pytest.mark.parametrize("is_over", [True, False])
def test_who_finished_after_all_counts_as_dropped_only_while_a_run_is_under_way(
    searched: Searched, is_over: bool
) -> None:
    record = replace(searched.record(), history=(), dropped={})
    assert record.winner
    seen = record if is_over else replace(record, winner=None)
    kept = StoredRun(Proposed(record.winner), "run", "digest", seen)  # type: ignore[arg-type]
    assert kept.dropped == ({} if is_over else {record.winner: 3})
