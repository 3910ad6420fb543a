"""Vector stores by address, what only one kind has, and what goes wrong; see test_vector_store_conformance.py."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres_server import programs_with_vectors
from vector_rows import Made, directions, full_sort, keys_of, tied_rows

from ragsmith.errors import ModelUnavailable, UsageError
from ragsmith.index.screening import UNSCORED, compute_best_cosines, find_nearest
from ragsmith.index.stores import MIN_SERVER_KEYS, open_vector_store
from ragsmith.index.top import best_positions
from ragsmith.index.vector_store import (
    MIN_SINGLE_PRECISION_KEYS,
    Keys,
    VectorStore,
    make_keys_name,
    to_memory_precision,
)
from ragsmith.index.vector_stores.approximate import MIN_CODED_KEYS, ApproximateVectors
from ragsmith.index.vector_stores.exact import ExactVectors
from ragsmith.models.loading import load_models
from ragsmith.models.names import ModelNames
from ragsmith.models.vector_stores import get_machine_type, identify_store, serves_one_process

pytestmark = pytest.mark.usefixtures("unsynced")

Open = Callable[[str, Keys, Made], VectorStore]
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=25)
NINE, THIRTY = keys_of([1] * 9), keys_of([1] * 30)


@pytest.fixture
def opened() -> Iterator[Open]:
    """Open a store, which is closed at the end."""
    stores: list[VectorStore] = []

    def open_one(location: str, keys: Keys, make: Made) -> VectorStore:
        if location.startswith("qdrant"):
            pytest.importorskip("qdrant_client", reason="needs the extra qdrant")
        stores.append(open_vector_store(location, keys, make))
        return stores[-1]

    yield open_one
    for store in stores:
        getattr(store, "close", lambda: None)()


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database with pgvector."""
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    return str(request.getfixturevalue("vector_server").database())


def other_connection(url: str) -> object:
    return pytest.importorskip("psycopg").connect(url, autocommit=True)


def positions(store: VectorStore, queries: np.ndarray, k: int = 7) -> list[list[int]]:
    found: list[list[int]] = store.search(queries, k)[0].tolist()
    return found


# --- collections -----------------------------------------------------------------------------------------------------


