"""Vector stores by address, what only one kind has, and what goes wrong; see test_vector_store_conformance.py."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import sleep

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from postgres_server import programs_with_vectors

from ragsmith.errors import ModelUnavailable, UsageError
from ragsmith.index.screening import LOW, best_cosines, nearest
from ragsmith.index.stores import LARGE_ROWS, open_vectors
from ragsmith.index.top import best_positions
from ragsmith.index.vector_store import SINGLE_KEYS, Keys, VectorStore, as_kept, keys_name
from ragsmith.index.vector_stores.approximate import CODED_ROWS, ApproximateVectors
from ragsmith.index.vector_stores.exact import ExactVectors
from ragsmith.models.loading import load_models
from ragsmith.models.names import ModelNames
from ragsmith.models.protocols import Vectors
from ragsmith.models.vector_stores import kind_of_machine, serves_one_process, store_identity


class Made:
    """Rows of a matrix, and which of them were asked for."""

    def __init__(self, rows: Vectors) -> None:
        self.rows = rows
        self.asked: list[tuple[int, int]] = []

    def __call__(self, start: int, end: int) -> Vectors:
        self.asked.append((start, end))
        return self.rows[start:end]


def unit_rows(seed: int, rows: int, dimensions: int = 8) -> Vectors:
    """Random unit vectors of few distinct directions, so that many scores tie."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-1, 2, (rows, dimensions)).astype(np.float64)
    lengths = np.linalg.norm(drawn, axis=1, keepdims=True)
    vectors: Vectors = np.divide(drawn, lengths, out=np.zeros_like(drawn), where=lengths > 0).astype(np.float32)
    return vectors


def keys_of(sizes: list[int], name: str = "ragsmith-test") -> Keys:
    return Keys(name, np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, dtype=np.int64), sum(sizes))


Open = Callable[[str, Keys, Made], VectorStore]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Open a Qdrant, which is closed at the end."""
    pytest.importorskip("qdrant_client", reason="needs the extra qdrant")
    stores: list[VectorStore] = []

    def open_one(location: str, keys: Keys, make: Made) -> VectorStore:
        stores.append(open_vectors(location, keys, make))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()  # type: ignore[attr-defined]


def full_sort(keys: Keys, rows: Vectors, queries: Vectors, k: int) -> tuple[list[list[int]], NDArray[np.float64]]:
    """The plainest way: every entry's best cosine, all sorted."""
    ends = [*keys.starts[1:], keys.count]
    positions, scores = [], []
    for query in queries.astype(np.float64):
        cosines = [round(float(x), 6) for x in rows.astype(np.float64) @ query]
        best = [max(cosines[start:end]) for start, end in zip(keys.starts, ends, strict=True)]
        order = sorted(range(len(best)), key=lambda entry: (-best[entry], entry))[:k]
        positions.append(order)
        scores.append([best[entry] for entry in order])
    return positions, np.array(scores)


SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=25)


@given(sizes=SIZES, seed=st.integers(0, 99), k=st.integers(1, 30))
@settings(max_examples=30)
def test_exact_search_is_a_full_sort(sizes: list[int], seed: int, k: int) -> None:
    keys, rows, queries = keys_of(sizes), unit_rows(seed, sum(sizes)), unit_rows(seed + 1, 3)
    positions, scores = ExactVectors(keys, Made(rows)).search(queries, k)
    expected, expected_scores = full_sort(keys, rows, queries, k)
    assert positions.tolist() == expected
    np.testing.assert_allclose(scores, expected_scores, atol=1e-9)


@given(sizes=SIZES, seed=st.integers(0, 99), k=st.integers(1, 30))
@settings(max_examples=20)
def test_qdrant_finds_what_exact_search_finds_ties_included(sizes: list[int], seed: int, k: int) -> None:
    pytest.importorskip("qdrant_client", reason="needs the extra qdrant")
    keys, rows, queries = keys_of(sizes), unit_rows(seed, sum(sizes)), unit_rows(seed + 1, 3)
    store = open_vectors("qdrant::memory:", keys, Made(rows))
    found, expected = store.search(queries, k), ExactVectors(keys, Made(rows)).search(queries, k)
    store.close()  # type: ignore[attr-defined]
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


# --- collections -----------------------------------------------------------------------------------------------------


