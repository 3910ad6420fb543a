"""The record of a run: written and read again, brought forward from its first form, and refused when it is newer.

``version_1`` holds what ragsmith 0.1.0 left, before a record named its version: a cache with two searches of the tiny
space, one on the embedded models and one on a `Chat`, and the winner's file of the first. Its results have other keys
now; its replies are found as long as no prompt changes.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

import ragsmith as package
from ragsmith.datasets.splits import split
from ragsmith.errors import UsageError
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.testbed import Setup
from ragsmith.models.calls import Completion
from ragsmith.pipelines.space import Space
from ragsmith.records.record import VERSION, RunRecord, RunSettings
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings

OLD = Path(__file__).parent / "version_1"
EMBEDDED, CHAT = "e9f7431f9584e76a178c50c83ddf68a4", "2406072a2bd4128e2561b3117802dbf1"
GENETIC = GeneticSettings(population=4, generations=1, elitism=1)


class Chat:
    """The model that the second search asked; every one of its replies is in the cache."""

    id = "a model of one's own"

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        raise AssertionError(f"the reply is not found in the cache: {prompt}")


@pytest.fixture
def old(tmp_path: Path, tiny_folder: Path, tiny_space: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the searches were run, with the cache, and the winner where it was."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_folder, tmp_path / "island")
    shutil.copy(tiny_space, tmp_path / "tiny.yaml")
    (tmp_path / "cache.sqlite").write_bytes(gzip.decompress((OLD / "stored.gz").read_bytes()))
    (tmp_path / "reports" / "island").mkdir(parents=True)
    shutil.copy(OLD / "winner.yaml", tmp_path / "reports" / "island" / "winner.yaml")
    return tmp_path


def stored(key: str) -> dict[str, Any]:
    with Store.open("cache.sqlite", read_only=True) as store:
        run = store.run(key)
    assert run is not None
    value: dict[str, Any] = run.value
    return value


# --- the record ------------------------------------------------------------------------------------------------------


def test_a_record_is_read_as_it_was_written(tiny_setup: Setup, space: Space) -> None:
    settings = RunSettings("random", GENETIC, seed=3, max_evaluations=9, fitness=Fitness(Weights(1, 0)), probes=False)
    record = RunRecord.begun(tiny_setup, space, settings, split(tiny_setup.dataset))
    plain = json.loads(json.dumps(record.plain()))
    assert plain["version"] == VERSION
    assert RunRecord.read(plain) == record


@pytest.mark.parametrize("stored", [None, [], {}, {"version": VERSION}, {"space": "tiny"}, {"version": "2"}])
def test_what_is_no_record_is_refused(stored: Any) -> None:
    with pytest.raises(UsageError, match=r"cannot be read .*: give another cache with --cache"):
        RunRecord.read(stored)


def test_a_record_of_a_newer_ragsmith_is_refused(old: Path, ragsmith: Callable[..., Any]) -> None:
    with Store.open("cache.sqlite") as store:
        store.update_run(CHAT, "finished", {**stored(CHAT), "version": VERSION + 1})
    for command in (["runs"], ["report"], ["export", "--dataset", "island"]):
        ended = ragsmith(*command, "--cache", "cache.sqlite")
        assert (ended.code, ended.out) == (2, "")
        assert f"newer ragsmith (record version {VERSION + 1}; this one reads up to {VERSION}): update" in ended.err


# --- what was written before there were versions ---------------------------------------------------------------------


def test_a_record_without_a_version_is_brought_forward(old: Path) -> None:
    before, record = stored(EMBEDDED), RunRecord.read(stored(EMBEDDED))
    assert (record.settings.seed, record.settings.genetic.population) == (42, 4)
    assert (record.account.stages_computed, record.account.stages_requested) == (1750, 2208)
    assert record.account.calls["embedder"].asked == 1968
    assert (record.winner, record.test["winner"], record.chunk_size) == (before["winner"], before["winner"], 100)
    assert [asdict(probe) for probe in record.probes] == before["probes"]
    assert record.history[0].population[1] == (0,) * 9
    assert RunRecord.read(json.loads(json.dumps(record.plain()))) == record


def test_a_run_that_was_killed_has_an_empty_record_of_what_it_had_not_come_to(old: Path) -> None:
    begun = ("space", "settings", "models", "model_names", "chunk_size", "split")
    record = RunRecord.read({name: value for name, value in stored(EMBEDDED).items() if name in begun})
    assert (record.winner, record.probes, record.random, record.baselines, record.test) == (None, (), (), {}, {})


def test_a_margin_of_before_it_had_an_end_is_read(old: Path) -> None:
    plain = stored(EMBEDDED)
    read = RunRecord.read({**plain, "settings": {**plain["settings"], "margin": 5.0}})
    assert 0.99 < read.settings.margin < 1


def test_the_searches_are_listed(old: Path, ragsmith: Callable[..., Any]) -> None:
    found = json.loads(ragsmith("runs", "--cache", "cache.sqlite", "--json").out)
    asked = {"data set": "island", "state": "finished", "space": "tiny", "strategy": "genetic", "seed": 42}
    assert found == [{"key": key, **asked, "candidates": 4} for key in (EMBEDDED, CHAT)]


def test_the_search_is_reported(old: Path, ragsmith: Callable[..., Any]) -> None:
    with Store.open("cache.sqlite") as store:  # so that the other one is the latest
        store.update_run(CHAT, "interrupted", stored(CHAT))
    ended = ragsmith("report", "--cache", "cache.sqlite", "--output", "again")
    assert ended.code == 0, ended.err
    assert "island: 4 of 48 pipelines searched (genetic), 18 search and 6 test questions" in ended.out
    assert "  1  0.781 [0.740, 0.822]  R 1.000  G 0.563    1.0  vector + top_k(k=2)" in ended.out
    assert "best of 4 random" in ended.out
    assert "adds reranking cross_encoder" in (old / "again" / "island" / "report.md").read_text()


def test_the_winner_is_exported_as_it_was(old: Path, ragsmith: Callable[..., Any]) -> None:
    arguments = ("--dataset", "island", "--cache", "cache.sqlite", "--run", EMBEDDED, "--output", "again/x/winner.yaml")
    ended = ragsmith("export", *arguments)
    assert ended.code == 0, ended.err
    before, now = (
        yaml.safe_load(Path(path).read_text()) for path in ("reports/island/winner.yaml", "again/x/winner.yaml")
    )
    assert now.pop("format") == 2
    assert now.pop("fitness") == {"weights": before.pop("weights")}
    assert len(now.pop("reference")["test"].splitlines()) == before["expected"]["test"]["questions"]
    for part, scores in before["expected"].items():
        assert scores.items() <= now["expected"][part].items()
    assert {**now, "format": 1, "expected": before["expected"]} == before


def test_the_exported_winner_is_asked_and_verified(old: Path, ragsmith: Callable[..., Any]) -> None:
    asked = ragsmith("ask", "reports/island/winner.yaml", "How high is the lighthouse?")
    assert asked.code == 0, asked.err
    assert "forty metres" in asked.out
    verified = ragsmith("verify", "reports/island/winner.yaml")
    differ = {line.split()[1].rstrip(":") for line in verified.out.splitlines() if ": exported " in line}
    assert (verified.code, differ) == (1, {"fitness", "generation", "judge"})  # the judge was mended since, and says so
    assert "the judge is not what it was" in verified.out + verified.err


def test_the_search_computes_its_evaluations_once_more(old: Path, ragsmith: Callable[..., Any]) -> None:
    search = ("search", "--dataset", "island", "--space", "tiny.yaml", "--chunk-size", 100, "--workers", 1, "--json")
    numbers = ("--preset", "quick", "--population", 4, "--generations", 1, "--max-evaluations", 4)
    first, second = (
        json.loads(ragsmith(*search, *numbers, "--cache", "cache.sqlite").out) for _ in ("anew", "from the cache")
    )
    assert (first["computed"] > 0, second["computed"], second["run"]) == (True, 0, first["run"])
    assert first["summary"] == second["summary"]
    keys = [run["key"] for run in json.loads(ragsmith("runs", "--cache", "cache.sqlite", "--json").out)]
    assert sorted(keys) == sorted([EMBEDDED, CHAT, first["run"]])


def test_a_search_finds_the_replies_that_were_paid_for(old: Path) -> None:
    plain = {"racing": None, "probes": False, "simplify": False, "begin_with_known": False}
    settings = RunSettings(genetic=GENETIC, max_evaluations=4, **plain)
    there = {"space": "tiny.yaml", "settings": settings, "chunk_size": 100, "cache": "cache.sqlite"}
    outcome = package.search("island", **there, models={"language_model": Chat()})
    assert outcome.state == "finished"
    assert outcome.computed > 0
    assert outcome.ranking[0].scores["fitness"].mean == pytest.approx(
        RunRecord.read(stored(CHAT)).history[-1].best, abs=1e-12
    )
