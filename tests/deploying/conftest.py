"""A starter kit of a tiny winner, and what runs its programs as their users do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ragsmith
from ragsmith.deploying.kit import Kit
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.writing import write_winner
from ragsmith.pipelines.space import Space
from ragsmith.runs.run import Run
from ragsmith.store.store import Store

ROOT = Path(ragsmith.__file__).resolve().parent.parent
SETTINGS = ragsmith.RunSettings(
    genetic=ragsmith.GeneticSettings(population=4, generations=1, elitism=1), max_evaluations=4, probes=False
)


@pytest.fixture(scope="session")
def winner(tmp_path_factory: pytest.TempPathFactory, tiny_setup: Experiment, space: Space, techniques: None) -> Path:
    folder = tmp_path_factory.mktemp("found")
    with Store.open(folder / "cache.sqlite") as store:
        outcome = Run(tiny_setup, space, store, SETTINGS).go()
        return write_winner(store, outcome.key, tiny_setup, folder / "winner.yaml")


@pytest.fixture(scope="session")
def kit(winner: Path, tmp_path_factory: pytest.TempPathFactory) -> Kit:
    return ragsmith.deploy(winner, tmp_path_factory.mktemp("deployed") / "kit")


@pytest.fixture
def program() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program of a kit; the package is this one, and no variable of whoever runs the tests goes along."""

    def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAGSMITH_")}
        environment = {**kept, "PYTHONPATH": str(ROOT), "RAGSMITH_LEDGER": "off", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    return run
