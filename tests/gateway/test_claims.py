from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import pytest
from stored import Locked, put_call

from ragsmith.errors import StoreError
from ragsmith.gateway.claims import Grouped, claimed, is_gone, this_process
from ragsmith.gateway.desk import Desk
from ragsmith.models.calls import Completion, StoredCall
from ragsmith.store.store import Store

SPAWN = multiprocessing.get_context("spawn")


def never(owner: str) -> bool:
    return False


def gone_pid() -> int:
    """The id of a process that has ended."""
    process = SPAWN.Process(target=int)
    process.start()
    process.join()
    assert process.pid is not None
    return process.pid


def at_once(work: Callable[[int], None], workers: int) -> None:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# Who may make a call


def test_one_of_many_gets_the_claim(place: Path | str) -> None:
    """Each has a store of its own, as each process has."""
    got: list[str] = []
    together = threading.Barrier(4)

    def work(n: int) -> None:
        with Store.open(place) as store:
            for i in range(40):
                together.wait()
                if store.claim_many([f"k{i}"], f"elsewhere:{n}", now=0.0, until=9.0, is_gone=never):
                    got.append(f"k{i}")

    at_once(work, 4)
    assert Counter(got) == {f"k{i}": 1 for i in range(40)}


def test_a_claim_ends_with_the_reply_with_its_owner_and_in_time(store: Store) -> None:
    def claim(owner: str, *, now: float = 0.0, gone: str = "") -> bool:
        return bool(store.claim_many(["k"], owner, now=now, until=now + 10, is_gone=lambda other: other == gone))

    assert claim("a:1")
    assert claim("a:1"), "one's own"
    assert not claim("b:2", now=9.9)
    assert claim("b:2", now=10.0)
    assert claim("c:3", now=10.0, gone="b:2")
    store.give_up("k", "b:2")  # no longer its own
    assert not claim("d:4", now=10.0)
    store.give_up("k", "c:3")
    assert claim("d:4", now=10.0)
    put_call(store, "k", "m", "t", "reply")
    assert claim("e:5", now=10.0)


def test_only_owners_on_this_machine_can_be_known_to_be_gone() -> None:
    host = this_process().partition(":")[0]
    assert this_process().startswith(f"{host}:{os.getpid()}:")
    assert not is_gone(this_process())
    assert is_gone(f"{host}:{gone_pid()}")
    assert not is_gone(f"elsewhere:{gone_pid()}")
    assert not is_gone(f"{host}:1")  # which may not be ours to signal
    assert not is_gone("nonsense")
    if not this_process().endswith(":"):  # the start of a process is known here
        assert is_gone(f"{host}:{os.getpid()}:1"), "another process had this number"


# Waiting for the reply of another


def test_a_call_that_nobody_makes_is_ours_and_one_that_is_there_is_handed_over(store: Store) -> None:
    with claimed(Grouped(store), "k", lambda: False) as found:
        assert found is None
        assert not store.claim_many(["k"], "elsewhere:1", now=0.0, until=1.0, is_gone=never)
        put_call(store, "k", "m", "t", "reply")
    with claimed(Grouped(store), "k", lambda: False) as found:
        assert found.value == "reply"
    assert store.claim_many(["k"], "elsewhere:1", now=0.0, until=1.0, is_gone=never), "nothing is left claimed"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_call_that_fails_may_be_made_by_others_at_once(store: Store, error: type[BaseException]) -> None:
    with pytest.raises(error), claimed(Grouped(store), "k", lambda: False):
        raise error
    assert store.claim_many(["k"], "elsewhere:1", now=0.0, until=1.0, is_gone=never)


def test_the_reply_of_another_is_waited_for(store: Store) -> None:
    now = time.time()
    assert store.claim_many(["k"], "elsewhere:1", now=now, until=now + 60, is_gone=never)
    later = threading.Timer(0.2, put_call, (store, "k", "m", "t", "theirs"))
    later.start()
    with claimed(Grouped(store), "k", lambda: False) as found:
        assert found.value == "theirs"
    later.join()
    assert time.time() - now >= 0.2


def test_whoever_is_stopped_does_not_wait(store: Store) -> None:
    assert store.claim_many(["k"], "elsewhere:1", now=0.0, until=time.time() + 60, is_gone=never)
    with claimed(Grouped(store), "k", lambda: True) as found:
        assert found is None


def test_what_a_killed_process_had_claimed_is_free_at_once(store: Store) -> None:
    host = this_process().partition(":")[0]
    now = time.time()
    assert store.claim_many(["k"], f"{host}:{gone_pid()}", now=now, until=now + 300, is_gone=never)
    with claimed(Grouped(store), "k", lambda: False) as found:
        assert found is None
    assert time.time() - now < 30


def make_calls(place: Path | str, made: Pipe) -> None:
    """Make each call that is left to make, slowly, and tell which."""
    with Store.open(place) as store:
        for i in range(10):
            with claimed(Grouped(store), f"k{i}", lambda: False) as found:
                if found is None:
                    made.send(i)
                    time.sleep(0.01)
                    put_call(store, f"k{i}", "m", "t", i)
    made.close()


@pytest.mark.processes
def test_processes_share_out_the_calls(place: Path | str) -> None:
    pipes, processes = [], []
    for _ in range(3):
        ours, theirs = SPAWN.Pipe(duplex=False)
        processes.append(SPAWN.Process(target=make_calls, args=(place, theirs)))
        processes[-1].start()
        theirs.close()
        pipes.append(ours)
    made: list[int] = []
    for pipe, process in zip(pipes, processes, strict=True):
        process.join(30)
        while pipe.poll():
            try:
                made.append(pipe.recv())
            except EOFError:
                break
        pipe.close()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert sorted(made) == list(range(10))


# Replies that cannot be written


class Chat:
    id = "m"

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        raise NotImplementedError


def test_after_a_moment_in_which_nothing_could_be_written_requests_are_made_again(store: Store) -> None:
    locked = Locked(store)
    desk = Desk(locked, None)
    assert desk.store is not None
    with pytest.raises(StoreError):
        desk.store.put_calls([StoredCall("k", "m", "task", "a paid reply")])
    with pytest.raises(StoreError, match="locked"), desk.paid(Chat(), "text"):
        pytest.fail("nothing is asked whose reply could not be kept either")
    locked.locked = False
    with desk.paid(Chat(), "text"):
        desk.before_attempt()
    kept = store.get_call("k")
    assert kept is not None
    assert kept.value == "a paid reply"
