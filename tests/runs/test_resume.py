"""A search that is killed, interrupted, shared or executed differently has the same end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragsmith.digest import to_canonical_json
from ragsmith.records.record import RunRecord
from ragsmith.store.store import Store

Spawn = Callable[..., "subprocess.Popen[str]"]
Arguments = Callable[..., list[object]]

MORE = ("--population", 12, "--generations", 4, "--mutation", "random")


@dataclass(frozen=True)
class End:
    """What a search leaves."""

    winner: bytes
    proposals: list[Any]
    results: dict[tuple[str, str], Any]


def end(home: Path, cache: str = "cache.sqlite", reports: str = "reports") -> End:
    with Store.open(home / cache, read_only=True) as store:
        [run] = store.runs()
        assert run.state == "finished"
        keys = [evaluation.key for evaluation in store.evaluations(run.dataset)]
        results = {
            (key, question): (row.state, to_canonical_json(row.value))
            for key, rows in store.results_many(keys).items()
            for question, row in rows.items()
        }
        proposals = [
            (row.position, row.step, row.genome, row.evaluation, row.value) for row in store.proposals(run.key)
        ]
    return End((home / reports / "island" / "winner.yaml").read_bytes(), proposals, results)


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return out, err


@pytest.fixture(scope="module")
def kept() -> dict[str, End]:
    """The end of the undisturbed search, once it was run."""
    return {}


@pytest.fixture
def undisturbed(kept: dict[str, End], spawn: Spawn, search_arguments: Arguments, tmp_path: Path) -> End:
    if not kept:
        finish(
            spawn(*search_arguments(*MORE, "--workers", 1, cache="whole.sqlite", reports="whole"), PYTHONHASHSEED="0")
        )
        kept["end"] = end(tmp_path, "whole.sqlite", "whole")
    return kept["end"]


def after_lines(process: subprocess.Popen[str], lines: int) -> None:
    """Wait until the search has said so much."""
    assert process.stderr is not None
    for _ in range(lines):
        assert process.stderr.readline()


@pytest.mark.parametrize(("lines", "workers"), [(1, 2), (3, 1), (6, 1)])
def test_a_killed_search_goes_on_to_the_same_end(
    undisturbed: End, spawn: Spawn, search_arguments: Arguments, tmp_path: Path, lines: int, workers: int
) -> None:
    process = spawn(*search_arguments(*MORE, "--workers", workers))
    after_lines(process, lines)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    with Store.open(tmp_path / "cache.sqlite", read_only=True) as store:
        assert [run.state for run in store.runs()] in ([], ["running"])
        assert [RunRecord.from_dict(run.value).state(run.state) for run in store.runs()] in ([], ["interrupted"])
    finish(spawn(*search_arguments(*MORE, "--workers", 1)))
    assert end(tmp_path) == undisturbed


def test_workers_and_hash_seeds_leave_no_trace(
    undisturbed: End, spawn: Spawn, search_arguments: Arguments, tmp_path: Path
) -> None:
    finish(spawn(*search_arguments(*MORE, "--workers", 2), PYTHONHASHSEED="1", LC_ALL="C", TZ="Asia/Tokyo"))
    assert end(tmp_path) == undisturbed


@pytest.mark.parametrize("workers", [1, 2])
def test_a_search_that_can_remember_next_to_nothing_ends_alike(
    undisturbed: End, spawn: Spawn, search_arguments: Arguments, tmp_path: Path, workers: int
) -> None:
    finish(spawn(*search_arguments(*MORE, "--workers", workers, "--memory", "1M")))
    assert end(tmp_path) == undisturbed


def test_two_searches_at_once_on_one_cache_end_alike(
    undisturbed: End, spawn: Spawn, search_arguments: Arguments, tmp_path: Path
) -> None:
    both = [spawn(*search_arguments(*MORE, "--workers", 1, reports=f"reports{n}")) for n in (1, 2)]
    for process in both:
        finish(process)
    assert end(tmp_path, reports="reports1") == end(tmp_path, reports="reports2") == undisturbed


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_search_says_how_to_go_on(
    undisturbed: End, spawn: Spawn, search_arguments: Arguments, tmp_path: Path, workers: int
) -> None:
    process = spawn(*search_arguments(*MORE, "--workers", workers))
    after_lines(process, 3)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Go on with the same command" in err
    assert "Traceback" not in err
    finish(spawn(*search_arguments(*MORE, "--workers", workers)))
    assert end(tmp_path) == undisturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("seconds", [0.4, 0.8, 1.6])
def test_an_interrupt_while_everything_is_being_started_is_an_interrupt_too(
    spawn: Spawn, search_arguments: Arguments, seconds: float, number: signal.Signals
) -> None:
    process = spawn(*search_arguments(*MORE, "--workers", 2))
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=seconds)
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.count("interrupted") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(("number", "times"), [(signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGINT, 3)])
def test_a_search_that_is_asked_to_end_once_or_again_is_recorded_as_interrupted(
    spawn: Spawn, search_arguments: Arguments, tmp_path: Path, number: signal.Signals, times: int
) -> None:
    process = spawn(*search_arguments(*MORE, "--workers", 2))
    after_lines(process, 2)
    for _ in range(times):  # as a launcher does that passes on what its group has received already
        os.killpg(process.pid, number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.count("interrupted") == 1
    assert err.endswith("Go on with the same command.\n")
    with Store.open(tmp_path / "cache.sqlite", read_only=True) as store:
        assert [run.state for run in store.runs()] == ["interrupted"]