def test_a_complete_collection_is_used_again_without_embedding_anything(opened: Open, tmp_path: Path) -> None:
    keys, rows, queries = keys_of([1] * 600), unit_rows(1, 600), unit_rows(2, 3)
    location = f"qdrant:{tmp_path / 'vectors'}"
    first = Made(rows)
    store = opened(location, keys, first)
    expected = store.search(queries, 7)
    store.close()  # type: ignore[attr-defined]
    again = Made(rows)
    found = opened(location, keys, again).search(queries, 7)
    assert [one.tolist() for one in found] == [one.tolist() for one in expected]
    assert first.asked == [(0, 256), (256, 512), (512, 600)]
    assert again.asked == []


def test_the_collections_of_a_folder_are_open_together(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    rows, queries = unit_rows(1, 9), unit_rows(2, 3)
    one = opened(f"qdrant:{tmp_path / 'vectors'}", keys_of([1] * 9, "one"), Made(rows))
    two = opened(f"qdrant:{tmp_path / 'there' / '..' / 'vectors'}", keys_of([3] * 3, "two"), Made(rows))
    assert (
        one.search(queries, 3)[0].tolist() == ExactVectors(keys_of([1] * 9), Made(rows)).search(queries, 3)[0].tolist()
    )
    one.close()  # type: ignore[attr-defined]
    assert (
        two.search(queries, 3)[0].tolist() == ExactVectors(keys_of([3] * 3), Made(rows)).search(queries, 3)[0].tolist()
    )
    with pytest.raises(UsageError, match="was closed"):
        one.search(queries, 3)


def test_threads_share_a_folder(opened: Open, tmp_path: Path) -> None:
    keys, rows, queries = keys_of([1] * 50), unit_rows(1, 50), unit_rows(2, 24)
    location = f"qdrant:{tmp_path / 'vectors'}"
    with ThreadPoolExecutor(8) as pool:  # the folder is made and filled in one thread, and searched in others
        store = pool.submit(opened, location, keys, Made(rows)).result()
        found = list(pool.map(lambda query: store.search(query[None], 7)[0][0].tolist(), queries))
        others = list(pool.map(lambda n: opened(location, replace(keys, name=f"k{n}"), Made(rows)), range(8)))
    expected = ExactVectors(keys, Made(rows)).search(queries, 7)[0].tolist()
    assert found == expected
    assert all(other.search(queries, 7)[0].tolist() == expected for other in others)


def test_an_upload_that_broke_off_is_taken_up_where_it_ended(opened: Open, tmp_path: Path) -> None:
    keys, rows, queries = keys_of([1] * 600), unit_rows(1, 600), unit_rows(2, 3)
    location = f"qdrant:{tmp_path / 'vectors'}"

    class Broken(Made):
        def __call__(self, start: int, end: int) -> Vectors:
            if start == 512:
                raise KeyboardInterrupt
            return super().__call__(start, end)

    with pytest.raises(KeyboardInterrupt):
        opened(location, keys, Broken(rows))
    rest = Made(rows)
    positions, _ = opened(location, keys, rest).search(queries, 7)
    assert rest.asked == [(512, 600)]
    assert positions.tolist() == ExactVectors(keys, Made(rows)).search(queries, 7)[0].tolist()


@pytest.mark.parametrize("change", ["taken out", "put in"])
def test_a_collection_that_others_changed_is_built_anew(opened: Open, tmp_path: Path, change: str) -> None:
    keys, rows, queries = keys_of([1] * 30), unit_rows(1, 30), unit_rows(2, 3)
    location = f"qdrant:{tmp_path / 'vectors'}"
    store = opened(location, keys, Made(rows))
    from qdrant_client.models import PointStruct  # noqa: PLC0415

    client = store.connection.client  # type: ignore[attr-defined]
    if change == "taken out":
        client.delete(keys.name, points_selector=[4])
    else:
        client.upsert(keys.name, points=[PointStruct(id=77, vector=[1.0] * 8)])
    store.close()  # type: ignore[attr-defined]
    found = opened(location, keys, Made(rows)).search(queries, 7)
    expected = ExactVectors(keys, Made(rows)).search(queries, 7)
    assert found[0].tolist() == expected[0].tolist()


def test_a_collection_is_named_by_texts_and_embedder() -> None:
    names = {keys_name("one", "a"), keys_name("one", "b"), keys_name("two", "a")}
    assert len(names) == 3
    assert all(name.startswith("ragsmith-") and len(name) == 41 for name in names)


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*lock:pytest.PytestUnraisableExceptionWarning")  # the client leaves it open
def test_an_embedded_qdrant_serves_one_process(opened: Open, tmp_path: Path) -> None:
    location = f"qdrant:{tmp_path / 'vectors'}"
    store = opened(location, keys_of([1]), Made(unit_rows(1, 1)))
    with pytest.raises(UsageError, match="serves one process"):
        pickle.dumps(store)
    store.close()  # type: ignore[attr-defined]
    from qdrant_client import QdrantClient  # noqa: PLC0415

    elsewhere = QdrantClient(path=str(tmp_path / "vectors"))  # any other connection stands for another process
    with pytest.raises(UsageError, match="another process has it open"):
        opened(location, keys_of([1]), Made(unit_rows(1, 1)))
    gc.collect()
    elsewhere.close()


@pytest.mark.parametrize(
    "location",
    [
        *("auto", "exact", "approximate", "approximate:folder", "postgresql://here/it"),
        *("qdrant:http://here", "qdrant:folder", "qdrant::memory:"),
    ],
)
def test_only_an_embedded_qdrant_serves_one_process(location: str) -> None:
    assert serves_one_process(location) == (location in ("qdrant:folder", "qdrant::memory:"))


def test_a_server_that_is_down_is_named_without_its_url(opened: Open) -> None:
    with pytest.raises(ModelUnavailable, match="does not answer: check its URL, QDRANT_API_KEY") as caught:
        opened("qdrant:http://127.0.0.1:9", keys_of([1]), Made(unit_rows(1, 1)))
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize("location", ["chroma", "qdrant", "qdrant:", "postgresql", "postgresql:db", "exactly"])
def test_an_unknown_store_is_answered_with_the_known_ones(location: str) -> None:
    with pytest.raises(UsageError, match="give auto, approximate or approximate:FOLDER, exact, "):
        open_vectors(location, keys_of([1]), Made(unit_rows(1, 1)))


def test_a_host_without_a_scheme_is_no_folder(opened: Open) -> None:
    with pytest.raises(UsageError, match="write http"):
        opened("qdrant:localhost:6333", keys_of([1]), Made(unit_rows(1, 1)))


def test_a_server_is_chosen_by_itself_only_where_one_is_named_and_the_corpus_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small, large = keys_of([1]), Keys("ragsmith-large", np.arange(1), LARGE_ROWS)
    monkeypatch.delenv("QDRANT_URL", raising=False)
    assert isinstance(open_vectors("auto", large, Made(unit_rows(1, 1))), ExactVectors)
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:9")
    assert isinstance(open_vectors("auto", small, Made(unit_rows(1, 1))), ExactVectors)
    pytest.importorskip("qdrant_client", reason="needs the extra qdrant")
    with pytest.raises(ModelUnavailable):
        open_vectors("auto", large, Made(unit_rows(1, 1)))


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


def test_a_database_that_is_down_is_named_without_its_url() -> None:
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    with pytest.raises(ModelUnavailable, match="does not answer: check its URL, PGPASSWORD") as caught:
        open_vectors("postgresql://somebody@127.0.0.1:9/vectors", keys_of([1]), Made(unit_rows(1, 1)))
    assert "somebody" not in str(caught.value)


def test_a_database_without_the_extension_is_told_how_to_get_it(request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("postgres_server")
    if programs_with_vectors() == server.programs:
        pytest.skip("the PostgreSQL that is installed has pgvector")
    with pytest.raises(UsageError, match="install pgvector on the server"):
        open_vectors(server.database(), keys_of([1]), Made(unit_rows(1, 1)))


@pytest.mark.parametrize("change", ["DELETE FROM {} WHERE id = 4", "INSERT INTO {} SELECT 77, vector FROM {} LIMIT 1"])
def test_a_table_that_others_changed_is_built_anew(request: pytest.FixtureRequest, change: str) -> None:
    psycopg = pytest.importorskip("psycopg", reason="needs the extra postgres")
    url = request.getfixturevalue("vector_server").database()
    keys, rows, queries = keys_of([1] * 30), unit_rows(1, 30), unit_rows(2, 3)
    open_vectors(url, keys, Made(rows)).close()  # type: ignore[attr-defined]
    with psycopg.connect(url) as connection:
        connection.execute(change.replace("{}", f'"{keys.name}"'))
    store = open_vectors(url, keys, Made(rows))
    found, expected = store.search(queries, 7), ExactVectors(keys, Made(rows)).search(queries, 7)
    store.close()  # type: ignore[attr-defined]
    assert found[0].tolist() == expected[0].tolist()
    with pytest.raises(UsageError, match="was closed"):
        store.search(queries, 7)


def test_a_connection_that_the_server_ended_is_made_again(request: pytest.FixtureRequest) -> None:
    psycopg = pytest.importorskip("psycopg", reason="needs the extra postgres")
    url = request.getfixturevalue("vector_server").database()
    keys, rows, queries = keys_of([1] * 30), unit_rows(1, 30), unit_rows(2, 3)
    store = open_vectors(url, keys, Made(rows))
    expected = store.search(queries, 7)[0].tolist()
    for _ in range(2):
        with psycopg.connect(url, autocommit=True) as other:
            ended = other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchall()
            assert ended == [(True,)]
        assert store.search(queries, 7)[0].tolist() == expected
    store.close()  # type: ignore[attr-defined]


def test_all_tables_of_a_database_share_a_connection_which_a_process_that_is_handed_them_makes_when_it_searches(
    request: pytest.FixtureRequest,
) -> None:
    psycopg = pytest.importorskip("psycopg", reason="needs the extra postgres")
    url = request.getfixturevalue("vector_server").database()
    rows, queries = unit_rows(1, 9), unit_rows(2, 3)
    names = [f"ragsmith-{n}" for n in range(4)]
    handed = [pickle.dumps(open_vectors(url, keys_of([1] * 9, name), Made(rows))) for name in names]
    gc.collect()
    with psycopg.connect(url, autocommit=True) as other:

        def connections() -> int:
            [[count]] = other.execute(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ).fetchall()
            return int(count)

        def settled(wanted: int) -> bool:
            return any(connections() == wanted or sleep(0.05) for _ in range(100))

        assert settled(0)  # a backend takes a moment to end
        stores = [pickle.loads(one) for one in handed]
        assert connections() == 0
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda store: store.search(queries, 3)[0].tolist(), stores * 4))
        assert connections() == 1
        for store in stores:
            store.close()
        assert settled(0)
    assert found == [ExactVectors(keys_of([1] * 9), Made(rows)).search(queries, 3)[0].tolist()] * 16


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        ("SELECT nothing FROM pg_authid_of_nobody", "run the same command again to fill it anew"),
        ("DO $$BEGIN RAISE SQLSTATE '53100'; END$$", "has a full disk: make room there"),
        ("DO $$BEGIN RAISE SQLSTATE '53300'; END$$", "use fewer, or raise its max_connections"),
        ("DO $$BEGIN RAISE SQLSTATE '42501'; END$$", "grant CREATE and USAGE on the schema"),
    ],
)
def test_what_a_database_refuses_is_said_with_what_to_do(
    request: pytest.FixtureRequest, refusal: str, said: str
) -> None:
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    from ragsmith.index.vector_stores.pgvector import DatabaseConnection  # noqa: PLC0415

    server = DatabaseConnection(request.getfixturevalue("vector_server").database())
    with pytest.raises(ModelUnavailable, match=said):
        server.ask(lambda cursor: cursor.execute(refusal))
    assert server.ask(lambda cursor: cursor.execute("SELECT 1").fetchall()) == [(1,)]