def test_the_collections_of_a_folder_are_open_together(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    rows, queries, threes = tied_rows(1, 9), tied_rows(2, 3), keys_of([3] * 3, "threes")
    one = opened(f"qdrant:{tmp_path / 'vectors'}", NINE, Made(rows))
    two = opened(f"qdrant:{tmp_path / 'there' / '..' / 'vectors'}", threes, Made(rows))
    assert positions(one, queries) == positions(ExactVectors(NINE, Made(rows)), queries)
    one.close()  # type: ignore[attr-defined]
    assert positions(two, queries) == positions(ExactVectors(threes, Made(rows)), queries)
    with pytest.raises(UsageError, match="was closed"):
        one.search(queries, 3)


@pytest.mark.parametrize("kind", ["qdrant", "postgresql"])
@pytest.mark.parametrize("change", ["taken out", "put in"])
def test_a_collection_that_others_changed_is_built_anew(
    request: pytest.FixtureRequest, opened: Open, tmp_path: Path, kind: str, change: str
) -> None:
    location = f"qdrant:{tmp_path / 'vectors'}" if kind == "qdrant" else request.getfixturevalue("database")
    rows, queries = tied_rows(1, 30), tied_rows(2, 3)
    store = opened(location, THIRTY, Made(rows))
    if kind == "qdrant":
        from qdrant_client.models import PointStruct  # noqa: PLC0415

        client = store.connection.client  # type: ignore[attr-defined]
        if change == "taken out":
            client.delete(THIRTY.name, points_selector=[4])
        else:
            client.upsert(THIRTY.name, points=[PointStruct(id=77, vector=[1.0] * 8)])
    else:
        taken_out, put_in = "DELETE FROM {} WHERE id = 4", "INSERT INTO {} SELECT 77, vector FROM {} LIMIT 1"
        with other_connection(location) as other:
            other.execute((taken_out if change == "taken out" else put_in).replace("{}", f'"{THIRTY.name}"'))
    store.close()  # type: ignore[attr-defined]
    again = opened(location, THIRTY, Made(rows))
    assert positions(again, queries) == positions(ExactVectors(THIRTY, Made(rows)), queries)


def test_a_collection_is_named_by_texts_and_embedder() -> None:
    names = {make_keys_name("one", "a"), make_keys_name("one", "b"), make_keys_name("two", "a")}
    assert len(names) == 3
    assert all(name.startswith("ragsmith-") and len(name) == 41 for name in names)


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*lock:pytest.PytestUnraisableExceptionWarning")  # the client leaves it open
def test_an_embedded_qdrant_serves_one_process(opened: Open, tmp_path: Path) -> None:
    location = f"qdrant:{tmp_path / 'vectors'}"
    store = opened(location, keys_of([1]), Made(tied_rows(1, 1)))
    with pytest.raises(UsageError, match="serves one process"):
        pickle.dumps(store)
    store.close()  # type: ignore[attr-defined]
    from qdrant_client import QdrantClient  # noqa: PLC0415

    elsewhere = QdrantClient(path=str(tmp_path / "vectors"))  # any other connection stands for another process
    with pytest.raises(UsageError, match="another process has it open"):
        opened(location, keys_of([1]), Made(tied_rows(1, 1)))
    gc.collect()
    elsewhere.close()


def test_only_an_embedded_qdrant_serves_one_process() -> None:
    several = "auto", "exact", "approximate", "approximate:folder", "postgresql://here/it", "qdrant:http://here"
    assert all(serves_one_process(location) for location in ("qdrant:folder", "qdrant::memory:"))
    assert not any(serves_one_process(location) for location in several)


@pytest.mark.parametrize("location", ["chroma", "qdrant", "qdrant:", "postgresql", "postgresql:db", "exactly"])
def test_an_unknown_store_is_answered_with_the_known_ones(location: str) -> None:
    with pytest.raises(UsageError, match="give auto, approximate or approximate:FOLDER, exact, "):
        open_vector_store(location, keys_of([1]), Made(tied_rows(1, 1)))


@pytest.mark.parametrize(
    ("location", "package", "said"),
    [
        ("qdrant:localhost:6333", "qdrant_client", "write http"),
        ("qdrant:http://127.0.0.1:9", "qdrant_client", "does not answer: check its URL, QDRANT_API_KEY"),
        ("postgresql://somebody@127.0.0.1:9/vectors", "psycopg", "does not answer: check its URL, PGPASSWORD"),
    ],
)
def test_a_server_that_is_down_or_has_no_scheme_is_refused_without_its_url(
    location: str, package: str, said: str
) -> None:
    pytest.importorskip(package)
    with pytest.raises((UsageError, ModelUnavailable), match=said) as caught:
        open_vector_store(location, keys_of([1]), Made(tied_rows(1, 1)))
    assert "127.0.0.1" not in str(caught.value)
    assert "somebody" not in str(caught.value)


def test_a_server_is_chosen_by_itself_only_where_one_is_named_and_the_corpus_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small, large = keys_of([1]), Keys("ragsmith-large", np.arange(1), MIN_SERVER_KEYS)
    monkeypatch.delenv("QDRANT_URL", raising=False)
    assert isinstance(open_vector_store("auto", large, Made(tied_rows(1, 1))), ExactVectors)
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:9")
    assert isinstance(open_vector_store("auto", small, Made(tied_rows(1, 1))), ExactVectors)
    pytest.importorskip("qdrant_client", reason="needs the extra qdrant")
    with pytest.raises(ModelUnavailable):
        open_vector_store("auto", large, Made(tied_rows(1, 1)))


@pytest.mark.parametrize("left", [0, 2, 6])
@pytest.mark.parametrize("kind", ["qdrant", "postgresql"])
def test_vectors_that_were_taken_out_meanwhile_are_one_clear_error_and_never_wrong_hits(
    request: pytest.FixtureRequest, opened: Open, kind: str, left: int
) -> None:
    url = "qdrant::memory:" if kind == "qdrant" else request.getfixturevalue("database")
    store = opened(url, NINE, Made(tied_rows(1, 9)))
    if kind == "qdrant":
        store.connection.client.delete(NINE.name, points_selector=list(range(left, 9)))  # type: ignore[attr-defined]
    else:
        with other_connection(url) as other:
            other.execute(f'DELETE FROM "{NINE.name}" WHERE id >= {left}')
    with pytest.raises(ModelUnavailable, match=f"found {left} of 9 vectors"):
        store.search(tied_rows(2, 3), 3)


# --- PostgreSQL ------------------------------------------------------------------------------------------------------

OTHERS = "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"


def test_a_database_without_the_extension_is_told_how_to_get_it(request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("postgres_server")
    if programs_with_vectors() == server.programs:
        pytest.skip("the PostgreSQL that is installed has pgvector")
    with pytest.raises(UsageError, match="install pgvector on the server"):
        open_vector_store(server.database(), keys_of([1]), Made(tied_rows(1, 1)))


def test_a_connection_that_the_server_ended_is_made_again(opened: Open, database: str) -> None:
    queries = tied_rows(2, 3)
    store = opened(database, THIRTY, Made(tied_rows(1, 30)))
    expected = positions(store, queries)
    for _ in range(2):
        with other_connection(database) as other:
            ended = other.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OTHERS}").fetchall()
            assert ended == [(True,)]
        assert positions(store, queries) == expected


def test_all_tables_of_a_database_share_a_connection_that_a_copy_of_a_store_makes_when_it_searches(
    database: str,
) -> None:
    rows, queries = tied_rows(1, 9), tied_rows(2, 3)
    names = [f"ragsmith-{n}" for n in range(4)]
    copies = [pickle.dumps(open_vector_store(database, keys_of([1] * 9, name), Made(rows))) for name in names]
    gc.collect()
    with other_connection(database) as other:

        def connections() -> int:
            return int(other.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {OTHERS}").fetchone()[0])

        def settled(wanted: int) -> bool:
            return any(connections() == wanted or sleep(0.05) for _ in range(100))

        assert settled(0)  # a backend takes a moment to end
        stores = [pickle.loads(one) for one in copies]
        assert connections() == 0
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda store: positions(store, queries, 3), stores * 4))
        assert connections() == 1
        for store in stores:
            store.close()
        assert settled(0)
    assert found == [positions(ExactVectors(NINE, Made(rows)), queries, 3)] * 16


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        ("SELECT nothing FROM pg_authid_of_nobody", "run the same command again to fill it"),
        ("DO $$BEGIN RAISE SQLSTATE '53100'; END$$", "has a full disk: free space there"),
        ("DO $$BEGIN RAISE SQLSTATE '53300'; END$$", "use fewer, or raise its max_connections"),
        ("DO $$BEGIN RAISE SQLSTATE '42501'; END$$", "grant CREATE and USAGE on the schema"),
    ],
)
def test_what_a_database_refuses_is_said_with_what_to_do(database: str, refusal: str, said: str) -> None:
    from ragsmith.index.vector_stores.pgvector import DatabaseConnection  # noqa: PLC0415

    server = DatabaseConnection(database)
    with pytest.raises(ModelUnavailable, match=said):
        server.ask(lambda cursor: cursor.execute(refusal))
    assert server.ask(lambda cursor: cursor.execute("SELECT 1").fetchall()) == [(1,)]


