"""Searches as Optuna studies in the same database: read back with Optuna itself, and shown by its dashboard."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import sqlite3
import subprocess
import sysconfig
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import optuna
import pytest
from optuna.storages._rdb import models
from optuna.trial import TrialState
from stored import StepClock, put_call

from ragsmith.errors import Notice, StoreError, UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.integrations.optuna import Mirror, mirror_all, mirror_run, study_tables
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.runs.run import Run
from ragsmith.runs.run_context import Callbacks
from ragsmith.store.schema import APPLICATION_ID, FORMAT
from ragsmith.store.store import ProposalRow, Store
from ragsmith.strategies import GeneticSettings
from ragsmith.techniques.families import FAMILIES

GENETIC = GeneticSettings(population=6, generations=3, elitism=2, mutation="random", mutation_rate=0.3)
SETTINGS = RunSettings(genetic=GENETIC, seed=7)
DASHBOARD = Path(sysconfig.get_path("scripts"), "optuna-dashboard")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory, tiny_setup: Experiment, space: Space) -> tuple[Path, str]:
    """A cache with a finished run, and the run's key; tests work on copies."""
    path = tmp_path_factory.mktemp("searched") / "cache.sqlite"
    with Store.open(path) as store:
        return path, Run(tiny_setup, space, store, SETTINGS).go().key


@pytest.fixture
def cache(searched: tuple[Path, str], tmp_path: Path) -> Path:
    return Path(shutil.copy(searched[0], tmp_path / "cache {1}%20?.sqlite"))


@pytest.fixture
def key(searched: tuple[Path, str]) -> str:
    return searched[1]


def studies(path: Path) -> dict[str, optuna.study.StudySummary]:
    with reading(path) as storage:
        return {study.study_name: study for study in optuna.get_all_study_summaries(storage)}


@contextmanager
def reading(path: Path) -> Iterator[optuna.storages.RDBStorage]:
    """Optuna's own storage on a copy of the cache, with what is in its log, under a name that fits into a URL."""
    copy = path.with_name("plain.sqlite")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    storage = optuna.storages.RDBStorage(f"sqlite:///{copy}")
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def trials(path: Path, study: str) -> list[optuna.trial.FrozenTrial]:
    with reading(path) as storage:
        return optuna.load_study(study_name=study, storage=storage).get_trials()


def dump(path: Path) -> list[tuple[Any, ...]]:
    """Everything in Optuna's tables."""
    with closing(sqlite3.connect(path)) as connection:
        tables = ["alembic_version", *models.BaseModel.metadata.tables]
        return [(table, *row) for table in tables for row in connection.execute(f"SELECT * FROM {table}")]


# What a study says


def test_every_proposal_is_a_trial_with_its_options_and_scores(cache: Path, key: str, space: Space) -> None:
    mirror = mirror_run(cache)
    with Store.open(cache) as store:
        rows, run = store.proposals(key), store.run(key)
        results = store.results_many(row.evaluation for row in rows)
    assert run is not None
    assert mirror == Mirror(key, f"ragsmith island {key[:12]}", len(rows), len(rows))
    found = trials(cache, mirror.study)
    assert [trial.number for trial in found] == list(range(len(rows)))
    for trial, row in zip(found, rows, strict=True):
        candidate = space.candidate(tuple(row.genome))
        assert trial.params == {family.name: str(gene) for family, gene in zip(FAMILIES, candidate, strict=True)}
        assert list(trial.params) == [family.name for family in FAMILIES]
        if row.dropped is not None:
            assert (trial.state, trial.value) == (TrialState.PRUNED, None)
            continue
        assert (trial.state, trial.value) == (TrialState.COMPLETE, row.fitness)
        records = [results[row.evaluation][question].value for question in RunRecord.from_dict(run.value).split.search]
        metrics = [record["measures"] for record in records]
        retrieval = fmean(fmean(m[name] for name in ("recall", "map", "ndcg", "mrr")) for m in metrics)
        assert trial.user_attrs["R"] == pytest.approx(retrieval)
        assert trial.user_attrs["R"] / 2 + trial.user_attrs["G"] / 2 == pytest.approx(trial.value)
        assert trial.user_attrs["calls"] == pytest.approx(fmean(record["usage"]["calls"] for record in records))
        assert trial.user_attrs["token_f1"] == pytest.approx(fmean(m["token_f1"] for m in metrics))
        assert trial.user_attrs["questions scored"] == len(records)
        assert trial.user_attrs["questions failed"] == 0
        assert (trial.user_attrs["step"], trial.user_attrs["evaluation"]) == (row.step, row.evaluation)