def test_a_database_without_a_free_connection_is_said_to_have_none(request: pytest.FixtureRequest) -> None:
    psycopg = pytest.importorskip("psycopg", reason="needs the extra postgres")
    url = request.getfixturevalue("vector_server").database()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("CREATE ROLE narrow LOGIN CONNECTION LIMIT 0")
        with pytest.raises(ModelUnavailable, match="has no connection left, and every worker process needs one"):
            open_vectors(url.replace("ragsmith@", "narrow@"), keys_of([1]), Made(unit_rows(1, 1)))
        other.execute("DROP ROLE narrow")


# --- fewer vectors than keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 1, 2, 6])
@pytest.mark.parametrize("kind", ["qdrant", "postgresql"])
def test_vectors_that_were_taken_out_meanwhile_are_one_clear_error_and_never_wrong_hits(
    request: pytest.FixtureRequest, kind: str, left: int
) -> None:
    keys, rows, queries = keys_of([1] * 9), unit_rows(1, 9), unit_rows(2, 3)
    if kind == "qdrant":
        store = request.getfixturevalue("opened")("qdrant::memory:", keys, Made(rows))
        store.connection.client.delete(keys.name, points_selector=list(range(left, 9)))
    else:
        psycopg = pytest.importorskip("psycopg", reason="needs the extra postgres")
        url = request.getfixturevalue("vector_server").database()
        store = open_vectors(url, keys, Made(rows))
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(f'DELETE FROM "{keys.name}" WHERE id >= {left}')
    with pytest.raises(ModelUnavailable, match=f"found {left} of 9 vectors"):
        store.search(queries, 3)
    getattr(store, "close", lambda: None)()


