"""Learning from data sets: which pipelines are tried, on which questions, and what the cache spares the next time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from effect_model import write
from learning import deviations, groups_of, learn, sample_of

from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.overlap import sample_shingles as sample_of_documents
from ragsmith.datasets.splits import split
from ragsmith.effects.knowledge import Knowledge, read_effects
from ragsmith.effects.recommending import COST_CLASSES
from ragsmith.effects.terms import option_labels
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.store.store import Store
from ragsmith.types import Document, Example, Span


@pytest.fixture(scope="module")
def setups(tiny_setup: Experiment) -> list[Experiment]:
    """The island three times, spelled otherwise each time, so that no run of words is in two, and without the questions
    on another document; the last has no answers."""
    data = tiny_setup.dataset
    documents = sorted({example.evidence[0].doc for example in data.examples})
    parts = [
        make_dataset(
            {"name": f"without {left_out}"},
            [replace(document, text=document.text.translate(spelling)) for document in data.documents],
            [
                replace(example, question=example.question.translate(spelling))
                for example in data.examples
                if example.evidence[0].doc != left_out
            ],
        )
        for left_out, spelling in zip(
            documents[:3], map(str.maketrans, ("ea", "eo", "io"), ("éá", "éó", "íó")), strict=True
        )
    ]
    blank = [replace(example, answer="") for example in parts[2].examples]
    parts[2] = make_dataset({"name": "unanswered"}, parts[2].documents, blank)
    return [replace(tiny_setup, dataset=part) for part in parts]


@pytest.fixture(scope="module")
def learned(
    setups: list[Experiment], tiny_space: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Knowledge, Path]:
    cache = tmp_path_factory.mktemp("learned") / "cache.sqlite"
    with Store.open(cache) as store:
        return learn(setups, load_space(tiny_space), store, pipelines=16), cache


def test_the_sample_has_every_option_alone_and_in_what_most_would_build(space: Space) -> None:
    sample = [option_labels(candidate) for candidate in sample_of(space, 200, "seed")]
    assert len(sample) == len(set(sample)) == 200
    assert sample[:2] == [option_labels(baseline("naive")), option_labels(baseline("bm25"))]
    for place, options in enumerate(space.options):
        for option in map(str, options):
            assert sum(labels[place] == option for labels in sample) >= 2
    assert sum(labels[2] == "hybrid" and labels[3] == "cross_encoder" for labels in sample) > 30


def test_the_seed_draws_the_sample(space: Space) -> None:
    assert sample_of(space, 150, "one") == sample_of(space, 150, "one") != sample_of(space, 150, "two")


def test_a_small_space_is_tried_whole(tiny_space: Path) -> None:
    small = load_space(tiny_space)
    assert len(sample_of(small, 1000, "seed")) == small.feasible_size


def test_data_sets_are_recognised_and_their_test_questions_left_alone(
    learned: tuple[Knowledge, Path], setups: list[Experiment]
) -> None:
    knowledge, cache = learned
    for one, setup in zip(knowledge.observed, setups, strict=True):
        assert (one.digest, one.sample) == (setup.dataset.digest, sample_of_documents(setup.dataset.documents))
        assert one.questions == len(split(setup.dataset).search)
        assert len(one.pipelines) == 16
        assert len(one.calls) == (16 if "generation" in one.means else 0)  # what answers cost, of those that there are
    tested = {example.id for setup in setups for example in split(setup.dataset).test}
    with Store.open(cache, read_only=True) as store:
        for setup in setups:
            for row in store.evaluations(setup.dataset.digest):
                assert not tested & set(store.results(row.key)) - {e.id for e in split(setup.dataset).search}


def test_what_is_in_the_cache_is_not_computed_again(
    learned: tuple[Knowledge, Path], setups: list[Experiment], tiny_space: Path
) -> None:
    knowledge, cache = learned
    with Store.open(cache, read_only=True) as store:
        assert learn(setups, load_space(tiny_space), store, pipelines=16).checked == knowledge.checked


def test_how_it_was_made_is_kept(learned: tuple[Knowledge, Path], tmp_path: Path) -> None:
    knowledge, _ = learned
    write(knowledge, tmp_path / "effects.json")
    assert read_effects(tmp_path / "effects.json").made == {"space": "tiny", "pipelines": 16, "seed": 0}


def test_without_answers_only_retrieval_is_learned(learned: tuple[Knowledge, Path]) -> None:
    knowledge, _ = learned
    assert [set(one.means) for one in knowledge.observed] == [{"retrieval", "generation"}] * 2 + [{"retrieval"}]


def test_what_the_others_name_is_checked_where_enough_others_are(learned: tuple[Knowledge, Path]) -> None:
    knowledge, _ = learned
    # leaving out one that has answers leaves one that has: nothing can be told of G from it
    assert [(one.dataset, one.measure, one.most_calls) for one in knowledge.checked] == [
        ("unanswered", "retrieval", most) for most in COST_CLASSES
    ]
    assert all(one.low <= one.gain <= one.high for one in knowledge.checked)


def test_questions_on_one_document_are_one_group(tiny_setup: Experiment) -> None:
    questions = tiny_setup.dataset.examples
    assert sorted(place for group in groups_of(tiny_setup.dataset, questions) for place in group) == list(
        range(len(questions))
    )


def test_questions_that_all_hang_together_are_grouped_by_the_document_of_most_gold() -> None:
    """Each question is on the first document a little, and mainly on another one."""
    documents = [Document(str(number), "", f"word {number} " * 2000) for number in range(8)]
    questions = [
        Example(str(n), f"What is {n}?", "", "fact", (Span("0", 0, 4), Span(str(1 + n % 7), 0, 9))) for n in range(14)
    ]
    groups = groups_of(make_dataset({"name": "linked"}, documents, questions), questions)
    assert len(groups) == 7
    assert all(len(group) == 2 for group in groups)


def test_deviations_add_up_to_nothing() -> None:
    scores = np.arange(12.0).reshape(2, 6) ** 2
    moved = deviations(scores, [[0, 1], [2, 5], [3, 4]])
    assert moved.sum(axis=0) == pytest.approx(np.zeros(2))
    assert moved[0, 0] == pytest.approx((0 + 1 - 2 * scores[0].mean()) / 6)
