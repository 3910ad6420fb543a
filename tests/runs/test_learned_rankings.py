"""The weights of learned rankings in runs, and in pipelines on other data sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learned_ranking import SIGNALS, weighing
from stored import StepClock, recorded

from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.overlap import sample_shingles
from ragsmith.errors import SpaceError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.fitting import add_general_weights
from ragsmith.evaluation.general_weights import DatasetContribution, GeneralWeights, LossExpansion
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.requirements import searchable_space
from ragsmith.exported.writing import export_yaml
from ragsmith.index.index import Index
from ragsmith.models.protocols import Embedder
from ragsmith.pipelines.genes import Candidate, configuration, read_configuration
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.plugins import Count
from ragsmith.records.record import RunSettings
from ragsmith.runs.recommended import recommend_candidate
from ragsmith.runs.run import Run, RunOutcome
from ragsmith.runs.run_context import Callbacks, run_key
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings
from ragsmith.techniques.families import retrieval
from ragsmith.techniques.listwise import solve
from ragsmith.techniques.registry import Fitting, Technique
from ragsmith.techniques.retrieval import listnet
from ragsmith.testing import example_documents
from ragsmith.types import Dataset, Example, Fitted, Queries, Rankings, Span

Build = Callable[..., Candidate]
Register = Callable[..., Technique]

SETTINGS = RunSettings(
    genetic=GeneticSettings(population=6, generations=3, elitism=2, mutation="random", mutation_rate=0.3), seed=7
)


@pytest.fixture
def space_with(tiny_space: Path, tmp_path: Path) -> Callable[[str], Space]:
    """Cheap pipelines with vector, BM25 or other ``options`` of retrieval."""

    def load(options: str) -> Space:
        path = tmp_path / "learned.yaml"
        text = tiny_space.read_text().replace("[none, hyde]", "[none]")
        path.write_text(text.replace("[vector, bm25, hybrid]", f"[vector, bm25, {options}]"))
        return load_space(path)

    return load


def weights_in(candidate: Candidate) -> dict[str, float]:
    fit = candidate[2].fit
    assert fit is not None
    weights: dict[str, float] = fit.numbers["weights"]
    return weights


@pytest.fixture
def named(pipeline: Build, monkeypatch: pytest.MonkeyPatch) -> Candidate:
    """What is recommended: a pipeline with a learned ranking that is no option alone."""
    filtered = ("top_k", {"k": 2})
    found = pipeline(
        retrieval="listnet", reranking="cross_encoder", passage_filter=filtered, passage_augment="prev_next"
    )
    monkeypatch.setattr("ragsmith.runs.search.recommend_candidate", lambda *_: found)
    return found


def left(store: Store, outcome: RunOutcome) -> tuple[Any, ...]:
    """What a run leaves of where it went."""
    record = recorded(store, outcome)
    assert record.recommended in record.told
    proposed = [(one.step, *one.genome, one.evaluation, one.value) for one in store.proposals(outcome.key)]
    return outcome.winner, record.recommended, record.told, proposed


@pytest.mark.usefixtures("named")
def test_a_resumed_search_proposes_what_an_uninterrupted_one_does(
    tiny_setup: Experiment, tmp_path: Path, space_with: Callable[[str], Space]
) -> None:
    space, clock = space_with("listnet"), StepClock()
    with Store.open(tmp_path / "whole.sqlite") as store:
        whole = left(store, Run(tiny_setup, space, store, SETTINGS).go())
    with Store.open(tmp_path / "paused.sqlite") as store:
        limited, callbacks = replace(SETTINGS, time_limit=2.0), Callbacks(on_step=clock.tick)
        paused = Run(tiny_setup, space, store, limited, now=clock, callbacks=callbacks).go()
        assert paused.state == "interrupted"
        assert left(store, Run(tiny_setup, space, store, SETTINGS).go()) == whole


def test_other_weights_are_another_run_where_the_space_orders_by_them(
    tiny_setup: Experiment, space: Space, space_with: Callable[[str], Space]
) -> None:
    learned = space_with("listnet")
    setups = [replace(tiny_setup, weights=weighing(retrieval={"bm25": its})) for its in (1.0, 1.0, 2.0)]
    one, same, other = (run_key(setup, learned, SETTINGS) for setup in setups)
    assert one == same != other
    assert len({run_key(setup, space, SETTINGS) for setup in setups}) == 1
    elsewhere = replace(tiny_setup, weights=weighing(retrieval={"bm25": 1.0}, reranking={"cross_encoder": 1.0}))
    assert run_key(elsewhere, learned, SETTINGS) == one  # no reranking of the space has signals


def mine(
    index: Index,
    queries: Queries,
    *,
    embedder: Embedder,
    fitted: Fitted,
    weights: str = "general",
    without: str = "",
    pool: Count = 40,
    k: Count = 20,
) -> Rankings:
    """Order as ListNet does, by another name."""
    return listnet.listnet(index, queries, embedder=embedder, fitted=fitted, without=without, pool=pool, k=k)


@pytest.fixture
def own(registered: Register) -> Technique:
    """A technique with signals of which no data set teaches the weights."""
    when = {"weights": ("fitted",)}
    fitting = Fitting(listnet.observe, solve, when=when, names=listnet.SIGNALS, signals=listnet.signals)
    return registered(retrieval, mine, fitting, weights=("general", "fitted"))


def test_an_option_without_general_weights_is_searched_if_it_can_be_fitted_and_left_out_if_not(
    tiny_setup: Experiment, store: Store, own: Technique, space_with: Callable[[str], Space]
) -> None:
    space = space_with("mine, mine: {weights: fitted}")
    assert [str(gene) for gene in space.options[2]] == ["vector", "bm25", "mine", "mine(weights=fitted)"]
    able = searchable_space(tiny_setup, space, ranks=False)
    assert [str(gene) for gene in able.options[2]] == ["vector", "bm25", "mine(weights=fitted)"]
    assert run_key(tiny_setup, able, SETTINGS)
    outcome = Run(tiny_setup, able, store, replace(SETTINGS, warm_start=False, probes=False)).go()
    assert outcome.state == "finished"
    fitted = able.options[2][2]
    naive = able.candidate((0,) * len(able.sizes))
    with Evaluator(tiny_setup, store, 1) as evaluator:
        [found] = evaluator.evaluate([(*naive[:2], fitted, *naive[3:])], tiny_setup.calibration)
    assert found.complete
    assert {*weights_in(found.candidate)} == {*own.signals}


def test_a_search_does_not_begin_with_an_option_without_general_weights(
    tiny_setup: Experiment, space_with: Callable[[str], Space]
) -> None:
    space = space_with("listnet")
    narrow = replace(space, options=(*space.options[:2], space.options[2][2:], *space.options[3:]))
    untaught = replace(tiny_setup, weights=weighing().without(["made up"]))
    taught, nothing = (recommend_candidate(setup, narrow, Fitness()) for setup in (tiny_setup, untaught))
    assert taught is not None
    assert nothing is None


@pytest.fixture
def known(tiny_setup: Experiment) -> GeneralWeights:
    """The island and a data set that is made up disagree on every weight."""
    taught = []
    for name, sample, value in (("island", sample_shingles(tiny_setup.dataset.documents), 5.0), ("made up", (), -1.0)):
        slopes = {
            technique: LossExpansion(np.full(len(its), -value), np.eye(len(its))) for technique, its in SIGNALS.items()
        }
        taught.append(DatasetContribution(name, sample, dict.fromkeys(SIGNALS, 9), slopes))
    return GeneralWeights(SIGNALS, {name: np.zeros(len(its)) for name, its in SIGNALS.items()}, tuple(taught))


@pytest.fixture
def town() -> Dataset:
    """Other documents, with a question to each."""
    documents = example_documents()
    examples = [
        Example(f"q{n}", f"What of the {one.title}?", one.text[:40], "factual", (Span(one.id, 0, 40),))
        for n, one in enumerate(documents)
    ]
    return make_dataset({"name": "town"}, documents, examples)


def test_at_home_and_on_documents_without_questions_a_pipeline_keeps_its_numbers(
    tiny_setup: Experiment, town: Dataset, known: GeneralWeights, pipeline: Build
) -> None:
    candidate = add_general_weights(Experiment(town, weights=known), pipeline(retrieval="listnet", reranking="listnet"))
    others = weighing()
    unasked = make_dataset({"name": "unasked"}, tiny_setup.dataset.documents, [])
    for data in (town, unasked):
        assert Pipeline(candidate, Experiment(data, weights=others), found_on=town.digest).candidate == candidate
    assert Pipeline(candidate, replace(tiny_setup, weights=others)).candidate == candidate  # its origin is unknown


def test_what_was_fitted_stays_as_it_is_elsewhere(
    tiny_setup: Experiment, town: Dataset, known: GeneralWeights, store: Store, pipeline: Build
) -> None:
    with Evaluator(replace(tiny_setup, weights=weighing()), store, 1) as evaluator:
        [found] = evaluator.evaluate([pipeline(retrieval=("listnet", {"weights": "fitted"}))], tiny_setup.calibration)
    moved = Pipeline(found.candidate, Experiment(town, weights=known), found_on=tiny_setup.dataset.digest)
    assert moved.candidate == found.candidate


def test_a_file_that_is_loaded_for_another_data_set_takes_weights_anew(
    tiny_setup: Experiment,
    town: Dataset,
    known: GeneralWeights,
    tiny_folder: Path,
    store: Store,
    pipeline: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = replace(tiny_setup, weights=known)
    with Evaluator(setup, store, 1) as evaluator:
        [search] = evaluator.evaluate([pipeline(retrieval="listnet")], setup.calibration)
    where: Mapping[str, str] = {"path": str(tiny_folder)}
    text = export_yaml(search, None, setup, {}, location=where, folder=tmp_path, fitness=Fitness())
    (tmp_path / "winner.yaml").write_text(text)
    monkeypatch.setattr("ragsmith.evaluation.experiment.load_shipped_weights", lambda embedder: known)
    home, moved = (Pipeline.load(tmp_path / "winner.yaml", dataset=data) for data in (None, town))
    assert max(weights_in(home.candidate).values()) < 0
    assert home.candidate == search.candidate
    assert weights_in(moved.candidate) == weights_in(add_general_weights(moved.setup, pipeline(retrieval="listnet")))
    assert min(weights_in(moved.candidate).values()) > 0


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"bm25": 1.0, "cosin": 1.0}, "there is no such signal: did you mean 'cosine'"),
        ({"bm25": "much"}, "the weight of 'bm25' is 'much': give a number"),
        ({"bm25": True}, "the weight of 'bm25' is True: give a number"),
        ({"bm25": 1.0}, "lacks bm25_rank, cosine, "),
        (3, "no 'weights' by signal"),
    ],
)
def test_edited_weights_are_refused_where_the_file_is_read(written: Any, said: str) -> None:
    plain = configuration(baseline("naive"))
    plain["retrieval"] = {
        "technique": "listnet",
        "parameters": {},
        "fitted": {"numbers": {"weights": written}, "held_out": []},
    }
    with pytest.raises(SpaceError, match=f"^winner.yaml: retrieval.listnet: .*{said}"):
        read_configuration(plain, "winner.yaml")
