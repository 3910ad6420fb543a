"""Learning general weights on two tiny data sets: the two halves of an island."""

from __future__ import annotations

from dataclasses import replace

import pytest
from effect_model import START
from weights import learn_weights, observations

from ragsmith.datasets.dataset import make_dataset
from ragsmith.effects.knowledge import Knowledge
from ragsmith.effects.showing import signal_weights
from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.general_weights import SHIPPED_FILES, GeneralWeights, load_shipped_weights
from ragsmith.models.names import ModelNames
from ragsmith.store.store import Store
from ragsmith.techniques.families import reranking, retrieval
from ragsmith.types import Example

HALVES = {"sea": ("ferry", "lighthouse"), "land": ("market", "school")}


def half(setup: Experiment, name: str, tested: str) -> Experiment:
    """The documents of one half of the island; the questions about ``tested`` are its test."""
    data, docs = setup.dataset, HALVES[name]
    examples = [
        replace(one, split="test" if one.evidence[0].doc == tested else "search")
        for one in data.examples
        if one.evidence[0].doc in docs
    ]
    documents = [document for document in data.documents if document.id in docs]
    return replace(setup, dataset=make_dataset({"name": name}, documents, examples))


def astray(setup: Experiment, split: str) -> Experiment:
    """The same with many questions whose gold is whatever has none of their words."""
    spans = [one.evidence[0] for one in setup.dataset.examples]
    texts = {document.id: document.text for document in setup.dataset.documents}
    planted = [
        Example(f"planted-{n}", texts[span.doc][span.start : span.end], "", "factual", (spans[n - 5],), split)
        for n, span in enumerate(spans)
    ]
    data = setup.dataset
    return replace(setup, dataset=make_dataset({"name": data.name}, data.documents, [*data.examples, *planted]))


@pytest.fixture(scope="module")
def halves(tiny_setup: Experiment) -> list[Experiment]:
    return [half(tiny_setup, "sea", "lighthouse"), half(tiny_setup, "land", "school")]


@pytest.fixture(scope="module")
def learned(halves: list[Experiment], tmp_path_factory: pytest.TempPathFactory) -> GeneralWeights:
    with Store.open(tmp_path_factory.mktemp("learned") / "cache.sqlite") as store:
        return learn_weights(halves, store)


def test_both_techniques_learn_from_the_search_questions_of_each(
    learned: GeneralWeights, halves: list[Experiment]
) -> None:
    assert dict(learned.signals) == {
        "retrieval.listnet": retrieval["listnet"].signals,
        "reranking.listnet": reranking["listnet"].signals,
    }
    assert [one.name for one in learned.datasets] == ["sea", "land"]
    for one in learned.datasets:
        assert one.questions["retrieval.listnet"] == 6
        assert one.questions["reranking.listnet"] <= 12  # behind hybrid search, and behind learned retrieval
    assert learned.overlapping(halves[1].dataset.documents) == ("land",)
    general = learned.for_technique(retrieval["listnet"])
    assert general.weights[general.signals.index("bm25")] > 0


def test_test_questions_are_not_looked_at(learned: GeneralWeights, halves: list[Experiment], store: Store) -> None:
    tested, searched = (
        learn_weights([astray(setup, split) for setup in halves], store) for split in ("test", "search")
    )
    assert tested.to_dict() == learned.to_dict()
    place = learned.signals["retrieval.listnet"].index("cosine_rank")
    assert searched.weights["retrieval.listnet"][place] < 0 < learned.weights["retrieval.listnet"][place]


def test_a_reranker_learns_behind_retrieval_with_the_weights_of_the_other_data_set(
    learned: GeneralWeights, halves: list[Experiment], store: Store
) -> None:
    sea = halves[0]
    others = learned.without(["sea"])
    assert sea.split.search
    seen = observations(replace(sea, weights=learned), reranking["listnet"], store)
    alone = observations(replace(sea, weights=others), reranking["listnet"], store)
    assert seen == alone
    assert len(seen) == 2 * len(sea.split.search)


@pytest.mark.parametrize("lacking", [["land"], ["sea", "land"]], ids=["on one", "on any"])
def test_a_reranker_learns_nothing_where_its_model_is_missing(
    halves: list[Experiment], store: Store, lacking: list[str]
) -> None:
    models = ModelNames(cross_encoder="none")
    setups = [replace(one, models=models) if one.dataset.name in lacking else one for one in halves]
    taught = learn_weights(setups, store).datasets
    assert [one.name for one in taught if "reranking.listnet" not in one.questions] == lacking
    assert all("retrieval.listnet" in one.questions for one in taught)


def test_data_sets_of_one_name_are_refused(halves: list[Experiment], store: Store) -> None:
    with pytest.raises(UsageError, match="several data sets are called land: give each a name of its own"):
        learn_weights([*halves, halves[1]], store)


def test_it_is_noted_with_which_code_weights_were_learned(learned: GeneralWeights) -> None:
    techniques = (retrieval["listnet"], reranking["listnet"])
    assert dict(learned.code) == {technique.identity: technique.code for technique in techniques}
    assert Knowledge((), {"retrieval": START, "generation": START}, {}, ranking=learned).stale == ()
    older = replace(learned, code={**learned.code, "retrieval.listnet": "another"})
    found = Knowledge((), {"retrieval": START, "generation": START}, {}, ranking=older)
    assert found.stale == ("retrieval.listnet",)


def test_every_signal_is_listed_with_what_it_weighs_without_each_data_set(learned: GeneralWeights) -> None:
    knowledge = Knowledge((), {"retrieval": START, "generation": START}, {}, ranking=learned)
    found = signal_weights(knowledge)
    assert sorted((one.technique, one.signal) for one in found) == sorted(
        (technique, signal) for technique, its in learned.signals.items() for signal in its
    )
    for technique in learned.signals:
        rows = [one for one in found if one.technique == technique]
        assert [abs(one.weight) for one in rows] == sorted((abs(one.weight) for one in rows), reverse=True)
        whole, *parts = (
            dict(zip(its.signals, its.weights.tolist(), strict=True))
            for its in (learned.without(left).general(technique) for left in ([], ["sea"], ["land"]))
        )
        for one in rows:
            ends = sorted(part[one.signal] for part in parts)
            assert (one.weight, one.least, one.most) == pytest.approx((whole[one.signal], *ends))


def test_without_weights_of_its_own_knowledge_has_those_that_ship() -> None:
    found = signal_weights(Knowledge((), {"retrieval": START, "generation": START}, {}))
    assert {(one.technique, one.signal): one.weight for one in found} == pytest.approx(
        {
            (f"{technique} (embedder: {embedder})", signal): weight
            for embedder in SHIPPED_FILES
            for technique, its in load_shipped_weights(embedder).signals.items()
            for signal, weight in zip(
                its, load_shipped_weights(embedder).general(technique).weights.tolist(), strict=True
            )
        }
    )
