"""The memo computes every value once, however many threads ask at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.errors import ModelError
from ragsmith.gateway.memo import Memo

WAIT = 10
"""Seconds after which a test gives up: only a deadlock takes so long."""


def test_empty_results_are_remembered() -> None:
    memo: Memo[Any] = Memo()
    assert memo.get("none", lambda: None) is None
    assert memo.get("none", lambda: 1 / 0) is None
    assert memo.get("empty", tuple) == ()
    assert memo.get("empty", lambda: 1 / 0) == ()


def test_identical_computations_in_flight_are_joined() -> None:
    memo: Memo[str] = Memo()
    entered, release = threading.Event(), threading.Event()
    computed: list[str] = []

    def slow() -> str:
        computed.append("once")
        entered.set()
        assert release.wait(WAIT)
        return "value"

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(memo.get, "key", slow)
        assert entered.wait(WAIT)
        others = [pool.submit(memo.get, "key", slow) for _ in range(7)]
        release.set()
        assert [future.result(WAIT) for future in (first, *others)] == ["value"] * 8
    assert computed == ["once"]


def test_an_exception_reaches_all_waiting_threads_and_is_not_remembered() -> None:
    memo: Memo[str] = Memo()
    entered, release = threading.Event(), threading.Event()

    def failing() -> str:
        entered.set()
        assert release.wait(WAIT)
        raise LookupError("no such thing")

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(memo.get, "key", failing)
        assert entered.wait(WAIT)
        # threads that join before the release get its error; no other computes before that
        others = [pool.submit(memo.get, "key", failing) for _ in range(3)]
        release.set()
        errors = [future.exception(WAIT) for future in (first, *others)]
    assert all(isinstance(error, LookupError) for error in errors)
    assert len(memo) == 0
    assert memo.get("key", lambda: "now it works") == "now it works"


def test_only_missing_keys_are_computed_in_order_and_distinct() -> None:
    memo: Memo[str] = Memo()
    memo.get("b", lambda: "B")
    given_keys: list[list[str]] = []

    def compute(keys: list[str]) -> list[str]:
        given_keys.append(keys)
        return [key.upper() for key in keys]

    assert memo.get_many(["a", "b", "a", "c"], compute) == ["A", "B", "A", "C"]
    assert given_keys == [["a", "c"]]
    assert memo.get_many([], compute) == []
    assert memo.get_many(["c", "a"], compute) == ["C", "A"]
    assert given_keys == [["a", "c"]]


def test_a_computation_that_returns_too_few_values_is_an_error_and_nothing_is_remembered() -> None:
    memo: Memo[int] = Memo()
    with pytest.raises(RuntimeError, match="2 values were expected, 1 were returned"):
        memo.get_many(["a", "b"], lambda keys: [1])
    assert len(memo) == 0


def test_two_callers_that_compute_keys_of_each_other_both_end() -> None:
    memo: Memo[str] = Memo()
    barrier = threading.Barrier(2)

    def compute(keys: list[str]) -> list[str]:
        barrier.wait(WAIT)  # both are computing now, and each will want what the other has
        return list(keys)

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(memo.get_many, ["a"], compute)
        two = pool.submit(memo.get_many, ["b"], compute)
        assert (one.result(WAIT), two.result(WAIT)) == (["a"], ["b"])


@given(
    st.lists(st.lists(st.integers(0, 12), max_size=8), min_size=2, max_size=6),
    st.sets(st.integers(0, 12), max_size=3),
)
@settings(max_examples=40, deadline=None)
def test_overlapping_requests_of_many_threads_never_wait_for_each_other(wanted: list[list[int]], bad: set[int]) -> None:
    memo: Memo[int] = Memo()
    barrier = threading.Barrier(len(wanted))

    def compute(keys: list[int]) -> list[int]:
        if bad & set(keys):
            raise LookupError(keys)
        return [-key for key in keys]

    def work(keys: list[int]) -> list[int] | None:
        barrier.wait(WAIT)
        try:
            return memo.get_many(keys, compute)
        except LookupError:
            return None

    with ThreadPoolExecutor(len(wanted)) as pool:
        results = [future.result(WAIT) for future in [pool.submit(work, keys) for keys in wanted]]
    for keys, values in zip(wanted, results, strict=True):
        assert values is None or values == [-key for key in keys]
        assert values is None or not bad & set(keys)
    assert not bad & set(memo.keys())


def test_an_error_in_the_place_of_a_value_is_raised_only_where_it_is_needed() -> None:
    memo: Memo[str] = Memo()
    computing, waiting = threading.Event(), threading.Event()

    def compute(keys: list[str]) -> list[str | ModelError]:
        computing.set()
        waiting.wait(WAIT)
        return [ModelError("no") if key == "bad" else key.upper() for key in keys]

    with ThreadPoolExecutor(2) as pool:
        failing = pool.submit(memo.get_many, ["good", "bad"], compute)
        computing.wait(WAIT)
        other = pool.submit(memo.get_many, ["good", "other"], lambda keys: [waiting.set() or "OTHER"])  # type: ignore[func-returns-value]
        assert other.result(WAIT) == ["GOOD", "OTHER"]
        assert isinstance(failing.exception(WAIT), ModelError)
    assert memo.keys() == ["other", "good"]