def test_a_database_without_a_free_connection_is_said_to_have_none(database: str) -> None:
    with other_connection(database) as other:
        other.execute("CREATE ROLE narrow LOGIN CONNECTION LIMIT 0")
        with pytest.raises(ModelUnavailable, match="has no connection left, and every worker process needs one"):
            open_vector_store(database.replace("ragsmith@", "narrow@"), keys_of([1]), Made(tied_rows(1, 1)))
        other.execute("DROP ROLE narrow")


# --- approximate -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("faiss", reason="needs the extra large")
    return tmp_path


@pytest.mark.parametrize("dimensions", [63, 64])
def test_approximate_search_finds_nearly_all_and_scores_them_as_exact_search_does(
    folder: Path, dimensions: int
) -> None:
    rows, queries = directions(1, 2 * MIN_CODED_KEYS, dimensions), directions(2, 50, dimensions)
    keys = keys_of([2] * MIN_CODED_KEYS)
    found, cosines = open_vector_store(f"approximate:{folder}", keys, Made(rows)).search(queries, 10)
    expected = ExactVectors(keys, Made(rows)).search(queries, MIN_CODED_KEYS)
    scores = [dict(zip(*one, strict=True)) for one in zip(expected[0].tolist(), expected[1].tolist(), strict=True)]
    recall = np.mean([len({*one} & {*other}) / 10 for one, other in zip(found, expected[0][:, :10], strict=True)])
    assert recall >= 0.99
    for row, entries in enumerate(found.tolist()):
        assert [scores[row][entry] for entry in entries] == cosines[row].tolist()
        assert entries == sorted(entries, key=lambda entry: (-scores[row][entry], entry))


