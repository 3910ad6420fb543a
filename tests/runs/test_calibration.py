"""A search with a stated risk: the winner declines below a threshold that keeps it, or is left as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ragsmith
from ragsmith.api.searching import resolve_settings
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.writing import export, winner_yaml
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RiskCalibration, RunSettings, load_record
from ragsmith.reporting import load_report
from ragsmith.reporting.wording import describe_risk
from ragsmith.runs.run import Run
from ragsmith.runs.run_context import run_key
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings

SETTINGS = RunSettings(
    genetic=GeneticSettings(population=4, generations=1, elitism=1), probes=False, racing=None, warm_start=False
)


def calibrated(setup: Experiment, space: Space, store: Store, risk: float, confidence: float) -> RiskCalibration:
    outcome = Run(setup, space, store, replace(SETTINGS, max_risk=risk, confidence=confidence)).go()
    record = load_record(store, outcome.key)
    assert record is not None
    assert record.declining is not None
    assert (record.declining.risk, record.declining.confidence) == (risk, confidence)
    return record.declining


def test_a_risk_that_holds_is_in_record_file_and_test(
    tiny_setup: Experiment, space: Space, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(SETTINGS, max_risk=0.9, confidence=0.3)
    outcome = Run(tiny_setup, space, store, settings).go()
    record = load_record(store, outcome.key)
    assert record is not None
    found = record.declining
    assert found is not None
    assert found.key
    assert found.calibrated is not None
    assert found.calibrated.answered <= found.whole.answered
    assert record.test["calibrated"] == found.key
    assert found.tested is not None
    path = tmp_path / "winner.yaml"
    path.write_text(winner_yaml(store, outcome.key, tiny_setup, tmp_path))
    pipeline = Pipeline.load(path)
    gene = next(gene for gene in pipeline.candidate if gene.technique.family == "post_generation")
    assert (gene.technique.name, gene.parameters) == ("abstain", {"least": found.least, "by": "score"})
    assert pipeline.stated_risk["at_most"] == 0.9
    assert pipeline.stated_risk["confidence"] == 0.3
    assert pipeline.stated_risk["search"]["questions"] == found.calibrated.questions
    assert pipeline.verify() == []
    for pick, name, is_winner in (
        ("best", "calibrated", False),
        ("calibrated", "calibrated", False),
        ("winner", "winner", True),
    ):
        ended = export(store, outcome.key, tiny_setup, tmp_path / f"its {pick}.yaml", pick)
        assert (ended.pick, ended.is_winner) == (name, is_winner)
        assert (Pipeline.load(ended.path).candidate == pipeline.candidate) is not is_winner
    monkeypatch.chdir(tmp_path)
    files = [ragsmith.export(tiny_setup.dataset, cache=store, pick=pick).path for pick in ("best", "winner")]
    assert files == [Path("winner.yaml"), Path("winner-uncalibrated.yaml")]
    again = Run(tiny_setup, space, store, settings).go()
    assert (again.computed, again.ended_before) == (0, True)
    assert load_record(store, again.key) == record


def test_a_risk_that_no_threshold_keeps_is_said_and_the_winner_stays(
    tiny_setup: Experiment, space: Space, store: Store
) -> None:
    found = calibrated(tiny_setup, space, store, 0.01, 0.9)
    assert (found.key, found.least, found.calibrated, found.tested) == ("", None, None, None)
    said = describe_risk(load_report(store, tiny_setup.dataset.name))
    assert said.startswith("No share of wrong answers")
    assert "can be promised with 90 % confidence, so not the stated 1 %: give" in said
    assert "better models, or search questions on more documents. The winner is left as it is" in said


def test_the_least_risk_that_is_kept_is_named_and_kept(tiny_setup: Experiment, space: Space, store: Store) -> None:
    found = calibrated(tiny_setup, space, store, 0.01, 0.3)
    assert found.attainable is not None
    assert found.attainable > 0.01
    said = describe_risk(load_report(store, tiny_setup.dataset.name))
    assert f"give the same search with --max-risk={found.attainable:g}, better models" in said
    assert calibrated(tiny_setup, space, store, found.attainable, 0.3).key
    assert not calibrated(tiny_setup, space, store, round(found.attainable - 0.01, 2), 0.3).key


def test_without_a_stated_risk_nothing_is_calibrated_and_the_key_is_that_of_before(
    tiny_setup: Experiment, space: Space, store: Store
) -> None:
    outcome = Run(tiny_setup, space, store, SETTINGS).go()
    record = load_record(store, outcome.key)
    assert record is not None
    assert record.declining is None
    keys = {
        run_key(tiny_setup, space, replace(SETTINGS, max_risk=risk, confidence=confidence))
        for risk, confidence in ((None, 0.9), (None, 0.8), (0.2, 0.9), (0.2, 0.8), (0.3, 0.9))
    }
    assert len(keys) == 4
    assert outcome.key in keys


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_risk": 0.0}, "max_risk.* is 0.0: give a share above 0 and below 1"),
        ({"max_risk": 20.0}, "give a share above 0 and below 1"),
        ({"max_risk": 0.2, "confidence": 1.0}, "confidence.* is 1.0"),
        ({"confidence": 0.8}, "no risk is stated: add  --max-risk"),
        ({"max_risk": 0.2, "objective": "retrieval"}, "limits wrong answers, and --objective retrieval generates none"),
    ],
)
def test_a_wrong_risk_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(WrongOption, match=message) as refused:
        resolve_settings(None, None, changes)
    assert isinstance(refused.value, UsageError)
