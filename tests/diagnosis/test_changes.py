"""Leaving out the signals of a learned ranking one by one, on documents that only their titles tell apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from learned_ranking import weighing

import ragsmith
from ragsmith.api.diagnosing import AblationPlan
from ragsmith.comparison.questions import Clusters
from ragsmith.datasets.dataset import make_dataset
from ragsmith.diagnosis.ablation import compute_ablation, list_ablation_candidates
from ragsmith.diagnosis.changes import list_signal_removals
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.fitting import add_general_weights
from ragsmith.evaluation.ranking import Terms
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.store.store import Store
from ragsmith.techniques.families import reranking, retrieval
from ragsmith.types import Document, Example, Span

Build = Callable[..., Candidate]
PLACES = ("Granary", "Sawmill", "Brewery", "Chapel", "Foundry", "Tannery", "Bakery", "Armoury", "Orchard", "Quarry")


@pytest.fixture(scope="module")
def titled() -> Experiment:
    """Each document says the same of another place, which only its title names."""
    documents = [
        Document(f"d{n}", place, f"It opens at {n} in the morning, said the warden.") for n, place in enumerate(PLACES)
    ]
    examples = [
        Example(
            f"q{n}",
            f"When may people enter the {place}?",
            f"At {n}.",
            "factual",
            (Span(f"d{n}", 0, len(documents[n].text)),),
        )
        for n, place in enumerate(PLACES)
    ]
    weights = {"title": 2.0, "bm25": 0.2, "cosine": 0.2, "length": 0.1}
    return Experiment(make_dataset({"name": "places"}, documents, examples), weights=weighing(retrieval=weights))


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Space:
    path = tmp_path_factory.mktemp("spaces") / "one.yaml"
    lists = {"retrieval": "[vector, listnet]", "passage_filter": "[top_k]", "prompt_maker": "[listing]"}
    families = (
        "pre_embedding",
        "query_expansion",
        "reranking",
        "passage_augment",
        "passage_compress",
        "post_generation",
    )
    lines = [f"  {name}: {options}" for name, options in ({**dict.fromkeys(families, "[none]"), **lists}).items()]
    path.write_text("name: one\ndescription: One learned ranking.\nfamilies:\n" + "\n".join(lines) + "\n")
    return load_space(path)


def test_each_signal_of_each_learned_ranking_is_left_out_in_turn(pipeline: Build, tiny_space: Path) -> None:
    space = load_space(tiny_space)
    winner = pipeline(retrieval="listnet", reranking=("listnet", {"depth": 10}), passage_filter=("top_k", {"k": 2}))
    found = list_signal_removals(winner, space)
    assert {change.kind for change in found} == {"signal"}
    left_out = [
        (gene.technique.family, gene.parameters["without"])
        for change in found
        for gene, before in zip(change.candidate, winner, strict=True)
        if gene != before
    ]
    families = (retrieval, reranking)
    assert left_out == [(one.name, signal) for one in families for signal in one["listnet"].signals]
    assert {change.candidate[3].parameters["depth"] for change in found} == {10}
    assert list_signal_removals(pipeline(retrieval=("listnet", {"without": "bm25"})), space) == []
    assert list_signal_removals(pipeline(retrieval="hybrid"), space) == []


def test_the_signal_that_alone_separates_gold_is_worth_most(
    titled: Experiment, space: Space, store: Store, pipeline: Build
) -> None:
    winner = add_general_weights(titled, pipeline(retrieval="listnet", passage_filter=("top_k", {"k": 2})))
    others = list_ablation_candidates(winner, space, with_signals=True)
    assert {change.candidate for change in list_signal_removals(winner, space)} < {*others}
    questions = titled.dataset.examples
    with Evaluator(titled, store, 1) as evaluator:
        first, *rest = evaluator.evaluate([winner, *others], questions)
    alone = Clusters.singletons([example.id for example in questions])
    terms = Terms.from_evaluations([first, *rest], Fitness())
    found = compute_ablation(first, rest, space, terms, dataset="places", clusters=alone)
    assert first.mean("recall") == 1
    worth = {part.instead: part.worth["retrieval"] for part in found.signals}
    assert len(worth) == len(retrieval["listnet"].signals)
    most, *less = sorted(worth, key=lambda instead: -worth[instead].mean)
    assert most == "title"
    assert worth[most].mean > 0.3
    assert worth[most].low > 0
    assert max(abs(worth[instead].mean) for instead in less) < worth[most].mean / 4
    away = compute_ablation(first, rest, space, terms, dataset="places", clusters=alone, refit=False)
    assert away.signals == found.signals  # general weights need no questions


def test_what_was_fitted_is_left_as_it_is_where_it_cannot_be_fitted_again(pipeline: Build, tiny_space: Path) -> None:
    space = load_space(tiny_space)
    winner = pipeline(retrieval=("listnet", {"weights": "fitted"}), reranking="listnet")
    both, one = (list_signal_removals(winner, space, refit=refit) for refit in (True, False))
    assert len(both) == len(retrieval["listnet"].signals) + len(reranking["listnet"].signals)
    assert [change.candidate[3].parameters["without"] for change in one] == list(reranking["listnet"].signals)
    assert {change.candidate[2] for change in one} == {winner[2]}


def test_pipelines_with_general_weights_that_are_stored_are_known(
    titled: Experiment, space: Space, store: Store, pipeline: Build
) -> None:
    plans: list[AblationPlan] = []

    def note(plan: AblationPlan) -> bool:
        plans.append(plan)
        return True

    winner = Pipeline(pipeline(retrieval="listnet", passage_filter=("top_k", {"k": 2})), titled)
    first, again = (
        ragsmith.ablate(winner, space=space, signals=True, split="all", workers=1, cache=store, on_plan=note)
        for _ in range(2)
    )
    assert first is not None
    assert again is not None
    assert {part.instead for part in first.signals} == {*retrieval["listnet"].signals}
    assert again.signals == first.signals
    assert [plan.known for plan in plans] == [0, plans[1].pipelines]
