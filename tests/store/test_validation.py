from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import create_engine
from stored import put_call

from ragsmith.store.rows import _checksum, add_checksum, upsert
from ragsmith.store.schema import METADATA
from ragsmith.store.store import AGREEING_VECTORS, EvaluationRow, ProposalRow, ResultRow, Store, StoredCall

MEASURES = {"recall": 1.0, "map": 1.0, "ndcg": 1.0, "mrr": 1.0, "judge": 0.5, "similarity": None}
USAGE = {"calls": 1, "texts_embedded": 0, "pairs_scored": 0, "input_tokens": 30, "output_tokens": 10}
RESULT = {"answer": "a", "retrieved": ["c1"], "measures": MEASURES, "stages": {}, "usage": USAGE}
RUN: dict[str, Any] = {
    "space": {"name": "s", "digest": "d", "size": 4, "feasible": 4, "options": {}},
    "settings": {"strategy": "genetic", "genetic": {}},
    "models": {},
    "model_names": {},
    "chunk_size": 9,
    "split": {"rule": "r", "search": [], "test": []},
}


def vector(*numbers: float) -> str:
    return base64.b64encode(np.asarray(numbers, dtype="<f4").tobytes()).decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A cache with a row of every form."""
    path = tmp_path / "cache.sqlite"
    with Store.open(path) as store:
        store.put_dataset("d", "law", {"title": "t", "description": "", "documents": 1, "chunks": 2, "questions": {}})
        store.put_evaluations([EvaluationRow("e", "d", {"pipeline": {}, "chunk_size": 9, "models": {}})])
        store.put_results([ResultRow("e", "q1", "ok", RESULT)])
        store.put_results([ResultRow("e", "q2", "failed", {"stage": "s", "error": "x"})])
        store.put_run("r", "d", RUN)
        store.put_proposals("r", [ProposalRow(0, 0, [1, 2], "e", {"fitness": None})])
        store.put_fit("f", "d", {"numbers": {}, "held_out": []})
        put_call(store, "reply", "chat", "answer", "yes", calls=1, input_tokens=30, output_tokens=10)
        put_call(store, "score", "ranker", "what?", 0.5)
        for n in range(3):
            put_call(store, f"vector{n}", "embedder", "text", vector(n, 1.0))
    return path


@pytest.fixture
def put_wrong(path: Path) -> Callable[..., None]:
    """Put a row in its place as another program would, with a checksum that is right."""

    def put(table: str, *row: Any) -> None:
        sealed = add_checksum(METADATA.tables[table], row)
        engine = create_engine(f"sqlite:///{path}")
        with engine.begin() as connection:
            connection.execute(upsert(METADATA.tables[table], "sqlite", replacing=True), [sealed])
        engine.dispose()

    return put


WRONG: list[tuple[str, tuple[Any, ...], str, str]] = [
    ("result", ("e", "q1", "ok", {"answer": "a"}, 1), "result:e/q1", "question q1 of evaluation e on data set law"),
    ("result", ("e", "q1", "ok", {**RESULT, "measures": {"f1": "high"}}, 1), "result:e/q1", "data set law"),
    ("result", ("e", "q2", "failed", ["s", "x"], 1), "result:e/q2", "question q2 of evaluation e on data set law"),
    ("run", ("r", "d", "running", [RUN], None, None), "run:r", "record of run r on data set law"),
    ("run", ("r", "d", "running", {**RUN, "space": "s"}, None, None), "run:r", "record of run r on data set law"),
    ("proposal", ("r", 0, 0, "12", "e", {"fitness": 1}), "proposal:r/0", "candidate 0 of run r on data set law"),
    ("proposal", ("r", 0, 0, [1, 2], "e", {}), "proposal:r/0", "candidate 0 of run r on data set law"),
    ("result", ("e", "q1", "ok", {**RESULT, "usage": {"calls": 10**400}}, 1), "result:e/q1", "data set law"),
    (
        "result",
        ("e", "q1", "ok", RESULT | {"measures": MEASURES | {"f1": 9 * 10**60}}, 1),
        "result:e/q1",
        "data set law",
    ),
    ("fit", ("f", "d", {"numbers": []}), "fit:f", "numbers that techniques learned on data set law"),
    ("evaluation", ("e", "d", {"pipeline": {"retrieval": 3}}), "evaluation:e", "evaluation e on data set law"),
    ("dataset", ("d", "law", []), "dataset:d", "data set law"),
    ("model_call", ("reply", "chat", "answer", None, 1, 1, 1, 0.0), "model_call:reply", "reply of chat to answer"),
    (
        "model_call",
        ("vector1", "embedder", "text", vector(1, 2, 3), 1, 1, 1, 0.0),
        "model_call:vector1",
        "reply of embedder to text",
    ),
    ("model_call", ("vector1", "embedder", "text", "no!", 1, 1, 1, 0.0), "model_call:vector1", "embedder"),
]


@pytest.mark.parametrize(("table", "row", "name", "what"), WRONG, ids=lambda value: str(value)[:30])
def test_a_row_of_another_form_is_damage(
    path: Path, put_wrong: Callable[..., None], table: str, row: tuple[Any, ...], name: str, what: str
) -> None:
    with Store.open(path) as store:
        assert store.verify() == []
    put_wrong(table, *row)
    with Store.open(path) as store:
        [damage] = store.verify()
        assert damage.row == name
        assert what in damage.what
    with Store.open(path) as store:
        found = [
            *store.datasets(),
            *store.evaluations("d"),
            *store.results("e").values(),
            *store.runs(),
            *store.proposals("r"),
            *store.fits(["f"]),
            *store.get_calls(["reply", "vector0", "vector1", "vector2"]),
        ]
        assert len(found) == 11 - 1
        assert store.damaged == [name]


def test_a_row_that_is_nested_too_deeply_is_damage(path: Path) -> None:
    """Its checksum is right: another program wrote it."""
    table = METADATA.tables["fit"]
    values = ["f", "d", "[" * 100_000 + "]" * 100_000]
    sealed = dict(zip([column.name for column in table.columns], [*values, _checksum("fit", values)], strict=True))
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(upsert(table, "sqlite", replacing=True), [sealed])
    engine.dispose()
    with Store.open(path) as store:
        assert [damage.row for damage in store.verify()] == ["fit:f"]
        assert store.fits(["f"]) == {}


def test_the_dimensions_of_a_model_are_those_of_many_vectors_as_first_read(path: Path) -> None:
    def put(store: Store, *numbers: int) -> None:
        store.put_calls([StoredCall(f"v{n}", "new", "text", vector(n, 1.0, 0.0)) for n in numbers])

    with Store.open(path) as store:
        put(store, *range(AGREEING_VECTORS - 1))
        assert store.vector_dimensions("new") is None
        put(store, AGREEING_VECTORS)
        assert store.vector_dimensions("new") is None
    with Store.open(path) as store:
        assert (store.vector_dimensions("new"), store.vector_dimensions("other")) == (3, None)