def test_a_study_says_which_run_it_shows(cache: Path, key: str, space: Space) -> None:
    mirror = mirror_run(cache)
    with Store.open(cache) as store:
        run = store.run(key)
    assert run is not None
    (name,), (study,) = zip(*studies(cache).items(), strict=True)
    assert name == mirror.study
    assert study.direction.name == "MAXIMIZE"
    told = study.user_attrs
    assert (told["run"], told["dataset"], told["state"]) == (key, "island", "finished")
    assert (told["space"], told["strategy"], told["seed"]) == (space.name, "genetic", 7)
    split = RunRecord.from_dict(run.value).split
    assert told["split"] == f"{len(split.search)} search and {len(split.test)} test questions"
    assert study.best_trial is not None
    assert told["winner"] is None or trials(cache, name)[told["winner"]].state == TrialState.COMPLETE


def test_a_trial_begins_when_its_run_began(cache: Path, key: str) -> None:
    mirror_run(cache)
    with closing(sqlite3.connect(cache)) as connection:
        times = set(connection.execute("SELECT datetime_start, datetime_complete FROM trials"))
    with Store.open(cache) as store:
        run = store.run(key)
    assert run is not None
    assert run.started is not None
    (found,) = times
    if int(optuna.__version__.partition(".")[0]) >= 5:  # which keeps times in UTC
        assert {time.partition(".")[0].replace(" ", "T") for time in found} == {run.started.removesuffix("+00:00")}


# Doing it again


def test_a_second_time_nothing_is_written(cache: Path) -> None:
    first = mirror_run(cache)
    before = dump(cache)
    assert mirror_run(cache) == replace(first, written=0)
    assert dump(cache) == before


def test_equal_runs_have_equal_studies(cache: Path, tmp_path: Path) -> None:
    other = Path(shutil.copy(cache, tmp_path / "other.sqlite"))
    mirror_run(cache)
    with Store.open(other) as store:
        mirror_all(store)
    assert dump(cache) == dump(other)


def test_a_run_that_goes_on_adds_to_its_study(tmp_path: Path, tiny_setup: Experiment, space: Space) -> None:
    path = tmp_path / "cache.sqlite"
    clock = StepClock()
    callbacks = Callbacks(on_step=clock.tick)
    with Store.open(path) as store:
        begun = Run(tiny_setup, space, store, replace(SETTINGS, time_limit=2), now=clock, callbacks=callbacks).go()
        assert begun.state == "interrupted"
        first = mirror_run(store)
        assert 0 < first.written == first.trials
        assert studies(path)[first.study].user_attrs["state"] == "interrupted"
        before = trials(path, first.study)
        assert Run(tiny_setup, space, store, SETTINGS).go().state == "finished"
        second = mirror_run(store)
    assert second.study == first.study
    assert second.written == second.trials - first.trials > 0
    after = trials(path, second.study)
    assert [(t._trial_id, t.value) for t in after[: len(before)]] == [(t._trial_id, t.value) for t in before]
    assert studies(path)[first.study].user_attrs["state"] == "finished"


def test_what_changed_is_replaced_and_what_is_gone_goes(cache: Path, key: str) -> None:
    with Store.open(cache) as store:
        rows = store.proposals(key)
        failed = ProposalRow(1, rows[1].step, rows[1].genome, "nowhere", {"fitness": None})
        store.put_proposals(key, [rows[0], failed, *rows[2:]], replace_all=True)
        mirror = mirror_run(store)
        found = trials(cache, mirror.study)
        assert (found[1].state, found[1].value) == (TrialState.FAIL, None)
        assert found[1].user_attrs == {
            **{"step": failed.step, "evaluation": "nowhere"},
            **{"questions scored": 0, "questions failed": 0},
        }
        assert mirror_run(store).written == 0
        store.put_proposals(key, rows[:3], replace_all=True)
        assert mirror_run(store) == Mirror(key, mirror.study, 3, 1)
    after = trials(cache, mirror.study)
    assert [(t.number, t.value) for t in after] == [(row.position, row.fitness) for row in rows[:3]]
    assert after[0]._trial_id == found[0]._trial_id
    assert after[1]._trial_id > max(trial._trial_id for trial in found)  # a dashboard that knows the old one sees it


def test_a_study_keeps_its_name_when_the_data_set_is_renamed(cache: Path) -> None:
    first = mirror_run(cache)
    with Store.open(cache) as store:
        (data,) = store.datasets()
        store.put_dataset(data.digest, "renamed", data.value)
        assert mirror_run(store) == replace(first, written=0)
    assert list(studies(cache)) == [first.study]


