"""Counting looks at test questions, in the cache and in the user's ledger."""

from __future__ import annotations

import multiprocessing
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.comparison import ledger as ledgers
from ragsmith.comparison.ledger import count_look
from ragsmith.comparison.ledger_location import ENVIRONMENT_VARIABLE, describe_ledger, ledger_path
from ragsmith.comparison.questions import ALPHA, HoldoutUse, adjust_for_looks, digest_questions
from ragsmith.comparison.verdicts import can_be_significant
from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import BudgetExhausted, Notice
from ragsmith.store.store import TIMEOUT_SECONDS, Store

DAY = "2026-11-23"


def look(cache: Path, key: str, questions: Sequence[str]) -> HoldoutUse:
    with Store.open(cache) as store:
        return count_look(store, key, questions, DAY)


@given(st.lists(st.frozensets(st.integers(0, 5), min_size=1), min_size=1, max_size=30))
def test_for_every_question_the_levels_of_its_looks_come_to_a_tenth_at_most(asked: list[frozenset[int]]) -> None:
    looks: dict[str, set[str]] = {}
    spent: dict[str, float] = {}
    for number, questions in enumerate(asked):
        each = [f"q{question}" for question in questions]
        seen = ledgers.number_look(looks, {}, each, f"look {number}")
        for question in each:
            looks.setdefault(question, set()).add(f"look {number}")
            spent[question] = spent.get(question, 0.0) + HoldoutUse(seen.number, len(each), seen.fresh).level
    assert max(spent.values()) <= 2 * ALPHA


def test_another_cache_does_not_forget_and_the_same_look_is_no_other(tmp_path: Path) -> None:
    one, other = tmp_path / "one.sqlite", tmp_path / "folder" / "other.sqlite"
    other.parent.mkdir()
    assert look(one, "a", ["x", "y"]) == HoldoutUse(1, 2, 2)
    assert look(other, "b", ["x", "y"]) == HoldoutUse(2, 2, 0)
    assert look(one, "a", ["x", "y"]) == HoldoutUse(1, 2, 2)
    assert look(other, "a", ["x", "y"]) == HoldoutUse(1, 2, 2)
    assert look(one, "b", ["x", "y"]) == HoldoutUse(2, 2, 0)
    assert look(tmp_path / "third.sqlite", "c", ["y"]) == HoldoutUse(3, 1, 0)


def test_a_limit_on_looks_refuses_new_ones_alone_and_records_none(tmp_path: Path) -> None:
    with Store.open(tmp_path / "one.sqlite") as store:
        store.max_looks = 1
        assert count_look(store, "a", ["x"], DAY).number == 1
        assert count_look(store, "a", ["x"], DAY).number == 1
        with pytest.raises(BudgetExhausted, match=r"\(--max-looks 1\) is reached, and this would be look 2"):
            count_look(store, "b", ["x", "y"], DAY)
        assert count_look(store, "c", ["y"], DAY).number == 1
        store.max_looks = 2
        assert count_look(store, "b", ["x", "y"], DAY).number == 2
    with Store.open(tmp_path / "other.sqlite") as store:  # the ledger knows of looks in other caches
        store.max_looks = 2
        with pytest.raises(BudgetExhausted, match="this would be look 3"):
            count_look(store, "d", ["x"], DAY)


def test_where_questions_overlap_the_one_that_was_used_most_counts(tmp_path: Path) -> None:
    cache = tmp_path / "cache.sqlite"
    look(cache, "a", ["x", "y"])
    look(cache, "b", ["x"])
    assert look(cache, "c", ["x", "y", "z"]) == HoldoutUse(3, 3, 1)
    assert look(cache, "d", ["y"]) == HoldoutUse(3, 1, 0)
    assert look(cache, "e", ["new"]) == HoldoutUse(1, 1, 1)


def test_a_look_reads_no_others_but_those_at_its_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "off")
    cache = tmp_path / "cache.sqlite"
    for number in range(3):
        look(cache, f"look {number}", ["x", f"y{number}"])
    look(cache, "elsewhere", ["z"])
    with closing(sqlite3.connect(cache)) as connection:
        changed = "UPDATE look SET questions = 'no JSON' WHERE questions LIKE '%\"z\"%'"
        assert connection.execute(changed).rowcount == 1
        connection.commit()
    with Store.open(cache) as store:
        assert count_look(store, "another", ["x", "y0"], DAY) == HoldoutUse(4, 2, 0, remembered=False)
        assert not store.damaged


