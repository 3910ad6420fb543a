"""What other data sets teach: against scipy on all their questions, without each of them, and as a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effect_model import START, write
from learned_ranking import Array, loss_of, random_questions, weighing
from scipy.optimize import minimize  # type: ignore[import-untyped]
from weights import learned_weights

from ragsmith.datasets.bundled import bundled_domains
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.overlap import sample_shingles
from ragsmith.effects.knowledge import Knowledge, read_effects
from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.general_weights import (
    SHIPPED_FILES,
    STATIC,
    TRANSFORMER,
    DatasetContribution,
    GeneralWeights,
    LossExpansion,
    embedder_class,
    load_shipped_weights,
)
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.genes import make_gene
from ragsmith.techniques.families import passage_filter, reranking, retrieval
from ragsmith.techniques.listwise import RIDGE, WeightPrior
from ragsmith.techniques.registry import Technique
from ragsmith.testing import example_documents

NAMES = ("a", "b", "c")
TRUE = (1.5, -1.0, 0.5)
SIGNALS = {"retrieval.listnet": NAMES}


def data_sets(count: int, questions: int = 40) -> dict[str, list[dict[str, Any]]]:
    """Data sets that agree on the whole, and have unequally many questions."""
    draw = np.random.default_rng(8)
    return {
        f"data {n}": random_questions(n, (np.array(TRUE) + draw.normal(0, 0.3, 3)).tolist(), questions + 10 * n)
        for n in range(count)
    }


def learned(observed: Mapping[str, Sequence[Any]]) -> GeneralWeights:
    return learned_weights(SIGNALS, {name: ((), {"retrieval.listnet": its}) for name, its in observed.items()})


def found_by_scipy(observed: Mapping[str, Sequence[Mapping[str, Any]]]) -> Array:
    def loss(weights: Array) -> tuple[float, Array]:
        total, gradient = RIDGE * float(weights @ weights) / 2, RIDGE * weights
        for questions in observed.values():
            share = 1 / len(questions) / len(observed)
            for value, slope in (loss_of(weights, one) for one in questions):
                total, gradient = total + share * value, gradient + share * slope
        return total, gradient

    found: Array = minimize(loss, np.zeros(3), jac=True, method="BFGS", options={"gtol": 1e-10}).x
    return found


def test_each_data_set_counts_the_same() -> None:
    observed = data_sets(4)
    known = learned(observed)
    assert known.weights["retrieval.listnet"] == pytest.approx(found_by_scipy(observed), abs=5e-7)
    general = known.general("retrieval.listnet")
    assert general.weights == pytest.approx(known.weights["retrieval.listnet"], abs=1e-8)
    twice = {**observed, "data 0": observed["data 0"] * 2}
    assert learned(twice).general("retrieval.listnet").questions == general.questions
    assert learned(twice).weights["retrieval.listnet"] == pytest.approx(general.weights, abs=1e-8)


def test_questions_are_as_many_as_would_tell_as_much_if_data_sets_had_equally_many() -> None:
    few, many = random_questions(1, TRUE, 10), random_questions(2, TRUE, 90)
    taught = learned({"few": few, "many": many}).general("retrieval.listnet")
    assert taught.questions == round(2**2 / (1 / 10 + 1 / 90)) == 36
    asked_alike = [{**one, "question": f"q{n % 30}"} for n, one in enumerate(many)]
    assert learned({"many": asked_alike}).general("retrieval.listnet").questions == 30


def test_numbers_that_are_part_of_keys_have_nine_digits() -> None:
    general = learned(data_sets(3)).general("retrieval.listnet")
    for value in (*general.weights.tolist(), *general.curvature.ravel().tolist()):
        assert value == float(f"{value:.9g}")


def test_the_curvature_is_that_of_the_mean_loss() -> None:
    observed = data_sets(3)
    general = learned(observed).general("retrieval.listnet")

    def slope(weights: Array) -> Array:
        means = [np.mean([loss_of(weights, one)[1] for one in its], axis=0) for its in observed.values()]
        found: Array = np.mean(means, axis=0) + RIDGE * weights
        return found

    bends = [(slope(general.weights + step) - slope(general.weights - step)) / 2e-5 for step in 1e-5 * np.eye(3)]
    assert general.curvature == pytest.approx(np.array(bends), abs=1e-6)


def test_where_losses_are_quadratic_leaving_data_sets_out_is_exact() -> None:
    draw = np.random.default_rng(1)
    roots = draw.normal(size=(4, 3, 3))
    bends, lowest, at = roots @ roots.transpose(0, 2, 1), draw.normal(size=(4, 3)), draw.normal(size=3)
    slopes = [LossExpansion(bend @ (at - low), bend) for bend, low in zip(bends, lowest, strict=True)]
    taught = [DatasetContribution(str(n), (), {"x.y": 5}, {"x.y": slope}) for n, slope in enumerate(slopes)]
    known = GeneralWeights({"x.y": NAMES}, {"x.y": at}, tuple(taught))
    for left in ([0, 1, 2, 3], [1, 2, 3], [0, 3], [2]):
        curvature = RIDGE * np.eye(3) + bends[left].mean(axis=0)
        pulls = np.mean([bends[n] @ lowest[n] for n in left], axis=0)
        general = known.without([str(n) for n in range(4) if n not in left]).general("x.y")
        assert general.weights == pytest.approx(np.linalg.solve(curvature, pulls))
        assert general.curvature == pytest.approx(curvature)
        assert general.questions == 5 * len(left)  # as data sets have equally many


def test_a_data_set_that_teaches_nothing_of_a_technique_does_not_count() -> None:
    observed = data_sets(2)
    idle = [{**one, "relevant": [False] * len(one["relevant"])} for one in observed["data 0"]]
    known = learned({**observed, "idle": idle})
    assert known.weights["retrieval.listnet"] == pytest.approx(found_by_scipy(observed), abs=5e-7)
    assert [dict(one.questions) for one in known.datasets] == [
        {"retrieval.listnet": 40},
        {"retrieval.listnet": 50},
        {},
    ]
    assert known.without(["idle"]).general("retrieval.listnet").weights.tolist() == (
        known.general("retrieval.listnet").weights.tolist()
    )


def test_data_sets_on_overlapping_documents_are_left_out(tiny_setup: Experiment) -> None:
    island, town = tiny_setup.dataset.documents, example_documents()
    technique = retrieval["listnet"]
    slopes = [LossExpansion(np.full(15, n), np.eye(15)) for n in (1.0, -1.0)]
    taught = [
        DatasetContribution(name, sample_shingles(documents), {"retrieval.listnet": 9}, {"retrieval.listnet": slope})
        for name, documents, slope in zip(("island", "town"), (island, town), slopes, strict=True)
    ]
    known = GeneralWeights({"retrieval.listnet": technique.signals}, {"retrieval.listnet": np.zeros(15)}, tuple(taught))
    assert known.overlapping(island) == ("island",)
    assert known.overlapping(town) == ("town",)
    assert known.overlapping(()) == ()
    assert known.for_technique(technique).weights == pytest.approx(np.zeros(15))
    gene = make_gene("retrieval", "listnet")
    found = replace(tiny_setup, weights=known).general_weights(gene)
    assert found.weights == pytest.approx(np.full(15, 1 / (1 + RIDGE)))
    assert found.questions == 9
    with pytest.raises(UsageError, match="no data set on other documents teaches its weights"):
        replace(tiny_setup, weights=known.without(["town"])).general_weights(gene)


def test_where_nobody_teaches_what_learns_begins_with_nothing(tiny_setup: Experiment) -> None:
    setup = replace(tiny_setup, weights=weighing().without(["made up"]))
    plain, fitted = (make_gene("retrieval", "listnet", {"weights": its}) for its in ("general", "fitted"))
    assert setup.lacks_weights(plain)
    assert setup.lacks_weights(fitted)
    assert setup.general_weights(fitted).plain() == WeightPrior.zero(retrieval["listnet"].signals).plain()
    with pytest.raises(UsageError, match="no data set on other documents teaches its weights"):
        setup.general_weights(plain)
    assert not tiny_setup.lacks_weights(plain)
    assert not setup.lacks_weights(make_gene("retrieval", "hybrid"))


def test_techniques_without_weights_and_other_signals_are_refused_in_a_sentence() -> None:
    known = weighing(retrieval={"bm25": 1.0})
    assert known.for_technique(retrieval["listnet"]).weights[0] == 1
    listnet: Technique = retrieval["listnet"]
    assert listnet.fitting is not None
    fewer = replace(listnet, fitting=replace(listnet.fitting, names={"bm25": "", "cosine": ""}))
    with pytest.raises(
        UsageError, match=r"signals bm25, cosine, and weights were learned for bm25, bm25_rank, .*again"
    ):
        known.for_technique(fewer)
    with pytest.raises(UsageError, match=r"passage_filter\.sscc: no data set on other documents teaches"):
        known.for_technique(passage_filter["sscc"])


def test_the_shipped_weights_are_of_the_signals_there_are() -> None:
    known = load_shipped_weights()
    for technique in (retrieval["listnet"], reranking["listnet"]):
        general = known.for_technique(technique)
        assert general.weights.shape == (len(technique.signals),)
        assert np.linalg.eigvalsh(general.curvature).min() > 0
        assert general.questions > 100
    assert known.overlapping(example_documents()) == ()


@pytest.mark.parametrize("embedder", SHIPPED_FILES)
def test_the_shipped_weights_were_learned_with_the_code_of_today(embedder: str) -> None:
    code = {technique.identity: technique.code for technique in (retrieval["listnet"], reranking["listnet"])}
    assert dict(load_shipped_weights(embedder).code) == code, "a signal has changed: learn weights again"


@pytest.mark.parametrize(
    ("embedder", "found"),
    [
        ("wordllama", STATIC),
        ("sentence-transformers:all-MiniLM-L6-v2", TRANSFORMER),
        ("openai:text-embedding-3-small", TRANSFORMER),
    ],
)
def test_weights_are_those_of_the_class_of_the_embedder(embedder: str, found: str) -> None:
    assert embedder_class(ModelNames().override({"embedder": embedder})) == found


@pytest.mark.parametrize("name", bundled_domains())
def test_what_ships_leaves_out_the_bundled_data_set_that_it_is_used_on(name: str) -> None:
    documents = load_dataset(name).documents
    assert name in load_shipped_weights().overlapping(documents[: len(documents) // 2])


@pytest.fixture
def known() -> GeneralWeights:
    observed = data_sets(3)
    return learned_weights(
        SIGNALS,
        {name: ((1, 2, 3 + n), {"retrieval.listnet": its}) for n, (name, its) in enumerate(observed.items())},
        {"retrieval.listnet": "c0de"},
    )


def test_what_is_written_is_read_back_to_six_digits(known: GeneralWeights, tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    known.write(path)
    again = GeneralWeights.from_dict(json.loads(path.read_text()))
    assert again.to_dict() == known.to_dict() == GeneralWeights.from_dict(known.to_dict()).to_dict()
    assert again.code == {"retrieval.listnet": "c0de"}
    assert [(one.name, one.sample, one.questions) for one in again.datasets] == [
        (one.name, one.sample, one.questions) for one in known.datasets
    ]
    for left_out in ([], ["data 1"]):
        one, other = (its.without(left_out).general("retrieval.listnet") for its in (known, again))
        assert other.weights == pytest.approx(one.weights, abs=1e-5)
        assert other.curvature == pytest.approx(one.curvature, rel=1e-5)
        assert other.curvature.tolist() == other.curvature.T.tolist()


def changed(plain: dict[str, Any], *path: Any, to: Any) -> None:
    *way, last = path
    for step in way:
        plain = plain[step]
    if to is None:
        del plain[last]
    else:
        plain[last] = to


DAMAGE: dict[str, tuple[Any, ...]] = {
    "no signals": ("signals", None),
    "a list of signals": ("signals", []),
    "no weights": ("weights", {}),
    "too few weights": ("weights", "retrieval.listnet", [1.0, 2.0]),
    "a word as weight": ("weights", "retrieval.listnet", ["much", 0.0, 0.0]),
    "no code": ("code", None),
    "a list of code": ("code", []),
    "no data sets": ("datasets", None),
    "a number of data sets": ("datasets", 3),
    "data sets by name": ("datasets", {"law": {}}),
    "no name": ("datasets", 1, "name", None),
    "no sample": ("datasets", 1, "sample", None),
    "words as sample": ("datasets", 1, "sample", ["x"]),
    "a list of questions": ("datasets", 1, "questions", ["retrieval.listnet"]),
    "questions of another technique": ("datasets", 1, "questions", "reranking.listnet", 3),
    "a short gradient": ("datasets", 1, "gradient", "retrieval.listnet", [0.0]),
    "a whole Hessian": ("datasets", 1, "hessian", "retrieval.listnet", [1.0] * 9),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_refused_and_says_where(
    known: GeneralWeights, damage: tuple[Any, ...], tmp_path: Path
) -> None:
    path = tmp_path / "learned.json"
    write(Knowledge((), {"retrieval": START, "generation": START}, {}, ranking=known), path)
    found = read_effects(path).ranking
    assert found is not None
    assert found.to_dict() == known.to_dict()
    plain = json.loads(path.read_text())
    changed(plain["ranking"], *damage[:-1], to=damage[-1])
    path.write_text(json.dumps(plain))
    with pytest.raises(UsageError, match="'ranking' is not valid in a file of learned effects"):
        read_effects(path)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_have_to_be_finite(known: GeneralWeights, number: float) -> None:
    for way in (("weights", "retrieval.listnet", 0), ("datasets", 1, "hessian", "retrieval.listnet", 4)):
        plain = json.loads(json.dumps(known.to_dict()))
        changed(plain, *way, to=number)
        with pytest.raises(ValueError, match="numbers are needed"):
            GeneralWeights.from_dict(plain)
