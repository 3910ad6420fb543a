from __future__ import annotations

import multiprocessing
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from postgres_server import Server
from sqlalchemy import delete, update
from stored import Locked, put_call

from ragsmith.errors import ModelUnavailable, Notice, StoreError
from ragsmith.gateway.call_context import CallContext
from ragsmith.gateway.claims import PAUSE_SECONDS, BatchedStore
from ragsmith.gateway.leases import POLL_SECONDS, Lease, this_process
from ragsmith.models.calls import Completion, StoredCall
from ragsmith.store.schema import CLAIM
from ragsmith.store.store import Store

SPAWN = multiprocessing.get_context("spawn")


def never(owner: Lease, keys: Collection[str]) -> bool:
    return False


def gone_pid() -> int:
    """The id of a process that has ended."""
    process = SPAWN.Process(target=int)
    process.start()
    process.join()
    assert process.pid is not None
    return process.pid


def claim(store: Store, owner: str, *keys: str, process: str = "elsewhere:1", gone: str = "") -> set[str]:
    """Claim keys as another process does, which is the only one that beats."""
    lease = Lease(owner, process, 1)
    return store.claim_many(keys, owner, lease=lease, is_gone=lambda other, _: other.token == gone)[0]


def at_once(work: Callable[[int], None], workers: int) -> None:
    threads = [threading.Thread(target=work, args=(n,)) for n in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# Who may make a call


def test_a_claim_ends_with_the_reply_and_with_its_owner(store: Store) -> None:
    assert claim(store, "a", "k", "l") == {"k", "l"}
    assert claim(store, "a", "k") == {"k"}, "its own"
    assert claim(store, "b", "k", "m") == {"m"}
    assert claim(store, "b", "k", gone="a") == {"k"}
    store.release("a", "k")  # no longer its own
    assert claim(store, "c", "k") == set()
    store.release("b", "k")
    assert claim(store, "c", "k") == {"k"}
    put_call(store, "k", "m", "t", "reply")
    free, found = store.claim_many(["k", "x"], "d", lease=None, is_gone=never)
    assert (free, found["k"].value) == ({"x"}, "reply")
    store.release("a")
    assert claim(store, "d", "l", "m") == {"l"}, "a process that ends has no claims"


def test_an_owner_is_read_as_it_was_written_and_one_whose_row_is_gone_is_asked_about_too(store: Store) -> None:
    asked: list[Lease] = []
    wanted: list[list[str]] = []

    def note(owner: Lease, keys: Collection[str]) -> bool:
        asked.append(owner)
        wanted.append(sorted(keys))
        return False

    store.claim_many(["k"], "a", lease=Lease("a", "host:7:1:here", 3), is_gone=never)
    store.claim_many(["l"], "b", lease=None, is_gone=never)
    store.claim_many(["k", "l"], "c", lease=None, is_gone=note)
    store.renew(Lease("a", "host:7:1:here", 4))
    store.claim_many(["k"], "c", lease=None, is_gone=note)
    assert sorted(asked[:2], key=lambda owner: owner.token) == [Lease("a", "host:7:1:here", 3), Lease("b")]
    assert asked[2:] == [Lease("a", "host:7:1:here", 4)]
    assert sorted(wanted) == [["k"], ["k"], ["l"]]


def test_a_damaged_claim_is_free(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with Store.open(path) as store:
        assert claim(store, "a", "k") == {"k"}
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE claim SET owner = 'x'")
    with Store.open(path) as store:
        assert claim(store, "b", "k") == {"k"}
        assert claim(store, "a", "k") == set()


# Events between the read and the claim, on a server: a file has one writer at a time


@pytest.fixture
def two(postgres_server: Server) -> Iterator[tuple[Store, Store]]:
    """The stores of two processes on one database; the first has found the claim of ``other`` on ``k``."""
    url = postgres_server.database()
    with Store.open(url) as one, Store.open(url) as another:
        assert claim(one, "other", "k") == {"k"}
        yield one, another


def while_claiming(
    store: Store, *keys: str, happens: Callable[[], object], gone: bool = False
) -> tuple[set[str], dict[str, StoredCall]]:
    """The claims of a process where something happens after it has read those of others."""

    def look(owner: Lease, keys: Collection[str]) -> bool:
        happens()
        return gone

    return store.claim_many(["k", *keys], "late", lease=None, is_gone=look)


def test_a_reply_that_comes_between_is_handed_over_and_not_claimed(two: tuple[Store, Store]) -> None:
    one, another = two
    free, found = while_claiming(one, "x", "y", happens=lambda: put_call(another, "x", "m", "t", "reply"))
    assert (free, found["x"].value) == ({"y"}, "reply")
    assert another.statistics()["tables"]["claim"]["rows"] == 2, "of other and of y"


def test_a_claim_made_meanwhile_stays(two: tuple[Store, Store]) -> None:
    one, another = two
    got = while_claiming(one, "x", "y", happens=lambda: claim(another, "first", "x"))
    assert got == ({"y"}, {})
    assert claim(another, "first", "x") == {"x"}


def test_of_two_that_take_over_the_first_has_it(two: tuple[Store, Store]) -> None:
    one, another = two
    assert while_claiming(one, happens=lambda: claim(another, "first", "k", gone="other"), gone=True) == (set(), {})
    assert claim(another, "first", "k") == {"k"}


def test_of_two_that_find_a_damaged_claim_one_has_it(two: tuple[Store, Store]) -> None:
    one, another = two
    assert claim(one, "other", "x") == {"x"}
    with one._database.writing() as connection:
        connection.execute(update(CLAIM).where(CLAIM.c.key == "x").values(checksum="damaged"))
    assert while_claiming(one, "x", happens=lambda: claim(another, "first", "x")) == (set(), {})
    assert claim(another, "first", "x") == {"x"}


def test_a_process_that_ends_while_its_calls_are_taken_over_stops_no_other(two: tuple[Store, Store]) -> None:
    """Its claims are waited for by a process whose own row it clears away."""
    one, another = two
    one.renew(Lease("late", "elsewhere:2", 1))
    leaving = threading.Thread(target=another.release, args=("other",))

    def leave(owner: Lease, keys: Collection[str]) -> bool:
        leaving.start()
        leaving.join(0.5)
        return True

    assert one.claim_many(["k"], "late", lease=Lease("late", "elsewhere:2", 2), is_gone=leave)[0] == {"k"}
    leaving.join(10)
    assert not leaving.is_alive()


def test_processes_that_want_the_same_calls_at_once_do_not_deadlock(place: Path | str) -> None:
    """A server ends one of two transactions that wait for each other, and with it that process."""
    paid: list[str] = []
    errors: list[StoreError] = []
    together = threading.Barrier(6)

    def work(n: int) -> None:
        with Store.open(place) as store:
            together.wait()
            for batch in range(10):
                left = {f"{batch}-{i}" for i in range(32)}
                while left and not errors:
                    try:
                        free, found = store.claim_many(sorted(left), f"owner {n}", lease=None, is_gone=never)
                        store.put_calls([StoredCall(key, "m", "t", "reply") for key in free])
                    except StoreError as error:
                        errors.append(error)
                        return
                    paid.extend(free)
                    left -= free | found.keys()

    at_once(work, 6)
    assert errors == []
    assert Counter(paid) == {f"{batch}-{i}": 1 for batch in range(10) for i in range(32)}


# Waiting for the reply of another


def share(store: Store, key: str, make: Callable[[Sequence[str]], Mapping[str, str]] | None = None) -> object:
    """What a process gets under the key, where it makes ``own`` if it may."""
    found = CallContext(store, None).share([key], make or (lambda keys: dict.fromkeys(keys, "own")))[key]
    return found.value if isinstance(found, StoredCall) else found


def test_a_free_call_is_claimed_and_a_stored_one_is_returned(store: Store) -> None:
    def make(keys: Sequence[str]) -> Mapping[str, str]:
        assert not claim(store, "other", "k")
        put_call(store, "k", "m", "t", "reply")
        return dict.fromkeys(keys, "own")

    assert share(store, "k", make) == "own"
    assert share(store, "k") == "reply"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_call_that_fails_may_be_made_by_others_at_once(store: Store, error: type[BaseException]) -> None:
    def make(keys: Sequence[str]) -> Mapping[str, str]:
        raise error

    with pytest.raises(error):
        share(store, "k", make)
    assert claim(store, "other", "k")


def test_the_reply_of_another_is_waited_for(store: Store) -> None:
    began = time.monotonic()
    assert claim(store, "other", "k")
    later = threading.Timer(0.2, put_call, (store, "k", "m", "t", "theirs"))
    later.start()
    assert share(store, "k") == "theirs"
    later.join()
    assert time.monotonic() - began >= 0.2


def test_all_threads_that_wait_look_together(store: Store) -> None:
    """Else many processes that wait keep the database from those that work."""
    looks: list[list[str]] = []

    class Watched(Locked):
        def get_calls(self, keys: Iterable[str]) -> dict[str, StoredCall]:
            looks.append(sorted(keys))
            return self.store.get_calls(keys)

    keys = [f"k{n}" for n in range(16)]
    assert claim(store, "other", *keys) == set(keys)
    batched = BatchedStore(Watched(store))
    found: dict[str, StoredCall] = {}
    at_once(lambda n: found.update(batched.wait_for([keys[n]], lambda: None)), 16)
    assert found == {}
    assert len(looks) <= POLL_SECONDS / PAUSE_SECONDS + 2
    put_call(store, "k3", "m", "t", "reply")
    at_once(lambda n: found.update(batched.wait_for([keys[n]], lambda: None)), 16)
    assert found.keys() == {"k3"}


def test_a_released_call_is_claimed(store: Store) -> None:
    assert claim(store, "other", "k")
    later = threading.Timer(0.2, store.release, ("other", "k"))
    later.start()
    assert share(store, "k") == "own"
    later.join()


def test_a_stopped_process_does_not_wait(store: Store) -> None:
    assert claim(store, "other", "k")
    context = CallContext(store, None)
    context.stopped = True
    with pytest.raises(ModelUnavailable):
        context.share(["k"], dict.fromkeys)
    assert not claim(store, "another", "k")


def test_claims_of_a_killed_process_are_free_at_once_with_a_notice(store: Store) -> None:
    host, _, _, place = this_process().split(":")
    pid = gone_pid()
    assert claim(store, "other", "k", "l", process=f"{host}:{pid}::{place}")
    batched = BatchedStore(store)
    with pytest.warns(Notice, match=f"process {pid} on {host} has ended .* taken over") as said:
        taken = [batched.claim_many([key])[0] for key in "kl"]
    assert taken == [{"k"}, {"l"}]
    assert len(said) == 1


def test_a_process_that_ends_releases_its_claims(store: Store) -> None:
    batched = BatchedStore(store)
    batched.release_all()
    assert batched.claim_many(["k", "l"])[0] == {"k", "l"}
    assert claim(store, "other", "k", "l") == set()
    batched.release_all()
    assert claim(store, "other", "k", "l") == {"k", "l"}
    assert store.statistics()["tables"]["lease"]["rows"] == 1


def test_a_late_reply_does_no_harm(store: Store) -> None:
    """A process that was stopped for long goes on: another has taken its claim over meanwhile, and has the reply."""
    late = BatchedStore(store)
    assert late.claim_many(["k"])[0] == {"k"}
    with store._database.writing() as connection:
        connection.execute(delete(CLAIM))
    assert claim(store, "other", "k") == {"k"}
    late.release("k")
    assert claim(store, "another", "k") == set(), "the late process no longer holds it"
    put_call(store, "k", "m", "t", "first")
    late.put_calls([StoredCall("k", "m", "t", "late")])
    assert store.get_calls(["k"])["k"].value == "first"


# Replies that cannot be written


class Chat:
    id = "m"

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        raise NotImplementedError


def test_after_a_moment_in_which_nothing_could_be_written_requests_are_made_again(store: Store) -> None:
    locked = Locked(store)
    context = CallContext(locked, None)
    assert context.store is not None
    with pytest.raises(StoreError):
        context.store.put_calls([StoredCall("k", "m", "task", "a paid reply")])
    with pytest.raises(StoreError, match="locked"), context.reserve_cost(Chat(), "text"):
        pytest.fail("nothing is asked whose reply could not be kept either")
    locked.locked = False
    with context.reserve_cost(Chat(), "text"):
        context.before_attempt()
    assert store.get_calls(["k"])["k"].value == "a paid reply"
