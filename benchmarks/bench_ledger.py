"""Damage and kills: what a run with a limit is served, as the server counts it, is never more; and nothing is silent.

python benchmarks/bench_ledger.py [DAMAGES [KILLS]]

A run is a process that reserves, sends and settles requests from 4 threads, killed with SIGKILL at a random moment. Its
files are then damaged, and it goes on: to its limit, or until it is refused; then on as the message says.
"""

import http.client
import json
import multiprocessing
import os
import random
import shutil
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

from ragsmith.errors import BudgetExhausted, Notice, RagsmithError, SpendingDamaged
from ragsmith.gateway.budget import Budget, Limits, Price, Prices, Spent
from ragsmith.gateway.claims import Grouped
from ragsmith.models.calls import StoredCall
from ragsmith.models.usage import Usage
from ragsmith.store.rows import seal
from ragsmith.store.schema import EXPENSE, SPENDING
from ragsmith.store.store import Store
from ragsmith.store.witness import Mark, Witness

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
    column = draw.choice(["run", "number", "kind", "calls", "tokens", "calls_after", "tokens_after", "checksum"])
    row = f"(SELECT number FROM expense ORDER BY random() LIMIT 1 OFFSET {draw.randrange(2)})"
    flipped = {"run": "'ruo'", "kind": "'sattled'", "checksum": "replace(checksum, 'a', 'b') || ''"}
    value = flipped.get(column, f"{column} + {1 << draw.randrange(20)}")
    _sql(path, f"UPDATE expense SET {column} = {value} WHERE number = {row}")


def _delete_rows(path: Path, draw: random.Random) -> None:
    bounds = draw.choice(["number = 2", "number <= 3", "number > 3", "number % 3 = 0", "1"])
    _sql(path, f"DELETE FROM expense WHERE {bounds}")


def _delete_last(path: Path, draw: random.Random) -> None:
    _sql(path, "DELETE FROM expense WHERE number = (SELECT max(number) FROM expense)")


def _total(path: Path, draw: random.Random) -> None:
    _sql(path, draw.choice(["DELETE FROM spending", "UPDATE spending SET calls = 0, tokens = 0, cost = 0.0"]))


def _flip(file: Path, draw: random.Random) -> None:
    if not file.exists() or not (content := bytearray(file.read_bytes())):
        return
    for _ in range(draw.choice([1, 1, 8])):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def _cut(file: Path, draw: random.Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: draw.randrange(len(content))])


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _older(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        _beside(path, ending).unlink(missing_ok=True)
    shutil.copy(path.with_name("older"), path)


def _older_record(path: Path, draw: random.Random) -> None:
    """The record as it was at a moment before the last reply was kept, with its total and witness of that moment."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        paid = connection.execute("SELECT sum(calls) FROM payment").fetchone()[0] or 0
        rows = connection.execute("SELECT number, calls_after, tokens_after, cost_after FROM expense").fetchall()
        number, *after = draw.choice([row for row in rows if row[1] < paid])
        connection.execute("DELETE FROM expense WHERE number > ?", [number])
        total = tuple(seal(SPENDING, ("run", *after)).values())
        connection.execute("REPLACE INTO spending VALUES (?, ?, ?, ?, ?)", total)
        origin = connection.execute("SELECT key FROM origin").fetchone()[0]
        connection.execute("PRAGMA journal_mode = DELETE")
    witness = _beside(path, "-spent")
    witness.unlink()
    Witness(witness).write(Mark(origin, "run", number, Spent(*after)))


def _no_record(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM expense")
        connection.execute("DELETE FROM spending")
        connection.execute("PRAGMA journal_mode = DELETE")
    _beside(path, "-spent").unlink()


WAYS: dict[str, Callable[[Path, random.Random], None]] = {
    "a flipped bit in a row": _flip_in_row,
    "deleted rows": _delete_rows,
    "the last row deleted": _delete_last,
    "the total changed or deleted": _total,
    "the log removed": lambda path, draw: _beside(path, "-wal").unlink(),
    "the log cut off": lambda path, draw: _cut(_beside(path, "-wal"), draw),
    "flipped bits in the log": lambda path, draw: _flip(_beside(path, "-wal"), draw),
    "flipped bits in the file": _flip,
    "the witness removed": lambda path, draw: _beside(path, "-spent").unlink(missing_ok=True),
    "the witness cut off": lambda path, draw: _cut(_beside(path, "-spent"), draw),
    "flipped bits in the witness": lambda path, draw: _flip(_beside(path, "-spent"), draw),
    "an older copy put back": lambda path, draw: _older(path),
    "an older record and witness": _older_record,
    "no record and no witness": lambda path, draw: _no_record(path),
}
ONLY_REPLIES = ("an older record and witness", "no record and no witness")
"""Of these nothing but the replies can tell; what was in flight is then to be looked up with the provider."""


def damaged(url: str, log: Path, number: int, draw: random.Random) -> tuple[str, str, bool]:
    """One run that is killed and damaged: what was done, how it went on, and whether the limit held."""
    way, kind = list(WAYS)[number % len(WAYS)], draw.choice(list(LIMITS))
    limits, most = LIMITS[kind]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "cache.sqlite"
        run = Run(str(path), url, log, limits)
        with Store.open(path) as store:
            Budget(store, "run", limits).close()
        shutil.copy(path, path.with_name("older"))
        run.go(kill_at=draw.randint(5, 40))
        before = run.served()
        WAYS[way](path, draw)
        ended, said = run.go()
        how = ended.partition(":")[0] + (", warned" if said else "")
        if ended.startswith("refused") and run.served() == before:
            told = Spent(before, (READ + WRITTEN) * before, COST * before) if way in ONLY_REPLIES else Spent()
            ended, _ = run.go(accepted=told)  # or what is known at least, as the message says
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


def opening(rows: int = 10_000) -> None:
    """Print what reading and checking a long record takes, and what one row more does."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "cache.sqlite"
        Store.open(path).close()
        entries = [("run", n, "reserved", 1, 15, 0.5, n, 15 * n, 0.5 * n) for n in range(1, rows + 1)]
        total = ("run", rows, 15 * rows, 0.5 * rows)
        with closing(sqlite3.connect(path)) as connection, connection:
            for table, sealed in ((EXPENSE, entries), (SPENDING, [total])):
                values = [tuple(seal(table, row).values()) for row in sealed]
                connection.executemany(f"INSERT INTO {table.name} VALUES ({','.join('?' * len(values[0]))})", values)
        with Store.open(path) as store, warnings.catch_warnings():
            warnings.simplefilter("ignore", Notice)  # of a witness that is not there
            began = time.process_time()
            assert store.spending("run").spent.calls == rows
            took, began = time.process_time() - began, time.process_time()
            for _ in range(100):
                store.spend("run", Spent(1, 15, 0.5), Limits())
            each = (time.process_time() - began) / 100
        print(f"a record of {rows:,} rows is opened in {took:.3f} CPU s; {1e6 * each:.0f} CPU us for one row more")


@contextmanager
def files() -> Iterator[Iterator[str]]:
    """Places in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        yield (f"{name}/{number}.sqlite" for number in range(1000))


def main() -> None:
    opening()
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
