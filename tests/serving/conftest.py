"""A winner on disk, and applications that answer with it; each is closed in the end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from started import Start, Started

import ragsmith
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.writing import write_winner
from ragsmith.pipelines.genes import Candidate, configuration
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunSettings
from ragsmith.runs.run import Run
from ragsmith.serving.app import ServingApp
from ragsmith.store.store import Store

SETTINGS = RunSettings(
    genetic=ragsmith.GeneticSettings(population=4, generations=1, elitism=1), max_evaluations=4, probes=False
)


@pytest.fixture(scope="session")
def winner(tmp_path_factory: pytest.TempPathFactory, tiny_setup: Experiment, space: Space, techniques: None) -> Path:
    folder = tmp_path_factory.mktemp("served")
    with Store.open(folder / "cache.sqlite") as store:
        outcome = Run(tiny_setup, space, store, SETTINGS).go()
        return write_winner(store, outcome.key, tiny_setup, folder / "winner.yaml")


@pytest.fixture(scope="session")
def written(winner: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Candidate], Path]:
    """Write another pipeline in the place of the winner."""

    def write(candidate: Candidate) -> Path:
        import yaml  # noqa: PLC0415

        data = yaml.safe_load(winner.read_text())
        data["pipeline"] = configuration(candidate)
        data.pop("expected", None)
        data.pop("reference", None)
        path = (
            winner.parent / f"{len(list(winner.parent.iterdir()))}.yaml"
        )  # beside it: the data set is named from there
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return path

    return write


@pytest.fixture
def serving(winner: Path, tmp_path: Path) -> Iterator[Callable[..., ServingApp]]:
    """Make an application; ``limits`` are given by name, and so is what `ragsmith.asgi_app` takes."""
    made: list[ServingApp] = []

    def make(pipeline: Path = winner, *, limits: dict[str, Any] | None = None, **more: Any) -> ServingApp:
        more.setdefault("cache", tmp_path / "cache.sqlite")
        app = ragsmith.asgi_app(pipeline, limits=ragsmith.ServingLimits(**(limits or {})), **more)
        made.append(app)
        return app

    yield make
    for app in made:
        app.close()


@pytest.fixture
def start(spawn: Callable[..., subprocess.Popen[str]], winner: Path) -> Start:
    """Start a server of a pipeline in a process of its own, with flags and variables of the environment."""

    def begin(*more: object, pipeline: Path = winner, **environment: str) -> Started:
        return Started(spawn("serve", pipeline, "--port", 0, "--json", *more, **environment))

    return begin
