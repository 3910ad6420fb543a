"""Kill raced searches with SIGKILL after random numbers of results, resume them, compare with one left alone.

python benchmarks/bench_kill.py [--kills N] [ARGUMENTS OF SEARCH ...]

What is compared: winner file, ranking, front, everything that the run records (who was dropped where, what was told and
left out), and every row of fits, results, rankings among them, evaluations and proposals. With one worker and with four
all of it must be equal, too.
"""

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from commands import Ran, ragsmith

from ragsmith.errors import UsageError
from ragsmith.records.front import picked
from ragsmith.records.record import RunRecord
from ragsmith.store.store import Store

SEARCH = ("search", "--dataset", "law", "--space", "quick", "--max-evaluations", "20")
ROWS = {
    "fit": "select key, dataset, value from fit order by 1",
    "result": "select evaluation, question, state, value from result order by 1, 2",
    "evaluation": "select key, dataset, configuration from evaluation order by 1",
    "proposal": "select run, position, step, genome, evaluation, value from proposal order by 1, 2",
    "dataset": "select digest, name, value from dataset order by 1",
}
OF_THE_PROCESS = ("account", "process")
"""What a run records of how it went, not of where."""
PICKS = ("best", "knee", "cheapest", "single", *(f"calls<={most}" for most in range(1, 13)))
"""The front, step by step, and what else is picked from it."""

Left = dict[str, Any]


def left(folder: Path) -> Left:
    """Everything that must be equal, by name."""
    cache = folder / "cache.sqlite"
    with closing(sqlite3.connect(cache)) as connection:
        found: Left = {table: connection.execute(query).fetchall() for table, query in ROWS.items()}
    with Store.open(cache) as store:
        [run] = store.runs()
        record = RunRecord.read(run.value)
        found |= {f"record: {name}": value for name, value in record.plain().items() if name not in OF_THE_PROCESS}
        found["state"] = run.state
        found["front"] = [pick_of(store, run.key, record, pick) for pick in PICKS]
    for path in sorted((folder / "reports").rglob("*")):
        if path.name in ("winner.yaml", "ranking.csv"):
            found[path.name] = path.read_bytes()
    return found


def pick_of(store: Store, key: str, record: RunRecord, pick: str) -> str:
    """The key of what is picked; empty where there is nothing of that kind."""
    try:
        return picked(store, key, record, pick).key
    except UsageError:
        return ""


def differing(one: Left, other: Left) -> str:
    """The names of what is not equal."""
    names = one.keys() | other.keys()
    return ", ".join(sorted(name for name in names if one.get(name) != other.get(name))) or "nothing"


def stored(folder: Path) -> int:
    """Results in the cache of a search that runs or was killed."""
    if not (folder / "cache.sqlite").exists():
        return 0
    with closing(sqlite3.connect(folder / "cache.sqlite")) as connection:
        try:
            return int(connection.execute("select count(*) from result").fetchone()[0])
        except sqlite3.OperationalError:  # the tables are not there yet
            return 0


def kill_at(folder: Path, results: int, arguments: list[str]) -> bool:
    """Start a search and kill it, and nothing else, once it has stored so many results; False if it was done before.

    Its workers must end by themselves.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "ragsmith", *arguments, "--quiet"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while stored(folder) < results:
        if process.poll() is not None:
            return False
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    raise SystemExit("workers outlived the search")


def searched(folder: Path, arguments: list[str]) -> Ran:
    """Search in ``folder`` to the end."""
    ran = ragsmith(*arguments, folder=folder)
    assert ran.code == 0, ran.err
    return ran


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 4], help="compare searches with so many, too")
    chosen, more = parser.parse_known_args()
    arguments = more or list(SEARCH)
    with tempfile.TemporaryDirectory() as name:
        whole = searched(Path(name), arguments)
        expected = left(Path(name))
    dropped = Counter(one["questions"] for one in expected["record: dropped"].values())
    rankings = sum('"part":"ranking"' in value.replace(" ", "") for *_, value in expected["result"])
    print(
        f"left alone: {whole.wall:.1f} s, {len(expected['result']):,} results, {rankings:,} of them rankings; "
        f"dropped after so many questions: {dict(sorted(dropped.items()))}",
        flush=True,
    )
    for workers in chosen.workers:
        with tempfile.TemporaryDirectory() as name:
            searched(Path(name), [*arguments, "--workers", str(workers)])
            print(f"{workers} workers: differing: {differing(left(Path(name)), expected)}", flush=True)
    draw = random.Random(7)
    identical = killed = 0
    for number in range(1, chosen.kills + 1):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            early = kill_at(folder, draw.randrange(len(expected["result"])), arguments)
            kept = stored(folder)
            resumed = searched(folder, arguments)
            differs = differing(left(folder), expected)
        identical, killed = identical + (differs == "nothing"), killed + early
        print(
            f"{number:>2}  {'killed' if early else 'done'} with {kept:>6,} results kept; "
            f"resumed in {resumed.wall:5.1f} s; differing: {differs}",
            flush=True,
        )
    print(f"killed before the end: {killed} of {chosen.kills}; all equal: {identical} of {chosen.kills}")


if __name__ == "__main__":
    main()
