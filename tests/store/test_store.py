from __future__ import annotations

import random
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import put_call

from ragsmith.errors import StoreError
from ragsmith.models.capabilities import ModelCapabilities
from ragsmith.store.rows import newer_result
from ragsmith.store.store import EvaluationRow, ProposalRow, ResultRow, RunRow, Store, StoredCall

VALUE = {"scores": {"f1": 0.1 + 0.2}, "answer": "Straße \0 \ud83d", "cited": [0, 2]}


pytestmark = pytest.mark.usefixtures("any_values")


@pytest.fixture
def store(place: Path | str) -> Iterator[Store]:
    with Store.open(place) as opened:
        yield opened


def edit(path: Path, statement: str, *parameters: Any) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement, parameters).rowcount == 1


# What is put in comes out


def test_a_call_comes_back_with_its_cost(store: Store) -> None:
    put_call(store, "k", "m", "answer", VALUE, calls=2, input_tokens=30, output_tokens=4, seconds=1)
    call = store.get_calls(["k"]).get("k")
    assert call == StoredCall("k", "m", "answer", VALUE, 2, 30, 4, 1.0)
    assert store.get_calls(["other"]).get("other") is None


def test_capabilities_of_a_model_add_up(store: Store) -> None:
    assert store.capabilities("m") is None
    store.put_capabilities("m", ModelCapabilities(frozenset({"seed"}), 64))
    store.put_capabilities("m", ModelCapabilities(frozenset({"temperature"}), 32))
    assert store.capabilities("m") == ModelCapabilities(frozenset({"seed", "temperature"}), 64)
    assert store.capabilities("other") is None
    store.put_capabilities("m", ModelCapabilities(tasks={"judge 1": True}, takes_forms=True))
    store.put_capabilities("m", ModelCapabilities(frozenset({"max_tokens"})), renewing=True)
    assert store.capabilities("m") == ModelCapabilities(frozenset({"max_tokens"}), 64, tasks={"judge 1": True})


def test_many_calls_are_looked_up_at_once(store: Store) -> None:
    store.put_calls(StoredCall(f"k{i}", "m", "t", i) for i in range(1201))
    found = store.get_calls([f"k{i}" for i in range(2000)])
    assert {key: call.value for key, call in found.items()} == {f"k{i}": i for i in range(1201)}
    assert store.get_calls([]) == {}


def test_the_first_reply_under_a_key_stays(store: Store) -> None:
    put_call(store, "k", "m", "t", "first")
    put_call(store, "k", "m", "t", "second")
    call = store.get_calls(["k"]).get("k")
    assert call is not None
    assert call.value == "first"


def test_data_sets_and_evaluations(store: Store) -> None:
    store.put_dataset("d2", "law", {"questions": 3})
    store.put_dataset("d1", "finance", {})
    store.put_dataset("d2", "civil law", {"questions": 3})
    assert [(row.digest, row.name) for row in store.datasets()] == [("d2", "civil law"), ("d1", "finance")]
    store.put_evaluations([EvaluationRow("e", "d1", {"genome": [1, 2]})])
    store.put_evaluations([EvaluationRow("e", "d1", {"genome": "late"})])
    row = store.evaluation("e")
    assert row is not None
    assert (row.dataset, row.configuration) == ("d1", {"genome": [1, 2]})
    assert store.evaluations("d1") == [row]
    assert store.evaluation("none") is None
    assert store.evaluations("d2") == []


def test_results_of_several_evaluations(store: Store) -> None:
    rows = [ResultRow(f"e{e}", f"q{q}", "ok", {"n": e * q}) for e in range(700) for q in range(3)]
    store.put_results(rows)
    store.put_results([])
    asked = [f"e{e}" for e in range(701)]
    found = store.results_many(asked)
    assert list(found) == asked
    assert [found[row.evaluation][row.question] for row in rows] == rows
    assert found["e700"] == {}
    assert store.results("e4") == found["e4"]


