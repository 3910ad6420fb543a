"""Kill a search with SIGKILL at random moments, resume it, and compare with a search that was left alone.

python benchmarks/bench_kill.py [KILLS [GENERATIONS [SPACE]]]
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from commands import ragsmith, search_of

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
SPACE = sys.argv[3] if len(sys.argv) > 3 else None
ARGUMENTS = (*search_of(SPACE), "--generations", sys.argv[2] if len(sys.argv) > 2 else "20")
ROWS = {
    "fit": "select key, dataset, value from fit order by 1",
    "result": "select evaluation, question, state, value from result order by 1, 2",
    "evaluation": "select key, dataset, configuration from evaluation order by 1",
    "proposal": "select run, position, step, genome, evaluation, value from proposal order by 1, 2",
}


def rows(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    connection = sqlite3.connect(folder / "cache.sqlite")
    try:
        return {table: connection.execute(query).fetchall() for table, query in ROWS.items()}
    finally:
        connection.close()


def stored(folder: Path) -> int:
    connection = sqlite3.connect(folder / "cache.sqlite")
    try:
        return connection.execute("select count(*) from result").fetchone()[0]
    except sqlite3.OperationalError:  # killed before the tables were there
        return 0
    finally:
        connection.close()


def outputs(folder: Path) -> tuple[bytes, bytes]:
    report = folder / "reports/law"
    return (report / "winner.yaml").read_bytes(), (report / "ranking.csv").read_bytes()


def kill_after(folder: Path, seconds: float) -> bool:
    """Start a search and kill it and nothing else; its workers must end by themselves. False if it was done before."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ragsmith", *ARGUMENTS, "--quiet"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    raise SystemExit("workers outlived the search")


with tempfile.TemporaryDirectory() as name:
    alone = Path(name)
    whole = ragsmith(*ARGUMENTS, folder=alone)
    assert whole.code == 0, whole.err
    expected_rows, expected_outputs = rows(alone), outputs(alone)
total = len(expected_rows["result"])
print(f"left alone: {whole.wall:.1f} s, {total:,} answers")

draw = random.Random(7)
identical = 0
for number in range(1, KILLS + 1):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        moment = draw.uniform(0.3, whole.wall)
        killed = kill_after(folder, moment)
        kept = stored(folder) if (folder / "cache.sqlite").exists() else 0
        resumed = ragsmith(*ARGUMENTS, folder=folder)
        assert resumed.code == 0, resumed.err
        same = rows(folder) == expected_rows and outputs(folder) == expected_outputs
        identical += same
        again = next(line for line in resumed.out.splitlines() if "answers computed" in line)
        computed = int(again.split()[0].replace(",", ""))
        print(
            f"{number:>2}  {'killed' if killed else 'done'} at {moment:5.1f} s, {kept:>6,} answers kept; resumed in "
            f"{resumed.wall:5.1f} s, {computed:>6,} computed, {kept + computed - total} twice; identical: {same}",
            flush=True,
        )
print(f"identical winner, ranking and rows: {identical} of {KILLS}")
