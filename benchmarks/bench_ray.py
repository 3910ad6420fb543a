"""A search on a Ray cluster of two nodes on this machine, and in one process: what comes out, and how long it takes.

    python benchmarks/bench_ray.py
    python benchmarks/bench_ray.py --embedded [--dataset DATASET]
    python benchmarks/bench_ray.py --simulate

The nodes have a CPU each, ports of their own, and the loopback interface alone. `law` is searched with the default
settings: in one process, on the cluster, with the leader killed in the middle and started again, and with a node killed
in the middle. Digests are those of `watching.py`: of the winner's file, of the ranking, and of all rows.

``--embedded`` compares one process with two processes and with two nodes of a core each, on an otherwise idle machine;
``--simulate`` measures the costs of a question and computes what clusters of 16 cores and of 100 nodes would do
(`ray_simulation.py`).
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ray_simulation import print_simulation
from served_runs import environment
from watching import digest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/support"))
from ray_nodes import LOOPBACK_ALONE, Nodes

LAW = ("search", "--dataset", "law", "--quiet")
PIPELINES = 12
"""Pipelines of one batch."""


def rows(folder: Path) -> int:
    """Results that are stored so far."""
    try:
        with closing(sqlite3.connect(f"file:{folder / 'cache.sqlite'}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM result").fetchone()[0])
    except sqlite3.OperationalError:  # it has not begun
        return 0


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a command in ``folder``; what earlier searches looked at does not count."""
    environ = {**environment(), **LOOPBACK_ALONE, "RAGSMITH_LEDGER": "off"}
    command = [sys.executable, "-m", "ragsmith", *arguments]
    with (folder / "said").open("w") as said:
        return subprocess.Popen(command, cwd=folder, env=environ, stdout=said, stderr=said, text=True)


def search(folder: Path, *arguments: str, meanwhile: Callable[[subprocess.Popen[str]], None] | None = None) -> float:
    """Search in ``folder``, do something ``meanwhile``, and return the seconds that it took."""
    began = time.perf_counter()
    process = start(folder, *arguments)
    if meanwhile is not None:
        meanwhile(process)
    if process.wait() not in (0, -9):
        sys.exit((folder / "said").read_text())
    return time.perf_counter() - began


def after(share: float, of: int, folder: Path, do: Callable[[], object]) -> Callable[[subprocess.Popen[str]], None]:
    """Do something when a share of so many rows is there."""

    def wait(process: subprocess.Popen[str]) -> None:
        while rows(folder) < share * of and process.poll() is None:
            time.sleep(0.05)
        print(f"  with {rows(folder):,} of {of:,} rows stored", flush=True)
        do()

    return wait


def compare_embedded(dataset: str) -> None:
    """Search with the embedded models in one process, in two and on two nodes, and print how much faster each is."""
    with tempfile.TemporaryDirectory() as scratch, Nodes() as nodes:
        folders = alone, apart, together = [Path(scratch, name) for name in ("alone", "apart", "together")]
        for folder in folders:
            folder.mkdir()
        source = str(Path(dataset).resolve()) if Path(dataset).exists() else dataset
        arguments = ("search", "--dataset", source, "--quiet")
        one = search(alone, *arguments, "--workers", "1")
        print(f"one process: {one:.1f} s, {rows(alone):,} rows", flush=True)
        for name, folder, more in (
            ("two processes", apart, ("--workers", "2")),
            ("two nodes", together, ("--workers", "2", "--engine", f"ray:{nodes.address}")),
        ):
            two = search(folder, *arguments, *more)
            same = digest(folder) == digest(alone)
            print(f"{name}: {two:.1f} s, {one / two:.2f} times as fast; the same: {same}", flush=True)


def main() -> None:
    """Run the comparison that is asked for; by default, search in one process and on two nodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embedded", action="store_true")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--dataset", default="law")
    asked_for = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    os.environ.update(environment())
    if asked_for.embedded:
        compare_embedded(asked_for.dataset)
    if asked_for.simulate:
        print_simulation(PIPELINES)
    if not (asked_for.embedded or asked_for.simulate):
        compare_searches()


def compare_searches() -> None:
    """Search in one process and on two nodes, also with losses, and print what differs."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch, name) for name in ("alone", "together", "lost", "killed")]
        for folder in folders:
            folder.mkdir()
        alone, together, lost, killed = folders
        one = search(alone, *LAW, "--workers", "1")
        expected = digest(alone)
        print(f"one process: {one:.1f} s, {expected}", flush=True)
        of = rows(alone)
        with Nodes() as nodes:
            cluster = ("--engine", f"ray:{nodes.address}", "--workers", "2")
            two = search(together, *LAW, *cluster)
            print(f"two nodes: {two:.1f} s, {one / two:.2f} times as fast; the same: {digest(together) == expected}")

            def kill(process: subprocess.Popen[str]) -> None:
                after(0.4, of, killed, process.kill)(process)

            search(killed, *LAW, *cluster, meanwhile=kill)
            resumed = search(killed, *LAW, *cluster)
            print(f"leader killed: resumed in {resumed:.1f} s; the same: {digest(killed) == expected}", flush=True)

            took = search(lost, *LAW, *cluster, meanwhile=after(0.4, of, lost, nodes.lose))
            print(f"node killed: {took:.1f} s; the same: {digest(lost) == expected}", flush=True)


if __name__ == "__main__":
    main()
