"""Scores of questions that have no answer, a fitness of the user, and searches as Optuna studies."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from math import fsum
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from postgres_server import Server

import ragsmith as library
from ragsmith.evaluation.experiment import Experiment
from ragsmith.integrations.optuna import mirror_run
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.runs.run import Run
from ragsmith.store.store import Store, open_store
from ragsmith.strategies import GeneticSettings
from ragsmith.techniques.families import passage_filter, post_generation
from ragsmith.techniques.registry import Technique
from ragsmith.text.declining import declines
from ragsmith.types import Answer, Hits, Prompt, Question

Command = Callable[..., Any]
Arguments = Callable[..., list[object]]

FITNESS = """
def geometric(measures):
    return (measures["retrieval"] * measures["generation"]) ** 0.5
"""
SPACE = """
name: halves
description: What is found and what is answered, each right for half of the questions, or a little right for all.
families:
  pre_embedding: [none]
  query_expansion: [none]
  retrieval: [bm25: {k: 24}]
  reranking: [none]
  passage_filter: [found_by_halves, found_late]
  passage_augment: [none]
  passage_compress: [none]
  prompt_maker: [listing]
  post_generation: [answered_by_halves, asked_again]
"""
HALVES = "found_by_halves+answered_by_halves"


@pytest.fixture
def halves(tiny_setup: Experiment, registered: Callable[..., Technique]) -> None:
    examples = sorted(tiny_setup.dataset.examples, key=lambda example: example.id)
    gold = {example.question: tiny_setup.relevance[example.id].relevant for example in examples}
    answers = {example.question: example.answer for example in examples}
    first_half = {example.question for example in examples[::2]}

    def found_by_halves(question: Question, hits: Hits) -> Hits:
        """Keep the gold chunk alone, or one that is wrong."""
        right = [hit for hit in hits if hit.chunk.id in gold[question.text]]
        wrong = [hit for hit in hits if hit.chunk.id not in gold[question.text]]
        return tuple(right if question.text in first_half else wrong[:1])

    def found_late(question: Question, hits: Hits) -> Hits:
        """Put the gold chunk behind four others."""
        right = [hit for hit in hits if hit.chunk.id in gold[question.text]]
        return (*[hit for hit in hits if hit.chunk.id not in gold[question.text]][:4], *right)

    def answered_by_halves(question: Question, prompt: Prompt, answer: Answer) -> Answer:
        """Say nothing, or the reference answer."""
        return Answer("" if question.text in first_half else answers[question.text])

    def asked_again(question: Question, prompt: Prompt, answer: Answer) -> Answer:
        """Say the question."""
        return Answer(question.text)

    for family, techniques in (
        (passage_filter, (found_by_halves, found_late)),
        (post_generation, (answered_by_halves, asked_again)),
    ):
        for technique in techniques:
            registered(family, technique)


def test_search_report_csv_export_and_verify_rank_alike(
    halves: None,
    ragsmith: Command,
    search_arguments: Arguments,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_fitness.py").write_text(FITNESS)
    Path("halves.yaml").write_text(SPACE)
    flags = ("--space", "halves.yaml", "--strategy", "exhaustive", "--fitness", "my_fitness.py:geometric")
    flags += ("--no-race", "--no-probes", "--no-simplify", "--no-warm-start")
    searched = ragsmith(*search_arguments(*flags, "--workers", 1, "--quiet"))
    assert searched.code == 0, searched.err

    with Store.open("cache.sqlite", read_only=True) as store:
        [run] = store.runs()
        record = RunRecord.from_dict(run.value)
        in_search = {row.evaluation: row.fitness for row in store.proposals(run.key)}
        rows = store.results_many(in_search)
    assert len(in_search) == 4
    [worst] = [key for key, value in in_search.items() if value == 0.0]
    measures = [rows[worst][question].value["measures"] for question in record.split.search]
    values = {tuple(measured[name] for name in ("recall", "mrr", "judge", "similarity")) for measured in measures}
    assert values == {(1.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0)}

    reported = ragsmith("report", "--json")
    assert reported.code == 0, reported.err
    ranking = json.loads(reported.out)["domains"][0]["ranking"]
    assert [row["key"] for row in ranking] == sorted(in_search, key=lambda key: -in_search[key])
    for row in ranking:
        assert row["scores"]["fitness"]["mean"] == pytest.approx(in_search[row["key"]], abs=1e-6)
    assert (ranking[-1]["key"], ranking[0]["key"]) == (worst, record.winner)

    table = list(csv.DictReader(Path("reports/island/ranking.csv").read_text().splitlines()))
    assert [row["pipeline"] for row in table[:4]] == [row["label"] for row in ranking]
    assert [float(row["fitness"]) for row in table[:4]] == [row["scores"]["fitness"]["mean"] for row in ranking]
    assert "my_fitness.py:geometric" in Path("reports/island/report.md").read_text()

    exported = ragsmith("export", "--dataset", search_arguments()[2], "--output", "kept/winner.yaml")
    assert exported.code == 0, exported.err
    kept = yaml.safe_load(Path("kept/winner.yaml").read_text())
    assert (kept["fitness"]["file"], kept["fitness"]["function"]) == ("../my_fitness.py", "geometric")
    assert kept["expected"]["search"]["fitness"] == pytest.approx(in_search[record.winner], abs=1e-12)
    verified = ragsmith("verify", "kept/winner.yaml")
    assert verified.code == 0, verified.out + verified.err
    evaluated = ragsmith("evaluate", "kept/winner.yaml", "--json")
    assert json.loads(evaluated.out)["search"]["metrics"]["fitness"]["mean"] == kept["expected"]["search"]["fitness"]

    changed = {**kept, "fitness": {**kept["fitness"], "digest": "0" * 16}}
    Path("kept/winner.yaml").write_text(yaml.safe_dump(changed))
    refused = ragsmith("verify", "kept/winner.yaml")
    assert refused.code == 2
    assert "my_fitness.py has changed since pipelines were ranked by it" in refused.err


def test_a_report_of_all_leaves_out_what_was_ranked_by_a_file_that_is_gone(
    ragsmith: Command,
    spawn: Command,
    search_arguments: Arguments,
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    other = shutil.copytree(tiny_folder, tmp_path / "other")
    manifest = other / "dataset.yaml"
    manifest.write_text(manifest.read_text().replace("name: island", "name: other"))
    question = (other / "questions.jsonl").read_text()
    (other / "questions.jsonl").write_text(question.replace("When does the ferry", "At what time does the ferry", 1))
    Path("gone_fitness.py").write_text("def flat(measures):\n    return measures['recall']\n")
    small = ("--max-evaluations", 3, "--no-probes", "--workers", 1, "--quiet")
    assert ragsmith(*search_arguments(*small)).code == 0
    arguments = search_arguments(*small, "--fitness", "gone_fitness.py:flat")
    own = ragsmith(*(other if argument == tiny_folder else argument for argument in arguments))
    assert own.code == 0, own.err
    Path("gone_fitness.py").rename("elsewhere.py")
    reported = spawn("report")  # in a process of its own, which has never seen the file
    out, err = reported.communicate(timeout=60)
    assert reported.returncode == 0, err
    assert err.startswith("warning: other is left out of the report: ")
    assert "gone_fitness.py" in err
    assert out.startswith("island: ")
    alone = spawn("report", "--dataset", "other")
    assert "gone_fitness.py" in alone.communicate(timeout=60)[1]
    assert alone.returncode == 2
    Path("elsewhere.py").rename("gone_fitness.py")  # this process has loaded it, and would refuse to go on without


UNANSWERABLE = (
    "Which painter decorated the ceiling of the chapel?",
    "What colour are the seats of the ferry?",
    "Who insured the lighthouse against lightning?",
    "How much sugar does the market sell in winter?",
    "Which football team do the pupils support?",
    "What is the telephone number of the customs shed?",
    "When was the yellow submarine launched?",
    "How many horses does the reeve own?",
)


@pytest.fixture(scope="module")
def isle(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, tiny_space: Path) -> Path:
    """A searched data set: 18 questions with evidence, 6 without, and 8 that nothing answers."""
    isle = tmp_path_factory.mktemp("unanswerable")
    folder = shutil.copytree(tiny_folder, isle / "island")
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    for row in rows[::4]:
        del row["evidence"], row["type"]
    rows += [{"id": f"none-{n}", "question": asked, "answerable": False} for n, asked in enumerate(UNANSWERABLE)]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    space = isle / "space.yaml"
    space.write_text(
        tiny_space.read_text() + "for_unanswerable: {post_generation: [{abstain: {least: [0.3, 0.4, 0.5]}}]}\n"
    )
    library.search(folder, space=space, cache=isle / "cache.sqlite", reports=isle / "reports", workers=1, seed=1)
    return isle


@pytest.fixture
def winner(isle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(isle)
    return isle / "reports" / "island" / "winner.yaml"


def test_it_is_valid_and_says_what_it_has(winner: Path, ragsmith: Command) -> None:
    said = json.loads(ragsmith("dataset", "show", "island", "--json").out)
    assert (said["questions"], said["unanswerable"], said["without_evidence"]) == (32, 8, 6)
    assert ragsmith("dataset", "validate", "island").code == 0


def test_the_search_finds_that_declining_pays_and_its_file_is_verified(winner: Path, ragsmith: Command) -> None:
    assert "abstain" in winner.read_text()
    assert ragsmith("verify", winner).code == 0


def test_means_are_over_the_questions_that_have_a_value(winner: Path, ragsmith: Command) -> None:
    parts = json.loads(ragsmith("evaluate", winner, "--json").out)
    for name in ("search", "test"):
        metrics = parts[name]["metrics"]
        total = parts[name]["scored"]
        refused, answered, found = (metrics[m]["n"] for m in ("refusal", "false_refusal", "recall"))
        assert refused + answered == total
        assert found < answered
        assert metrics["retrieval"]["n"] == found
        assert metrics["generation"]["n"] is None
        assert metrics["judge"]["n"] == answered
        assert 0 < metrics["refusal"]["mean"] <= 1
    assert parts["search"]["scored"] + parts["test"]["scored"] == 32


def test_the_fitness_of_a_question_is_made_of_the_parts_that_it_has(winner: Path, isle: Path) -> None:
    pipeline = library.Pipeline.load(winner)
    with open_store(isle / "cache.sqlite") as store:
        evaluation = pipeline.evaluate(store)
    fitness = evaluation.by_question(pipeline.fitness)
    for question, record in evaluation.records.items():
        m = record["measures"]
        r = None if m["recall"] is None else (m["recall"] + m["map"] + m["ndcg"] + m["mrr"]) / 4
        if question.startswith("none-"):
            assert (r, m["judge"], m["similarity"], m["exact_match"], m["false_refusal"]) == (None,) * 5
            assert fitness[question] == m["refusal"] == float(declines(record["answer"]))
            continue
        g = (m["judge"] + m["similarity"]) / 2
        assert m["refusal"] is None
        assert fitness[question] == pytest.approx(g if r is None else (r + g) / 2, abs=1e-12)
    assert evaluation.mean("fitness", pipeline.fitness) == pytest.approx(fsum(fitness.values()) / 32)


def test_the_report_says_of_how_many_questions_a_mean_is(winner: Path, isle: Path) -> None:
    report = (isle / "reports" / "island" / "report.md").read_text()
    assert ") have no R, and their F is G." in report
    assert "have no answer in the documents, G is 1 if declined, else 0." in report
    assert "Refusal" in report
    assert "False refusal (lower is better)" in report


def test_what_has_no_answer_is_declined_and_what_was_looked_at_is_shown(winner: Path, ragsmith: Command) -> None:
    shown = ragsmith("ask", winner, UNANSWERABLE[0])
    assert shown.code == 0
    assert shown.out.startswith("The documents do not seem to answer this. Closest:\n")
    said = json.loads(ragsmith("ask", winner, UNANSWERABLE[0], "--json").out)
    assert said["declined"] is True
    for source in said["sources"]:
        assert f"{source['doc']} [{source['start']}:{source['end']}]" in shown.out
    assert said["sources"]


def test_retrieval_alone_is_tuned_on_the_questions_with_evidence(
    winner: Path, isle: Path, tiny_space: Path, ragsmith: Command
) -> None:
    found = library.search(
        isle / "island", space=tiny_space, cache=isle / "ranked.sqlite", reports=isle / "ranked", workers=1,
        objective="retrieval",
    )  # fmt: skip
    about = found.run_report.about.record.split
    assert len(about.search) + len(about.test) == 18
    assert ragsmith("verify", isle / "ranked" / "island" / "winner.yaml").code == 0


SETTINGS = RunSettings(
    genetic=GeneticSettings(population=4, generations=1, elitism=1), max_evaluations=4, racing=None, probes=False
)


def test_runs_are_mirrored_and_the_dashboard_is_named(
    ragsmith: Command, tiny_setup: Experiment, space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open("my cache.sqlite") as store:
        key = Run(tiny_setup, space, store, SETTINGS).go().key
        proposed = len(store.proposals(key))
    plain = ragsmith("runs", "--cache", "my cache.sqlite")
    shown = ragsmith("runs", "--mirror", "--cache", "my cache.sqlite")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(plain.out)
    assert f"mirrored as 1 Optuna studies of {proposed} trials, {proposed} of them new" in shown.out
    assert "  optuna-dashboard 'sqlite:///my cache.sqlite'\n" in shown.out
    assert "0 of them new" in ragsmith("runs", "--mirror", "--cache", "my cache.sqlite").out
    [run] = json.loads(ragsmith("runs", "--mirror", "--json", "--cache", "my cache.sqlite").out)
    assert (run["key"], run["study"]) == (key, f"ragsmith island {key[:12]}")
    storage = optuna.storages.RDBStorage("sqlite:///my cache.sqlite")
    assert len(optuna.load_study(study_name=run["study"], storage=storage).trials) == proposed
    storage.remove_session()
    storage.engine.dispose()


@pytest.mark.processes
def test_a_password_is_used_and_not_said(
    ragsmith: Command, tiny_setup: Experiment, space: Space, postgres_server: Server
) -> None:
    url = postgres_server.database().replace("@", ":Dw3-data-Gv65xKa19@")
    with Store.open(url) as store:
        key = Run(tiny_setup, space, store, SETTINGS).go().key
        assert mirror_run(store).written == len(store.proposals(key)) > 0
    shown = ragsmith("runs", "--mirror", "--cache", url)
    assert (shown.code, shown.err) == (0, "")
    assert "ragsmith:***@127.0.0.1" in shown.out
    assert "with the password in place of ***" in shown.out
    assert "Dw3" not in shown.out
