"""Kill or interrupt searches at random moments, resume them, and compare what is left with a search left alone.

    python benchmarks/bench_kill.py raced [--kills N] [--workers N ...] [ARGUMENTS OF SEARCH ...]
    python benchmarks/bench_kill.py interrupted [--kills N] [--within SECONDS] [--resume N] [--signal INT]
    python benchmarks/bench_kill.py served [--kills N]

raced        SIGKILL after random numbers of results. Compared are winner file, ranking, front, all that the run
             records, and every row of fits, results, evaluations and proposals; with one worker and with four, too
interrupted  a signal to the whole process group, as a terminal's, at moments spread over the first seconds of a
             default search with two workers. It has to end with exit code 130 within five seconds, with one sentence
             and without a traceback, and leave no process behind; N of them are resumed and their winners compared
served       SIGKILL at random moments of a search against a slow server: equal tables, and requests sent twice
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands import Ran, ragsmith
from served_runs import Rows, again, asked, finish, outputs_of, rows_of, served_by, serving, start

from ragsmith.errors import UsageError
from ragsmith.records.front import pick_pipeline
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
        record = RunRecord.from_dict(run.value)
        found |= {f"record: {name}": value for name, value in record.to_dict().items() if name not in OF_THE_PROCESS}
        found["state"] = run.state
        found["front"] = [pick_of(store, run.key, record, pick) for pick in PICKS]
    for path in sorted((folder / "reports").rglob("*")):
        if path.name in ("winner.yaml", "ranking.csv"):
            found[path.name] = path.read_bytes()
    return found


def pick_of(store: Store, key: str, record: RunRecord, pick: str) -> str:
    """The key of what is picked; empty where there is nothing of that kind."""
    try:
        return pick_pipeline(store, key, record, pick).key
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


def raced(kills: int, worker_counts: list[int], more: list[str]) -> int:
    """Kill raced searches after random numbers of results; 0 if all resumed to equal results."""
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
    for workers in worker_counts:
        with tempfile.TemporaryDirectory() as name:
            searched(Path(name), [*arguments, "--workers", str(workers)])
            print(f"{workers} workers: differing: {differing(left(Path(name)), expected)}", flush=True)
    draw = random.Random(7)
    identical = killed = 0
    for number in range(1, kills + 1):
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
    print(f"killed before the end: {killed} of {kills}; all equal: {identical} of {kills}")
    return int(identical < kills)


INTERRUPTED = ("search", "--dataset", "law", "--workers", "2")
ALLOWED_SECONDS = 5.0
HOPELESS_SECONDS = 60.0


@dataclass(frozen=True)
class End:
    """How a search ended that was sent a signal: ``seconds`` after it, or before it was sent if ``finished``."""

    moment: float
    code: int
    seconds: float
    err: str
    left_running: bool
    finished: bool

    @property
    def good(self) -> bool:
        prompt = self.code == 130 and self.seconds <= ALLOWED_SECONDS and not self.left_running
        return prompt and self.err.count("interrupted") == 1 and "Traceback" not in self.err


def group_lives(group: int) -> bool:
    """Whether any process of a group is still there, a moment later at the latest."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.02)
    return True


