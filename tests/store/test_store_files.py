from __future__ import annotations

import multiprocessing
import resource
import shutil
import sqlite3
from contextlib import closing, nullcontext
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import pytest
import sqlalchemy
from ordinary_user import as_ordinary_user
from stored import put_call

from ragsmith.errors import MissingExtra, Notice, StoreError, WrongStore
from ragsmith.store.engine import file_engine
from ragsmith.store.schema import APPLICATION_ID, FORMAT
from ragsmith.store.store import ResultRow, Store

SPAWN = multiprocessing.get_context("spawn")


pytestmark = pytest.mark.usefixtures("any_values")


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def make_store(path: Path) -> None:
    with Store.open(path) as store:
        put_call(store, "k", "m", "t", 1)


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


# Files of others, and of other times


def foreign_database(path: Path) -> None:
    execute(path, "CREATE TABLE run (x)", "INSERT INTO run VALUES (1)")


def foreign_wal_database(path: Path) -> None:
    execute(path, "PRAGMA application_id = 7", "PRAGMA journal_mode = WAL", "CREATE TABLE other (x)")


def another_format(path: Path) -> None:
    make_store(path)
    execute(path, f"PRAGMA user_version = {FORMAT + 1}")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (foreign_database, "not a ragsmith cache"),
        (foreign_wal_database, "not a ragsmith cache"),
        (
            another_format,
            "has format 2, and this .* reads format 1: name another cache with --cache, or delete this one",
        ),
        (lambda path: path.write_text("dear diary\n" * 40), "not a ragsmith cache"),
        (lambda path: path.write_text("x"), "not a ragsmith cache"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + b"\0" * 200), "not a ragsmith cache"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.symlink_to(path.parent / "nowhere"), "not a regular file"),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_other_files_are_refused_and_left_untouched(path: Path, make, message: str, read_only: bool) -> None:  # type: ignore[no-untyped-def]
    make(path)
    before = contents(path.parent) if path.is_file() else None
    with pytest.raises(StoreError, match=message if path.exists() or not read_only else "no cache"):
        Store.open(path, read_only=read_only)
    assert (contents(path.parent) if path.is_file() else None) == before


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """What a kill between creating the file and its tables leaves."""
    path.touch()
    make_store(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


@pytest.mark.parametrize(
    ("location", "message"),
    [
        (":memory:", "names no file"),
        ("sqlite://", "names no file"),
        ("sqlite:///x?mode=ro", "name a file or a postgresql"),
        ("mysql://me:secret@host/db", r"mysql://me:\*\*\*@host/db cannot hold the cache"),
        ("://", "URL cannot be read"),
        ("missing/cache.sqlite", "cannot be created.*folder"),
    ],
)
def test_an_unusable_location_is_named(
    location: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=message) as caught:
        Store.open(location)
    assert "secret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises((StoreError, MissingExtra), match="postgres") as caught:
        Store.open("postgresql://me:secret@127.0.0.1:1/db?connect_timeout=1")
    assert "secret" not in str(caught.value)


def test_names_with_special_characters_are_paths(tmp_path: Path) -> None:
    for name in ("a b", "100%", "what?.sqlite", "file#1", "Rhône&mode=ro"):
        make_store(tmp_path / name)
        assert (tmp_path / name).is_file()


# Reading only


def test_read_only_reads_and_does_not_write(path: Path) -> None:
    with pytest.raises(StoreError, match="no cache at"):
        Store.open(path, read_only=True)
    assert not path.exists()
    make_store(path)
    before = contents(path.parent)
    with Store.open(path, read_only=True) as store:
        assert store.get_calls(["k"])
        assert store.verify() == []
        with pytest.raises(StoreError, match="can only be read"):
            put_call(store, "l", "m", "t", 1)
    assert contents(path.parent) == before


def test_read_only_sees_what_a_writer_in_use_has_committed(path: Path) -> None:
    with Store.open(path) as writer, Store.open(path, read_only=True) as reader:
        put_call(writer, "k", "m", "t", 1)
        assert reader.get_calls(["k"])


@pytest.mark.parametrize("wal", [False, True])
def test_read_only_works_in_a_read_only_folder(open_folder: Path, wal: bool) -> None:
    path = open_folder / "cache.sqlite"
    make_store(path)
    if wal:  # as another program leaves it
        execute(path, "PRAGMA journal_mode = WAL")
    path.chmod(0o444)
    open_folder.chmod(0o555)
    with as_ordinary_user():
        with Store.open(path, read_only=True) as store:
            assert store.get_calls(["k"])
        with Store.open(path) as store:  # as it cannot be written
            assert store.get_calls(["k"])
            with pytest.raises(WrongStore, match=r"can only be read.*writable"):
                put_call(store, "l", "m", "t", 1)
        with pytest.raises(StoreError, match="cannot be created"):
            Store.open(path.with_name("new.sqlite"))
    assert list(open_folder.iterdir()) == [path]


def test_a_log_that_cannot_be_read_is_an_error(open_folder: Path) -> None:
    path = open_folder / "cache.sqlite"
    copy = open_folder / "copy"
    copy.mkdir()
    with Store.open(path) as store:
        put_call(store, "k", "m", "t", 1)
        for name in ("cache.sqlite", "cache.sqlite-wal"):
            shutil.copy(open_folder / name, copy / name)
            (copy / name).chmod(0o444)
    copy.chmod(0o555)
    with as_ordinary_user(), pytest.raises(StoreError, match="rows in its log"):
        Store.open(copy / "cache.sqlite", read_only=True)


# Trouble


def test_a_database_held_by_another_process_is_named(path: Path) -> None:
    make_store(path)
    with Store.open(path, timeout=0.05) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="held by another process"):
            put_call(store, "l", "m", "t", 1)
        assert store.get_calls(["k"])
        other.execute("ROLLBACK")
        put_call(store, "l", "m", "t", 1)


