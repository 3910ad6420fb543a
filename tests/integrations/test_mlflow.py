"""A search as a run of MLflow, read back with MLflow itself, also after the search was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ragsmith as package
from ragsmith.errors import WrongOption
from ragsmith.records.record import load_record
from ragsmith.store.store import Store

pytest.importorskip("mlflow", reason="needs the extra mlflow")

from mlflow import MlflowClient
from mlflow.entities import Run as Tracked

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in the code of MLflow

SETTINGS = package.RunSettings(
    genetic=package.GeneticSettings(population=4, generations=2, elitism=1), probes=False, test=True
)


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tracking store in the folder of the test, which also has the artefacts, as MLflow puts them there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    return f"sqlite:///{tmp_path}/mlflow.db"


def tracked(uri: str) -> Tracked:
    """The only run of the only experiment."""
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("ragsmith")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    return run


def metrics(uri: str) -> dict[str, list[tuple[int, float]]]:
    """Steps and values of each metric, as they were logged."""
    client, run = MlflowClient(tracking_uri=uri), tracked(uri)
    found = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
    return {name: sorted((one.step, one.value) for one in history) for name, history in found.items()}


def history(cache: Path, key: str) -> dict[str, list[tuple[int, float]]]:
    """The same from the record of the search."""
    with Store.open(cache, read_only=True) as store:
        record = load_record(store, key)
    assert record is not None
    assert record.history
    return {
        f"search {name}": [(one.number, value) for one in record.history if (value := getattr(one, name)) is not None]
        for name in ("best", "mean", "diversity")
    }


def test_a_search_is_a_run_with_settings_metrics_by_step_and_files(
    uri: str, tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {"space": tiny_space, "settings": SETTINGS, "chunk_size": 100, "workers": 1}
    found = package.search(tiny_folder, mlflow=uri, reports=tmp_path / "reports", **arguments)
    run = tracked(uri)
    assert run.info.status == "FINISHED"
    assert run.data.tags["ragsmith.run"] == found.key
    expected = {"space": "tiny", "population": "4", "strategy": "genetic", "chunk_size": "100"}
    assert expected.items() <= run.data.params.items()
    assert run.data.params["model.embedder"] == found.setup.model_ids["embedder"]
    logged, recorded = metrics(uri), history(tmp_path / "cache.sqlite", found.key)
    assert {name: logged[name] for name in recorded} == recorded
    assert [step for step, _ in logged["search candidates"]] == [step for step, _ in recorded["search best"]]
    names = {file.path for file in MlflowClient(tracking_uri=uri).list_artifacts(run.info.run_id)}
    assert {"winner.yaml", "index.html", "report.md"} <= names
    package.search(tiny_folder, mlflow=uri, reports=tmp_path / "reports", **arguments)
    assert metrics(uri) == logged  # the same search, read from the cache


def test_a_search_that_ended_before_has_its_generations_too(
    uri: str, tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {"space": tiny_space, "settings": SETTINGS, "chunk_size": 100, "workers": 1}
    key = package.search(tiny_folder, **arguments).key
    package.search(tiny_folder, mlflow=uri, **arguments)
    assert metrics(uri) == history(tmp_path / "cache.sqlite", key)


KILLED = """
import os, signal, sys, ragsmith
from pathlib import Path
def on_step(step):
    if step.phase == "search" and step.number == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
settings = ragsmith.RunSettings(
    genetic=ragsmith.GeneticSettings(population=4, generations=2, elitism=1), probes=False, test=True
)
ragsmith.search(sys.argv[1], space=Path(sys.argv[2]), settings=settings, chunk_size=100, workers=1, mlflow=sys.argv[3],
                on_step=on_step)
"""


def test_a_search_that_is_killed_and_resumed_is_one_run_without_doubles(
    uri: str, tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    places = [str(tiny_folder), str(tiny_space), uri]
    for step, before in ((1, [0]), (2, [0, 1])):  # resumed once, and killed again
        ended = subprocess.run([sys.executable, "-c", KILLED, *places, str(step)], cwd=tmp_path, check=False)
        assert ended.returncode == -signal.SIGKILL
        assert tracked(uri).info.status == "RUNNING"
        assert [number for number, _ in metrics(uri)["search best"]] == before
    arguments: dict[str, Any] = {"space": tiny_space, "settings": SETTINGS, "chunk_size": 100, "workers": 1}
    found = package.search(tiny_folder, mlflow=uri, **arguments)
    run, logged = tracked(uri), metrics(uri)
    recorded = history(tmp_path / "cache.sqlite", found.key)
    assert (run.info.status, run.data.tags["ragsmith.run"]) == ("FINISHED", found.key)
    assert {name: logged[name] for name in recorded} == recorded
    assert len(recorded["search best"]) == 3
    assert len(logged["search candidates"]) == 3


def test_a_store_that_cannot_be_used_is_refused_before_anything_is_computed(
    uri: str, tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    with pytest.raises(WrongOption, match="mlflow is nonsense://x, which cannot be used"):
        package.search(tiny_folder, space=tiny_space, settings=SETTINGS, chunk_size=100, mlflow="nonsense://x")
    with Store.open(tmp_path / "cache.sqlite", read_only=True) as store:
        assert store.runs() == []
