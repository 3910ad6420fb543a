"""Whole searches with models of one's own, in this process: what is kept, and the same results from every store."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sentence_transformers", reason="needs the extra sentence-transformers")
pytest.importorskip("torch")
pytest.importorskip("transformers")
from tiny_networks import save_bi_encoder, save_ranker

Command = Callable[..., Any]
Arguments = Callable[..., list[object]]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> list[str]:
    """Flags that name a tiny bi-encoder and a tiny cross-encoder that know the words of the data set."""
    text = " ".join(path.read_text() for path in (tiny_folder / "documents").glob("*.md"))
    words = sorted(set(re.findall(r"\w+|[^\w\s]", f"{text} query document : ?".lower())))
    folder = tmp_path_factory.mktemp("networks")
    bi_encoder, ranker = save_bi_encoder(folder, words), save_ranker(folder / "ranker", words)
    return ["--embedder", f"sentence-transformers:{bi_encoder}", "--reranker", f"sentence-transformers:{ranker}"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def searched(ragsmith: Command, search_arguments: Arguments, models: list[str]) -> Callable[..., dict[str, Any]]:
    """Run the search, and return what it says."""

    def search(*more: object, home: str = ".") -> dict[str, Any]:
        Path(home).mkdir(exist_ok=True)
        where = {"cache": f"{home}/cache.sqlite", "reports": f"{home}/reports"}
        done = ragsmith(*search_arguments(*models, "--json", *more, **where))
        assert done.code == 0, done.err
        assert "Traceback" not in done.err
        said: dict[str, Any] = json.loads(done.out)
        return said

    return search


def forget_results(cache: Path) -> None:
    with closing(sqlite3.connect(cache)) as database, database:
        database.execute("DELETE FROM result")


def account(ragsmith: Command) -> dict[str, Any]:
    """What the last run made, by kind of model."""
    from ragsmith.records.record import RunRecord  # noqa: PLC0415
    from ragsmith.store.store import Store  # noqa: PLC0415

    with Store.open("cache.sqlite", read_only=True) as store:
        [run] = store.runs()
        calls = RunRecord.from_dict(run.value).account.calls
    return {kind: asdict(counts) for kind, counts in calls.items()}


def test_a_search_is_resumed_from_what_is_kept(searched: Callable[..., dict[str, Any]], ragsmith: Command) -> None:
    first = searched()
    made = account(ragsmith)
    assert made["embedder"]["made"] > 24 + 18
    assert made["cross_encoder"]["made"] > 18
    winner = Path(first["winner"]).read_bytes()
    again = searched()
    assert (again["state"], again["computed"], again["model_calls"]) == ("finished", 0, 0)
    forget_results(Path("cache.sqlite"))
    replayed = searched()
    assert replayed["computed"] == first["computed"]
    calls = account(ragsmith)
    assert (calls["embedder"]["made"], calls["cross_encoder"]["made"]) == (0, 0)
    assert calls["embedder"]["stored"] == made["embedder"]["made"]
    assert Path(replayed["winner"]).read_bytes() == winner


def test_a_winner_is_asked_and_verified(searched: Callable[..., dict[str, Any]], ragsmith: Command) -> None:
    said = searched("--workers", 1)
    asked = ragsmith("ask", said["winner"], "Who steers the ferry?", "--json")
    assert asked.code == 0, asked.err
    assert json.loads(asked.out)["sources"]
    verified = ragsmith("verify", said["winner"])
    assert (verified.code, verified.err) == (0, "")
    assert "every score is reproduced" in verified.out


def test_vectors_in_qdrant_change_nothing(
    searched: Callable[..., dict[str, Any]], ragsmith: Command, models: list[str]
) -> None:
    pytest.importorskip("qdrant_client", reason="needs the extra qdrant")
    exact = searched(home="exact")
    Path("models.yaml").write_text(f"embedder:\n  model: {models[1]}\n  vector_store: qdrant:vectors\n")
    stored = searched("--models", "models.yaml", home="qdrant")
    assert any(Path("vectors", "collection").iterdir())
    # The summary names the cache in the command that exports the pipeline to take, which may be wrapped elsewhere.
    said, expected = (" ".join(one["summary"]).split() for one in (stored, exact))
    assert [word.replace("qdrant/", "exact/") for word in said] == expected
    assert stored["computed"] == exact["computed"]
    lines = Path(stored["winner"]).read_text().splitlines()
    place = [line for line in lines if "qdrant:" in line]  # so that the winner finds its vectors again
    assert len(place) == 1
    assert "vector_store" in place[0]
    assert [line for line in lines if line not in place] == Path(exact["winner"]).read_text().splitlines()
    for home in ("exact", "qdrant"):  # neither place is part of what results are kept under
        done = ragsmith(
            *("evaluate", stored["winner"], "--cache", f"{home}/cache.sqlite", "--json"),
            *("--vector-store", "qdrant:vectors"),
        )
        assert done.code == 0, done.err
        assert json.loads(done.out)["search"]["failed"] == 0
    asked = [
        ragsmith("ask", exact["winner"], "Who steers the ferry?", "--json", "--vector-store", store)
        for store in ("exact", "qdrant:vectors", "qdrant::memory:")
    ]
    assert [done.code for done in asked] == [0, 0, 0]
    assert len({done.out for done in asked}) == 1