# --- approximate -----------------------------------------------------------------------------------------------------


def directions(seed: int, rows: int, dimensions: int) -> Vectors:
    """Random unit vectors, no two alike."""
    drawn = np.random.default_rng(seed).standard_normal((rows, dimensions))
    vectors: Vectors = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return vectors


@pytest.mark.parametrize("dimensions", [63, 64])
def test_approximate_search_finds_nearly_all_and_scores_them_as_exact_search_does(
    tmp_path: Path, dimensions: int
) -> None:
    pytest.importorskip("faiss", reason="needs the extra large")
    rows, queries = directions(1, 2 * CODED_ROWS, dimensions), directions(2, 50, dimensions)
    keys = keys_of([2] * CODED_ROWS)
    store = open_vectors(f"approximate:{tmp_path}", keys, Made(rows))
    expected = ExactVectors(keys, Made(rows)).search(queries, CODED_ROWS)
    scores = [dict(zip(*one, strict=True)) for one in zip(expected[0].tolist(), expected[1].tolist(), strict=True)]
    found, cosines = store.search(queries, 10)
    recall = np.mean([len({*one} & {*other}) / 10 for one, other in zip(found, expected[0][:, :10], strict=True)])
    assert recall >= 0.99
    for row, positions in enumerate(found.tolist()):
        assert [scores[row][position] for position in positions] == cosines[row].tolist()
        assert positions == sorted(positions, key=lambda position: (-scores[row][position], position))


