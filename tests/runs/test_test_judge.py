"""A second judge scores the answers to test questions, and neither judge sees what the other scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from judges import FLATTERY, Flatterer, Judge, search_flattered

import ragsmith
from ragsmith.api.result import Result
from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.keys import evaluation_key, ranking_key
from ragsmith.measures.judge_check import list_judge_requests
from ragsmith.models.calls import Completion
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.reporting import load_report
from ragsmith.reporting.summary import summary_lines
from ragsmith.runs.check import check_models
from ragsmith.runs.plan import plan
from ragsmith.store.store import Store

LAW = load_dataset("law")
SHARE = 0.6
"""The share of right answers of either prompt."""


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {
        "language_model": Flatterer(LAW, SHARE, 1),
        "judge": Judge("vain", vain=True),
        "test_judge": Judge("honest"),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("flattered")


@pytest.fixture(scope="module")
def result(models: dict[str, Any], folder: Path) -> Result:
    return search_flattered(LAW, folder, models, 1)


def split_questions() -> tuple[set[str], set[str]]:
    parts = Experiment(LAW).split
    return {example.question for example in parts.search}, {example.question for example in parts.test}


def test_each_judge_sees_its_own_questions_alone(models: dict[str, Any], result: Result) -> None:
    search, test = split_questions()
    assert result.state == "finished"
    assert models["judge"].judged
    assert set(models["judge"].judged) <= search
    assert models["test_judge"].judged
    assert set(models["test_judge"].judged) <= test


def test_what_pleases_the_judge_of_the_search_alone_is_not_called_better(result: Result) -> None:
    assert result.winner.ask(LAW.examples[0].question).answer.startswith(FLATTERY)
    assert (
        result.run_report.winner.scores["generation"].mean
        > result.run_report.baselines["naive"].scores["generation"].mean + 0.1
    )
    assert result.verdict.words == "No difference from naive RAG or BM25 shown."


def test_the_report_names_both_judges_and_compares_no_levels(result: Result, folder: Path) -> None:
    said = " ".join(summary_lines(result.run_report, columns=10_000))
    assert "vain judged answers to search questions, and honest those to test questions" in said
    assert "neither saw what the other judged" in said
    assert "other ones with another judge" in said
    assert "price of choosing" not in said
    result.report(folder / "reports")
    page = (folder / "reports" / "law" / "index.html").read_text()
    assert "honest those to test questions" in page
    report = result.run_report
    assert [(model.role, model.id) for model in report.models if "judge" in model.role] == [
        ("judge", "vain"),
        ("test_judge", "honest"),
    ]
    marks: dict[str, set[float]] = {"search": set(), "test": set()}
    for row in report.answered:
        if row.pipeline == "winner" and "judge" in row.measures:
            marks[row.split].add(row.measures["judge"])
    assert marks == {"search": {1.0}, "test": {0.0, 1.0}}


def test_the_winner_says_which_judge_decided_and_its_scores_are_reproduced(
    models: dict[str, Any], result: Result, folder: Path
) -> None:
    result.export(folder / "winner.yaml")
    written = yaml.safe_load((folder / "winner.yaml").read_text())
    assert written["run"]["decided_by"] == "honest"
    assert written["models"]["test_judge"] == "given:honest"
    loaded = ragsmith.Pipeline.load(folder / "winner.yaml", models=models)
    assert loaded.verify() == []
    assert loaded.changed_models() == {}
    before = len(models["judge"].judged), len(models["test_judge"].judged)
    given = {"models": models, "cache": folder / "cache.sqlite"}
    scored = ragsmith.evaluate(folder / "winner.yaml", **given).parts
    found = {part: scored[part].metrics["judge"].mean for part in ("search", "test")}
    assert found == {part: written["expected"][part]["judge"] for part in found}
    compared = ragsmith.compare(folder / "winner.yaml", "naive", split="all", **given)
    assert len(compared.questions) == len(LAW.examples)
    assert ragsmith.gate(folder / "winner.yaml", **given).difference.nonzero == 0
    assert (len(models["judge"].judged), len(models["test_judge"].judged)) == before


def test_repeating_asks_nothing_and_the_search_is_shared_with_one_that_has_no_second_judge(
    models: dict[str, Any], result: Result, folder: Path
) -> None:
    _, test = split_questions()
    vain, honest = models["judge"], models["test_judge"]
    before = len(vain.judged), len(honest.judged)
    assert search_flattered(LAW, folder, models, 1).verdict.words == result.verdict.words
    assert (len(vain.judged), len(honest.judged)) == before
    alone = {role: model for role, model in models.items() if role != "test_judge"}
    plain = search_flattered(LAW, folder, alone, 1, test=True)
    assert set(vain.judged[before[0] :]) <= test
    assert len(honest.judged) == before[1]
    assert "Better than naive RAG" in plain.verdict.words
    assert search_flattered(LAW, folder, models, 1).verdict.words == result.verdict.words


def test_scores_by_different_judges_have_different_keys(
    tiny_setup: Experiment, pipeline: Callable[..., Candidate]
) -> None:
    def keys(**names: str) -> tuple[str, str, str]:
        given = {role: Judge(name) for role, name in names.items()}
        models = ModelNames(**{role: f"given:{name}" for role, name in names.items()})
        setup = Experiment(tiny_setup.dataset, models, tiny_setup.chunk_size, False, given=given)
        tested = evaluation_key(setup, pipeline(), tested=True)
        return evaluation_key(setup, pipeline()), tested, ranking_key(setup, pipeline())

    alone, other, both = keys(judge="a"), keys(judge="b"), keys(judge="a", test_judge="b")
    assert alone[0] == alone[1]
    assert both == (alone[0], other[1], alone[2])
    assert alone[:2] != other[:2]


@pytest.mark.parametrize("judge", [{"judge": "given:a"}, {"language_model": "given:a"}])
def test_a_test_judge_that_is_the_judge_is_not_a_second_one(tiny_setup: Experiment, judge: dict[str, str]) -> None:
    given = {role: Judge("a") for role in ("language_model", "judge", "test_judge")}
    names = ModelNames(**judge)
    alone, both = (
        Experiment(tiny_setup.dataset, models, tiny_setup.chunk_size, False, given=given)
        for models in (names, names.override({"test_judge": "given:a"}))
    )
    assert both.model_ids == alone.model_ids
    assert [one.id for one in both.loaded_models.judges] == ["a"]


def test_a_crossfit_has_the_second_judge_score_each_question_in_its_fold(tmp_path: Path) -> None:
    vain, honest = Judge("vain", vain=True), Judge("honest")
    models = {"language_model": Flatterer(LAW, SHARE, 2), "judge": vain, "test_judge": honest}
    found = search_flattered(LAW, tmp_path, models, 2, verdict="crossfit", folds=3)
    assert found.state == "finished"
    folds = found.run_report.about.record.folds
    tested = {question for fold in folds for question in fold.test}
    assert set(honest.judged) == {one.question for one in LAW.examples if one.answerable and one.id in tested}
    by_role = {one.name: one.test.scores["generation"].mean for one in found.run_report.finalists}
    assert by_role["naive"] == pytest.approx(SHARE, abs=0.1)
    assert by_role["winner"] == pytest.approx(SHARE, abs=0.1)
    assert "No difference from naive RAG" in found.verdict.words
    said = " ".join(summary_lines(found.run_report, columns=10_000))
    assert set(vain.judged) & set(honest.judged)
    assert "neither saw" not in said
    assert "so both judged answers to them" in said


def test_a_plan_counts_the_requests_to_either_judge(
    models: dict[str, Any], result: Result, folder: Path, store: Store
) -> None:
    setup = Experiment(
        LAW, ModelNames().override({role: f"given:{one.id}" for role, one in models.items()}), given=models
    )
    settings = RunSettings(strategy="exhaustive", racing=None, probes=False, warm_start=False, rankings_first=False)
    found = plan(setup, load_space(folder / "space.yaml"), store, settings, sample=1_000)
    lines = found.lines
    calls = {line.model: line.calls for line in lines if line.request == "judge"}
    sent = {one.id: len(set(one.judged)) for one in (models["judge"], models["test_judge"])}
    assert calls.keys() == sent.keys()
    for judge, questions in sent.items():  # of each of three pipelines, unless two give the same answer
        assert questions < calls[judge] <= 3 * questions
    choices = {choice.flag: choice.calls for choice in found.choices}
    assert choices["--judge extractive"] == calls[models["judge"].id]  # the test judge is asked in any case


@pytest.fixture
def judged_by(tiny_setup: Experiment, pipeline: Callable[..., Candidate]) -> Callable[[str], ragsmith.Pipeline]:
    """A pipeline whose answers to test questions are scored by the test judge of this name."""

    def judge(name: str) -> ragsmith.Pipeline:
        names = ModelNames(judge="given:vain", test_judge=f"given:{name}")
        given = {"judge": Judge("vain", vain=True), "test_judge": Judge(name)}
        setup = Experiment(tiny_setup.dataset, names, tiny_setup.chunk_size, False, given=given)
        return ragsmith.Pipeline(pipeline(retrieval="bm25", passage_filter=("top_k", {"k": 2})), setup)

    return judge


@pytest.mark.parametrize(("part", "kept"), [("search", True), ("test", False), ("all", False)])
def test_an_ablation_on_test_questions_is_merged_with_one_by_the_same_test_judge_alone(
    judged_by: Callable[[str], ragsmith.Pipeline], tiny_space: Path, store: Store, part: str, kept: bool
) -> None:
    plans: list[Any] = []

    def ablate(name: str, **more: Any) -> Any:
        given = {"space": tiny_space, "split": part, "workers": 1, "cache": store}
        return ragsmith.ablate(judged_by(name), on_plan=lambda plan: plans.append(plan) or True, **given, **more)

    swapped = ablate("honest", swaps=True)
    assert swapped.swaps
    assert ablate("honest").swaps == swapped.swaps
    assert plans[0].known == 0
    assert plans[1].known == plans[1].pipelines
    assert bool(ablate("other").swaps) is kept
    assert plans[2].known == (plans[2].pipelines if kept else 0)


def test_a_report_shows_interventions_that_its_test_judge_scored(
    tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    def models(name: str) -> dict[str, Any]:
        return {"judge": Judge("vain", vain=True), "test_judge": Judge(name)}

    given = {"cache": tmp_path / "cache.sqlite", "workers": 1}
    found = ragsmith.search(tiny_folder, space=tiny_space, models=models("honest"), max_evaluations=2, **given)
    found.export(tmp_path / "winner.yaml")

    def shown(name: str) -> int:
        written = (tmp_path / "winner.yaml").read_text().replace("given:honest", f"given:{name}")
        (tmp_path / f"{name}.yaml").write_text(written)
        ragsmith.intervene(tmp_path / f"{name}.yaml", models=models(name), split="all", **given)
        with Store.open(tmp_path / "cache.sqlite", read_only=True) as store:
            return len(load_report(store, "island").questions.interventions)

    assert shown("other") == 0
    assert shown("honest") == 16  # four means of each of two pipelines, on the search and on the test questions
    assert shown("other") == 16


def test_either_judge_is_checked() -> None:
    chats = {"judge": Judge("vain", vain=True), "test_judge": Judge("honest")}
    names = ModelNames(judge="given:vain", test_judge="given:honest", cross_encoder="none")
    told: list[int] = []
    checked = check_models(names, load_space("quick"), given=chats, faithfulness=False, on_start=told.append)
    found = {one.role: one for one in checked}
    assert [task.task for task in found["test_judge"].tasks] == ["judge"]
    assert found["judge"].judged is not None
    assert found["test_judge"].judged is not None
    assert told == [2 * (1 + len(list_judge_requests()))]
    assert all(chat.judged for chat in chats.values())


class Gullible(Judge):
    """A judge that finds everything perfect."""

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        return replace(super().complete(prompt, max_tokens=max_tokens, sample=sample), text="Score: 5")


def test_a_search_with_a_judge_that_scores_wrong_answers_like_right_ones_is_refused(tmp_path: Path) -> None:
    judge, answering = Gullible("gullible"), Flatterer(LAW, SHARE, 1)
    models = {"language_model": answering, "judge": judge}
    said = "scored the reference above the answer to another question for 0 of 4 search questions of this data set"
    for _ in range(2):
        with pytest.raises(UsageError, match=rf"judge gullible {said}: name another .* --trust-judge"):
            search_flattered(LAW, tmp_path, models, 1)
    assert answering.samples == []
    assert len(judge.judged) == 8  # the verdicts are in the cache
    trusted = search_flattered(LAW, tmp_path, models, 1, trust_judge=True)
    assert trusted.state == "finished"
    told = " ".join(summary_lines(trusted.run_report, columns=10_000))
    assert f"! The judge {said}, so its scores do not tell pipelines apart." in told


def test_the_check_of_a_judge_on_planted_answers_is_in_the_report(result: Result) -> None:
    check = result.run_report.about.record.planted
    assert check is not None
    assert (check.planted, check.ordered) == (4, 4)
    assert not any("planted" in note or "the answer to another question" in note for note in result.run_report.notes)
