"""Rows of the cache with a right checksum and wrong content: each command says so in a sentence, or computes again."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ragsmith.cli import run
from ragsmith.store.rows import _checksum
from ragsmith.store.schema import METADATA

DEEP: Any = json.loads("[" * 400 + "]" * 400)
OTHERS: list[Any] = [None, True, -1, 0, 7, 1e308, -1e308, 10**299, "", "x", "nan", [], {}, [[]], {"a": 1}, DEEP, 0.5]
"""Values in place of others."""
COLUMNS: list[Any] = ["", "x", "-1", -1, 2**62, 1e308, "failed", "ok", "finished", b"\xff"]
TEXTS = ["NaN", '{"a":1e400}', "{", "[" * 100_000 + "]" * 100_000]
WEIGHTS = {"result": 4, "run": 4, "proposal": 3, "finding": 2}
SEEDS = 40


def inner(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values within a value."""
    for name, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, name)
        yield from inner(one, (*path, name))


def changed(value: Any, draw: random.Random) -> Any:
    """The value with one value within it removed, replaced, added or multiplied."""
    if not (places := list(inner(value))):
        return draw.choice(OTHERS)
    *outside, name = draw.choice([place for place in places if len(place) <= draw.choice([1, 2, 9])])
    holder = value
    for one in outside:
        holder = holder[one]
    if draw.random() < 0.3:
        del holder[name]
    elif draw.random() < 0.2 and isinstance(holder, list):
        holder *= 3
    else:
        holder["extra" if draw.random() < 0.1 and isinstance(holder, dict) else name] = draw.choice(OTHERS)
    return value


def forge(cache: Path, draw: random.Random) -> None:
    """Change one or more rows of a table, and give them checksums that are right."""
    with closing(sqlite3.connect(cache)) as connection:
        tables = [table for table in METADATA.tables.values() if "checksum" in table.c]
        rows = {table: connection.execute(f"SELECT * FROM {table.name}").fetchall() for table in tables}
        full = [table for table in tables if rows[table]]
        [table] = draw.choices(full, [WEIGHTS.get(table.name, 1) for table in full])
        names, keys = table.columns.keys(), len(table.primary_key)
        for row in draw.sample(rows[table], draw.choice([1, min(5, len(rows[table])), len(rows[table])])):
            values = list(row[:-1])
            place = draw.randrange(keys, len(values)) if len(values) > keys else 0
            if place == 0 or values[place] in TEXTS:
                continue
            as_json = "json" in table.columns[names[place]].info and draw.random() < 0.9
            values[place] = (
                json.dumps(changed(json.loads(values[place]), draw), sort_keys=True, separators=(",", ":"))
                if as_json
                else draw.choice(TEXTS if "json" in table.columns[names[place]].info else COLUMNS)
            )
            changes = ", ".join(f"{name} = ?" for name in names[keys:])
            where = " AND ".join(f"{name} = ?" for name in names[:keys])
            statement = f"UPDATE OR IGNORE {table.name} SET {changes} WHERE {where}"  # a state may be constrained
            connection.execute(statement, [*values[keys:], _checksum(table.name, values), *values[:keys]])
        connection.commit()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, tiny_space: Path) -> Path:
    """A folder with a finished search, and findings on its winner."""
    home = tmp_path_factory.mktemp("searched")
    search = commands(home, home, tiny_folder, tiny_space)["search"]
    winner = home / "out" / "island" / "winner.yaml"
    for command in (search, ["ablate", winner], ["explain", winner, "--interventions"], search):
        assert run([*map(str, command), *(() if command is search else ("--cache", str(home / "cache.sqlite")))]) == 0
    return home


def commands(home: Path, out: Path, dataset: Path, space: Path) -> dict[str, list[Any]]:
    """Commands that read the cache of ``out``, with the winner of ``home``."""
    winner, cache = home / "out" / "island" / "winner.yaml", ("--cache", out / "cache.sqlite")
    small = ("--chunk-size", 100, "--population", 4, "--generations", 1, "--workers", 1)
    return {
        "search": ["search", dataset, "--space", space, *small, *cache, "--reports", out / "out"],
        "report": ["report", *cache, "-o", out / "report"],
        "export": ["export", dataset, *cache, "-o", out / "exported.yaml"],
        "runs": ["runs", *cache],
        "mirror": ["runs", "--mirror", *cache],
        "cache": ["cache", "--verify", *cache],
        "evaluate": ["evaluate", winner, "--workers", 1, *cache],
        "verify": ["verify", winner, *cache],
        "explain": ["explain", winner, "--workers", 1, *cache],
        "compare": ["compare", winner, "naive", "--split", "all", "--workers", 1, *cache],
        "test": ["test", winner, "--workers", 1, *cache],
        "ablate": ["ablate", winner, "--workers", 1, *cache],
    }


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_command_on_forged_rows_ends_well_or_with_a_sentence(
    home: Path, tiny_folder: Path, tiny_space: Path, tmp_path: Path, ragsmith: Callable[..., Any], seed: int
) -> None:
    draw = random.Random(seed)
    shutil.copyfile(home / "cache.sqlite", tmp_path / "cache.sqlite")
    for _ in range(draw.choice([1, 1, 3])):
        forge(tmp_path / "cache.sqlite", draw)
    known = commands(home, tmp_path, tiny_folder, tiny_space)
    ended = ragsmith(*known[draw.choice(list(known))])  # a traceback fails the test
    assert ended.code in (0, 1, 2), ended.err
    if ended.code == 2:
        assert any(word in ended.err for word in ("(row ", "no run yet", "no search", "no intact result")), ended.err


@pytest.mark.parametrize("change", [{"ndcg": ...}, {"ndcg": 1e308}, {"judge": "high"}])
def test_a_forged_result_is_computed_again_as_it_was(
    home: Path, tiny_folder: Path, tiny_space: Path, tmp_path: Path, ragsmith: Callable[..., Any], change: Any
) -> None:
    cache = tmp_path / "cache.sqlite"
    shutil.copyfile(home / "cache.sqlite", cache)
    select = "SELECT * FROM result ORDER BY evaluation, question"
    with closing(sqlite3.connect(cache)) as connection:
        before = connection.execute(select).fetchall()
        for evaluation, question, state, value, attempts, _ in before[::7]:
            forged = json.loads(value)
            if state == "ok" and change.keys() <= forged["measures"].keys():
                measures = {name: v for name, v in {**forged["measures"], **change}.items() if v is not ...}
                text = json.dumps({**forged, "measures": measures}, sort_keys=True, separators=(",", ":"))
                row = [evaluation, question, state, text, attempts]
                connection.execute("REPLACE INTO result VALUES (?, ?, ?, ?, ?, ?)", [*row, _checksum("result", row)])
        connection.commit()
        assert connection.execute(select).fetchall() != before
    ended = ragsmith(*commands(home, tmp_path, tiny_folder, tiny_space)["search"])
    assert ended.code == 0, ended.err
    assert "damaged" in ended.err
    with closing(sqlite3.connect(cache)) as connection:
        assert [row[:4] for row in connection.execute(select).fetchall()] == [row[:4] for row in before]
