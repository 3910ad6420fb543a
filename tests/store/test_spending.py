"""What runs have spent, and every way in which the record of it can be damaged: it is always said."""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from stored import Locked

from ragsmith.errors import BudgetExhausted, Notice, SpendingDamaged, StoreError, UsageError
from ragsmith.gateway.budget import Budget, Limits, Price, Prices, Spent, read_spent
from ragsmith.gateway.claims import Grouped
from ragsmith.models.calls import StoredCall
from ragsmith.models.usage import Usage
from ragsmith.store.schema import MIGRATIONS, add_expenses
from ragsmith.store.spending import FOLDED_FROM
from ragsmith.store.store import Store
from ragsmith.store.witness import Witness

LIMITS = Limits(calls=100, tokens=1000, cost=5.0)
SPENT = [Spent(16, 100, 0.5), Spent(0, -40, -0.2), Spent(16, 30, 0.1), Spent(-4)]
SUM = Spent(28, 90, 0.4)
PRICES = Prices({"openai:tiny": Price(output=1.0)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.sqlite"


@pytest.fixture
def witness(path: Path) -> Path:
    return path.with_name("cache.sqlite-spent")


def spend(place: Path | str, amounts: list[Spent] = SPENT) -> None:
    with Store.open(place) as store:
        store.spending("run")
        for amount in amounts:
            assert store.spend("run", amount, LIMITS) is not None


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def killed(path: Path, folder: Path, spent: list[Spent]) -> Path:
    """What a kill leaves after ``spent``: the file, its log and the witness, in another folder."""
    folder.mkdir()
    with Store.open(path) as store:
        store.spending("run")
        for amount in spent:
            store.spend("run", amount, LIMITS)
        for file in path.parent.glob("cache.sqlite*"):
            shutil.copy(file, folder / file.name)
    return folder / path.name


# What is intact


def test_a_record_is_the_sum_of_its_rows(place: Path | str) -> None:
    spend(place)
    with Store.open(place) as store:
        state = store.spending("run")
        assert (state.spent.calls, state.spent.tokens) == (28, 90)
        assert state.spent.cost == pytest.approx(0.4)
        assert state.damage == ""
        assert store.spending("another").spent == Spent()
        assert store.verify() == []
        assert store.spend("run", Spent(73), LIMITS) is None
        assert store.spending("run").spent == state.spent


def test_a_long_record_is_folded_and_goes_on(place: Path | str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsmith.store.spending.FOLDED_FROM", 20)
    assert FOLDED_FROM > 20
    with Store.open(place) as store:
        for _ in range(3):
            for _ in range(30):
                assert store.spend("run", Spent(1, 2, 0.5), Limits()) is not None
            before = store.spending("run")
            assert store.spending("run") == before
        assert before.damage == ""
        assert before.spent == Spent(90, 180, 45.0)
        assert store.statistics()["tables"]["expense"]["rows"] == 2


def test_a_log_that_is_there_loses_nothing(path: Path, tmp_path: Path) -> None:
    copy = killed(path, tmp_path / "copy", SPENT)
    with Store.open(copy) as store:
        assert store.spending("run").damage == ""
        assert store.spending("run").spent.calls == 28


def test_a_log_that_another_program_has_moved_into_the_file_loses_nothing(path: Path, tmp_path: Path) -> None:
    copy = killed(path, tmp_path / "copy", SPENT)
    execute(copy, "SELECT count(*) FROM expense")
    assert not copy.with_name("cache.sqlite-wal").exists()
    with Store.open(copy) as store:
        assert store.spending("run").damage == ""
        assert store.spending("run").spent.calls == 28


def test_sums_of_an_earlier_version_become_first_rows(path: Path) -> None:
    with Store.open(path) as store:
        store.spend("run", SUM, LIMITS)
        store.put_run("begun", "data", {"version": 99})  # of a form that nobody here reads
    before = MIGRATIONS.index(add_expenses)
    execute(path, "DROP TABLE expense", "DROP TABLE origin", f"PRAGMA user_version = {before}")
    with Store.open(path, migrations=MIGRATIONS[: before + 1]) as store:
        assert store.spending("run").spent == SUM
        assert [store.spending(key).damage for key in ("run", "begun", "new")] == ["", "", ""]


# What is damaged

WAYS: dict[str, Callable[[Path], None]] = {
    "a bit of an amount": lambda path: execute(path, "UPDATE expense SET calls = calls + 256 WHERE number = 2"),
    "a bit of a sum": lambda path: execute(path, "UPDATE expense SET calls_after = 0 WHERE number = 5"),
    "a bit of the run": lambda path: execute(path, "UPDATE expense SET run = 'ruo' WHERE number = 4"),
    "the first row": lambda path: execute(path, "DELETE FROM expense WHERE number <= 2"),
    "a row in the middle": lambda path: execute(path, "DELETE FROM expense WHERE number = 3"),
    "the last row": lambda path: execute(path, "DELETE FROM expense WHERE number = 5"),
    "all rows": lambda path: execute(path, "DELETE FROM expense"),
    "the total": lambda path: execute(path, "DELETE FROM spending"),
    "a bit of the total": lambda path: execute(path, "UPDATE spending SET calls = 0"),
    "rows and total": lambda path: execute(path, "DELETE FROM expense", "DELETE FROM spending"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_record_holds_no_limit_until_somebody_says_what_was_spent(path: Path, way: str) -> None:
    spend(path)
    WAYS[way](path)
    with Store.open(path) as store:
        with pytest.raises(SpendingDamaged, match=r"known are at least .*--accept-spent calls=(28|32),") as refused:
            Budget(store, "run", LIMITS)
        assert str(refused.value).count("\n") == 0
        with pytest.raises(SpendingDamaged):
            Budget(store, "run", LIMITS)
        with pytest.warns(Notice, match=r"accepted, it goes on from 90 requests"):
            budget = Budget(store, "run", LIMITS, accepted=Spent(calls=90))
        for _ in range(10):
            budget.before_attempt()
        with pytest.raises(BudgetExhausted):
            budget.before_attempt()
        assert [row.row for row in store.verify()] in ([], ["expense:ruo/4"])
    with Store.open(path) as store:
        assert Budget(store, "run", LIMITS).spent.calls == 100


def test_without_a_limit_a_run_says_so_and_goes_on_and_a_limit_is_refused_ever_after(path: Path) -> None:
    spend(path)
    WAYS["a row in the middle"](path)
    for _ in range(2):
        with Store.open(path) as store:
            with pytest.warns(Notice, match="without a limit it goes on") as said:
                budget = Budget(store, "run")
            assert len(said) == 1
            assert budget.spent.calls >= 28
            budget.before_attempt()
            budget.close()
    with Store.open(path) as store:
        with pytest.raises(SpendingDamaged, match="was damaged before"):
            Budget(store, "run", LIMITS)
        with pytest.warns(Notice, match="accepted"):
            assert Budget(store, "run", LIMITS, accepted=Spent()).spent.calls == 30
        assert Budget(store, "run", LIMITS).spent.calls == 30


def test_what_is_known_counts_where_less_is_accepted(path: Path) -> None:
    spend(path)
    WAYS["a row in the middle"](path)
    with Store.open(path) as store, pytest.warns(Notice, match="goes on from 28 requests, 95 tokens"):
        assert Budget(store, "run", LIMITS, accepted=Spent(3, 95)).spent.calls == 28


def test_accepting_what_is_whole_changes_nothing(path: Path) -> None:
    spend(path)
    with Store.open(path) as store, pytest.warns(Notice, match="is whole .28 requests.*changes nothing"):
        assert Budget(store, "run", LIMITS, accepted=Spent(99)).spent.calls == 28


@pytest.mark.parametrize("damage", ["DELETE FROM expense WHERE number > 3", "UPDATE expense SET calls_after = 0"])
def test_damage_that_is_met_while_a_run_goes_on_stops_it(path: Path, damage: str) -> None:
    with Store.open(path) as store:
        budget = Budget(store, "run", LIMITS)
        while (spent := budget.spent.calls) < 50:
            budget.before_attempt()
        assert spent == 50
        execute(path, damage)
        with pytest.raises(SpendingDamaged, match="while it went on"):
            store.spend("run", Spent(1), LIMITS)


# What the witness knows


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_a_log_that_is_lost_or_cut_is_known_by_the_witness(path: Path, tmp_path: Path, cut: int) -> None:
    copy = killed(path, tmp_path / "copy", [Spent(10)] * 5)
    log = copy.with_name("cache.sqlite-wal")
    if cut:
        log.write_bytes(log.read_bytes()[: cut * 50_000])
        store = Store.open(copy)
    else:
        log.unlink()
        with pytest.warns(
            Notice, match=r"its log cache.sqlite-wal is gone: what it held is lost, with what was paid for 50 requests"
        ):
            store = Store.open(copy)
    with store, pytest.raises(SpendingDamaged, match="known are at least 50 requests"):
        Budget(store, "run", LIMITS)


def test_the_file_alone_does_not_hold_a_limit(path: Path, tmp_path: Path) -> None:
    copy = killed(path, tmp_path / "copy", [Spent(10)] * 5)
    for name in ("cache.sqlite-wal", "cache.sqlite-shm", "cache.sqlite-spent"):
        copy.with_name(name).unlink()
    with (
        pytest.warns(Notice, match="what it may have held is lost"),
        Store.open(copy) as store,
        pytest.raises(SpendingDamaged, match="--accept-spent calls=0,"),
    ):
        Budget(store, "run", LIMITS)


@pytest.mark.parametrize("is_in_file", [True, False])
def test_a_log_that_was_lost_is_remembered_by_later_commands(path: Path, tmp_path: Path, is_in_file: bool) -> None:
    """Whichever command comes first: only that one sees that the log is gone."""
    if is_in_file:
        spend(path, [Spent(10)])
    copy = killed(path, tmp_path / "copy", [Spent(10)] * 5)
    for name in ("cache.sqlite-wal", "cache.sqlite-shm", "cache.sqlite-spent"):
        copy.with_name(name).unlink(missing_ok=True)
    with pytest.warns(Notice, match="may have held is lost"), Store.open(copy) as store:
        store.spending("another")
    with Store.open(copy) as store:
        with pytest.raises(SpendingDamaged, match="may have lost what was in the log"):
            Budget(store, "run", LIMITS)
        with pytest.warns(Notice, match="accepted"):
            assert Budget(store, "run", LIMITS, accepted=Spent(60)).spent.calls == 60
    with Store.open(copy) as store:
        assert Budget(store, "run", LIMITS).spent.calls == 60
        assert store.verify() == []


def test_one_line_of_the_witness_does_not_speak_for_another_that_is_damaged(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        store.spending("other")
    copy = killed(path, tmp_path / "copy", [Spent(10)] * 5)
    seen = copy.with_name("cache.sqlite-spent")
    content = bytearray(seen.read_bytes())
    content[256 + 40] ^= 1
    seen.write_bytes(content)
    copy.with_name("cache.sqlite-wal").unlink()
    with (
        pytest.warns(Notice, match="may have held is lost"),
        Store.open(copy) as store,
        pytest.warns(Notice, match="cache.sqlite-spent was damaged in 1 of its lines"),
        pytest.raises(SpendingDamaged, match="may have lost what was in the log"),
    ):
        Budget(store, "run", LIMITS)


def test_an_older_copy_is_known_by_the_witness(path: Path, tmp_path: Path) -> None:
    spend(path)
    shutil.copy(path, tmp_path / "older")
    spend(path, [Spent(10)])
    shutil.copy(tmp_path / "older", path)
    with Store.open(path) as store, pytest.raises(SpendingDamaged, match=r"or an older copy was put back.*calls=38"):
        Budget(store, "run", LIMITS)


def test_an_older_copy_from_before_the_run_is_known_by_the_witness(path: Path, tmp_path: Path) -> None:
    with Store.open(path):
        pass
    shutil.copy(path, tmp_path / "older")
    spend(path)
    shutil.copy(tmp_path / "older", path)
    with Store.open(path) as store, pytest.raises(SpendingDamaged, match="calls=32"):
        Budget(store, "run", LIMITS)


def test_an_older_copy_that_has_gone_on_is_another(path: Path, witness: Path, tmp_path: Path) -> None:
    spend(path, [Spent(10)])
    shutil.copy(path, tmp_path / "older")
    spend(path, [Spent(50)])
    seen = witness.read_bytes()
    shutil.copy(tmp_path / "older", path)
    witness.unlink()
    with pytest.warns(Notice, match="cache.sqlite-spent knows nothing of this run: it was removed"):
        spend(path, [Spent(1), Spent(1), Spent(1)])
    witness.write_bytes(seen)
    with Store.open(path) as store, pytest.raises(SpendingDamaged, match="is another than the one"):
        Budget(store, "run", LIMITS)


def test_a_cache_that_is_removed_is_begun_anew_and_says_what_is_not_counted(path: Path) -> None:
    spend(path)
    path.unlink()
    with Store.open(path) as store:
        with pytest.warns(Notice, match="has spent 32 requests.* in another cache of this name"):
            assert Budget(store, "run", LIMITS).spent == Spent()
        assert Budget(store, "run", LIMITS).spent == Spent()


def test_a_witness_that_comes_late_was_not_removed(path: Path, witness: Path) -> None:
    """Of processes that begin a run together, one may write its row before another has left the mark of its own."""
    spend(path)
    seen = witness.read_bytes()
    witness.unlink()
    late = threading.Timer(0.3, witness.write_bytes, (seen,))
    late.start()
    spend(path, [Spent(1)])
    late.join()


def test_without_its_witness_a_closed_file_holds_its_limits(path: Path, witness: Path) -> None:
    spend(path)
    witness.unlink()
    with pytest.warns(Notice, match="cache.sqlite-spent knows nothing of this run: it was removed"):
        spend(path, [Spent(10)])
    assert witness.stat().st_size == 256
    with Store.open(path) as store:
        assert Budget(store, "run", LIMITS).spent.calls == 38


def test_a_mark_that_is_whole_outlives_the_mending_of_its_line(path: Path, witness: Path, tmp_path: Path) -> None:
    spend(path)
    shutil.copy(path, tmp_path / "older")
    spend(path, [Spent(10)])
    shutil.copy(tmp_path / "older", path)
    witness.write_bytes(witness.read_bytes()[:-3])
    with Store.open(path) as store:
        with (
            pytest.warns(Notice, match="cache.sqlite-spent was damaged in 1 of its lines"),
            pytest.raises(SpendingDamaged, match="an older copy was put back"),
        ):
            Budget(store, "run", LIMITS)
        with pytest.raises(SpendingDamaged, match="an older copy was put back"):
            Budget(store, "run", LIMITS)


@pytest.mark.parametrize("cut", [False, True])
def test_a_witness_that_is_damaged_by_itself_is_named_once_and_mended(path: Path, witness: Path, cut: bool) -> None:
    with Store.open(path) as store:
        store.spending("other")
        store.spend("other", Spent(7), LIMITS)
    spend(path)
    whole = witness.read_bytes()
    witness.write_bytes(whole[:300] if cut else bytes([whole[0] ^ 1]) + whole[1:])
    with (
        Store.open(path) as store,
        pytest.warns(Notice, match="cache.sqlite-spent was damaged in 1 of its lines; it is written again from"),
    ):
        assert Budget(store, "run", LIMITS).spent.calls == 28
    known = {mark.run: mark.after.calls for mark in Witness(witness).marks()}
    assert known == {"run": 28, "other": 7}
    with Store.open(path) as store:
        assert Budget(store, "run", LIMITS).spent.calls == 28


# What the replies know


def served(place: Path | str, calls: int, tokens: int, *, limits: Limits = LIMITS, replies: str = "reply") -> None:
    """So many requests of a run, each with so many tokens, whose replies are kept."""
    with Store.open(place) as store:
        budget = Budget(store, "run", limits, PRICES)
        grouped = Grouped(store, budget)
        for number in range(calls):
            with budget.request("openai:tiny", "prompt", tokens) as used:
                budget.before_attempt()
                used.append(Usage(1, 0, 0, 0, tokens))
            grouped.put_calls([StoredCall(f"{replies} {number}", "openai:tiny", "task", "a reply")])
        budget.close()


def put_back(path: Path, older: Path) -> None:
    """The record and the witness as they were, and the replies as they are."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ATTACH ? AS older", [str(older)])
        for table in ("expense", "spending"):
            connection.execute(f"DELETE FROM {table}")
            connection.execute(f"INSERT INTO {table} SELECT * FROM older.{table}")
    shutil.copy(f"{older}-spent", f"{path}-spent")


def test_an_older_record_whose_witness_is_as_old_is_known_by_the_replies(path: Path) -> None:
    older = path.with_name("older.sqlite")
    served(path, 3, 10)
    for ending in ("", "-spent"):
        shutil.copy(f"{path}{ending}", f"{older}{ending}")
    served(path, 5, 10, replies="later")
    put_back(path, older)
    with Store.open(path) as store:
        with pytest.raises(
            SpendingDamaged,
            match=r"ends at 3 requests, 30 tokens and .*, and 8 requests, 80 tokens and .* had been paid when the last "
            r"of its replies was kept; known are at least 8 requests, .* --accept-spent calls=8,tokens=80,cost=8e-05",
        ):
            Budget(store, "run", LIMITS, PRICES)
        with pytest.warns(Notice, match="accepted, it goes on from 9 requests, 80 tokens"):
            assert Budget(store, "run", LIMITS, PRICES, Spent(9)).spent.calls == 9
    with Store.open(path) as store:
        assert Budget(store, "run", LIMITS).spent.calls == 9


def test_a_record_that_is_gone_with_all_that_knows_of_it_is_known_by_the_replies(path: Path) -> None:
    served(path, 3, 10)
    execute(path, "DELETE FROM expense", "DELETE FROM spending")
    path.with_name("cache.sqlite-spent").unlink()
    with Store.open(path) as store, pytest.raises(SpendingDamaged, match="calls=3,tokens=30,cost=3e-05"):
        Budget(store, "run", LIMITS)


@pytest.mark.parametrize("limits", [LIMITS, Limits(calls=100), Limits()])
def test_replies_never_say_more_than_a_record_that_is_whole(place: Path | str, limits: Limits) -> None:
    for number in range(3):
        served(place, 5, 10, limits=limits, replies=f"command {number}")
        with Store.open(place) as store:
            assert store.spending("run").damage == ""
            assert store.spending("run").spent.calls == 5 * (number + 1)
            assert store.spending("another").spent == Spent()


def test_a_run_that_was_killed_has_paid_no_more_than_is_recorded(path: Path, tmp_path: Path) -> None:
    """Whatever of it was not settled yet, with a limit on tokens or none."""
    for limits in (LIMITS, Limits()):
        with Store.open(path) as store:
            budget = Budget(store, "run", limits, PRICES)
            grouped = Grouped(store, budget)
            with budget.request("openai:tiny", "prompt", 10):
                budget.before_attempt()
                with budget.request("openai:tiny", "prompt", 10) as used:
                    budget.before_attempt()
                    used.append(Usage(1, 0, 0, 0, 10))
                grouped.put_calls([StoredCall(f"{limits}", "openai:tiny", "task", "a reply")])
                copy = tmp_path / f"{limits.calls}.sqlite"
                for ending in ("", "-wal", "-spent"):
                    shutil.copy(f"{path}{ending}", f"{copy}{ending}")
            budget.close()
        with Store.open(copy) as store:
            assert store.spending("run").damage == ""


def test_damaged_payments_are_left_out_of_their_sum_and_named(path: Path) -> None:
    served(path, 5, 10)
    execute(path, "UPDATE payment SET calls = 9223372036854775807 WHERE reply = 'reply 2'")
    with Store.open(path) as store:
        assert Budget(store, "run", LIMITS).spent.calls == 5
        assert [damage.row for damage in store.verify()] == ["payment:run/reply 2"]


def test_what_was_paid_for_a_reply_that_cannot_be_written_is_kept_with_the_next(path: Path) -> None:
    with Store.open(path) as store:
        locked = Locked(store)
        budget = Budget(store, "run", LIMITS)
        grouped = Grouped(locked, budget)
        budget.before_attempt()
        with pytest.raises(StoreError):
            grouped.put_calls([StoredCall("first", "openai:tiny", "task", "a reply")])
        locked.locked = False
        budget.before_attempt()
        grouped.put_calls([StoredCall("second", "openai:tiny", "task", "a reply")])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT run, reply, calls FROM payment").fetchall() == [("run", "first", 2)]


def test_every_process_has_a_line_of_its_own(path: Path, witness: Path) -> None:
    with Store.open(path) as one, Store.open(path) as other:
        for number in range(20):
            (one, other)[number % 2].spend("run", Spent(1), LIMITS)
    assert witness.stat().st_size == 2 * 256
    assert {line.count(b'"run"') for line in witness.read_bytes().splitlines()} == {1}


@pytest.mark.parametrize("seed", range(40))
def test_no_damage_to_the_files_of_a_killed_run_lets_it_spend_more(path: Path, tmp_path: Path, seed: int) -> None:
    """Of 100 allowed 70 are spent: whatever happens to one of the files, at most 30 more are, or it is refused."""
    draw = random.Random(seed)
    copy = killed(path, tmp_path / "copy", [Spent(10)] * 7)
    victim = copy.with_name(draw.choice(["cache.sqlite-wal", "cache.sqlite-spent", "cache.sqlite-shm"]))
    content = bytearray(victim.read_bytes())
    match draw.choice(["remove", "cut", "flip", "zero"]):
        case "remove":
            victim.unlink()
        case "cut":
            victim.write_bytes(content[: draw.randrange(len(content))])
        case "flip":
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            victim.write_bytes(content)
        case "zero":
            start = draw.randrange(len(content))
            content[start : start + 4096] = bytes(len(content[start : start + 4096]))
            victim.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        try:
            with Store.open(copy) as store:
                assert Budget(store, "run", LIMITS).spent.calls >= 70
        except SpendingDamaged as refused:
            said = str(refused)
        else:
            said = "70 requests"
    assert "70 requests" in said


@pytest.mark.parametrize(
    ("text", "spent"),
    [("352", Spent(352)), ("calls=3,tokens=5", Spent(3, 5)), ("cost=0.5, calls=2", Spent(2, 0, 0.5)), ("0", Spent())],
)
def test_what_is_accepted_is_read(text: str, spent: Spent) -> None:
    assert read_spent(text) == spent


@pytest.mark.parametrize("text", ["", "x", "calls=", "calls=-1", "requests=3", "cost=nan", "cost=inf", "1.5", "3;4"])
def test_what_cannot_be_accepted_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write it as calls="):
        read_spent(text)


@pytest.mark.parametrize("replies", [1, 200])
def test_what_replies_cost_is_settled_when_they_are_kept(path: Path, tmp_path: Path, replies: int) -> None:
    """Many requests that went off together are answered together, as those of a batch are; then comes the kill."""
    with Store.open(path) as store:
        budget = Budget(store, "run", prices=PRICES)
        grouped = Grouped(store, budget)
        for _ in range(replies):
            budget.before_attempt()
        for number in range(replies):
            with budget.request("openai:tiny", "prompt", 10) as used:
                used.append(Usage(1, 0, 0, 5, 10))
            grouped.put_calls([StoredCall(f"{number}", "openai:tiny", "task", "a reply", 1, 5, 10)])
            assert budget.spent.tokens == 15 * (number + 1)
        for ending in ("", "-wal", "-spent"):
            shutil.copy(f"{path}{ending}", f"{tmp_path / 'killed.sqlite'}{ending}")
    with Store.open(tmp_path / "killed.sqlite") as store:
        assert store.spending("run").damage == ""
        assert store.spending("run").spent.tokens == 15 * replies


def test_what_a_reply_cost_that_cannot_be_kept_is_settled_with_it_or_at_the_end(path: Path) -> None:
    with Store.open(path) as store:
        locked = Locked(store)
        budget = Budget(store, "run")
        grouped = Grouped(locked, budget)
        with budget.request("openai:tiny", "prompt", 10) as used:
            used.append(Usage(1, 0, 0, 5, 10))
        with pytest.raises(StoreError):
            grouped.put_calls([StoredCall("first", "openai:tiny", "task", "a reply")])
        assert not grouped.all_written
        assert (budget.spent.tokens, store.spending("run").spent.tokens) == (15, 0)
        locked.locked = False
        grouped.write_rest()
        assert grouped.all_written
        assert budget.spent.tokens == store.spending("run").spent.tokens == 15
        budget.close()
        assert store.spending("run").spent.tokens == 15


def test_replies_are_kept_though_the_record_of_what_was_spent_is_damaged(path: Path) -> None:
    with Store.open(path) as store:
        budget = Budget(store, "run")
        grouped = Grouped(store, budget)
        with budget.request("openai:tiny", "prompt", 10) as used:
            used.append(Usage(1, 0, 0, 5, 10))
        store.spend("run", Spent(1), Limits())
        execute(path, "UPDATE expense SET tokens = 7")
        grouped.put_calls([StoredCall("first", "openai:tiny", "task", "a reply")])
        assert store.get_call("first") is not None
        with pytest.raises(SpendingDamaged):
            budget.before_attempt()
