"""The winner answers a sample of the test questions again, and what that changes stands beside the verdict."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean

import pytest
from judges import Flatterer, Judge, search_flattered
from stored import StepClock, recorded

from ragsmith.api.result import Result
from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import ModelUnavailable, WrongOption
from ragsmith.evaluation.experiment import Experiment
from ragsmith.models.calls import Completion
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.reporting.summary import summary_lines
from ragsmith.runs.plan import plan
from ragsmith.runs.run import Run
from ragsmith.runs.run_context import Callbacks, Step
from ragsmith.store.store import Store

LAW = load_dataset("law")
NOISE = 12
MOODY = Flatterer(LAW, 0.6, 1, moody=0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("noise")


@pytest.fixture(scope="module")
def moody(folder: Path) -> Result:
    return search_flattered(LAW, folder, {"language_model": MOODY, "judge": Judge("honest")}, 1, noise=NOISE)


def summary(result: Result) -> str:
    return " ".join(summary_lines(result.run_report, columns=10_000))


def test_other_samples_are_asked_of_the_writer_alone(moody: Result) -> None:
    noise = moody.run_report.about.record.noise
    assert len(noise) == NOISE == sum(sample >= 1_000 for sample in MOODY.samples)
    assert {sample for sample in MOODY.samples if sample < 1_000} == {0}


def test_changes_are_those_of_the_scores_of_test_questions(moody: Result) -> None:
    noise = moody.run_report.about.record.noise
    assert 0 < sum(change != 0 for change in noise) < NOISE
    assert all(abs(change) == pytest.approx(0.5, abs=0.05) for change in noise if change)  # half of F is the judge's


def test_the_summary_says_how_far_a_difference_changes_and_which_may_be_that_alone(moody: Result) -> None:
    noise = moody.run_report.about.record.noise
    [compared] = [one.difference for one in moody.verdict.comparisons if one.name == "naive"] or [
        moody.verdict.comparisons[0].difference
    ]
    assert compared is not None
    deviation = math.sqrt(2 * fmean(change**2 / 2 for change in noise) / compared.n)
    said = summary(moody)
    changed = sum(change != 0 for change in noise)
    assert (
        f"changed F on {changed} of {NOISE} test questions, and so changes a difference by about {deviation:.3f}"
        in said
    )
    alone = [one.against for one in moody.verdict.comparisons if abs(one.difference.mean_difference) <= 2 * deviation]
    assert ("may be that alone" in said) == bool(alone)
    assert all(name in said.partition("The difference from ")[2] for name in alone)


def test_a_model_that_repeats_itself_has_no_noise(tmp_path: Path) -> None:
    models = {"language_model": Flatterer(LAW, 0.6, 1), "judge": Judge("honest")}
    found = search_flattered(LAW, tmp_path, models, 1)
    noise = found.run_report.about.record.noise
    assert set(noise) == {0.0}
    assert len(noise) == 20
    assert f"changed F on 0 of {len(noise)} test questions" in summary(found)


def test_nothing_is_answered_again_if_it_is_not_wanted_or_nothing_can_change(
    tmp_path: Path, tiny_setup: Experiment, space: Space, store: Store
) -> None:
    models = {"language_model": Flatterer(LAW, 0.6, 1), "judge": Judge("honest")}
    unwanted = search_flattered(LAW, tmp_path, models, 1, noise=0)
    assert unwanted.run_report.about.record.noise == ()
    assert "Answering again" not in summary(unwanted)
    embedded = Run(tiny_setup, space, store, RunSettings(max_evaluations=6, warm_start=False)).go()
    record = recorded(store, embedded)
    assert record.test
    assert record.noise == ()
    with pytest.raises(WrongOption, match="noise is -1"):
        RunSettings(noise=-1)


class Leaving(Flatterer):
    """Goes away before it answers again."""

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        if sample:
            raise ModelUnavailable("the server is gone")
        return super().complete(prompt, max_tokens=max_tokens, sample=sample)


def test_a_model_that_goes_away_before_the_noise_leaves_the_verdict_and_the_same_search_goes_on(
    moody: Result, tmp_path: Path
) -> None:
    models = {"language_model": Leaving(LAW, 0.6, 1, moody=0.5), "judge": Judge("honest")}
    found = search_flattered(LAW, tmp_path, models, 1, noise=NOISE)
    assert (found.state, found.why) == ("interrupted", "the server is gone")
    assert found.run_report.about.record.noise == ()
    assert found.verdict.words == moody.verdict.words
    models["language_model"] = Flatterer(LAW, 0.6, 1, moody=0.5)
    found = search_flattered(LAW, tmp_path, models, 1, noise=NOISE)
    assert found.state == "finished"
    assert found.run_report.about.record.noise == moody.run_report.about.record.noise


def test_a_plan_counts_what_is_answered_again(folder: Path, moody: Result, store: Store) -> None:
    models = {"language_model": MOODY, "judge": Judge("honest")}
    names = ModelNames().override({role: f"given:{one.id}" for role, one in models.items()})
    space, calls = load_space(folder / "space.yaml"), {}
    for noise in (0, NOISE):
        settings = RunSettings(strategy="exhaustive", warm_start=False, rankings_first=False, noise=noise)
        lines = plan(Experiment(LAW, names, given=models), space, store, settings, sample=1_000).lines
        calls[noise] = {line.request: line.calls for line in lines}
    again = {"answer": NOISE, "judge": NOISE, "judge, planted answers": 0}
    assert {name: calls[NOISE][name] - calls[0][name] for name in calls[0]} == again


def test_a_later_search_that_wants_more_answered_again_computes_that_alone(moody: Result, tmp_path: Path) -> None:
    writer = Flatterer(LAW, 0.6, 1, moody=0.5)
    models = {"language_model": writer, "judge": Judge("honest")}
    found = {}
    for wanted, asked in ((0, 0), (5, 5), (NOISE, NOISE - 5), (NOISE, 0), (0, 0)):
        writer.samples.clear()
        result = search_flattered(LAW, tmp_path, models, 1, noise=wanted)
        found[result._outcome.key] = result.run_report.about.record.noise
        assert [sample for sample in writer.samples if sample] == [1_000] * asked
        assert len(found) == 1  # the noise is no part of the key, as it changes nothing else
    assert writer.samples == []
    assert result._outcome.ended_before
    assert list(found.values()) == [moody.run_report.about.record.noise]


def test_nothing_is_answered_again_after_the_time_limit_but_the_same_search_goes_on_with_it(
    folder: Path, moody: Result, store: Store
) -> None:
    models = {"language_model": MOODY, "judge": Judge("honest")}
    names = ModelNames().override({role: f"given:{one.id}" for role, one in models.items()})
    setup, clock = Experiment(LAW, names, given=models), StepClock()
    settings = RunSettings(
        strategy="exhaustive", warm_start=False, probes=False, rankings_first=False, noise=NOISE, time_limit=60.0
    )

    def pass_the_limit(step: Step) -> None:
        clock.seconds += 60.0 * (step.phase == "test questions")

    space, callbacks = load_space(folder / "space.yaml"), Callbacks(on_step=pass_the_limit)
    for expected in (0, NOISE):
        outcome = Run(setup, space, store, settings, callbacks=callbacks, now=clock).go()
        assert outcome.state == "finished"
        assert len(recorded(store, outcome).noise) == expected
    assert outcome.computed == 0
