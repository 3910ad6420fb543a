from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.gateway.batching import Batcher

LONG = 10.0
"""A window, in seconds, that only a full batch ends in time."""


class Squares:
    """Squares, and the batches they were asked for in."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, batch: list[int]) -> list[int]:
        self.batches.append(batch)
        return [number * number for number in batch]


def all_at_once(batcher: Batcher[int, int], asked: Sequence[Sequence[int]]) -> list[list[int] | BaseException]:
    """What each of as many threads gets, or the error it meets."""
    together = threading.Barrier(len(asked))

    def ask(items: Sequence[int]) -> list[int] | BaseException:
        together.wait()
        try:
            return batcher(items)
        except (ValueError, RuntimeError) as error:
            return error

    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(ask, asked, timeout=30))


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(), max_size=7), min_size=1, max_size=8), st.integers(1, 5))
def test_each_caller_gets_its_results_in_order(asked: list[list[int]], size: int) -> None:
    squares = Squares()
    found = all_at_once(Batcher(squares, size=size, window=0.001), asked)
    assert found == [[number * number for number in items] for items in asked]
    assert all(0 < len(batch) <= size for batch in squares.batches)
    assert sorted(chain.from_iterable(squares.batches)) == sorted(chain.from_iterable(asked))


def test_threads_share_a_batch_which_a_full_one_does_not_wait_for() -> None:
    squares = Squares()
    batcher = Batcher(squares, size=8, window=LONG)
    assert all_at_once(batcher, [[n] for n in range(8)]) == [[n * n] for n in range(8)]
    assert [sorted(batch) for batch in squares.batches] == [list(range(8))]


def test_one_alone_is_answered_after_the_window() -> None:
    squares = Squares()
    assert Batcher(squares, size=8, window=0.001)([3]) == [9]
    assert Batcher(squares, size=8, window=LONG)([]) == []
    assert squares.batches == [[3]]


def failing(batch: list[int]) -> list[int]:
    raise ValueError("the model is down")


def too_few(batch: list[int]) -> list[int]:
    return batch[1:]


def too_many(batch: list[int]) -> list[int]:
    return [*batch, 0]


@pytest.mark.parametrize(
    ("run", "message"),
    [(failing, "the model is down"), (too_few, "4 results were expected, 3 were returned"), (too_many, "5 were")],
)
def test_an_error_is_raised_for_every_caller_in_the_batch(run: Callable[[list[int]], list[int]], message: str) -> None:
    found = all_at_once(Batcher(run, size=4, window=LONG), [[n] for n in range(4)])
    assert [type(error) for error in found] == [ValueError if run is failing else RuntimeError] * 4
    assert all(message in str(error) for error in found)


def test_a_batch_that_failed_leaves_the_next_one_alone() -> None:
    down = [True]

    def at_first_failing(batch: list[int]) -> list[int]:
        return failing(batch) if down.pop() else Squares()(batch)

    batcher = Batcher(at_first_failing, size=4, window=0.001)
    with pytest.raises(ValueError, match="down"):
        batcher([1])
    down.append(False)
    assert batcher([2]) == [4]


def test_enough_items_for_a_batch_do_not_wait() -> None:
    squares = Squares()
    assert Batcher(squares, size=2, window=LONG)([1, 2, 3, 4, 5]) == [1, 4, 9, 16, 25]
    assert squares.batches == [[1, 2], [3, 4], [5]]
