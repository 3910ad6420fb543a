"""Kill a search against a slow server with SIGKILL at random moments, resume it, and count what is paid twice.

python benchmarks/bench_kill_served.py [KILLS]
"""

import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from served import Rows, again, asked, finish, outputs_of, rows_of, served_by, serving, start

KILLS = int(sys.argv[1]) if len(sys.argv) > 1 else 50
IN_FLIGHT = 32
LATENCIES = (0.05, 0.2)
"""Seconds."""


def search(folder: Path, url: str, *, kill_after: float | None = None) -> float:
    """Search in ``folder``, killed after so many seconds unless it is done before; wall seconds."""
    began = time.perf_counter()
    process = start(*served_by(url, "--max-evaluations", "6"), folder=folder)
    if kill_after is not None:
        try:
            process.wait(kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return time.perf_counter() - began
    finish(process)
    return time.perf_counter() - began


def calls_kept(folder: Path) -> int:
    """Replies in the cache, read as another process would."""
    if not (folder / "cache.sqlite").exists():
        return 0
    with closing(sqlite3.connect(folder / "cache.sqlite")) as connection:
        try:
            count = "select count(*) from model_call where task not in ('text', 'query')"
            return int(connection.execute(count).fetchone()[0])
        except sqlite3.OperationalError:  # killed before the tables were there
            return 0


def left(folder: Path) -> tuple[Rows, tuple[bytes, bytes]]:
    return rows_of(folder / "cache.sqlite"), outputs_of(folder / "reports")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "log", 0.1) as url:
        alone = Path(name)
        wall = search(alone, url)
        expected, needed = left(alone), asked(alone / "log")
    print(f"left alone: {wall:.1f} s, {len(expected[0]['result']):,} answers, {needed.total():,} requests", flush=True)
    assert again(needed) == 0
    draw = random.Random(13)
    identical = in_bound = killed = most = total = 0
    for number in range(1, KILLS + 1):
        latency, moment = draw.uniform(*LATENCIES), draw.uniform(0.3, wall)
        with tempfile.TemporaryDirectory() as name, serving(Path(name) / "log", latency) as url:
            folder = Path(name)
            early = search(folder, url, kill_after=moment) >= moment
            kept = calls_kept(folder)
            resumed = search(folder, url)
            requests = asked(folder / "log")
            same = left(folder) == expected and requests.keys() == needed.keys()
        twice = again(requests)
        identical, in_bound, killed = identical + same, in_bound + (twice <= IN_FLIGHT), killed + early
        most, total = max(most, twice), total + twice
        print(
            f"{number:>3}  latency {latency:.2f} s, {'killed' if early else 'done'} at {moment:4.1f} s with {kept:>4} "
            f"replies kept; resumed in {resumed:4.1f} s; paid twice: {twice:>2}; identical: {same}",
            flush=True,
        )
    print(f"killed before the end: {killed} of {KILLS}")
    print(f"identical result, evaluation, proposal and fit rows, winner and ranking: {identical} of {KILLS}")
    print(f"paid twice at most {IN_FLIGHT} (in flight): {in_bound} of {KILLS}; most {most}, in all {total}")


if __name__ == "__main__":
    main()