def test_without_a_ledger_the_cache_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: Path) -> None:
    monkeypatch.setenv("RAGSMITH_LEDGER", "off")
    assert look(tmp_path / "one.sqlite", "a", ["x"]) == HoldoutUse(1, 1, 1, remembered=False)
    assert look(tmp_path / "one.sqlite", "b", ["x"]).number == 2
    assert look(tmp_path / "other.sqlite", "c", ["x"]).number == 1
    assert not ledger.exists()


def test_what_only_the_cache_knows_counts_beside_what_only_the_ledger_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: Path
) -> None:
    monkeypatch.setenv("RAGSMITH_LEDGER", "off")
    look(tmp_path / "one.sqlite", "a", ["x"])
    monkeypatch.setenv("RAGSMITH_LEDGER", str(ledger))
    look(tmp_path / "other.sqlite", "b", ["x"])
    assert look(tmp_path / "one.sqlite", "c", ["x"]).number == 3


@pytest.mark.parametrize("broken", ["a text", "a folder", "a newer one"])
def test_a_ledger_that_cannot_be_used_is_a_notice(tmp_path: Path, ledger: Path, broken: str) -> None:
    ledger.parent.mkdir(parents=True, exist_ok=True)
    if broken == "a folder":
        ledger.mkdir()
    elif broken == "a text":
        ledger.write_text("no database, but longer than the header of one would be " * 40)
    else:
        with sqlite3.connect(ledger) as connection:
            connection.execute("PRAGMA user_version = 99")
    before = ledger.read_bytes() if ledger.is_file() else None
    with pytest.warns(Notice, match="ledger .* cannot be used: .* RAGSMITH_LEDGER=off"):
        assert look(tmp_path / "cache.sqlite", "a", ["x"]) == HoldoutUse(1, 1, 1, remembered=False)
    assert (ledger.read_bytes() if ledger.is_file() else None) == before


def test_a_look_at_a_ledger_without_content_is_counted_in_it(tmp_path: Path, ledger: Path) -> None:
    ledger.parent.mkdir(parents=True, exist_ok=True)
    ledger.touch()
    with Store.open(tmp_path / "cache.sqlite") as store:
        announced, recorded = ledgers.peek_look(store, "look", ["q1"])
        assert (announced, recorded) == (count_look(store, "look", ["q1"], "2026-01-01"), False)
    assert announced.remembered


def test_a_ledger_without_a_home_is_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSMITH_LEDGER", "~nobody-has-this-name/looks.sqlite")
    with pytest.warns(Notice, match="cannot be used"):
        assert look(tmp_path / "cache.sqlite", "a", ["x"]).number == 1


def test_the_ledger_lies_where_programs_of_this_user_keep_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAGSMITH_LEDGER")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert ledger_path() == tmp_path / "ragsmith" / "looks.sqlite"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    if sys.platform == "linux":
        assert ledger_path() == tmp_path / ".local" / "share" / "ragsmith" / "looks.sqlite"


def test_the_ledger_holds_digests_numbers_and_days(tmp_path: Path, tiny_folder: Path, ledger: Path) -> None:
    data = load_dataset(tiny_folder)
    contents = digest_questions(data, data.examples)
    look(tmp_path / "cache.sqlite", "0123", list(contents.values()))
    raw = ledger.read_bytes()
    assert contents["ferry-1"].encode() in raw
    words = [*(word for example in data.examples for word in example.question.split() if len(word) > 4), "cache"]
    assert not [word for word in words if word.encode() in raw]
    assert str(tmp_path).encode() not in raw


def test_a_question_is_known_by_its_content_not_by_names(tiny_folder: Path) -> None:
    data = load_dataset(tiny_folder)
    before = digest_questions(data, data.examples)
    renamed = replace(
        data,
        name="another name",
        documents=tuple(replace(document, id=f"new {document.id}") for document in data.documents),
        examples=tuple(
            replace(
                example,
                id=f"new {example.id}",
                question=f"  {example.question.upper()} ",
                evidence=tuple(replace(span, doc=f"new {span.doc}") for span in example.evidence),
            )
            for example in data.examples
        ),
    )
    assert list(digest_questions(renamed, renamed.examples).values()) == list(before.values())
    first = data.examples[0]
    for changed in (
        replace(first, answer="Another answer."),
        replace(first, question="Another question?"),
        replace(first, evidence=(replace(first.evidence[0], start=first.evidence[0].start + 1),)),
    ):
        assert digest_questions(data, [changed])[first.id] != before[first.id]