def test_codes_made_anew_find_the_same(folder: Path) -> None:
    rows, queries, keys = directions(1, MIN_CODED_KEYS, 64), directions(2, 20, 64), keys_of([1] * MIN_CODED_KEYS)
    one, two = (ApproximateVectors(keys, Made(rows), folder / name) for name in ("one", "two"))
    assert positions(one, queries, 900) == positions(two, queries, 900)


def test_a_copy_that_does_not_find_its_vectors_says_to_share_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    queries = tied_rows(2, 3)
    store = open_vector_store("approximate:vectors", NINE, Made(tied_rows(1, 9)))
    copy = pickle.dumps(store)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")  # a relative folder is where it was when the store was opened
    assert positions(pickle.loads(copy), queries) == positions(store, queries)
    (folder / "vectors").rename(folder / "gone")
    with pytest.raises(UsageError, match=r"does not contain the vectors .* name a folder that all machines share"):
        pickle.loads(copy)


def test_codes_and_results_belong_to_a_kind_of_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, elsewhere = Made(tied_rows(1, 9)), Made(tied_rows(1, 9))
    open_vector_store(f"approximate:{folder}", NINE, here)
    found = identify_store("approximate")
    get_machine_type.cache_clear()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert identify_store("approximate") != found
    assert ":riscv64" in identify_store(f"approximate:{folder}")
    assert identify_store("exact") == identify_store("auto") == ""
    open_vector_store(f"approximate:{folder}", NINE, elsewhere)
    get_machine_type.cache_clear()
    assert here.asked == elsewhere.asked == [(0, 9)]


def test_approximate_search_leaves_the_folder_that_it_is_given_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragsmith.index.vector_stores.approximate._MAX_BYTES", 1)
    theirs = [folder / name for name in ("proj/.git/HEAD", "proj/notes/may.md", ".hidden/x/y")]
    for file in theirs:
        file.parent.mkdir(parents=True)
        file.write_text("mine")
        os.utime(file.parent, (1000, 1000))
    for name in ("ragsmith-one", "ragsmith-two"):
        open_vector_store(f"approximate:{folder}", keys_of([1] * 9, name), Made(tied_rows(1, 9)))
    assert [file.read_text() for file in theirs] == ["mine"] * 3
    assert {path.name for path in folder.iterdir()} == {"proj", ".hidden", "ragsmith-vectors"}


