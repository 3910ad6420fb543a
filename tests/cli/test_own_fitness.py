"""A fitness of one's own that is not linear ranks pipelines alike wherever they are ranked.

Half of the questions have R 1 and G 0 in one of the pipelines, the others R 0 and G 1. Worked out for each question,
the square root of R times G is 0; worked out from means it would be 0.5, and that pipeline would win.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragsmith.evaluation.experiment import Experiment
from ragsmith.records.record import RunRecord
from ragsmith.store.store import Store
from ragsmith.techniques.families import passage_filter, post_generation
from ragsmith.techniques.registry import Technique
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
