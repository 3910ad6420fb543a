"""Quality against calls: the Pareto front of a run, its knee, and the cheapest pipeline not shown to be worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from stored import recorded

from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.ranking import Terms
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.writing import write_winner
from ragsmith.pipelines.genes import read_configuration
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.front import Point, find_cheapest, find_knee, pareto_front, quality_and_calls, rank_points
from ragsmith.records.record import RunSettings
from ragsmith.reporting.building import load_report
from ragsmith.runs.run import Run
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings
from ragsmith.techniques.families import FAMILIES, passage_filter
from ragsmith.types import Hits, Question

QUESTIONS = tuple(f"q{n:02}" for n in range(30))
FITNESS = Fitness(Weights(1, 0))
MARGIN = 0.02


def evaluation(key: str, values: Sequence[float], calls: float = 1.0) -> Evaluation:
    records = {}
    for question, value in zip(QUESTIONS, values, strict=True):
        measures = {**dict.fromkeys(("recall", "map", "ndcg", "mrr"), value), "judge": 0.0, "similarity": 0.0}
        records[question] = {"measures": measures, "usage": {"calls": calls}, "answer": key, "retrieved": []}
    return Evaluation(key, (), QUESTIONS, records, {})


def flat(key: str, value: float, calls: float) -> Evaluation:
    return evaluation(key, [value] * len(QUESTIONS), calls)


def found(*evaluations: Evaluation) -> list[Point]:
    return list(rank_points(evaluations, Terms.from_evaluations(evaluations, FITNESS)))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_the_front_has_the_pipelines_that_no_other_dominates(drawn: list[tuple[int, int]]) -> None:
    everyone = [flat(f"{n}", fitness / 10, calls) for n, (fitness, calls) in enumerate(drawn)]
    along = pareto_front(found(*everyone), quality_and_calls)
    reached = {(point.fitness, point.calls) for point in along}
    for fitness, calls in drawn:
        beaten = any(f / 10 >= fitness / 10 and c <= calls and (f, c) != (fitness, calls) for f, c in drawn)
        assert ((pytest.approx(fitness / 10), calls) in list(reached)) is not beaten
    assert all(a.fitness > b.fitness and a.calls > b.calls for a, b in pairwise(along))


def test_the_knee_is_where_more_calls_begin_to_gain_little() -> None:
    everyone = flat("a", 0.50, 1), flat("b", 0.58, 2), flat("c", 0.60, 5), flat("d", 0.61, 9)
    along = pareto_front(found(*everyone), quality_and_calls)
    assert find_knee(along).evaluation.key == "b"
    assert find_knee(along[:1]).evaluation.key == "d"


def test_where_no_pipeline_is_above_the_line_the_knee_asks_the_fewest_calls() -> None:
    assert (
        find_knee(pareto_front(found(flat("few", 0.50, 1), flat("many", 0.60, 4)), quality_and_calls)).evaluation.key
        == "few"
    )


def test_the_cheapest_is_shown_to_be_within_the_margin() -> None:
    winner = evaluation("winner", [0.6] * 30, 5)
    near = evaluation("near", [0.6 - MARGIN / 2 + (-1) ** n * 0.01 for n in range(30)], 2)
    unsure = evaluation("unsure", [0.6 - MARGIN / 2 + (-1) ** n * 0.2 for n in range(30)], 1)
    far = evaluation("far", [0.6 - 2 * MARGIN + (-1) ** n * 0.001 for n in range(30)], 1)
    everyone = (winner, near, unsure, far)
    assert find_cheapest(found(*everyone), winner, Terms.from_evaluations(everyone, FITNESS), MARGIN).key == "near"
    assert find_cheapest(found(*everyone), winner, Terms.from_evaluations(everyone, FITNESS), 3 * MARGIN).key == "far"
    assert find_cheapest(found(winner), winner, Terms.from_evaluations(everyone, FITNESS), MARGIN).key == "winner"


def test_what_finds_nothing_is_not_the_cheapest() -> None:
    everyone = flat("winner", MARGIN / 2, 5), flat("little", MARGIN / 4, 3), flat("nothing", 0.0, 0)
    assert (
        find_cheapest(found(*everyone), everyone[0], Terms.from_evaluations(everyone, FITNESS), MARGIN).key == "little"
    )


def test_what_finds_nothing_is_offered_by_its_place_alone(
    store: Store, tiny_setup: Experiment, tmp_path: Path, registered: Callable[..., Any]
) -> None:
    def keep_nothing(question: Question, hits: Hits) -> Hits:
        """Return no chunks, so that nothing is found and no model is called."""
        return ()

    registered(passage_filter, keep_nothing)
    options = dict.fromkeys((family.name for family in FAMILIES), "none")
    options |= {"retrieval": "vector, bm25", "passage_filter": "top_k, keep_nothing", "prompt_maker": "listing"}
    file = tmp_path / "space.yaml"
    file.write_text("families:\n" + "".join(f"  {name}: [{listed}]\n" for name, listed in options.items()))
    settings = RunSettings(strategy="exhaustive", racing=None, warm_start=False, simplify=False)
    key = Run(tiny_setup, load_space(file), store, settings).go().key
    domain = load_report(store, tiny_setup.dataset.name)
    assert domain.ranking[-1].scores["retrieval"].mean == 0
    assert domain.ranking[-1].usage["calls"] == 0
    assert [row.scores["retrieval"].mean > 0 for row in domain.front] == [True]
    for pick in ("knee", "cheapest", "single", "calls<=1"):
        written = yaml.safe_load(write_winner(store, key, tiny_setup, tmp_path / "p.yaml", pick).read_text())
        assert written["expected"]["search"]["retrieval"] > 0
    last = write_winner(store, key, tiny_setup, tmp_path / "p.yaml", str(len(domain.ranking)))
    assert yaml.safe_load(last.read_text())["expected"]["search"]["retrieval"] == 0
    with pytest.raises(UsageError, match=r"makes 1\.0 calls a question, except those that find nothing"):
        write_winner(store, key, tiny_setup, tmp_path / "p.yaml", "calls<=0")
    with pytest.raises(UsageError, match="nothing was recommended for this search"):
        write_winner(store, key, tiny_setup, tmp_path / "p.yaml", "recommended")


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), max_size=20))
def test_the_front_of_several_costs_is_what_nothing_else_is_as_good_as(drawn: list[tuple[int, int, int]]) -> None:
    along = pareto_front(drawn, lambda one: (one[0], -one[1], -one[2]))
    beaten = {
        one for one in drawn for f, c, m in drawn if f >= one[0] and c <= one[1] and m <= one[2] and (f, c, m) != one
    }
    assert sorted(along) == sorted(set(drawn) - beaten)
    assert [one[0] for one in along] == sorted((one[0] for one in along), reverse=True)


def test_what_is_picked_is_written_and_reproduced(
    store: Store, tiny_setup: Experiment, space: Space, tmp_path: Path
) -> None:
    settings = RunSettings(genetic=GeneticSettings(population=6, generations=2, elitism=2), seed=7)
    key = Run(tiny_setup, space, store, settings).go().key
    record = recorded(store, key)
    for pick in ("best", "winner", "knee", "cheapest", "single", "recommended", "2", "calls<=1", "calls <= 1.5"):
        path = write_winner(store, key, tiny_setup, tmp_path / "picked.yaml", pick)
        written = yaml.safe_load(path.read_text())
        assert written["run"].get("pick", "best") == pick
        assert written["expected"]["search"]["questions"] == len(record.split.search)
        assert Pipeline.load(path, dataset=tiny_setup.dataset).verify() == []
        if pick == "recommended":
            stored = store.evaluation(record.recommended or "")
            assert stored is not None
            assert Pipeline.load(path, dataset=tiny_setup.dataset).candidate == read_configuration(
                stored.configuration["pipeline"]
            )
    for pick, said in (
        ("best of all", "names no pipeline: give best, winner, calibrated, knee,"),
        ("calibrated", "nothing was calibrated: this search had no --max-risk that declining can keep"),
        ("0", "the ranking has the places 1 to"),
        ("calls<=0", "the cheapest pipeline of this search makes 1.0 calls a question"),
    ):
        with pytest.raises(UsageError, match=said):
            write_winner(store, key, tiny_setup, tmp_path / "picked.yaml", pick)