def test_where_results_may_differ_the_store_is_part_of_the_embedders_id() -> None:
    pytest.importorskip("faiss", reason="needs the extra large")
    ids = {at: load_models(ModelNames(vector_store=at), ["salt"]).ids() for at in ("exact", "auto", "approximate")}
    assert ids["exact"] == ids["auto"]
    assert ids["approximate"]["embedder"].startswith(f"{ids['exact']['embedder']}@approximate=")
    assert {**ids["approximate"], "embedder": ids["exact"]["embedder"]} == ids["exact"]


# --- single precision ------------------------------------------------------------------------------------------------


@given(sizes=SIZES, seed=st.integers(0, 99), k=st.integers(1, 30), dimensions=st.integers(1, 40))
@settings(max_examples=40)
def test_screening_in_single_precision_finds_what_a_full_sort_finds(
    sizes: list[int], seed: int, k: int, dimensions: int
) -> None:
    keys = keys_of(sizes)
    for draw in (tied_rows, directions):
        rows, queries = draw(seed, sum(sizes), dimensions), draw(seed + 1, 11, dimensions)
        found, scores = find_nearest(keys, queries, rows, k)
        expected, expected_scores = full_sort(keys, rows, queries, k)
        assert found.tolist() == expected
        np.testing.assert_allclose(scores, expected_scores, atol=1e-9)


def test_what_single_precision_cannot_tell_apart_is_told_apart() -> None:
    rng = np.random.default_rng(1)
    near = directions(1, 1, 256)[0] + 3e-8 * rng.standard_normal((3_000, 256)).astype(np.float32) * 4
    keys, queries = keys_of([1] * len(near)), directions(2, 20, 256)
    rough = np.round(queries @ near.T, 6).astype(np.float64)
    found, scores = find_nearest(keys, queries, near, 50)
    expected, expected_scores = full_sort(keys, near, queries, 50)
    assert found.tolist() == expected
    np.testing.assert_allclose(scores, expected_scores, atol=1e-9)
    assert not np.array_equal(np.take_along_axis(rough, found, axis=1), scores)  # and without that, it is not


@pytest.mark.parametrize("embedded", [np.float32, np.float64])
def test_a_large_index_finds_in_either_precision_what_a_small_one_would(embedded: type) -> None:
    rows, queries = directions(1, MIN_SINGLE_PRECISION_KEYS + 7, 16), directions(2, 30, 16)
    keys = Keys("large", np.arange(len(rows)), len(rows))
    found = ExactVectors(keys, Made(rows.astype(embedded))).search(queries, 60)
    cosines = np.round(queries.astype(np.float64) @ rows.astype(np.float64).T, 6)
    expected = np.argsort(-cosines, axis=1, kind="stable")[:, :60]
    assert found[0].tolist() == expected.tolist()
    np.testing.assert_allclose(found[1], np.take_along_axis(cosines, expected, axis=1), atol=1e-9)


def test_vectors_of_a_large_collection_stay_in_the_precision_in_which_they_came() -> None:
    few, many = np.ones((3, 1), dtype=np.float32), np.ones((MIN_SINGLE_PRECISION_KEYS, 1), dtype=np.float32)
    assert to_memory_precision(few).dtype == to_memory_precision(many.astype(np.float64)).dtype == np.float64
    assert to_memory_precision(many) is many


@given(sizes=SIZES, seed=st.integers(0, 99), k=st.integers(1, 30))
@settings(max_examples=30)
def test_the_best_cosines_are_those_of_double_precision_and_the_others_lower(
    sizes: list[int], seed: int, k: int
) -> None:
    keys, rows, queries = keys_of(sizes), tied_rows(seed, sum(sizes)), tied_rows(seed + 1, 3).astype(np.float64)
    every = compute_best_cosines(keys, queries, rows.astype(np.float64), k)
    some = compute_best_cosines(keys, queries, rows, k)
    for one, other in zip(every, some, strict=True):
        best = best_positions(one, k)
        assert best_positions(other, k).tolist() == best.tolist()
        np.testing.assert_allclose(other[best], one[best], atol=1e-9)
        assert (np.delete(other, best) == UNSCORED).all()
