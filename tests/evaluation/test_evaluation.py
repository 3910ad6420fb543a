"""Records: what there is no room for is read from the store again, and is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.errors import StoreError
from ragsmith.evaluation.evaluation import MAX_REREAD_EVALUATIONS, EvictableRecord, RecordCache
from ragsmith.gateway.memory import GIB, Memory
from ragsmith.store.rows import ResultRow

NAMES = st.sampled_from(["recall", "judge", "faithfulness", "calls"])
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
PARTS = VALUES | st.dictionaries(NAMES, VALUES) | st.lists(st.lists(VALUES, max_size=3), max_size=3)


class Shelf:
    """A store that is a dictionary, and counts how often an evaluation is read."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, ResultRow]] = {}
        self.read: Counter[str] = Counter()

    def put(self, evaluation: str, question: str, record: dict[str, Any]) -> ResultRow:
        row = ResultRow(evaluation, question, "ok", record)
        self.rows.setdefault(evaluation, {})[question] = row
        return row

    def results(self, evaluation: str) -> Mapping[str, ResultRow]:
        self.read[evaluation] += 1
        return dict(self.rows.get(evaluation, {}))


def little() -> Memory:
    """Room for next to nothing."""
    return Memory(1, in_use=lambda: GIB)


def record(n: int) -> dict[str, Any]:
    return {
        "measures": {f"measure{i}": (n + i) / 7 for i in range(15)} | {"faithfulness": None},
        "retrieved": [f"document-{i}#{n}" for i in range(10)],
        "answer": f"{n} " + "A company pays M 30 for the yearly confirmation." * 4,
    }


@given(st.dictionaries(st.text(max_size=5), PARTS))
def test_a_record_that_was_let_go_is_the_same_record(given: dict[str, Any]) -> None:
    shelf = Shelf()
    recallable = RecordCache(Memory(), shelf.results).add(shelf.put("e", "q", given))
    for _ in range(2):
        assert recallable == given
        assert list(recallable) == list(given)
        assert "no such part" not in recallable
        assert recallable.get("no such part", 7) == 7
        recallable.evict()


def test_what_there_is_no_room_for_is_read_once_an_evaluation() -> None:
    shelf = Shelf()
    records = RecordCache(little(), shelf.results)
    kept = {(e, n): records.add(shelf.put(f"e{e}", f"q{n}", record(n))) for e in range(5) for n in range(1000)}
    assert 0 < len(records) < 2500
    assert all(one["answer"] == record(n)["answer"] for (_, n), one in kept.items())
    assert max(shelf.read.values()) == 1


def test_no_more_evaluations_are_held_than_are_said() -> None:
    shelf = Shelf()
    records = RecordCache(Memory(), shelf.results)
    kept: list[EvictableRecord] = [
        records.add(shelf.put(f"e{e}", "q", record(e))) for e in range(MAX_REREAD_EVALUATIONS + 1)
    ]
    for one in kept:
        one.evict()
    for _ in range(2):
        assert [one["answer"] for one in kept] == [record(e)["answer"] for e in range(MAX_REREAD_EVALUATIONS + 1)]
    assert shelf.read == {f"e{e}": 2 for e in range(MAX_REREAD_EVALUATIONS + 1)}


def test_what_was_finished_after_it_was_read_is_found() -> None:
    shelf = Shelf()
    records = RecordCache(Memory(), shelf.results)
    first = records.add(shelf.put("e", "q1", record(1)))
    first.evict()
    assert first["answer"] == record(1)["answer"]
    second = records.add(shelf.put("e", "q2", record(2)))
    second.evict()
    assert second["answer"] == record(2)["answer"]


def test_all_is_held_where_there_is_room() -> None:
    shelf = Shelf()
    records = RecordCache(Memory(), shelf.results)
    rows = [shelf.put("e", f"q{n}", record(n)) for n in range(1000)]
    assert all(records.add(row)["measures"] is row.value["measures"] for row in rows)
    assert not shelf.read


def test_what_the_store_has_lost_is_named() -> None:
    shelf = Shelf()
    recallable = RecordCache(Memory(), shelf.results).add(shelf.put("evaluation7", "q3", record(1)))
    recallable.evict()
    del shelf.rows["evaluation7"]["q3"]
    with pytest.raises(StoreError, match=r"'q3' \(evaluation evaluation7\)"):
        _ = recallable["answer"]
