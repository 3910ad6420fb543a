"""Retrieval tuned alone: the fitness is R, nothing is generated, and questions need no answers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import ragsmith
from ragsmith.api.result import Result
from ragsmith.datasets.dataset import load_dataset, write_dataset
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness, Weights, composite
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.space import Space
from ragsmith.runs.run import Run
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES, FILTER_INDEX

OWN = (
    "def last(measures):\n    return 1 - measures['recall']\n\n\ndef judged(measures):\n    return measures['judge']\n"
)


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, tiny_space: Path
) -> Iterator[tuple[Result, Store, Path]]:
    """A search to its end, on questions whose answers were taken away, and its report."""
    folder = tmp_path_factory.mktemp("retrieval")
    with Store.open(folder / "cache.sqlite") as store:
        data = unanswered(tiny_folder, folder / "data")
        yield searched(data, tiny_space, store, reports=folder), store, folder


def unanswered(source: Path, folder: Path) -> Path:
    """The same data set without answers."""
    data = load_dataset(source)
    write_dataset(replace(data, examples=tuple(replace(example, answer="") for example in data.examples)), folder)
    return folder


def searched(data: Path, space: Path, store: Store, reports: Path | None = None) -> Result:
    return ragsmith.search(
        data,
        space=space,
        objective="retrieval",
        chunk_size=100,
        population=6,
        generations=2,
        seed=7,
        workers=1,
        cache=store,
        reports=reports,
    )


def test_nothing_is_generated(found: tuple[Result, Store, Path]) -> None:
    result, store, _ = found
    rows = [row.value for e in store.evaluations(result.setup.dataset.digest) for row in store.results(e.key).values()]
    assert rows
    assert all(value["part"] == "ranking" and "answer" not in value for value in rows)
    assert not any("judge" in value["measures"] for value in rows)


def test_fitness_is_r(found: tuple[Result, Store, Path]) -> None:
    result, _, _ = found
    for row in result.ranking:
        assert row.scores["fitness"].mean == row.scores["retrieval"].mean
        assert "generation" not in row.scores
    for record in result.records():
        assert math.isclose(record.measures["fitness"], composite("retrieval", record.measures))


def test_what_does_not_touch_rankings_is_not_searched(found: tuple[Result, Store, Path], space: Space) -> None:
    result, _, _ = found
    cut = space.restricted_to_rankings()
    assert [len(options) for options in cut.options[FILTER_INDEX + 1 :]] == [1] * (len(FAMILIES) - FILTER_INDEX - 1)
    assert cut.options[: FILTER_INDEX + 1] == space.options[: FILTER_INDEX + 1]
    assert result.run_report.about.record.space.size == cut.size < space.size
    assert cut.restricted_to_rankings() == cut


def test_rankings_are_those_of_a_full_evaluation(
    found: tuple[Result, Store, Path], tiny_setup: Experiment, store: Store
) -> None:
    result, _, _ = found
    searched = [tiny_setup.examples[question] for question in result.run_report.about.record.split.search]
    with Evaluator(tiny_setup, store, 1) as evaluator:
        (whole,) = evaluator.evaluate([result.winner.candidate], searched)
    assert whole.mean("generation") is not None
    assert math.isclose(whole.mean("retrieval") or 0.0, result.ranking[0].scores["retrieval"].mean, abs_tol=1e-12)


def test_report_and_winner_say_what_was_not_searched(found: tuple[Result, Store, Path]) -> None:
    result, _, _ = found
    report = next(file for file in result.files if file.suffix == ".md").read_text()
    assert "Only retrieval was tuned" in report
    assert "without an LLM" not in report
    winner = next(file for file in result.files if file.suffix == ".yaml")
    text = winner.read_text()
    assert "the stages after passage_filter were not searched" in text
    stands = yaml.safe_load(text)
    assert stands["fitness"] == {"objective": "retrieval"}
    assert "generation" not in stands["expected"]["search"]


def test_the_winner_is_verified_asked_and_evaluated(found: tuple[Result, Store, Path], tmp_path: Path) -> None:
    result, _, _ = found
    winner = Pipeline.load(next(file for file in result.files if file.suffix == ".yaml"))
    assert winner.fitness == Fitness().with_objective("retrieval")
    assert winner.verify() == []
    assert winner.ask("How high is the lighthouse?").answer
    with Store.open(tmp_path / "elsewhere.sqlite") as store:
        evaluation = winner.evaluate(store)
    assert evaluation.complete
    assert evaluation.mean("generation") is None


def test_answers_are_not_scored_where_there_are_none(
    found: tuple[Result, Store, Path], tiny_space: Path, store: Store
) -> None:
    _, _, folder = found
    with pytest.raises(UsageError, match=r"24 of 24 questions have no reference answer .* --objective retrieval"):
        ragsmith.search(folder / "data", space=tiny_space, chunk_size=100, cache=store, workers=1)
    assert not store.runs()


def test_a_fitness_function_gets_the_measures_of_a_ranking(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    fitness = Fitness.from_spec(f"{file}:last").with_objective("retrieval")
    assert fitness({"recall": 0.25, "map": 0.0, "ndcg": 0.0, "mrr": 0.0}) == 0.75
    assert Fitness.from_dict(fitness.to_dict()) == fitness
    with pytest.raises(UsageError, match="asks for a measure that a question lacks: 'judge'"):
        Fitness.from_spec(f"{file}:judged").with_objective("retrieval")


def test_weights_of_r_and_g_are_not_dropped_unsaid(tiny_folder: Path, tiny_space: Path, store: Store) -> None:
    weights = Weights(0.3, 0.7)
    with pytest.raises(WrongOption, match="objective is retrieval, which has no G to weigh against R: leave"):
        ragsmith.search(tiny_folder, space=tiny_space, cache=store, fitness=weights, objective="retrieval")
    assert not store.runs()
    assert Fitness(Weights(1, 0)).with_objective("retrieval") == Fitness().with_objective("retrieval")


def test_a_full_search_is_not_mistaken_for_one_of_retrieval(
    found: tuple[Result, Store, Path], tiny_setup: Experiment, space: Space, store: Store
) -> None:
    run = Run(tiny_setup, space, store)
    assert run.key != Run(tiny_setup, space, store, found[0].run_report.about.record.settings).key
