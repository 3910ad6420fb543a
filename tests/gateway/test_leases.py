from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace

import pytest

from ragsmith.gateway.leases import EXPIRY_SECONDS, Lease, LeaseMonitor, is_gone, this_process

HERE = this_process()
HOST, _, START, PLACE = HERE.split(":")


def gone_pid() -> int:
    """The id of a process that has ended."""
    process = multiprocessing.get_context("spawn").Process(target=int)
    process.start()
    process.join()
    assert process.pid is not None
    return process.pid


# Who can be known to be gone


def test_only_a_process_whose_id_counts_here_can_be_known_to_be_gone() -> None:
    gone = gone_pid()
    assert HERE.startswith(f"{HOST}:{os.getpid()}:")
    assert not is_gone(HERE)
    assert is_gone(f"{HOST}:{gone}::{PLACE}")
    assert not is_gone(f"{HOST}:1::{PLACE}")  # which may not be ours to signal
    assert not is_gone("nonsense")
    assert not is_gone("")


@pytest.mark.skipif(not PLACE, reason="this system says neither its boot nor when a process started")
def test_ids_of_other_machines_containers_and_times_say_nothing_of_ours() -> None:
    boot, _, namespace = PLACE.partition("/")
    gone = gone_pid()
    assert not is_gone(f"{HOST}:{gone}::another boot/{namespace}")
    assert not is_gone(f"{HOST}:{gone}::{boot}/1")
    assert is_gone(f"another name of this machine:{gone}::{PLACE}")
    assert is_gone(f"{HOST}:{os.getpid()}:1:{PLACE}"), "another process had this number"


# Who is silent


class Clock:
    """A clock that is set by the test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(clock: Clock) -> LeaseMonitor:
    return LeaseMonitor(clock)


FAR = Lease("token", "far:12:1:there", 7)


def test_a_silent_owner_is_replaced_with_one_notice(watch: LeaseMonitor, clock: Clock) -> None:
    looks = 0
    while not watch.is_gone(FAR, ["k"]):
        clock.now += 1.0
        looks += 1
    assert looks == EXPIRY_SECONDS
    assert watch.is_gone(FAR, ["k"])
    assert watch.pop_messages() == [
        "waiting for process 12 on far, which makes calls that this process needs as well: 5 s so far; "
        "its last heartbeat was 5 s ago.",
        "process 12 on far has sent no heartbeat for 18 s and left calls unfinished: they are taken over.",
    ]
    assert watch.pop_messages() == []


def test_a_slow_owner_is_waited_for_with_few_notices(watch: LeaseMonitor, clock: Clock) -> None:
    for second in range(600):
        assert not watch.is_gone(replace(FAR, heartbeat=second // 12), ["k"])  # every other beat is lost
        clock.now += 1.0
    assert [sentence.split("well: ")[-1].split(";")[0] for sentence in watch.pop_messages()] == [
        "5 s so far",
        "50 s so far",
        "500 s so far",
    ]


def test_an_owner_that_makes_one_call_after_the_other_is_not_said_to_be_waited_for(
    watch: LeaseMonitor, clock: Clock
) -> None:
    for second in range(100):
        assert not watch.is_gone(replace(FAR, heartbeat=second), [f"{second}", f"{second + 1}", f"{second + 3}"])
        clock.now += 1.0
    assert watch.pop_messages() == []


def test_time_in_which_the_cache_could_not_be_read_is_not_silence(watch: LeaseMonitor, clock: Clock) -> None:
    """The cache was locked, the machine slept, or its clock jumped."""
    assert not watch.is_gone(FAR, ["k"])
    clock.now += 3600
    assert not watch.is_gone(FAR, ["k"])
    clock.now -= 7200
    assert not watch.is_gone(FAR, ["k"])
    clock.now += 3600
    assert not watch.is_gone(FAR, ["k"])


def test_an_owner_that_is_seen_again_after_a_long_time_begins_anew(watch: LeaseMonitor, clock: Clock) -> None:
    for heartbeat in (7, 8):
        for _ in range(int(EXPIRY_SECONDS)):
            assert not watch.is_gone(replace(FAR, heartbeat=heartbeat), ["k"])
            clock.now += 1.0
    clock.now += 500
    assert not watch.is_gone(replace(FAR, heartbeat=9), ["k"])
