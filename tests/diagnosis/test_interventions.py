"""What passes a filter with the gold put in, with the noise taken out, and with gold alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ragsmith.diagnosis.interventions import (
    AS_IT_IS,
    GOLD_ALONE,
    GOLD_IN,
    NOISE_OUT,
    intervene,
    replace_hits,
    select_parts,
)
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.pipelines.genes import Candidate
from ragsmith.store.store import Store
from ragsmith.techniques.families import passage_filter
from ragsmith.types import Chunk, Hit, Hits, Question, Scale


def hit(name: str) -> Hit:
    return Hit(Chunk(name, "doc", 0, 0, 4, "text"), 1.0, Scale.BM25)


HITS, GOLD = (hit("a"), hit("b"), hit("c")), (hit("b"), hit("x"))


@pytest.mark.parametrize(
    ("what", "kept"), [(GOLD_IN, ["x", "a", "b", "c"]), (NOISE_OUT, ["b"]), (GOLD_ALONE, ["b", "x"])]
)
def test_what_passes_is_changed(what: str, kept: list[str]) -> None:
    assert [one.chunk.id for one in replace_hits(what, HITS, GOLD)] == kept


def test_noise_stays_where_nothing_else_would_be_left() -> None:
    assert replace_hits(NOISE_OUT, HITS, (hit("x"),)) == HITS


def all_but_the_best(question: Question, hits: Hits) -> Hits:
    """Keep what stands behind the first."""
    return tuple(hits[1:])


def test_means_are_those_of_the_pipeline_and_of_a_perfect_filter(
    tiny_setup: Experiment, store: Store, pipeline: Callable[..., Candidate], registered: Callable[..., object]
) -> None:
    registered(passage_filter, all_but_the_best)
    candidate, fitness = pipeline(retrieval="bm25", passage_filter="all_but_the_best"), Fitness()
    with Evaluator(tiny_setup, store, 1) as evaluator:
        [means] = intervene(evaluator, select_parts(tiny_setup, "all"), [candidate], fitness)
        found = {one.what: one for one in means if one.split == "search"}
        [plain] = evaluator.evaluate([candidate], tiny_setup.split.search)
    searched = len(tiny_setup.split.search)
    assert found[AS_IT_IS].n == searched
    assert found[AS_IT_IS].changed == 0
    for name in ("retrieval", "generation", "fitness"):
        assert getattr(found[AS_IT_IS], name) == pytest.approx(plain.mean(name))
    assert found[GOLD_ALONE].retrieval == pytest.approx(1.0)
    assert found[GOLD_IN].retrieval >= found[AS_IT_IS].retrieval
    assert found[GOLD_IN].changed == sum(value < 1 for value in plain.values("recall"))
    assert found[GOLD_ALONE].generation > found[AS_IT_IS].generation
    assert {one.split for one in means} == {"search", "test"}
    assert set(select_parts(tiny_setup, "search")) == {"search"}