def _look_many(ledger: str, folder: str, name: str, count: int) -> None:
    import os  # noqa: PLC0415  it is another process

    os.environ["RAGSMITH_LEDGER"] = ledger
    for number in range(count):
        look(Path(folder) / f"{name}-{number}.sqlite", f"{name} {number}", ["x", "y"])


def test_two_processes_at_once_give_no_number_twice(tmp_path: Path, ledger: Path) -> None:
    context = multiprocessing.get_context("spawn")
    started = [
        context.Process(target=_look_many, args=(str(ledger), str(tmp_path), name, 5)) for name in ("one", "other")
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0, 0]
    with sqlite3.connect(ledger) as connection:
        numbers = [row[0] for row in connection.execute("SELECT number FROM look ORDER BY number")]
    assert numbers == list(range(1, 11))


def test_p_doubles_with_each_look_until_nothing_can_be_shown() -> None:
    assert [adjust_for_looks(0.01, number) for number in (1, 2, 3, 8, 5_000)] == [0.01, 0.02, 0.04, 1.0, 1.0]
    assert can_be_significant(8, family=4)  # 4 * 2**-7 = 0.031
    assert not can_be_significant(8, family=4, look=2)
    assert not can_be_significant(7, family=4)


def test_the_same_pipelines_on_other_questions_are_another_look(tmp_path: Path) -> None:
    cache = tmp_path / "cache.sqlite"
    assert look(cache, "a", ["x", "y"]) == HoldoutUse(1, 2, 2)
    assert look(cache, "a", ["x", "z"]) == HoldoutUse(2, 2, 1)
    assert look(cache, "b", ["y"]).number == 2  # what the first look was at is not forgotten
    assert look(tmp_path / "other.sqlite", "c", ["x"]).number == 3


def test_a_look_without_the_ledger_is_numbered_anew_once_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: Path
) -> None:
    look(tmp_path / "one.sqlite", "a", ["x", "y"])
    monkeypatch.setenv("RAGSMITH_LEDGER", "off")
    assert look(tmp_path / "other.sqlite", "b", ["x"]) == HoldoutUse(1, 1, 1, remembered=False)
    assert look(tmp_path / "other.sqlite", "c", ["x"]) == HoldoutUse(2, 1, 0, remembered=False)
    monkeypatch.setenv("RAGSMITH_LEDGER", str(ledger))
    assert look(tmp_path / "other.sqlite", "b", ["x"]) == HoldoutUse(2, 1, 0)
    assert look(tmp_path / "other.sqlite", "b", ["x"]) == HoldoutUse(2, 1, 0)
    assert look(tmp_path / "other.sqlite", "c", ["x"]) == HoldoutUse(3, 1, 0)


def test_another_that_waits_for_its_cache_is_waited_for() -> None:
    assert ledgers.WAIT_SECONDS > TIMEOUT_SECONDS


@pytest.mark.parametrize("error", [OSError("the disk is full"), RuntimeError("a store"), sqlite3.Error("another file")])
def test_what_fails_beside_the_ledger_is_not_laid_to_it(ledger: Path, error: Exception) -> None:
    def decide(page: ledgers.LedgerPage | None) -> ledgers.PreviousUses:
        asked.append(page)
        raise error

    asked: list[ledgers.LedgerPage | None] = []
    with pytest.raises(type(error)) as raised:
        ledgers.run_with_ledger(decide)
    assert raised.value is error
    assert len(asked) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="the home folder is not named by HOME")
@pytest.mark.parametrize(
    ("home", "ledger", "described"),
    [
        ("/home/ann", "/home/ann/looks.sqlite", "ledger: ~/looks.sqlite"),
        ("/home/ann", "/srv/home/ann/looks.sqlite", "ledger: /srv/home/ann/looks.sqlite"),
        ("/home/ann", "/home/anna/looks.sqlite", "ledger: /home/anna/looks.sqlite"),
        ("/", "/data/looks.sqlite", "ledger: /data/looks.sqlite"),
        ("/home/ann", "off", "counted in this cache alone"),
    ],
)
def test_the_ledger_is_named_by_a_path_that_exists(
    home: str, ledger: str, described: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, ledger)
    assert describe_ledger() == described
