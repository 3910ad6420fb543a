"""Learned rankings in a pipeline: which weights a question is answered with, where they are kept, what they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from learned_ranking import weighing

from ragsmith.datasets.dataset import make_dataset
from ragsmith.evaluation.evaluation import Evaluation, load_evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.fitting import add_general_weights
from ragsmith.evaluation.general_weights import GeneralWeights, load_shipped_weights
from ragsmith.evaluation.keys import evaluation_key, ranking_key
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.writing import export_yaml
from ragsmith.pipelines.genes import Candidate, Fit, configuration, out_of_fold, question_digest, read_configuration
from ragsmith.store.store import Store
from ragsmith.techniques.listwise import solve
from ragsmith.testing import example_documents
from ragsmith.types import Gold, Question

Build = Callable[..., Candidate]

WRONG = weighing(questions=3, retrieval={"bm25": -1.0, "cosine": -1.0}, reranking={"cross_encoder": -1.0})
FITTED = {"retrieval": ("listnet", {"weights": "fitted"})}


class Watched:
    """A store that notes which fits it is handed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.put: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def put_fit(self, key: str, dataset: str, value: Any) -> Any:
        self.put.append(key)
        return self.store.put_fit(key, dataset, value)


@pytest.fixture
def wrong(tiny_setup: Experiment) -> Experiment:
    """The island, where general weights put the worst first, so that its own questions are heard."""
    return replace(tiny_setup, weights=WRONG)


def evaluated(setup: Experiment, store: Store, *candidates: Candidate) -> list[Evaluation]:
    with Evaluator(setup, store, 1) as evaluator:
        return evaluator.evaluate(candidates, setup.dataset.examples)


def fit_of(candidate: Candidate, family: str = "retrieval") -> Fit:
    [fit] = [gene.fit for gene in candidate if gene.technique.family == family]
    assert fit is not None
    return fit


def learned_from(
    setup: Experiment, store: Store, candidate: Candidate, family: str, ids: Iterable[str]
) -> dict[str, Any]:
    """What the gene of ``family`` learns from some questions alone."""
    [gene] = [gene for gene in candidate if gene.technique.family == family]
    engine = setup.engine(store)
    seen = [
        engine.observe(candidate, family, Question(setup.examples[one].question), Gold(setup.relevance[one].relevant))
        for one in sorted(ids)
    ]
    return solve(seen, general=setup.general_weights(gene), without="")


@pytest.mark.parametrize("family", ["retrieval", "reranking"])
def test_a_search_question_is_answered_with_weights_learned_without_its_fold(
    wrong: Experiment, store: Store, pipeline: Build, family: str
) -> None:
    candidate = pipeline(**{family: ("listnet", {"weights": "fitted"})})
    (evaluation,) = evaluated(wrong, store, candidate)
    assert evaluation.complete
    fit = fit_of(evaluation.candidate, family)
    everyone = {one.id for one in wrong.calibration}
    whole = learned_from(wrong, store, candidate, family, everyone)
    assert whole["times"] > 0
    assert dict(fit.numbers) == whole
    for part in wrong.folds:
        without = learned_from(wrong, store, candidate, family, everyone - set(part))
        assert without["weights"] != whole["weights"]
        for question in (wrong.examples[one].question for one in part):
            assert fit_of(out_of_fold(evaluation.candidate, question), family).numbers == without
    for example in wrong.split.test:
        assert fit_of(out_of_fold(evaluation.candidate, example.question), family).numbers == whole
    held = {question for questions, _ in fit.held_out for question in questions}
    assert held == {question_digest(one.question) for one in wrong.calibration}


def test_fitted_weights_are_kept_and_read_back(wrong: Experiment, store: Store, pipeline: Build) -> None:
    watched = Watched(store)
    candidate = pipeline(**FITTED)
    (first,) = evaluated(wrong, watched, candidate)  # type: ignore[arg-type]
    assert len(watched.put) == 1
    assert store.fits(watched.put) == {watched.put[0]: fit_of(first.candidate).to_dict()}
    (second,) = evaluated(wrong, watched, candidate)  # type: ignore[arg-type]
    assert len(watched.put) == 1
    assert (second.key, second.candidate, second.records) == (first.key, first.candidate, first.records)
    assert read_configuration(configuration(first.candidate)) == first.candidate
    assert load_evaluation(store, first.key, first.questions).candidate == first.candidate


@pytest.mark.parametrize(
    "other",
    [
        weighing(questions=3, retrieval={"bm25": -1.0, "cosine": -0.9}),
        weighing(questions=300, retrieval={"bm25": -1.0, "cosine": -1.0}),
    ],
    ids=["weights", "questions"],
)
def test_what_is_learned_beginning_with_other_general_weights_is_learned_anew(
    wrong: Experiment, store: Store, pipeline: Build, other: GeneralWeights, tmp_path: Path
) -> None:
    candidate, changed = pipeline(**FITTED), replace(wrong, weights=other)
    (before,) = evaluated(wrong, store, candidate)
    (after,) = evaluated(changed, store, candidate)
    with Store.open(tmp_path / "fresh.sqlite") as fresh:
        (anew,) = evaluated(changed, fresh, candidate)
    assert fit_of(anew.candidate) != fit_of(before.candidate)
    assert fit_of(after.candidate) == fit_of(anew.candidate)
    assert after.key == anew.key != before.key


