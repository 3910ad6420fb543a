"""Many processes on one stock PostgreSQL, and 200 damages to a cache that `cache --verify` has to find and name.

python benchmarks/bench_databases.py [--processes 64] [--damages 200]

PostgreSQL lets a hundred connections in by default. A damage is a flipped bit in one column of one row, or a row of
another form with a right checksum; after each, the exit code has to be 1 and exactly that row named.
"""

import argparse
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from served import ROOT, again, asked, environment, serving

from ragsmith.cli import run
from ragsmith.store.rows import add_checksum
from ragsmith.store.schema import METADATA

sys.path.insert(0, str(ROOT / "tests" / "support"))
from postgres_server import missing, postgres

SEARCH = ("search", "--dataset", "law", "--space", "quick", "--no-probes", "--max-evaluations", "2", "--workers", "4")
TABLES = ("model_call", "dataset", "evaluation", "result", "run", "proposal")
OTHER_FORM = {"model_call": "value", "evaluation": "configuration", "proposal": "genome"}
"""The column of a table whose JSON is replaced; ``value`` where it is not named."""


def together(processes: int) -> bool:
    """Run the same search so many times at once on one database, and print how they ended."""
    if why := missing():
        print(why)
        return False
    with postgres() as server, tempfile.TemporaryDirectory() as name, serving(Path(name) / "log", 0.1) as url:
        cache = server.database()
        arguments = (*SEARCH, "--quiet", "--llm", "openai:tiny", "--base-url", url, "--cache", cache)
        began = time.perf_counter()
        searches = []
        for number in range(processes):
            home = Path(name) / str(number)
            home.mkdir()
            command = [sys.executable, "-m", "ragsmith", *arguments]
            with (home / "err").open("w") as err:
                searches.append(
                    subprocess.Popen(command, cwd=home, env=environment(), stdout=subprocess.DEVNULL, stderr=err)
                )
        codes = Counter(search.wait() for search in searches)
        seconds = time.perf_counter() - began
        said = Counter(line for number in range(processes) for line in (Path(name) / str(number) / "err").open())
        requests = asked(Path(name) / "log")
        winners = {(Path(name) / str(n) / "reports/law/winner.yaml").read_bytes() for n in range(processes)}
    failed = processes - codes[0]
    print(
        f"{processes} processes on one PostgreSQL: {seconds:.0f} s, errors {failed}, {requests.total():,} calls, "
        f"{again(requests)} twice, {len(winners)} winner(s)"
    )
    for line, count in said.most_common(5):
        print(f"    {count} x {line.strip()}", flush=True)
    return failed == 0 and len(winners) == 1


def damage(path: Path, draw: random.Random) -> str:
    """Damage one row of a cache, and return its name."""
    with closing(sqlite3.connect(path)) as connection, connection:
        table = METADATA.tables[draw.choice(TABLES)]
        rows = connection.execute(f"SELECT * FROM {table.name}").fetchall()
        row = dict(zip(table.columns.keys(), draw.choice(rows), strict=True))
        keys = [column.name for column in table.primary_key]
        where = " AND ".join(f"{key} = ?" for key in keys)
        key = [row[name] for name in keys]
        if draw.random() < 0.5:
            column = OTHER_FORM.get(table.name, "value")
            plain = [json.loads(row[c.name]) if "json" in c.info else row[c.name] for c in table.columns][:-1]
            plain[table.columns.keys().index(column)] = draw.choice([None, True, {"text": row[column]}])
            new = add_checksum(table, plain)
        else:
            column = draw.choice([name for name in row if name not in keys and isinstance(row[name], str)])
            letters = list(row[column])
            place = draw.randrange(len(letters))
            letters[place] = chr(ord(letters[place]) ^ 1 << draw.randrange(3))
            new = {column: "".join(letters)}
            if column == "state":  # a database refuses other states
                new = {column: "failed" if row[column] == "ok" else "interrupted"}
        changes = ", ".join(f"{name} = ?" for name in new)
        connection.execute(f"UPDATE {table.name} SET {changes} WHERE {where}", [*new.values(), *key])
    return f"{table.name}:{'/'.join(map(str, key))}"


def verified(path: Path) -> tuple[int, list[str], bool]:
    """The exit code of `cache --verify`, the rows it names, and whether it says of each what it was and costs."""
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(StringIO()):
        code = run(["cache", "--verify", "--json", "--cache", str(path)])
    rows = json.loads(out.getvalue())["damaged rows"]
    return code, [row["row"] for row in rows], all(row["what"] and row["cost"] for row in rows)


def damages(count: int) -> bool:
    """Damage copies of a cache so many times, and print how many were found and named."""
    draw = random.Random(9)
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "log", 0.0) as url:
        command = [sys.executable, "-m", "ragsmith", *SEARCH, "--llm", "openai:tiny", "--base-url", url, "-q"]
        subprocess.run(command, cwd=name, env=environment(), check=True, stdout=subprocess.DEVNULL)
        intact, path = Path(name) / "cache.sqlite", Path(name) / "damaged.sqlite"
        code, rows, _ = verified(intact)
        print(f"the cache as it was: exit code {code}, {len(rows)} damaged")
        exits = names = 0
        for number in range(count):
            shutil.copyfile(intact, path)
            expected = damage(path, draw)
            code, rows, told = verified(path)
            exits += code == 1
            names += rows == [expected] and told
            if rows != [expected]:
                print(f"    {number}: {expected} was damaged, named were {rows}", flush=True)
    print(f"{count} damages: exit code 1 in {exits}, named right in {names}")
    return exits == names == count


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--damages", type=int, default=200)
    given = parser.parse_args()
    good = [together(given.processes)] if given.processes else []
    good += [damages(given.damages)] if given.damages else []
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
