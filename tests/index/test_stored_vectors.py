"""Evaluations whose vectors lie in an embedded Qdrant: the same results, in one process, under the same keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.threads import Runner
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.genes import Candidate
from ragsmith.store.store import Store

pytest.importorskip("qdrant_client", reason="needs the extra qdrant")

Build = Callable[..., Candidate]


@pytest.fixture
def stored(tiny_setup: Experiment, tmp_path: Path) -> Experiment:
    return replace(tiny_setup, models=ModelNames(vector_store=f"qdrant:{tmp_path / 'vectors'}"))


def evaluated(setup: Experiment, cache: Path, candidates: list[Candidate], workers: int = 1) -> list[Evaluation]:
    with Store.open(cache) as store, Evaluator(setup, store, workers) as evaluator:
        found = evaluator.evaluate(candidates, setup.dataset.examples)
        if workers > 1:
            assert isinstance(evaluator._runner, Runner)
    return found


def test_records_and_keys_are_those_of_exact_search(
    tiny_setup: Experiment, stored: Experiment, pipeline: Build, tmp_path: Path
) -> None:
    candidates = [  # search vectors in every way, over three indexes
        *(pipeline(retrieval=retrieval) for retrieval in ("vector", "hybrid", "nest")),
        pipeline(pre_embedding="contextual_chunk_headers"),
        pipeline(pre_embedding="hype", retrieval="complete_hybrid"),
    ]
    exact = evaluated(tiny_setup, tmp_path / "exact.sqlite", candidates)
    there = evaluated(stored, tmp_path / "stored.sqlite", candidates, workers=2)
    assert [one.key for one in there] == [one.key for one in exact]
    assert [one.records for one in there] == [one.records for one in exact]
    assert all(one.complete for one in exact)
    assert len(list((tmp_path / "vectors" / "collection").iterdir())) == 3


def test_what_is_there_is_not_embedded_again(stored: Experiment, pipeline: Build) -> None:
    first = stored.engine()
    first.prepare(pipeline())
    assert first.gateway.counts()["embedder"].made == 24
    again = stored.engine()  # beside the first: they share the folder
    index, _ = again.prepare(pipeline())
    assert again.gateway.counts()["embedder"].made == 0
    assert again.models.embedder.id not in index.cached_names
