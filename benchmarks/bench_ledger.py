"""Damage and kills: what a run with a limit is served, as the server counts it, is never more; and nothing is silent.

python benchmarks/bench_ledger.py [DAMAGES [KILLS]]

A run is a process that reserves, sends and settles requests from 4 threads, killed with SIGKILL at a random moment. Its
files are then damaged, and it goes on: to its limit, or until it is refused; then on with what the server counted.
"""

import http.client
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

from served import ROOT, serving

from ragsmith.errors import BudgetExhausted, RagsmithError, SpendingDamaged
from ragsmith.gateway.budget import Budget, Limits, Price, Prices, Spent
from ragsmith.gateway.claims import Grouped
from ragsmith.models.calls import StoredCall
from ragsmith.models.usage import Usage
from ragsmith.store.store import Store

sys.path.append(str(ROOT / "tests/support"))
from postgres_server import missing, postgres

DAMAGES = int(sys.argv[1]) if len(sys.argv) > 1 else 200
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 50
LATENCY, THREADS = 0.01, 4
"""Seconds, and requests in flight."""
READ, WRITTEN = 12, 3
"""Tokens of every request, as the server counts them."""
PRICES = Prices({"openai:tiny": Price(input=0.4, output=1.6)})
COST = (READ * 0.4 + WRITTEN * 1.6) / 1_000_000
LIMITS = {
    "calls": (Limits(calls=60), 60),
    "tokens": (Limits(tokens=60 * (READ + WRITTEN)), 60),
    "money": (Limits(cost=60 * COST), 60),
}
"""Each by name, with the most requests that it allows."""
FORK = multiprocessing.get_context("fork")


def request(port: int, prompt: str) -> None:
    """Ask the server once."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body = {"model": "tiny", "max_tokens": WRITTEN, "messages": [{"role": "user", "content": prompt}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    connection.getresponse().read()
    connection.close()


def spend(place: str, port: int, limits: Limits, accepted: Spent | None, answers: Connection) -> None:
    """A run: ask until the limit is reached, and send how it ended and what was warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            with Store.open(place) as store:
                budget = Budget(store, "run", limits, PRICES, accepted)
                replies = Grouped(store, budget)

                def ask(number: int) -> None:
                    for asked in range(1000):
                        prompt = f"{os.getpid()} {number} {asked}".ljust(3 * READ - 3)
                        with budget.request("openai:tiny", prompt, WRITTEN) as used:
                            budget.before_attempt()
                            request(port, prompt)
                            used.append(Usage(1, 0, 0, READ, WRITTEN))
                        replies.put_calls([StoredCall(prompt, "openai:tiny", "task", "a reply")])

                try:
                    with ThreadPoolExecutor(THREADS) as pool:
                        list(pool.map(ask, range(THREADS)))
                except BudgetExhausted:
                    budget.close()
            ended = "limit"
        except SpendingDamaged as error:
            ended = f"refused: {error}"
        except RagsmithError as error:
            ended = f"stopped: {error}"
    answers.send((ended, [str(warning.message) for warning in said]))


class Run:
    """One run on one place, whose requests are counted in the server's log."""

    def __init__(self, place: str, url: str, log: Path, limits: Limits) -> None:
        self.place, self.log, self.limits = place, log, limits
        self.port = urlsplit(url).port or 0
        self.before = self._logged()

    def _logged(self) -> int:
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    def served(self) -> int:
        """Requests that the server has answered since this run began."""
        time.sleep(5 * LATENCY)  # until all that was sent is in the log
        return self._logged() - self.before

    def go(self, *, kill_at: int | None = None, accepted: Spent | None = None) -> tuple[str, list[str]]:
        """Run to the end, or until so many requests were answered: how it ended, and what was warned of."""
        ours, theirs = FORK.Pipe()
        process = FORK.Process(target=spend, args=(self.place, self.port, self.limits, accepted, theirs))
        process.start()
        theirs.close()
        while kill_at is not None and process.is_alive() and self._logged() - self.before < kill_at:
            time.sleep(0.001)
        if kill_at is not None and process.is_alive():
            os.kill(process.pid or 0, signal.SIGKILL)
        try:
            ended: tuple[str, list[str]] = ours.recv()
        except EOFError:
            ended = "killed", []
        process.join()
        return ended


