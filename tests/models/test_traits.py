"""What is learnt of a model, by many threads at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ragsmith.models.traits import FIRST_SECONDS, Learner, Traits


def test_traits_join_and_come_back_as_they_were_kept() -> None:
    both = Traits(frozenset({"seed"}), 512) | Traits(frozenset({"temperature"}), 64)
    assert both == Traits(frozenset({"seed", "temperature"}), 512)
    assert (both | Traits(begins_in_thought=True)) == Traits(both.refuses, 512, True)
    for traits in (both, Traits(begins_in_thought=True)):
        assert Traits.read(traits.plain()) == traits
    assert Traits.read(both.plain()) == both


def test_only_what_is_new_is_kept() -> None:
    learner, kept = Learner(), []
    learner.keep = kept.append
    for traits in (Traits(), Traits(), Traits(thinking_tokens=64), Traits(thinking_tokens=32)):
        learner.learn(traits)
    assert kept == [Traits(), Traits(thinking_tokens=64)]  # that it refuses nothing is news once
    known = Learner()
    known.keep = kept.append
    known.restore(Traits(thinking_tokens=64))
    known.learn(Traits(thinking_tokens=64))
    assert len(kept) == 2


def ask_from_many_threads(learner: Learner, first_takes: threading.Event) -> list[bool]:
    """Whether each of 16 requests began when the first one had its answer."""
    answered = threading.Event()
    order = threading.Lock()
    began: list[bool] = []

    def ask(_: int) -> None:
        with learner.request():
            with order:
                is_first = not began
                began.append(answered.is_set())
            if is_first:
                first_takes.wait(10)
                answered.set()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(16)))
    return began


def test_the_first_request_goes_ahead_of_the_others() -> None:
    soon = threading.Event()
    threading.Timer(0.2, soon.set).start()
    assert ask_from_many_threads(Learner(), soon) == [False] + [True] * 15


def test_nobody_waits_where_something_is_known() -> None:
    learner = Learner()
    learner.restore(Traits())
    never = threading.Event()
    threading.Timer(0.3, never.set).start()
    assert not all(ask_from_many_threads(learner, never)[1:])


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_a_first_request_that_fails_holds_nobody_up(kind: type[BaseException]) -> None:
    learner = Learner()
    with pytest.raises(kind), learner.request():
        raise kind
    began = time.monotonic()
    with learner.request():
        assert time.monotonic() - began < FIRST_SECONDS / 2
