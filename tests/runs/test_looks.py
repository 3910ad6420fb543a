"""A run counts its look at the test questions across caches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from stored import recorded

from ragsmith.assessment.final_test import final_test
from ragsmith.assessment.gate import gate
from ragsmith.assessment.pairwise import compare
from ragsmith.comparison.questions import HoldoutUse
from ragsmith.datasets.anchoring.other_documents import put_on_documents
from ragsmith.datasets.dataset import make_dataset
from ragsmith.errors import BudgetExhausted
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import load_evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.genes import N_FAMILIES
from ragsmith.pipelines.space import Space
from ragsmith.records.record import WINNER_SOURCES, RunRecord, RunSettings
from ragsmith.runs.run import Run
from ragsmith.store.store import Store

SETTINGS = RunSettings(strategy="random", max_evaluations=3, warm_start=False, probes=False, racing=None)


def searched(cache: Path, setup: Experiment, space: Space, settings: RunSettings = SETTINGS) -> RunRecord:
    with Store.open(cache) as store:
        return recorded(store, Run(setup, space, store, settings).go())


def rivals(record: RunRecord) -> frozenset[tuple[str, str]]:
    """The compared pipelines, without the steps of the winner."""
    return frozenset(pair for pair in record.test.items() if pair[0] not in ("leader", "estimate"))


def test_each_search_that_tests_another_winner_is_a_look_whatever_its_folder(
    tmp_path: Path, tiny_setup: Experiment, space: Space
) -> None:
    first = searched(tmp_path / "one.sqlite", tiny_setup, space)
    tested = len(first.split.test)
    assert first.look == HoldoutUse(1, tested, tested)
    again = searched(tmp_path / "two.sqlite", tiny_setup, space)
    assert (again.test, again.look) == (first.test, first.look)  # the same winner against the same others
    numbers = {}
    for seed in range(50, 54):
        found = searched(tmp_path / f"{seed}.sqlite", tiny_setup, space, replace(SETTINGS, seed=seed, test=True))
        assert found.look is not None
        numbers[rivals(found)] = found.look.number
    numbers[rivals(first)] = 1
    assert sorted(numbers.values()) == list(range(1, len(numbers) + 1))
    assert len(numbers) > 1


def seeds(many: int) -> list[RunSettings]:
    return [replace(SETTINGS, seed=seed) for seed in range(50, 50 + many)]


def test_ten_searches_look_once_and_the_next_costs_what_was_said(
    tmp_path: Path, tiny_setup: Experiment, space: Space
) -> None:
    caches = [tmp_path / f"{number % 3}.sqlite" for number in range(10)]
    first, *further = [searched(c, tiny_setup, space, s) for c, s in zip(caches, seeds(10), strict=True)]
    assert first.look is not None
    assert first.untested is None
    spared = [(number, one) for number, one in enumerate(further, 1) if rivals(one) != rivals(first)]
    assert {one.look for one in further} <= {None, first.look}  # the same pipelines are the same look
    assert [one.untested for _, one in spared] == [HoldoutUse(2, len(first.split.test), 0)] * len(spared)
    assert [one.test for _, one in spared] == [{}] * len(spared)
    number, last = spared[-1]
    for _ in range(2):  # the same look, however often it is asked for, and without asking
        tested = searched(caches[number], tiny_setup, space, replace(seeds(10)[number], test=True))
        assert (tested.look, tested.untested) == (last.untested, None)
        assert searched(caches[number], tiny_setup, space, seeds(10)[number]) == tested
    elsewhere = searched(tmp_path / "elsewhere.sqlite", tiny_setup, space, seeds(10)[number])
    assert (elsewhere.look, elsewhere.test) == (tested.look, tested.test)


def test_a_search_that_was_spared_counts_the_looks_taken_since(
    tmp_path: Path, tiny_setup: Experiment, space: Space
) -> None:
    cache = tmp_path / "cache.sqlite"
    found = [(one, searched(cache, tiny_setup, space, one)) for one in seeds(10)]
    (settings, spared), *_, (other, _) = [(one, record) for one, record in found if record.untested]
    assert spared.untested is not None
    assert spared.untested.number == 2
    assert rivals(searched(cache, tiny_setup, space, replace(other, test=True))) != rivals(spared)
    again = searched(cache, tiny_setup, space, settings)
    assert again.untested is not None
    assert again.untested.number == 3


def test_a_comparison_is_the_same_look_by_a_search_a_test_a_comparison_and_a_gate(
    tmp_path: Path, tiny_setup: Experiment, space: Space
) -> None:
    day = "2026-11-28"
    with Store.open(tmp_path / "cache.sqlite") as store:
        record = recorded(store, Run(tiny_setup, space, store, SETTINGS).go())
        found = {role: load_evaluation(store, key, record.split.test) for role, key in record.test.items()}
        pipelines = {role: Pipeline(one.candidate, tiny_setup) for role, one in found.items()}
        winner, naive = pipelines.pop("winner"), pipelines["naive"]
        rivals = {role: one for role, one in pipelines.items() if role not in WINNER_SOURCES}
        assert len(rivals) > 1
        assert final_test(("mine", winner), rivals, store, day=day).look == record.look
        again = final_test(("mine", winner), dict(reversed([*rivals.items()])), store, day=day)
        assert again.look == record.look
        pair = final_test(("mine", winner), {"naive": naive}, store, day=day).look
        assert pair
        assert pair.number == 2
        assert compare(("naive", naive), ("mine", winner), store, part="test", day=day).look == pair
        store.max_looks = 2  # a gate is counted where looks are limited
        gate(("mine", winner), ("naive", naive), store, day=day)
        assert final_test(("naive", naive), {"mine": winner}, store, day=day).look == pair


def test_naive_rag_as_the_winner_is_not_compared_with_itself(
    tmp_path: Path, tiny_setup: Experiment, space: Space
) -> None:
    """A search lists the baseline beside the winner that it is, and a comparison of two does not."""
    day, naive = "2026-11-28", Pipeline(baseline("naive"), tiny_setup)
    alone = replace(space, options=tuple((gene,) for gene in naive.candidate[:N_FAMILIES]))
    record = searched(tmp_path / "cache.sqlite", tiny_setup, alone)
    assert record.test["winner"] == record.test["naive"]
    with Store.open(tmp_path / "cache.sqlite") as store:
        rivals = {"bm25": Pipeline(baseline("bm25"), tiny_setup)}
        assert final_test(("mine", naive), rivals, store, day=day).look == record.look


def test_a_gate_is_a_look_for_each_change_of_documents_and_none_between_equal_pipelines(
    tmp_path: Path, tiny_setup: Experiment
) -> None:
    day, data = "2026-11-28", tiny_setup.dataset
    naive, bm25 = (Pipeline(baseline(name), tiny_setup) for name in ("naive", "bm25"))

    def edited(words: str) -> Pipeline:
        documents = [replace(one, text=f"{one.text}{words}") for one in data.documents]
        on_them = put_on_documents(data, make_dataset({"name": data.name}, documents, []))
        return Pipeline(naive.candidate, replace(tiny_setup, dataset=on_them))

    with Store.open(tmp_path / "cache.sqlite") as store:
        store.max_looks = 0
        for changed in (None, edited("")):
            assert gate(("now", naive), ("base", naive), store, changed=changed, day=day).passed
        store.max_looks = 3
        for base in (naive, bm25):
            gate(("now", naive), ("base", base), store, changed=edited("\nOne.\n"), day=day)
        for _ in range(2):
            gate(("now", naive), ("base", naive), store, changed=edited("\nTwo.\n"), day=day)
        with pytest.raises(BudgetExhausted, match="this would be look 4"):
            gate(("now", naive), ("base", bm25), store, day=day)


def test_without_a_ledger_the_cache_alone_counts(
    tmp_path: Path, tiny_setup: Experiment, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGSMITH_LEDGER", "off")
    one, *others = [searched(tmp_path / "one.sqlite", tiny_setup, space, settings) for settings in seeds(10)]
    assert one.look is not None
    [unseen, *_] = [place for place, other in enumerate(others, 1) if other.untested]
    assert others[unseen - 1].untested == HoldoutUse(2, len(one.split.test), 0, remembered=False)
    assert searched(tmp_path / "two.sqlite", tiny_setup, space, seeds(10)[unseen]).look == one.look


def test_a_record_keeps_groups_and_look(tmp_path: Path, tiny_setup: Experiment, space: Space) -> None:
    found = searched(tmp_path / "cache.sqlite", tiny_setup, space)
    assert found.split.groups is not None
    assert found.split.search_groups is not None
    assert sorted(q for group in found.split.groups.groups for q in group) == sorted(found.split.test)
    assert sorted(q for group in found.split.search_groups.groups for q in group) == sorted(found.split.search)
    assert RunRecord.from_dict(found.to_dict()) == found


def test_a_quick_search_leaves_the_test_to_a_later_one_until_it_is_asked_for(
    tmp_path: Path, tiny_setup: Experiment, space: Space
) -> None:
    quick = replace(RunSettings.preset("quick"), max_evaluations=3, warm_start=False, probes=False, racing=None)
    one, other = tmp_path / "one.sqlite", tmp_path / "other.sqlite"
    for _ in range(2):
        spared = searched(one, tiny_setup, space, quick)
        assert spared.untested == HoldoutUse(1, len(spared.split.test), len(spared.split.test))
        assert (spared.test, spared.look) == ({}, None)
    first = searched(other, tiny_setup, space)
    assert first.look == spared.untested
    tested = searched(one, tiny_setup, space, replace(quick, test=True))
    assert tested.look
    assert tested.look.number == 1 + (rivals(tested) != rivals(first))
    assert searched(one, tiny_setup, space, quick) == tested  # a test that was taken stays