def test_approximate_search_finds_the_same_whoever_makes_its_codes(tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="needs the extra large")
    rows, queries = directions(1, CODED_ROWS, 64), directions(2, 20, 64)
    made = [
        ApproximateVectors(keys_of([1] * CODED_ROWS), Made(rows), tmp_path / name).search(queries, 900)
        for name in ("one", "two")
    ]
    assert [one.tolist() for one in made[0]] == [one.tolist() for one in made[1]]


def test_who_does_not_find_the_vectors_that_it_was_handed_is_told_to_share_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss", reason="needs the extra large")
    monkeypatch.chdir(tmp_path)
    rows, queries = unit_rows(1, 9), unit_rows(2, 3)
    store = open_vectors("approximate:vectors", keys_of([1] * 9), Made(rows))
    handed = pickle.dumps(store)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # a relative folder is where it was when the store was opened
    assert pickle.loads(handed).search(queries, 3)[0].tolist() == store.search(queries, 3)[0].tolist()
    (tmp_path / "vectors").rename(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"has not these vectors here: .* name a folder that all machines share"):
        pickle.loads(handed)


def test_codes_and_results_belong_to_a_kind_of_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss", reason="needs the extra large")
    keys, here, elsewhere = keys_of([1] * 9), Made(unit_rows(1, 9)), Made(unit_rows(1, 9))
    open_vectors(f"approximate:{tmp_path}", keys, here)
    found = store_identity("approximate")
    kind_of_machine.cache_clear()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert store_identity("approximate") != found
    assert ":riscv64" in store_identity(f"approximate:{tmp_path}")
    assert store_identity("exact") == store_identity("auto") == ""
    open_vectors(f"approximate:{tmp_path}", keys, elsewhere)
    kind_of_machine.cache_clear()
    assert here.asked == elsewhere.asked == [(0, 9)]


def test_approximate_search_leaves_the_folder_that_it_is_given_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss", reason="needs the extra large")
    monkeypatch.setattr("ragsmith.index.vector_stores.approximate._MOST_BYTES", 1)
    theirs = [tmp_path / name for name in ("proj/.git/HEAD", "proj/notes/may.md", ".hidden/x/y")]
    for file in theirs:
        file.parent.mkdir(parents=True)
        file.write_text("mine")
        os.utime(file.parent, (1000, 1000))
    for name in ("ragsmith-one", "ragsmith-two"):
        open_vectors(f"approximate:{tmp_path}", keys_of([1] * 9, name), Made(unit_rows(1, 9)))
    assert [file.read_text() for file in theirs] == ["mine"] * 3
    assert {path.name for path in tmp_path.iterdir()} == {"proj", ".hidden", "ragsmith-vectors"}


