"""Packing: a record that is packed is the same record, and smaller."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.evaluation.packing import Packable, Packed, Shape
from ragsmith.gateway.memory import GIB, Memory

NAMES = st.sampled_from(["recall", "judge", "faithfulness", "calls"])
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
PARTS = VALUES | st.dictionaries(NAMES, VALUES) | st.lists(st.lists(VALUES, max_size=3), max_size=3)
RECORD: dict[str, Any] = {
    "measures": {f"measure{n}": n / 7 for n in range(15)} | {"faithfulness": None},
    "retrieved": [f"document-{n}#{n}" for n in range(10)],
    "answer": "A company pays M 30 for the yearly confirmation." * 4,
    "cited": [["document-1", 20, 90]],
    "stages": {f"stage{n}": "0123abcd" for n in range(8)},
    "usage": {"calls": 3, "input_tokens": 0},
}


@given(st.dictionaries(st.text(max_size=5), PARTS))
def test_a_packed_record_is_the_same_record(record: dict[str, Any]) -> None:
    packable = Packable(record)
    shapes: dict[Shape, Shape] = {}
    for _ in range(2):
        packable.pack(shapes)
        assert packable == record
        assert list(packable) == list(record)
        assert [type(value) for value in packable.values()] == [type(value) for value in record.values()]
        assert "no such part" not in packable
        assert packable.get("no such part", 7) == 7


def test_numbers_of_numpy_stay_what_they_are() -> None:
    packable = Packable({"measures": {"recall": np.float64(0.1)}})
    packable.pack({})
    assert packable["measures"]["recall"] == 0.1


def test_what_there_is_no_room_for_is_packed_and_read_as_before() -> None:
    packed = Packed(Memory(1, in_use=lambda: GIB))
    records = [packed.add({**RECORD, "answer": f"{n} {RECORD['answer']}"}) for n in range(5000)]
    assert 0 < len(packed) < 2500
    assert all(record["answer"].startswith(f"{n} ") for n, record in enumerate(records))
    assert all(record["measures"] == RECORD["measures"] for record in records)


def test_all_stays_whole_where_there_is_room() -> None:
    packed = Packed(Memory())
    records = [packed.add(RECORD) for _ in range(1000)]
    assert all(record["measures"] is RECORD["measures"] for record in records)