def test_a_run_goes_through_its_states(store: Store) -> None:
    store.put_run("r", "d", {"seed": 42}, started="2026-01-01T00:00:00Z")
    store.update_run("r", "interrupted", {"seed": 42, "done": 1}, finished="2026-01-01T00:01:00Z")
    store.put_run("a", "d", {}, started="2026-01-03T00:00:00Z")
    interrupted = RunRow(
        "r", "d", "interrupted", {"seed": 42, "done": 1}, "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
    )
    assert store.run("r") == interrupted
    store.put_run("r", "d", {"seed": 42}, started="2026-01-02T00:00:00Z")
    assert store.run("r") == RunRow("r", "d", "running", {"seed": 42}, "2026-01-01T00:00:00Z", None)
    assert [row.key for row in store.runs()] == ["r", "a"]
    assert store.run("none") is None
    with pytest.raises(StoreError, match="holds no run none"):
        store.update_run("none", "finished", {})


def test_proposals_are_replayed_in_place(store: Store) -> None:
    rows = [ProposalRow(i, i // 4, [i, 0], f"e{i}", {"fitness": None}) for i in range(12)]
    store.put_proposals("r", reversed(rows))
    store.put_proposals("other", rows[:1])
    assert store.proposals("r") == rows
    scored = [replace(row, value={"fitness": 0.5}) for row in rows[:5]]
    store.put_proposals("r", scored)
    assert store.proposals("r") == scored + rows[5:]


# A result that is there is never undone


def test_a_failure_is_replaced_and_a_result_is_not(store: Store) -> None:
    def put(state: Any, value: object) -> ResultRow:
        store.put_results([ResultRow("e", "q", state, value)])
        return store.results("e")["q"]

    assert put("failed", "first").attempts == 1
    assert put("failed", "second") == ResultRow("e", "q", "failed", "second", attempts=2)
    assert put("ok", 1) == ResultRow("e", "q", "ok", 1, attempts=3)
    assert put("failed", "late") == ResultRow("e", "q", "ok", 1, attempts=3)
    assert put("ok", 2) == ResultRow("e", "q", "ok", 1, attempts=3)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["ok", "failed"])), max_size=12), st.integers(1, 5))
def test_it_does_not_matter_how_rows_are_grouped_into_transactions(
    tmp_path_factory: pytest.TempPathFactory, outcomes: list[tuple[str, Any]], size: int
) -> None:
    rows = [ResultRow("e", question, state, n) for n, (question, state) in enumerate(outcomes)]
    expected: dict[str, ResultRow] = {}
    for row in rows:
        expected[row.question] = newer_result(expected.get(row.question), row) or expected[row.question]
    with Store.open(tmp_path_factory.mktemp("store") / "cache.sqlite") as store:
        for start in range(0, len(rows), size):
            store.put_results(rows[start : start + size])
        assert store.results("e") == expected


def test_results_are_written_all_or_none(store: Store) -> None:
    with pytest.raises(ValueError, match=r"value\['f1'\] is nan"):
        store.put_results([ResultRow("e", "q1", "ok", 1), ResultRow("e", "q2", "ok", {"f1": float("nan")})])
    with pytest.raises(StoreError, match="result_state"):
        store.put_results([ResultRow("e", "q1", "ok", 1), ResultRow("e", "q2", "odd", 1)])  # type: ignore[arg-type]
    assert store.results("e") == {}


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "1"])
def test_a_cost_that_is_no_number_is_refused(store: Store, wrong: Any) -> None:
    with pytest.raises(ValueError, match="finite number"):
        put_call(store, "k", "m", "t", "v", seconds=wrong)
    with pytest.raises(TypeError):
        put_call(store, "k", "m", "t", "v", calls=wrong)


# Damage


@pytest.mark.parametrize(
    ("column", "damage"),
    [
        ("value", '"reqly"'),
        ("value", b'"re\xf0ly"'),
        ("value", 7),
        ("model", "n"),
        ("seconds", 2.0),
        ("seconds", float("inf")),
        ("input_tokens", 1),
        ("checksum", "0"),
    ],
)
def test_a_damaged_row_is_absent_named_and_replaced(path: Path, column: str, damage: object) -> None:
    with Store.open(path) as store:
        put_call(store, "k", "m", "t", "reply", seconds=1.0)
        put_call(store, "good", "m", "t", "reply")
    value = "CAST(? AS TEXT)" if isinstance(damage, bytes) else "?"
    edit(path, f"UPDATE model_call SET {column} = {value} WHERE key = 'k'", damage)
    with Store.open(path) as store:
        assert [row.row for row in store.verify()] == ["model_call:k"]
    with Store.open(path) as store:
        assert list(store.get_calls(["k", "good"])) == ["good"]
        assert store.get_calls(["k"]).get("k") is None
        assert store.damaged == ["model_call:k"]
        assert store.statistics()["damaged"] == ["model_call:k"]
        put_call(store, "k", "m", "t", "again")
        call = store.get_calls(["k"]).get("k")
        assert call is not None
        assert call.value == "again"
        assert store.verify() == []
        assert store.damaged == ["model_call:k"]