def fill_the_disk(path: Path, answers: Pipe) -> None:
    """Writes until no file may grow any more, then tells how many rows are stored, what was said, and what is read."""
    most = 460_000  # room for the tables, and for what the log holds to go into the file when the process ends
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    stored = 0
    store = Store.open(path)
    try:
        for stored in range(1000):
            put_call(store, str(stored), "m", "t", "x" * 3000)
    except StoreError as error:
        answers.send((stored, str(error), len(store.get_calls(map(str, range(1000))))))


def test_a_full_disk_is_named_and_keeps_what_was_stored(path: Path) -> None:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=fill_the_disk, args=(path, theirs))
    process.start()
    assert ours.poll(30)
    stored, message, readable = ours.recv()
    process.join()
    assert "the disk is full" in message
    assert stored == readable > 10
    with pytest.warns(Notice, match="was not closed by its last user"):
        store = Store.open(path)
    with store:
        assert len(store.get_calls(map(str, range(1000)))) == stored
        put_call(store, "more", "m", "t", 1)


def write_rows(path: Path, name: str, rows: int, acknowledge: Pipe | None) -> None:
    with Store.open(path) as store:
        for i in range(rows):
            put_call(store, f"{name}-{i}", "m", "t", "x" * 500)
            store.put_results([ResultRow("shared", f"q{i}", "failed", {"stage": "s", "error": name})])
            if acknowledge is not None:
                acknowledge.send(i)


def test_several_processes_write_one_file_and_nothing_is_lost(path: Path) -> None:
    writers = 4
    processes = [SPAWN.Process(target=write_rows, args=(path, str(n), 500, None)) for n in range(writers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * writers
    assert list(path.parent.iterdir()) == [path]
    with Store.open(path) as store:
        assert store.verify() == []
        assert len(store.get_calls([f"{n}-{i}" for n in range(writers) for i in range(500)])) == writers * 500
        results = store.results("shared")
        assert len(results) == 500
        assert {row.attempts for row in results.values()} == {writers}


def test_a_killed_writer_loses_nothing_that_was_reported_as_stored(path: Path, tmp_path: Path) -> None:
    """Kill a writer in the middle of its work."""
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=write_rows, args=(path, "w", 100_000, theirs))
    process.start()
    theirs.close()
    acknowledged = 0
    try:
        while ours.poll(30):
            acknowledged = ours.recv() + 1
            if acknowledged == 300:
                process.kill()
    except EOFError:
        process.join()
    assert acknowledged >= 300
    with Store.open(path) as store:
        assert len(store.get_calls([f"w-{i}" for i in range(acknowledged)])) == acknowledged
        assert len(store.results("shared")) >= acknowledged
        assert store.verify() == []
        rows = len(store.results("shared"))
    assert list(path.parent.iterdir()) == [path]
    shutil.copy(path, tmp_path / "copy.sqlite")  # which is enough after closing
    with Store.open(tmp_path / "copy.sqlite") as store:
        assert len(store.results("shared")) == rows


@pytest.mark.parametrize(("raised", "logged"), [(KeyboardInterrupt, 0), (ValueError, 1)])
def test_an_interruption_during_the_return_of_a_connection_is_raised_and_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, raised: type[BaseException], logged: int
) -> None:
    engine = file_engine(tmp_path / "new.sqlite", timeout=1, options="mode=rwc")

    @sqlalchemy.event.listens_for(engine, "reset")
    def interrupted(*_: object) -> None:
        raise raised

    connection = engine.connect()
    with nullcontext() if issubclass(raised, Exception) else pytest.raises(raised):
        connection.close()
    assert len(caplog.records) == logged