def interrupt_at(folder: Path, moment: float, number: signal.Signals) -> End:
    with (folder / "err").open("w+") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragsmith", *INTERRUPTED],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=err,
            start_new_session=True,
            # a shell that started this in the background has the signal ignored, and that would be inherited
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509  no other thread runs here
        )
        finished = True
        sent = time.monotonic()
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            finished = False
            sent = time.monotonic()
            os.killpg(process.pid, number)
            try:
                process.wait(HOPELESS_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        seconds = time.monotonic() - sent
        left_running = group_lives(process.pid)
        if left_running:
            os.killpg(process.pid, signal.SIGKILL)
        err.seek(0)
        return End(moment, process.returncode, seconds, err.read(), left_running, finished)


def winner(folder: Path) -> bytes:
    """Run the search in ``folder`` to its end, from whatever is there."""
    done = ragsmith(*INTERRUPTED, "--quiet", folder=folder)
    if done.code != 0:
        raise SystemExit(f"the search ended with {done.code}: {done.err}")
    return (folder / "reports/law/winner.yaml").read_bytes()


def interrupted(given: argparse.Namespace) -> int:
    """Signal default searches; 0 if all ended well and those resumed have the same winner."""
    number = signal.Signals[f"SIG{given.signal}"]
    resumed = {round(i * (given.kills - 1) / max(given.resume - 1, 1)) for i in range(given.resume)}
    good = finished = same = 0
    expected = None
    for index in range(given.kills):
        with tempfile.TemporaryDirectory() as name:
            end = interrupt_at(Path(name), given.within * (index + 1) / given.kills, number)
            good += end.good
            finished += end.finished
            verdict = "finished before" if end.finished else "good" if end.good else "BAD"
            print(
                f"{index + 1:>3}  {end.moment:6.2f} s  code {end.code:>4}  {end.seconds:5.2f} s  {verdict}", flush=True
            )
            if verdict == "BAD":
                print(f"     left running: {end.left_running}; said: {end.err.strip()[-2000:]}", flush=True)
            if index in resumed:
                if expected is None:
                    with tempfile.TemporaryDirectory() as alone:
                        expected = winner(Path(alone))
                same += winner(Path(name)) == expected
                print(f"     resumed; the same winner so far in {same}", flush=True)
    sent = given.kills - finished
    print(
        f"{given.signal}: {good} of {sent} ended with 130 within {ALLOWED_SECONDS:g} s; {finished} finished before; "
        f"resumed to the same winner: {same} of {len(resumed)}"
    )
    return int(good < sent or same < len(resumed))


IN_FLIGHT = 32
LATENCIES = (0.05, 0.2)
"""Seconds."""


def search_served(folder: Path, url: str, *, kill_after: float | None = None) -> float:
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


def left_by_served(folder: Path) -> tuple[Rows, tuple[bytes, bytes]]:
    return rows_of(folder / "cache.sqlite"), outputs_of(folder / "reports")


def served(kills: int) -> int:
    """Kill served searches at random moments; 0 if all are equal and no more was sent twice than was in flight."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "log", 0.1) as url:
        alone = Path(name)
        wall = search_served(alone, url)
        expected, needed = left_by_served(alone), asked(alone / "log")
    print(f"left alone: {wall:.1f} s, {len(expected[0]['result']):,} answers, {needed.total():,} requests", flush=True)
    assert again(needed) == 0
    draw = random.Random(13)
    identical = in_bound = killed = most = total = 0
    for number in range(1, kills + 1):
        latency, moment = draw.uniform(*LATENCIES), draw.uniform(0.3, wall)
        with tempfile.TemporaryDirectory() as name, serving(Path(name) / "log", latency) as url:
            folder = Path(name)
            early = search_served(folder, url, kill_after=moment) >= moment
            kept = calls_kept(folder)
            resumed = search_served(folder, url)
            requests = asked(folder / "log")
            same = left_by_served(folder) == expected and requests.keys() == needed.keys()
        twice = again(requests)
        identical, in_bound, killed = identical + same, in_bound + (twice <= IN_FLIGHT), killed + early
        most, total = max(most, twice), total + twice
        print(
            f"{number:>3}  latency {latency:.2f} s, {'killed' if early else 'done'} at {moment:4.1f} s with {kept:>4} "
            f"replies kept; resumed in {resumed:4.1f} s; paid twice: {twice:>2}; identical: {same}",
            flush=True,
        )
    print(f"killed before the end: {killed} of {kills}")
    print(f"identical result, evaluation, proposal and fit rows, winner and ranking: {identical} of {kills}")
    print(f"paid twice at most {IN_FLIGHT} (in flight): {in_bound} of {kills}; most {most}, in all {total}")
    return int(min(identical, in_bound) < kills)


def main() -> int:
    """Run the part that is named; 1 where anything is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["raced", "interrupted", "served"])
    parser.add_argument("--kills", type=int, default=20, help="searches that are killed or interrupted")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 4], help="raced: compare with so many, too")
    parser.add_argument("--within", type=float, default=15.0, help="interrupted: seconds that the moments spread over")
    parser.add_argument("--resume", type=int, default=0, help="interrupted: how many searches to finish")
    parser.add_argument("--signal", default="INT", choices=["INT", "TERM", "HUP"], help="interrupted: what is sent")
    given, more = parser.parse_known_args()
    if given.part == "raced":
        return raced(given.kills, given.workers, more)
    return interrupted(given) if given.part == "interrupted" else served(given.kills)


if __name__ == "__main__":
    sys.exit(main())