def test_many_trials_take_several_transactions(cache: Path) -> None:
    mirror = mirror_run(cache)
    found = trials(cache, mirror.study)
    for trial in found:
        trial.user_attrs["note"] = "changed"
    with study_tables(cache, "the cache") as tables:
        assert tables.update(1, found, batch=4) == len(found) > 8
        assert tables.update(1, found, batch=4) == 0
    assert [(trial.number, trial.user_attrs["note"]) for trial in trials(cache, mirror.study)] == [
        (number, "changed") for number in range(len(found))
    ]


def test_a_number_that_is_there_twice_is_there_once_again(cache: Path) -> None:
    mirror = mirror_run(cache)
    with closing(sqlite3.connect(cache)) as connection, connection:
        connection.execute("UPDATE trials SET number = 1 WHERE number = 0")
    assert mirror_run(cache).written == 2
    assert [trial.number for trial in trials(cache, mirror.study)] == list(range(mirror.trials))


def test_every_run_is_mirrored(cache: Path, tiny_setup: Experiment, space: Space) -> None:
    settings = RunSettings(strategy="random", genetic=GENETIC, seed=7, max_evaluations=5)
    with Store.open(cache) as store:
        other = Run(tiny_setup, space, store, settings).go().key
        mirrors = mirror_all(store)
        assert [mirror.run for mirror in mirrors] == [run.key for run in store.runs()]
    assert set(studies(cache)) == {mirror.study for mirror in mirrors}
    assert studies(cache)[f"ragsmith island {other[:12]}"].user_attrs["strategy"] == "random"


def test_the_study_of_a_run_that_is_gone_goes_with_the_next_mirroring_and_no_other(cache: Path, key: str) -> None:
    mirror_all(cache)
    with study_tables(cache, "the cache") as tables:
        own = optuna.create_study(storage=tables.storage, study_name="somebody's own")
        own.set_user_attr("run", key)
    with closing(sqlite3.connect(cache, isolation_level=None)) as connection:
        connection.execute("DELETE FROM run")
    with Store.open(cache) as store:
        assert len(studies(cache)) == 2
        assert mirror_all(store) == []
    assert set(studies(cache)) == {"somebody's own"}