def test_a_row_moved_to_another_key_is_refused_and_replaced_even_by_a_failure(path: Path) -> None:
    with Store.open(path) as store:
        store.put_results([ResultRow("e", "q1", "ok", 1)])
    edit(path, "UPDATE result SET question = 'q2'")
    with Store.open(path) as store:
        assert store.results("e") == {}
        assert store.damaged == ["result:e/q2"]
        rows = [ResultRow("e", "q1", "ok", 2), ResultRow("e", "q2", "failed", "x")]
        store.put_results(rows)
        assert list(store.results("e").values()) == rows


def test_no_flipped_bit_anywhere_in_the_file_changes_what_is_read(path: Path) -> None:
    """Rows come back as they were, not at all, or the whole file is refused: never as something else."""
    written = {f"q{i}": ResultRow("e", f"q{i}", "ok", {"answer": f"text {i} " * 9, "f1": i / 7}) for i in range(150)}
    with Store.open(path) as store:
        store.put_results(list(written.values()))
    intact = path.read_bytes()
    draw = random.Random(0)
    outcomes = {"same": 0, "fewer": 0, "refused": 0}
    for _ in range(60):
        flipped = bytearray(intact)
        flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
        path.write_bytes(flipped)
        try:
            with Store.open(path) as store:
                found = store.results("e")
                assert found.items() <= written.items()
                outcomes["same" if found == written else "fewer"] += 1
        except StoreError:
            outcomes["refused"] += 1
    assert min(outcomes["fewer"], outcomes["same"]) > 0, outcomes


# Upkeep


def test_statistics_count_rows_and_bytes(store: Store, place: Path | str) -> None:
    put_call(store, "k", "m", "t", "é")
    store.put_results([ResultRow("e", "q", "ok", [1]), ResultRow("e", "r", "ok", [])])
    statistics = store.statistics()
    assert statistics["tables"]["model_call"] == {"rows": 1, "bytes": len('"é"'.encode())}
    assert statistics["tables"]["result"] == {"rows": 2, "bytes": len("[1]" + "[]")}
    assert statistics["tables"]["run"] == {"rows": 0, "bytes": 0}
    store.close()
    with Store.open(place, read_only=True) as again:
        assert again.statistics() == {
            **statistics,
            "file_bytes": place.stat().st_size if isinstance(place, Path) else None,
        }


# Threads, and the file


def test_many_threads_share_a_store(store: Store) -> None:
    def work(n: int) -> None:
        for i in range(40):
            put_call(store, f"{n}-{i}", "m", "t", i)
            store.put_results([ResultRow("e", f"shared{i}", "failed", n)])
            assert store.get_calls([f"{n}-{i}"]).get(f"{n}-{i}") is not None

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.get_calls([f"{n}-{i}" for n in range(8) for i in range(40)])) == 320
    assert {row.attempts for row in store.results("e").values()} == {8}


def test_a_closed_store_is_one_private_file(path: Path) -> None:
    first = Store.open(str(path))
    with Store.open(f"sqlite:///{path}") as store:  # stores of one process may close in any order
        first.close()
        put_call(store, "k", "m", "t", 1)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert list(path.parent.iterdir()) == [path]
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.get_calls(["k"])
    with pytest.raises(StoreError, match="is closed"):
        put_call(store, "k", "m", "t", 1)


def test_results_can_be_read_after_the_store_was_closed(tmp_path: Path) -> None:
    row = ResultRow("e", "q1", "ok", {"answer": "seven"})
    with Store.open(tmp_path / "cache.sqlite") as store:
        store.put_results([row])
        assert store.results_reopened("e") == {"q1": row}
    assert store.results_reopened("e") == {"q1": row}
    with pytest.raises(StoreError, match="is closed"):
        store.results("e")
