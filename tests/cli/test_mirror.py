"""``ragsmith runs --mirror``: searches as Optuna studies, and how to look at them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from postgres_server import Server

from ragsmith.evaluation.experiment import Experiment
from ragsmith.integrations.optuna import mirror_run
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunSettings
from ragsmith.runs.run import Run
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings

Command = Callable[..., Any]
SETTINGS = RunSettings(
    genetic=GeneticSettings(population=4, generations=1, elitism=1), max_evaluations=4, racing=None, probes=False
)


def test_runs_are_mirrored_and_the_dashboard_is_named(
    ragsmith: Command, tiny_setup: Experiment, space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open("my cache.sqlite") as store:
        key = Run(tiny_setup, space, store, SETTINGS).go().key
        proposed = len(store.proposals(key))
    plain = ragsmith("runs", "--cache", "my cache.sqlite")
    shown = ragsmith("runs", "--mirror", "--cache", "my cache.sqlite")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(plain.out)
    assert f"mirrored as 1 Optuna studies of {proposed} trials, {proposed} of them new" in shown.out
    assert "  optuna-dashboard 'sqlite:///my cache.sqlite'\n" in shown.out
    assert "0 of them new" in ragsmith("runs", "--mirror", "--cache", "my cache.sqlite").out
    [run] = json.loads(ragsmith("runs", "--mirror", "--json", "--cache", "my cache.sqlite").out)
    assert (run["key"], run["study"]) == (key, f"ragsmith island {key[:12]}")
    storage = optuna.storages.RDBStorage("sqlite:///my cache.sqlite")
    assert len(optuna.load_study(study_name=run["study"], storage=storage).trials) == proposed
    storage.remove_session()
    storage.engine.dispose()


@pytest.mark.processes
def test_a_password_is_used_and_not_said(
    ragsmith: Command, tiny_setup: Experiment, space: Space, postgres_server: Server
) -> None:
    url = postgres_server.database().replace("@", ":Dw3-data-Gv65xKa19@")
    with Store.open(url) as store:
        key = Run(tiny_setup, space, store, SETTINGS).go().key
        assert mirror_run(store).written == len(store.proposals(key)) > 0
    shown = ragsmith("runs", "--mirror", "--cache", url)
    assert (shown.code, shown.err) == (0, "")
    assert "ragsmith:***@127.0.0.1" in shown.out
    assert "with the password in the place of ***" in shown.out
    assert "Dw3" not in shown.out