def test_nothing_is_printed(cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    verbosity = optuna.logging.get_verbosity()
    mirror_run(cache)
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == verbosity


# Which run


def test_a_run_is_named_by_the_beginning_of_its_key(cache: Path, key: str) -> None:
    assert mirror_run(cache, key[:5]).run == key
    with pytest.raises(UsageError, match="has no run 'zzz': see  ragsmith runs"):
        mirror_run(cache, "zzz")
    with Store.open(cache) as store:
        run = store.run(key)
        assert run is not None
        store.put_run(key[:5] + "-other", run.dataset, run.value)
        with pytest.raises(UsageError, match="2 runs have keys that begin with"):
            mirror_run(store, key[:5])


def test_a_cache_without_runs_or_none_at_all_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with pytest.raises(UsageError, match="there is no cache"):
        mirror_run(path)
    assert not path.exists()
    with Store.open(path) as store, pytest.raises(UsageError, match="has no run yet"):
        mirror_run(store)


# The cache stays ours


def test_the_cache_is_what_it_was(cache: Path, key: str, tiny_setup: Experiment, space: Space) -> None:
    ours = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    with closing(sqlite3.connect(cache)) as connection:
        before = set(connection.execute(ours))
    with Store.open(cache) as store:
        mirror_run(store)
        with closing(sqlite3.connect(cache)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert [path.name for path in cache.parent.glob(f"{cache.name}*")] == [cache.name]  # complete by itself
    with closing(sqlite3.connect(cache)) as connection:
        pragmas = ("journal_mode", "user_version", "application_id", "integrity_check")
        values = [connection.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in pragmas]
        assert values == ["delete", FORMAT, APPLICATION_ID, "ok"]
        assert before <= set(connection.execute(ours))
    with Store.open(cache) as store:
        assert store.verify() == []
        again = Run(tiny_setup, space, store, SETTINGS).go()
        assert (again.key, again.computed) == (key, 0)
        assert store.verify() == []


def test_a_dashboard_that_closes_last_has_taken_nothing_away(cache: Path) -> None:
    mirror_run(cache)
    path = cache.rename(cache.with_name("cache.sqlite"))
    with Store.open(path) as store:
        dashboard = optuna.storages.RDBStorage(f"sqlite:///{path}")
        dashboard.get_all_studies()
        put_call(store, "call", "model", "task", "reply")
    dashboard.remove_session()
    dashboard.engine.dispose()
    assert list(path.parent.glob("cache.sqlite*")) == [path]
    assert path.read_bytes()[18:20] == b"\2\2"  # still in WAL mode, as if its log were missing
    with pytest.warns(Notice, match="the rows in it, if any, are lost"):
        store = Store.open(path)
    with store:
        assert store.get_calls(["call"])


def test_a_database_of_optuna_alone_is_not_taken_for_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
    storage.remove_session()
    storage.engine.dispose()
    content = path.read_bytes()
    for place in (path, f"sqlite:///{path}"):
        with pytest.raises(StoreError, match="is not a ragsmith cache and was left as it is"):
            mirror_run(place)
    assert path.read_bytes() == content


def test_studies_of_another_version_of_optuna_are_left_alone(cache: Path) -> None:
    mirror_run(cache)
    with closing(sqlite3.connect(cache)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v99'")
    with pytest.raises(StoreError, match=r"studies in the cache cannot be written: .*no longer compatible"):
        mirror_run(cache)


def test_a_cache_that_cannot_be_written_is_named(cache: Path) -> None:
    mirror = mirror_run(cache)
    found = trials(cache, mirror.study)
    with closing(sqlite3.connect(cache)) as connection, study_tables(cache, "the cache", timeout=0.05) as tables:
        connection.execute("BEGIN IMMEDIATE")
        with (
            pytest.raises(StoreError, match="the cache is held by another process"),
            study_tables(cache, "the cache", timeout=0.05) as locked,
        ):
            locked.update(1, found[:2])
        with (
            pytest.raises(StoreError, match="the cache is held by another process"),
            study_tables(cache, "the cache", timeout=0.05) as locked,
        ):
            locked.storage.set_study_user_attr(1, "note", "late")
        connection.rollback()
        assert tables.update(1, found[:2]) == 0
    assert [trial.number for trial in trials(cache, mirror.study)] == [0, 1]


# At the same time


def test_a_search_that_writes_meanwhile_is_not_disturbed(cache: Path, key: str) -> None:
    done = threading.Event()

    def write() -> int:
        with Store.open(cache, timeout=10) as store:
            for number in itertools.count(1):
                put_call(store, f"call {number}", "model", "task", "reply")
                if done.wait(0.005):
                    return number
        raise AssertionError("unreachable")

    with ThreadPoolExecutor(1) as pool, Store.open(cache) as store:
        writing = pool.submit(write)
        rows = store.proposals(key)
        try:
            for count in (1, 2, len(rows)):
                store.put_proposals(key, rows[:count], replace_all=True)
                assert mirror_run(store).trials == count
        finally:
            done.set()
        assert writing.result() > 1
        assert store.verify() == []


def test_several_may_mirror_the_same_run_at_once(cache: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        mirrors = list(pool.map(mirror_run, [cache] * 4))
    assert len({mirror.study for mirror in mirrors}) == 1
    assert sum(mirror.written for mirror in mirrors) == mirrors[0].trials
    assert [trial.number for trial in trials(cache, mirrors[0].study)] == list(range(mirrors[0].trials))


# The dashboard


@pytest.fixture
def dashboard(searched: tuple[Path, str], tmp_path: Path) -> Iterator[str]:
    """The address of a dashboard on a mirrored cache."""
    if not DASHBOARD.exists():
        pytest.skip("optuna-dashboard is not installed: pip install 'ragsmith[dashboard]'")
    cache = Path(shutil.copy(searched[0], tmp_path / "cache.sqlite"))
    mirror_run(cache)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(DASHBOARD), "--host", "127.0.0.1", "--port", str(port), "--server", "wsgiref", f"sqlite:///{cache}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def get(url: str) -> Any:
    for _ in range(300):
        try:
            with urllib.request.urlopen(url, timeout=30) as reply:
                return json.load(reply)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.1)
    raise AssertionError("the dashboard did not start within 30 seconds")


@pytest.mark.processes
def test_the_dashboard_shows_the_study(dashboard: str, tmp_path: Path, key: str) -> None:
    (study,) = get(f"{dashboard}/api/studies")["study_summaries"]
    assert study["study_name"] == f"ragsmith island {key[:12]}"
    assert study["directions"] == ["maximize"]
    with Store.open(tmp_path / "cache.sqlite") as store:  # while the dashboard has the file open
        assert store.verify() == []
        rows = store.proposals(key)
        put_call(store, "call", "model", "task", "reply")
    detail = get(f"{dashboard}/api/studies/{study['study_id']}")
    assert detail["objective_names" if "objective_names" in detail else "metric_names"] == ["fitness"]
    values = [None if row.fitness is None else [row.fitness] for row in rows]
    assert [trial.get("values") for trial in detail["trials"]] == values
    assert {item["name"] for item in detail["union_search_space"]} == {family.name for family in FAMILIES}
