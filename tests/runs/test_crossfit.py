"""A crossfit tests every question once by a search that did not see it, and is resumed, paid and stored as one run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from facts_folder import facts_folder
from stored import recorded

from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.gateway.budget import Limits, Spent
from ragsmith.pipelines.space import Space
from ragsmith.records.record import CROSSFIT, RunRecord, RunSettings, list_searches
from ragsmith.records.stored_run import out_of_fold_evaluations
from ragsmith.reporting import load_report
from ragsmith.reporting.building import read_report
from ragsmith.reporting.overview import combine_reports, scores_table, transfers_table
from ragsmith.reporting.rendering import report_page
from ragsmith.reporting.values import RunReport
from ragsmith.reporting.wording import summarize_verdicts
from ragsmith.runs.crossfit import Crossfit
from ragsmith.runs.plan import plan
from ragsmith.runs.run import Allowance, RunOutcome
from ragsmith.runs.run_context import Callbacks, Step
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings
from ragsmith.text import numbers

FOLDS = 3
SETTINGS = RunSettings(
    genetic=GeneticSettings(population=4, generations=1, elitism=1),
    warm_start=False,
    probes=False,
    verdict=CROSSFIT,
    folds=FOLDS,
)


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return Experiment(load_dataset(facts_folder(tmp_path_factory.mktemp("facts") / "facts")), chunk_size=150)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, setup: Experiment, space: Space) -> tuple[Path, RunOutcome]:
    place = tmp_path_factory.mktemp("crossfit") / "cache.sqlite"
    with Store.open(place) as store:
        return place, Crossfit(setup, space, store, SETTINGS).go()


def test_every_question_is_tested_once_by_a_search_that_did_not_see_it(
    done: tuple[Path, RunOutcome], setup: Experiment
) -> None:
    place, outcome = done
    with Store.open(place) as store:
        record = recorded(store, outcome)
        assert len(record.folds) == FOLDS
        tested = Counter(question for fold in record.folds for question in fold.test)
        assert tested == Counter(example.id for example in setup.dataset.examples)
        for fold in record.folds:
            row = store.run(fold.run)
            assert row is not None
            of_fold = RunRecord.from_dict(row.value)
            assert of_fold.split.test == fold.test
            assert not set(of_fold.split.search) & set(fold.test)
            assert of_fold.winner == fold.entrants["winner"]


def test_what_is_compared_is_what_each_fold_answered(done: tuple[Path, RunOutcome], setup: Experiment) -> None:
    place, outcome = done
    with Store.open(place) as store:
        record = recorded(store, outcome)
        found = out_of_fold_evaluations(store, record)
        for fold in record.folds:
            answers = store.results(fold.entrants["winner"])
            for question in fold.test:
                assert found["winner"].records[question] == answers[question].value
        assert found["winner"].key == outcome.winner.key
        [naive] = {fold.entrants["naive"] for fold in record.folds}
        assert found["naive"].key == naive
        assert found["naive"].complete


def test_the_winner_is_that_of_a_search_on_all_questions(done: tuple[Path, RunOutcome], setup: Experiment) -> None:
    _, outcome = done
    assert set(outcome.winner.questions) == {example.id for example in setup.dataset.examples}
    assert outcome.state == "finished"


def test_the_report_is_about_the_procedure(done: tuple[Path, RunOutcome]) -> None:
    place, outcome = done
    with Store.open(place) as store:
        domain = load_report(store, "facts")
    assert domain.about.run == outcome.key
    assert summarize_verdicts(domain).startswith("What such a search finds, by crossfit: ")
    assert {comparison.difference.n for comparison in domain.comparisons} == {24}
    assert sum(fold.tested for fold in domain.folds) == 24
    assert scores_table([domain], "test").cells[0][2] == "24"
    assert "Of 24 test questions with an answer it answers 24 well" in report_page(domain)
    weighted = sum(fold.fitness["winner"] * fold.tested for fold in domain.folds) / 24
    assert weighted == pytest.approx(domain.winner_on_test.scores["fitness"].mean)


def test_what_is_drafted_is_what_is_tested(done: tuple[Path, RunOutcome]) -> None:
    place, _ = done
    with Store.open(place) as store:
        about = load_report(store, "facts").about
        data = replace(about.data, drafted=about.record.tested[:5])
        found = read_report(store, replace(about, data=data))
        [note] = [note for note in found.notes if "drafted" in note]
    assert note.startswith("A machine drafted 5 of the 24 questions, which are tested in folds. Such questions measure")
    assert {comparison.of for comparison in found.comparisons} == {"retrieval"}


def test_across_data_sets_it_counts_by_what_was_tested_out_of_fold(done: tuple[Path, RunOutcome]) -> None:
    place, _ = done
    with Store.open(place) as store:
        domain = load_report(store, "facts")
    record = domain.about.record

    def recommending(role: str) -> RunReport:
        """The same, had the pipeline of a role been recommended in every fold."""
        folds = [replace(fold, entrants={**fold.entrants, "recommended": fold.entrants[role]}) for fold in record.folds]
        changed = replace(record, folds=tuple(folds), recommended=record.winner)
        others = tuple(one for one in domain.comparisons if one.name != "recommended")
        return replace(domain, about=replace(domain.about, record=changed), comparisons=others)

    found = {one.name: one for one in combine_reports([domain, domain]).tested}
    assert (found["naive"].each["facts"].n, found["naive"].left_out) == (24, ())
    for role, expected in (("winner", 0.0), ("naive", found["naive"].each["facts"].mean)):
        [its] = [one for one in combine_reports([recommending(role)]).tested if one.name == "recommended"]
        assert (its.each["facts"].mean, its.each["facts"].n) == (expected, 24)
    drafted = recommending("winner")
    of_retrieval = tuple(replace(one, of="retrieval") for one in drafted.comparisons)
    assert combine_reports([replace(drafted, comparisons=of_retrieval)]).tested == ()


def test_no_winner_is_at_home_on_questions_that_tested_the_search(done: tuple[Path, RunOutcome]) -> None:
    place, _ = done
    with Store.open(place) as store:
        domain = load_report(store, "facts")
    together = combine_reports([domain])
    assert {one.part for one in together.transfers} == {"search"}
    assert {cell for row in transfers_table(together, [domain], "test").cells for cell in row[1:]} == {numbers.MISSING}


def test_it_is_one_search_in_the_cache(done: tuple[Path, RunOutcome]) -> None:
    place, outcome = done
    with Store.open(place) as store:
        assert [row.key for row in list_searches(store)] == [outcome.key]
        assert len(store.runs()) == 1 + FOLDS


def test_a_repeated_crossfit_computes_and_changes_nothing(
    done: tuple[Path, RunOutcome], setup: Experiment, space: Space
) -> None:
    place, outcome = done
    with Store.open(place) as store:
        before = store.run(outcome.key)
        again = Crossfit(setup, space, store, SETTINGS).go()
        assert (again.computed, again.ended_before, again.state) == (0, True, "finished")
        assert again.winner == outcome.winner
        assert store.run(outcome.key) == before


@pytest.mark.parametrize(
    "phase", ["search", "fold 1 of 3, search", "fold 2 of 3, test questions", "fold 3 of 3, search"]
)
def test_an_interruption_in_any_search_is_gone_on_from(
    done: tuple[Path, RunOutcome], setup: Experiment, space: Space, store: Store, phase: str
) -> None:
    def stop(step: Step) -> None:
        if step.phase == phase:
            raise KeyboardInterrupt

    run = Crossfit(setup, space, store, SETTINGS, callbacks=Callbacks(on_step=stop))
    with pytest.raises(KeyboardInterrupt):
        run.go()
    row = store.run(run.key)
    assert row is not None
    assert row.state == "interrupted"
    assert RunRecord.from_dict(row.value).folds == ()
    assert summarize_verdicts(load_report(store, "facts")).startswith("No verdict yet")
    found = Crossfit(setup, space, store, SETTINGS).go()
    assert found.state == "finished"
    with Store.open(done[0]) as whole:
        assert recorded(whole, done[1]).folds == recorded(store, found).folds
    assert found.winner.records == done[1].winner.records


def test_a_time_limit_holds_over_all_searches(setup: Experiment, space: Space, store: Store) -> None:
    folds = []
    limited = replace(SETTINGS, time_limit=10.0)
    for _ in range(2 * FOLDS):
        clock = [0.0]

        def begin(step: Step, clock: list[float] = clock) -> None:
            if step.phase == "each option left out":
                clock[0] = 100.0

        found = Crossfit(
            setup, space, store, limited, now=lambda clock=clock: clock[0], callbacks=Callbacks(on_step=begin)
        ).go()
        folds.append(len(store.runs()) - 1)
        if found.state == "finished":
            break
        assert (found.state, "time limit" in found.why) == ("interrupted", True)
    assert found.state == "finished"
    assert folds == sorted(folds)
    assert folds[0] == 0


def test_questions_that_cannot_be_dealt_out_are_refused(setup: Experiment, space: Space, store: Store) -> None:
    few = replace(setup, dataset=replace(setup.dataset, examples=setup.dataset.examples[:12]))
    with pytest.raises(UsageError, match="verdict is crossfit, and 'facts' has too few questions"):
        Crossfit(few, space, store, SETTINGS)
    assert store.runs() == []


def test_a_plan_says_as_many_times_as_much(setup: Experiment, space: Space, store: Store) -> None:
    one = plan(setup, space, store, replace(SETTINGS, verdict="held-out"))
    all_ = plan(setup, space, store, SETTINGS)
    assert all_.searches == 1 + FOLDS
    assert all_.about_pipelines == (1 + FOLDS) * one.about_pipelines


def test_all_searches_spend_from_one_budget(setup: Experiment, space: Space, store: Store) -> None:
    run = Crossfit(setup, space, store, SETTINGS, allowance=Allowance(limits=Limits(calls=9)))
    store.spend(run.key, Spent(calls=7), Limits())
    found = run.go()
    assert found.spent.calls == 7
    assert [row.value["within"] for row in store.runs() if row.key != run.key] == [run.key] * FOLDS