def _sql(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def _flip_in_row(path: Path, draw: random.Random) -> None:
    column = draw.choice(["run", "calls", "tokens", "state", "checksum"])
    flipped = {"run": "'ruo'", "state": "'in doubt'", "checksum": "replace(checksum, 'a', 'b') || ''"}
    _sql(path, f"UPDATE spending SET {column} = {flipped.get(column, f'{column} + {1 << draw.randrange(20)}')}")


def _delete_row(path: Path, draw: random.Random) -> None:
    _sql(path, "DELETE FROM spending")


def _flip(file: Path, draw: random.Random) -> None:
    if not file.exists() or not (content := bytearray(file.read_bytes())):
        return
    for _ in range(draw.choice([1, 1, 8])):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


WAYS: dict[str, Callable[[Path, random.Random], None]] = {
    "a flipped bit in the row": _flip_in_row,
    "the row deleted": _delete_row,
    "the log removed": lambda path, draw: _log(path).unlink(),
    "flipped bits in the file": _flip,
}


def damaged(url: str, log: Path, number: int, draw: random.Random) -> tuple[str, str, bool]:
    """One run that is killed and damaged: what was done, how it went on, and whether the limit held."""
    way, kind = list(WAYS)[number % len(WAYS)], draw.choice(list(LIMITS))
    limits, most = LIMITS[kind]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "cache.sqlite"
        run = Run(str(path), url, log, limits)
        with Store.open(path) as store:
            Budget(store, "run", limits).close()
            store.put_run("run", "a data set", {})
        run.go(kill_at=draw.randint(5, 40))
        before = run.served()
        WAYS[way](path, draw)
        ended, said = run.go()
        how = ended.partition(":")[0] + (", warned" if said else "")
        if ended.startswith("refused") and run.served() == before:
            ended, _ = run.go(accepted=Spent(before, (READ + WRITTEN) * before, COST * before))
            how += f", then {ended.partition(':')[0]}"
        held = run.served() <= most
    return way, how, held


def damages(url: str, log: Path) -> None:
    draw, counted, held = random.Random(7), Counter[tuple[str, str]](), 0
    for number in range(DAMAGES):
        way, how, kept = damaged(url, log, number, draw)
        counted[way, how] += 1
        held += kept
        if not kept:
            print(f"  MORE THAN ALLOWED: {number}: {way}, {how}", flush=True)
    print(f"{DAMAGES} damages after SIGKILL: served never above the limit: {held} of {DAMAGES}")
    for (way, how), times in sorted(counted.items()):
        print(f"  {way:<30} {how:<40} {times:>3}")


def kills(url: str, log: Path, what: str, count: int, places: Iterator[str]) -> None:
    draw, held, killed, named = random.Random(11), 0, 0, list(LIMITS)
    runs = 0
    while killed < count:
        limits, most = LIMITS[named[runs % 3]]
        run = Run(next(places), url, log, limits)
        for _ in range(5):
            ended, _ = run.go(kill_at=run.served() + draw.randint(1, 12))
            killed += ended == "killed"
        ended, said = run.go()
        served = run.served()
        runs, held = runs + 1, held + (served <= most)
        print(
            f"  {what}, limit on {named[(runs - 1) % 3]:<6}: {served} of {most} requests served, {ended}, {said or ''}"
        )
    print(f"{what}: {killed} kills, served never above the limit: {held} of {runs} runs", flush=True)


@contextmanager
def files() -> Iterator[Iterator[str]]:
    """Places in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        yield (f"{name}/{number}.sqlite" for number in range(1000))


def main() -> None:
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "log", LATENCY) as url:
        log = Path(name) / "log"
        with files() as places:
            kills(url, log, "SQLite", KILLS, places)
        if not missing():
            with postgres() as server:
                kills(url, log, "PostgreSQL", KILLS // 5, (server.database() for _ in range(1000)))
        damages(url, log)


if __name__ == "__main__":
    main()