def test_general_weights_need_no_question_and_no_place_in_the_store(
    tiny_setup: Experiment, store: Store, pipeline: Build
) -> None:
    watched = Watched(store)
    candidate = pipeline(retrieval="listnet", reranking="listnet")
    (evaluation,) = evaluated(tiny_setup, watched, candidate)  # type: ignore[arg-type]
    assert evaluation.complete
    assert watched.put == []
    for family in ("retrieval", "reranking"):
        fit = fit_of(evaluation.candidate, family)
        general = load_shipped_weights().general(f"{family}.listnet")
        assert fit.held_out == ()
        assert fit.numbers["times"] == 0
        assert list(fit.numbers["weights"]) == list(general.signals)
        assert list(fit.numbers["weights"].values()) == pytest.approx(general.weights.tolist(), abs=1e-6)
    unasked = make_dataset({"name": "unasked"}, tiny_setup.dataset.documents, [])
    found = Pipeline(candidate, Experiment(unasked, chunk_size=100))
    assert found.candidate == evaluation.candidate
    assert "seven" in found.ask("When does the ferry to Marrow leave?").answer


@pytest.mark.parametrize(
    "options", [{"retrieval": "listnet", "reranking": "listnet"}, FITTED], ids=["general", "fitted"]
)
def test_an_exported_pipeline_keeps_its_numbers_on_other_documents(
    wrong: Experiment, store: Store, pipeline: Build, tiny_folder: Path, tmp_path: Path, options: Mapping[str, Any]
) -> None:
    with Evaluator(wrong, store, 1) as evaluator:
        (search,) = evaluator.evaluate([pipeline(**options)], wrong.calibration)
        (tested,) = evaluator.evaluate([search.candidate], wrong.split.test)
    text = export_yaml(
        search, tested, wrong, {}, location={"path": str(tiny_folder)}, folder=tmp_path, fitness=Fitness()
    )
    path = tmp_path / "winner.yaml"
    path.write_text(text)
    home = Pipeline.load(path)
    away = Pipeline.load(path, dataset=make_dataset({"name": "town"}, example_documents(), []))
    assert home.candidate == away.candidate == search.candidate
    assert home.verify() == []
    assert away.ask("Who rings the bell?").sources


@pytest.mark.parametrize("before", [{"retrieval": "listnet"}, FITTED], ids=["general", "fitted"])
def test_records_do_not_depend_on_the_pipelines_evaluated_before(
    wrong: Experiment, store: Store, pipeline: Build, before: Mapping[str, Any], tmp_path: Path
) -> None:
    candidate = pipeline(retrieval=("listnet", {"k": 10}))
    _, second = evaluated(wrong, store, pipeline(**before), candidate)
    with Store.open(tmp_path / "fresh.sqlite") as fresh:
        (alone,) = evaluated(replace(wrong), fresh, candidate)
    assert second.records == alone.records


def test_what_learns_behind_general_weights_searches_with_them(
    wrong: Experiment, store: Store, pipeline: Build
) -> None:
    filtered = pipeline(retrieval="listnet", passage_filter="sscc")
    reranked = pipeline(retrieval="listnet", reranking=("listnet", {"weights": "fitted"}))
    for evaluation in evaluated(wrong, store, filtered, reranked):
        assert evaluation.complete
        assert fit_of(evaluation.candidate).held_out == ()
        assert any(gene.fit and gene.fit.held_out for gene in evaluation.candidate)


@pytest.mark.parametrize("family", ["retrieval", "reranking"])
def test_other_general_weights_change_the_keys_of_those_pipelines_alone_that_order_by_them(
    tiny_setup: Experiment, pipeline: Build, family: str
) -> None:
    plain = {"retrieval": {"bm25": 1.0}, "reranking": {"cross_encoder": 1.0}}
    one, other = (replace(tiny_setup, weights=weighing(**its)) for its in (plain, {**plain, family: {"length": 0.5}}))
    candidates = [
        pipeline(),
        pipeline(retrieval="hybrid", reranking="cross_encoder"),
        pipeline(retrieval="listnet"),
        pipeline(reranking="listnet"),
        pipeline(retrieval="listnet", reranking="listnet", passage_augment="prev_next"),
    ]
    for candidate in candidates:
        genes = [add_general_weights(setup, candidate) for setup in (one, other)]
        has_it = any((gene.technique.family, gene.technique.name) == (family, "listnet") for gene in candidate)
        for key in (evaluation_key, ranking_key):
            before, after = (key(setup, its) for setup, its in zip((one, other), genes, strict=True))
            assert (before != after) is has_it