def test_where_results_may_differ_the_store_is_part_of_the_embedders_id() -> None:
    pytest.importorskip("faiss", reason="needs the extra large")
    ids = {at: load_models(ModelNames(vector_store=at), ["salt"]).ids() for at in ("exact", "auto", "approximate")}
    assert ids["exact"] == ids["auto"]
    assert ids["approximate"]["embedder"].startswith(f"{ids['exact']['embedder']}@approximate=")
    assert {**ids["approximate"], "embedder": ids["exact"]["embedder"]} == ids["exact"]


# --- single precision ------------------------------------------------------------------------------------------------


@given(sizes=SIZES, seed=st.integers(0, 99), k=st.integers(1, 30), dimensions=st.integers(1, 40))
@settings(max_examples=60)
def test_screening_in_single_precision_finds_what_a_full_sort_finds(
    sizes: list[int], seed: int, k: int, dimensions: int
) -> None:
    keys = keys_of(sizes)
    for rows, queries in (
        (unit_rows(seed, sum(sizes), dimensions), unit_rows(seed + 1, 11, dimensions)),
        (directions(seed, sum(sizes), dimensions), directions(seed + 1, 11, dimensions)),
    ):
        positions, scores = nearest(keys, queries, rows, k)
        expected, expected_scores = full_sort(keys, rows, queries, k)
        assert positions.tolist() == expected
        np.testing.assert_allclose(scores, expected_scores, atol=1e-9)


def test_what_single_precision_cannot_tell_apart_is_told_apart() -> None:
    rng = np.random.default_rng(1)
    near = directions(1, 1, 256)[0] + 3e-8 * rng.standard_normal((3_000, 256)).astype(np.float32) * 4
    keys, queries = keys_of([1] * len(near)), directions(2, 20, 256)
    rough = np.round(queries @ near.T, 6).astype(np.float64)
    positions, scores = nearest(keys, queries, near, 50)
    expected, expected_scores = full_sort(keys, near, queries, 50)
    assert positions.tolist() == expected
    np.testing.assert_allclose(scores, expected_scores, atol=1e-9)
    assert not np.array_equal(np.take_along_axis(rough, positions, axis=1), scores)  # and without that, it is not


@pytest.mark.parametrize("embedded", [np.float32, np.float64])
def test_a_large_index_finds_in_either_precision_what_a_small_one_would(embedded: type) -> None:
    rows, queries = directions(1, SINGLE_KEYS + 7, 16), directions(2, 30, 16)
    keys = Keys("large", np.arange(len(rows)), len(rows))
    found = ExactVectors(keys, Made(rows.astype(embedded))).search(queries, 60)
    cosines = np.round(queries.astype(np.float64) @ rows.astype(np.float64).T, 6)
    expected = np.argsort(-cosines, axis=1, kind="stable")[:, :60]
    assert found[0].tolist() == expected.tolist()
    np.testing.assert_allclose(found[1], np.take_along_axis(cosines, expected, axis=1), atol=1e-9)


def test_vectors_of_a_large_collection_stay_in_the_precision_in_which_they_came() -> None:
    few, many = np.ones((3, 1), dtype=np.float32), np.ones((SINGLE_KEYS, 1), dtype=np.float32)
    assert as_kept(few).dtype == as_kept(many.astype(np.float64)).dtype == np.float64
    assert as_kept(many) is many


@given(sizes=SIZES, seed=st.integers(0, 99), k=st.integers(1, 30))
@settings(max_examples=30)
def test_the_best_cosines_are_those_of_double_precision_and_the_others_lower(
    sizes: list[int], seed: int, k: int
) -> None:
    keys, rows, queries = keys_of(sizes), unit_rows(seed, sum(sizes)), unit_rows(seed + 1, 3).astype(np.float64)
    every = best_cosines(keys, queries, rows.astype(np.float64), k)
    some = best_cosines(keys, queries, rows, k)
    for one, other in zip(every, some, strict=True):
        best = best_positions(one, k)
        assert best_positions(other, k).tolist() == best.tolist()
        np.testing.assert_allclose(other[best], one[best], atol=1e-9)
        assert (np.delete(other, best) == LOW).all()
