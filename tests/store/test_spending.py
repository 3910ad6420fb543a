"""What runs have spent: limits hold through kills, and every way in which the record is damaged is noticed."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import Locked

from ragsmith.errors import BudgetExhausted, Notice, SpendingDamaged, StoreError, UsageError
from ragsmith.gateway.budget import BLOCK_CALLS, TOTAL_KEY, Budget, Limits, Price, Prices, Spent, parse_spent
from ragsmith.gateway.claims import BatchedStore
from ragsmith.models.calls import StoredCall
from ragsmith.models.usage import Usage
from ragsmith.store.store import Store

LIMITS = Limits(calls=100, tokens=1000, cost=5.0)
SPENT = [Spent(16, 100, 0.5), Spent(0, -40, -0.2), Spent(16, 30, 0.1), Spent(-4)]
PRICES = Prices({"openai:tiny": Price(output=1.0)})


def spend(place: Path | str, amounts: list[Spent] = SPENT) -> None:
    with Store.open(place) as store:
        store.spending("run")
        for amount in amounts:
            assert store.spend("run", amount, LIMITS) is not None


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


def copy_as_killed(path: Path, folder: Path) -> Path:
    """What a kill at this moment leaves: the file and its log, in another folder."""
    folder.mkdir(parents=True)
    for file in path.parent.glob("cache.sqlite*"):
        shutil.copy(file, folder / file.name)
    return folder / path.name


def killed(path: Path, folder: Path, spent: list[Spent]) -> Path:
    with Store.open(path) as store:
        store.spending("run")
        for amount in spent:
            store.spend("run", amount, LIMITS)
        return copy_as_killed(path, folder)


def without_log(path: Path) -> Path:
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink()
    return path


def keep_reply(batched: BatchedStore, key: str) -> None:
    batched.put_calls([StoredCall(key, "openai:tiny", "task", "a reply")])


# What is intact


def test_the_row_of_a_run_is_the_sum_of_what_it_spent(place: Path | str) -> None:
    spend(place)
    with Store.open(place) as store:
        state = store.spending("run")
        assert (state.spent.calls, state.spent.tokens, state.damage) == (28, 90, "")
        assert state.spent.cost == pytest.approx(0.4)
        assert store.spending("another").spent == Spent()
        assert store.verify() == []
        assert store.spend("run", Spent(73), LIMITS) is None
        assert store.spending("run").spent == state.spent
        assert store.statistics()["tables"]["spending"]["rows"] == 2


def test_accept_spent_does_not_change_an_intact_record(path: Path) -> None:
    spend(path)
    with Store.open(path) as store, pytest.warns(Notice, match="is intact .28 requests.*has no effect"):
        assert Budget(store, "run", LIMITS, accepted=Spent(99)).spent.calls == 28


# Kills, at any moment


def send_requests(path: Path, limits: Limits, sent: Pipe) -> None:
    """Send as many requests as the limits allow, and say of each that it is sent just before it is."""
    with Store.open(path) as store:
        budget = Budget(store, "run", limits, PRICES)
        batched = BatchedStore(store, budget)
        try:
            for number in range(1000):
                with budget.request("openai:tiny", "xxx", 8) as used:
                    budget.before_attempt()
                    sent.send("sent")
                    used.append(Usage(1, 0, 0, 2, 8))
                keep_reply(batched, f"{multiprocessing.current_process().pid} {number}")
        except BudgetExhausted:
            budget.close()
            sent.send("exhausted")


@pytest.mark.processes
@pytest.mark.parametrize("limits", [Limits(calls=60), Limits(tokens=600)], ids=str)
def test_a_limit_holds_over_processes_that_are_killed_at_any_moment(path: Path, limits: Limits) -> None:
    """Of 60 requests allowed, of 10 tokens each: never more, however often what sends them is killed."""
    draw, context = random.Random(str(limits)), multiprocessing.get_context("fork")
    sent = kills = 0
    for _ in range(60):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=send_requests, args=(path, limits, theirs), daemon=True)
        process.start()
        theirs.close()
        until, said = draw.randrange(1, 12), ""
        try:
            for _ in range(until):
                said = ours.recv()
                sent += said == "sent"
            process.kill()
            kills += 1
            while True:
                sent += ours.recv() == "sent"
        except EOFError:
            process.join()
        if said == "exhausted":
            break
    assert said == "exhausted" or kills == 60
    assert 60 - BLOCK_CALLS * kills <= sent <= 60
    with Store.open(path) as store:
        spent = store.spending("run")
        assert spent.damage == ""
        assert sent <= spent.spent.calls
        assert not limits.exceeded(spent.spent)


@pytest.mark.parametrize("limits", [LIMITS, Limits(calls=100), Limits()], ids=str)
def test_a_kill_between_sending_and_replying_forgets_nothing(path: Path, tmp_path: Path, limits: Limits) -> None:
    with Store.open(path) as store:
        budget = Budget(store, "run", limits, PRICES)
        batched = BatchedStore(store, budget)
        with budget.request("openai:tiny", "", 10) as used:
            budget.before_attempt()
            before = copy_as_killed(path, tmp_path / "before the reply")
            used.append(Usage(1, 0, 0, 0, 4))
        replied = copy_as_killed(path, tmp_path / "before it is kept")
        keep_reply(batched, "k")
        after = copy_as_killed(path, tmp_path / "after it is kept")
        budget.close()
    reserved = 11 if limits.tokens else 0
    for copy, tokens in ((before, reserved), (replied, reserved), (after, 4)):
        with Store.open(copy) as store:
            found = store.spending("run")
            assert (found.damage, found.spent.tokens, found.spent.calls >= 1) == ("", tokens, True)
            assert (store.get_calls(["k"]).get("k") is not None) == (copy is after)
    with Store.open(path) as store:
        assert store.spending("run").spent == Spent(1, 4, 4e-6)


@pytest.mark.parametrize("limits", [LIMITS, Limits()], ids=str)
def test_an_interrupt_while_spending_is_written_gives_nothing_back_twice(path: Path, limits: Limits) -> None:
    """Ctrl-C during a commit is raised when that is done."""

    class Interrupted:
        def __init__(self, store: Store) -> None:
            self.store = store

        def __getattr__(self, name: str) -> object:
            return getattr(self.store, name)

        def spend(self, key: str, amount: Spent, limits: Limits) -> Spent | None:
            self.store.spend(key, amount, limits)
            raise KeyboardInterrupt

    with Store.open(path) as store:
        budget = Budget(store, "run", limits, PRICES)
        with budget.request("openai:tiny", "", 10) as used:
            budget.before_attempt()
            used.append(Usage(1, 0, 0, 0, 4))
        budget._ledger = Interrupted(store)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            budget.close()
        budget._ledger = store
        budget.close()
        assert store.spending("run").spent.calls == 1
        assert store.spending("run").spent.tokens >= 4


# Replies and what they cost


@pytest.mark.parametrize("replies", [1, 60])
def test_what_replies_cost_is_settled_when_they_are_kept(path: Path, tmp_path: Path, replies: int) -> None:
    """Many requests that went off together are answered together; then comes the kill."""
    with Store.open(path) as store:
        budget = Budget(store, "run", prices=PRICES)
        batched = BatchedStore(store, budget)
        for _ in range(replies):
            budget.before_attempt()
        for number in range(replies):
            with budget.request("openai:tiny", "prompt", 10) as used:
                used.append(Usage(1, 0, 0, 5, 10))
            keep_reply(batched, f"{number}")
            assert budget.spent.tokens == 15 * (number + 1)
        copy = copy_as_killed(path, tmp_path / "copy")
    with Store.open(copy) as store:
        assert (store.spending("run").spent.tokens, store.spending("run").damage) == (15 * replies, "")


@pytest.mark.parametrize("limits", [LIMITS, Limits()], ids=str)
def test_what_a_reply_cost_that_cannot_be_kept_is_settled_with_it(path: Path, limits: Limits) -> None:
    with Store.open(path) as store:
        locked = Locked(store)
        budget = Budget(store, "run", limits)
        batched = BatchedStore(locked, budget)
        with budget.request("openai:tiny", "prompt", 20) as used:
            used.append(Usage(1, 0, 0, 5, 10))
        with pytest.raises(StoreError):
            keep_reply(batched, "first")
        assert not batched.all_written
        assert budget.spent.tokens == 15
        assert store.spending("run").spent.tokens == (23 if limits.tokens else 0)
        locked.locked = False
        batched.write_pending()
        assert batched.all_written
        assert budget.spent.tokens == store.spending("run").spent.tokens == 15


def test_replies_are_kept_though_the_record_of_what_was_spent_is_damaged(path: Path) -> None:
    with Store.open(path) as store:
        budget = Budget(store, "run")
        batched = BatchedStore(store, budget)
        with budget.request("openai:tiny", "prompt", 10) as used:
            used.append(Usage(1, 0, 0, 5, 10))
        execute(path, "UPDATE spending SET tokens = 7")
        keep_reply(batched, "first")
        assert store.get_calls(["first"]).get("first") is not None
        with pytest.raises(SpendingDamaged, match="during the run"):
            budget.before_attempt()


# Damage

WAYS: dict[str, Callable[[Path], None]] = {
    "a bit of an amount": lambda path: execute(path, "UPDATE spending SET calls = calls + 256"),
    "a bit of the run": lambda path: execute(path, "UPDATE spending SET run = 'ruo'"),
    "a bit of the state": lambda path: execute(path, "UPDATE spending SET state = 'in doubt'"),
    "the row": lambda path: execute(path, "DELETE FROM spending"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_record_holds_no_limit_until_the_user_states_the_spending(path: Path, way: str) -> None:
    spend(path)
    with Store.open(path) as store:
        store.put_run("run", "data", {})
    WAYS[way](path)
    with Store.open(path) as store:
        for _ in range(2):
            with pytest.raises(SpendingDamaged, match=r"at least .*--accept-spent calls=0,") as refused:
                Budget(store, "run", LIMITS)
            assert str(refused.value).count("\n") == 0
        with pytest.warns(Notice, match=r"continues from 90 requests.*accepted"):
            budget = Budget(store, "run", LIMITS, accepted=Spent(calls=90))
        for _ in range(10):
            budget.before_attempt()
        with pytest.raises(BudgetExhausted):
            budget.before_attempt()
    with Store.open(path) as store:
        assert Budget(store, "run", LIMITS).spent.calls == 100


def test_without_a_limit_a_damaged_run_says_so_and_goes_on_and_a_limit_is_refused_ever_after(path: Path) -> None:
    spend(path)
    WAYS["a bit of an amount"](path)
    for _ in range(2):
        with Store.open(path) as store:
            with pytest.warns(Notice, match="continues from .*no limit") as said:
                budget = Budget(store, "run")
            assert len(said) == 1
            budget.before_attempt()
            budget.close()
    with Store.open(path) as store:
        with pytest.raises(SpendingDamaged, match=r"was damaged before.*at least 2 requests"):
            Budget(store, "run", LIMITS)
        with pytest.warns(Notice, match="accepted"):
            assert Budget(store, "run", LIMITS, accepted=Spent()).spent.calls == 2
        assert Budget(store, "run", LIMITS).spent.calls == 2


@pytest.mark.parametrize("damage", ["UPDATE spending SET calls = 0", "DELETE FROM spending"])
def test_damage_that_is_met_while_a_run_goes_on_stops_it(path: Path, damage: str) -> None:
    with Store.open(path) as store:
        budget = Budget(store, "run", LIMITS)
        budget.before_attempt()
        execute(path, damage)
        with pytest.raises(SpendingDamaged, match="during the run"):
            store.spend("run", Spent(1), LIMITS)


@pytest.mark.parametrize("is_in_file", [True, False])
def test_a_log_that_was_lost_is_remembered_by_later_commands(path: Path, tmp_path: Path, is_in_file: bool) -> None:
    """Whichever command comes first: only that one sees that the log is gone."""
    if is_in_file:
        spend(path, [Spent(10)])
    copy = without_log(killed(path, tmp_path / "copy", [Spent(10)] * 5))
    with pytest.warns(Notice, match="cache.sqlite-wal is missing: .* their cost is not counted"):
        store = Store.open(copy)
    with store:
        store.spending("another")
    with Store.open(copy) as store:
        with pytest.raises(SpendingDamaged, match="a missing log of its cache; at least"):
            Budget(store, "run", LIMITS)
        with pytest.warns(Notice, match="accepted"):
            assert Budget(store, "run", LIMITS, accepted=Spent(60)).spent.calls == 60
    with Store.open(copy) as store:
        assert Budget(store, "run", LIMITS).spent.calls == 60
        assert store.verify() == []


@pytest.mark.parametrize("seed", range(12))
def test_no_damage_to_the_file_of_a_run_lets_it_spend_more(path: Path, seed: int) -> None:
    """Of 100 allowed 70 are spent: whatever happens to the file, at most 30 more are, or it is refused."""
    spend(path, [Spent(10)] * 7)
    with Store.open(path) as store:
        store.put_run("run", "data", {})
    draw, content = random.Random(seed), bytearray(path.read_bytes())
    if seed % 2:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    else:
        start = draw.randrange(len(content))
        content[start : start + 4096] = bytes(len(content[start : start + 4096]))
    path.write_bytes(content)
    with warnings.catch_warnings(), suppress(StoreError):
        warnings.simplefilter("ignore", Notice)
        with Store.open(path) as store:
            assert Budget(store, "run", LIMITS).spent.calls == 70


@pytest.mark.parametrize(
    ("text", "spent"),
    [("352", Spent(352)), ("calls=3,tokens=5", Spent(3, 5)), ("cost=0.5, calls=2", Spent(2, 0, 0.5)), ("0", Spent())],
)
def test_accepted_spending_is_parsed(text: str, spent: Spent) -> None:
    assert parse_spent(text) == spent


@pytest.mark.parametrize("text", ["", "x", "calls=", "calls=-1", "requests=3", "cost=nan", "cost=inf", "1.5", "3;4"])
def test_invalid_accepted_spending_is_refused(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"accept_spent is .*, as calls=352,tokens=5280,cost=0.0033, or only the calls"
    ):
        parse_spent(text)


# The total of all runs


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=40),
    st.builds(Limits, st.none() | st.integers(1, 60), st.none() | st.integers(100, 2500)),
)
def test_all_runs_together_never_spend_more_than_their_total_budget_allows(
    requests: list[tuple[int, int]], limits: Limits
) -> None:
    with TemporaryDirectory() as folder, Store.open(Path(folder) / "cache.sqlite") as store:
        store.total = Budget(store, TOTAL_KEY, limits, PRICES)
        budgets = [store.total, Budget(store, "one", Limits(tokens=900), PRICES), Budget(store, "other", None, PRICES)]
        sent = [Spent(), Spent(), Spent()]
        for place, written in requests:
            with suppress(BudgetExhausted), budgets[place].request("openai:tiny", "a prompt", 40) as used:
                budgets[place].before_attempt()
                used.append(Usage(1, 0, 0, 3, written))
                sent[place] += Spent(1, 3 + written, written / 1e6)
            assert limits.exceeded(store.spending(TOTAL_KEY).spent) is None
        for budget in budgets:
            budget.close()
        total, *runs = (store.spending(run).spent for run in (TOTAL_KEY, "one", "other"))
        for recorded, true in zip((total, *runs), (sum(sent, Spent()), *sent[1:]), strict=True):
            assert (recorded.calls, recorded.tokens) == (true.calls, true.tokens)
            assert recorded.cost == pytest.approx(true.cost)
        assert runs[0].tokens <= 900


def test_a_total_budget_is_shared_by_processes_and_outlives_them(place: Path | str) -> None:
    limits = Limits(calls=50)
    with Store.open(place) as one, Store.open(place) as other:
        for store in (one, other):
            store.total = Budget(store, TOTAL_KEY, limits)
        budgets = [Budget(one, "first"), Budget(other, "second")]

        def send(number: int) -> int:
            for sent in range(100):
                try:
                    budgets[number].before_attempt()
                except BudgetExhausted:
                    return sent
            return 100

        with ThreadPoolExecutor(2) as pool:
            assert sum(pool.map(send, range(2))) == 50
    with Store.open(place) as store:
        store.total = Budget(store, TOTAL_KEY, limits)
        with pytest.raises(BudgetExhausted):
            Budget(store, "third").before_attempt()
    with Store.open(place) as store:  # who sets no total is not bound by it
        Budget(store, "third").before_attempt()
