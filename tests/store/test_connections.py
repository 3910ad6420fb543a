from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from postgres_server import Server
from sqlalchemy import Engine, create_engine, text
from stored import put_call

from ragsmith.errors import StoreError
from ragsmith.store.store import ResultRow, Store

pytestmark = pytest.mark.usefixtures("any_values")


@pytest.fixture
def url(postgres_server: Server) -> str:
    return str(postgres_server.database())


@pytest.fixture
def outside(url: str) -> Iterator[Engine]:
    """A second connection to the database."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    yield engine
    engine.dispose()


def connections(outside: Engine) -> int:
    """How many others have; the server itself comes, too, to clean up."""
    theirs = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    counted = f"SELECT count(*) FROM pg_stat_activity WHERE {theirs}"
    with outside.connect() as connection:
        return int(connection.execute(text(counted)).scalar_one())


def test_a_thread_may_write_while_it_reads_and_read_while_it_writes(url: str, outside: Engine) -> None:
    with Store.open(url) as store:
        database = store._database
        together = threading.Barrier(4)

        def work() -> None:
            together.wait()
            with database.reading(), database.reading(), database.writing(), database.reading():
                assert connections(outside) <= 2
            with database.writing(), database.reading():
                assert connections(outside) in (1, 2)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        with database.reading():
            pass
        assert connections(outside) == 1


def test_an_urgent_write_does_not_wait_for_other_threads(url: str, outside: Engine) -> None:
    with Store.open(url) as store:
        database = store._database
        done = threading.Event()

        def beat() -> None:
            with database.writing(urgent=True):
                done.set()

        with database.writing():
            thread = threading.Thread(target=beat)
            thread.start()
            assert done.wait(30)
        thread.join()
        assert connections(outside) == 1


def test_equal_results_do_not_wait(url: str) -> None:
    """Concurrent equal searches must not wait for each other at every result."""
    row = ResultRow("evaluation", "question", "ok", {"fitness": 1.0})
    with Store.open(url) as store, Store.open(url, timeout=0.05) as another:
        assert store.put_results([row]) == [row]
        with store._database.writing_exclusively("result"):
            assert another.put_results([row]) == [row]


# A server without a connection to spare


@pytest.fixture
def crowded(postgres_server: Server, outside: Engine, url: str) -> Iterator[str]:
    """The URL of a user who may connect once, as if the server had no other connection left."""
    with outside.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("CREATE ROLE crowd LOGIN CONNECTION LIMIT 1"))
        connection.execute(text("GRANT CREATE ON SCHEMA public TO crowd"))
    yield url.replace("//ragsmith@", "//crowd@")
    with outside.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("DROP OWNED BY crowd"))
        connection.execute(text("DROP ROLE crowd"))


def test_a_connection_is_waited_for(crowded: str) -> None:
    first = Store.open(crowded)
    timer = threading.Timer(0.5, first.close)
    timer.start()
    with Store.open(crowded) as store:
        put_call(store, "k", "m", "t", 1)
        assert store.get_calls(["k"]).get("k") is not None
    timer.join()


def test_an_urgent_write_needs_no_second_connection_where_other_threads_end_soon(crowded: str) -> None:
    with Store.open(crowded) as store:
        database, done = store._database, threading.Event()

        def beat() -> None:
            with database.writing(urgent=True):
                done.set()

        thread = threading.Thread(target=beat, daemon=True)
        with database.writing():
            thread.start()
            assert not done.wait(0.3)
        assert done.wait(10)
        thread.join()


def test_a_process_without_a_free_connection_fails_with_one_sentence(url: str) -> None:
    with Store.open(url) as store:
        database, said = store._database, list[str]()
        database._engine.pool._timeout = 0.1  # type: ignore[attr-defined]

        def beat() -> None:
            try:
                with database.writing(urgent=True):
                    pass
            except StoreError as error:
                said.append(str(error))

        with database.reading(), database.writing():
            thread = threading.Thread(target=beat)
            thread.start()
            thread.join(30)
        assert len(said) == 1


def test_a_server_that_stays_full_is_named_in_one_sentence(crowded: str) -> None:
    with Store.open(crowded), pytest.raises(StoreError, match=r"has had no connection left.*max_connections"):
        Store.open(crowded, timeout=0.05)


# Numbers


def test_numbers_beyond_32_bits_are_stored(url: str) -> None:
    with Store.open(url) as store:
        put_call(store, "k", "m", "t", "reply", calls=3_000_000_000, input_tokens=10**12, output_tokens=6 * 10**9)
        call = store.get_calls(["k"]).get("k")
        assert call is not None
        assert (call.calls, call.input_tokens, call.output_tokens) == (3_000_000_000, 10**12, 6 * 10**9)


def test_a_server_database_of_another_format_is_refused(url: str, outside: Engine) -> None:
    Store.open(url).close()
    with outside.begin() as connection:
        connection.execute(text("UPDATE ragsmith_schema SET version = 16"))
    with pytest.raises(StoreError, match="has format 16, and this version of ragsmith reads format 1"):
        Store.open(url)
