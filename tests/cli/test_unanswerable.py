"""Questions without evidence, and questions that the documents do not answer, from validation to `ask`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from math import fsum
from pathlib import Path
from typing import Any

import pytest

import ragsmith as library
from ragsmith.store.store import open_store
from ragsmith.text.declining import declines

Command = Callable[..., Any]

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
def home(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, tiny_space: Path) -> Path:
    """A searched data set: 18 questions with evidence, 6 without, and 8 that nothing answers."""
    home = tmp_path_factory.mktemp("unanswerable")
    folder = shutil.copytree(tiny_folder, home / "island")
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    for row in rows[::4]:
        del row["evidence"], row["type"]
    rows += [{"id": f"none-{n}", "question": asked, "answerable": False} for n, asked in enumerate(UNANSWERABLE)]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    library.search(folder, space=tiny_space, cache=home / "cache.sqlite", reports=home / "reports", workers=1, seed=1)
    return home


@pytest.fixture
def winner(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(home)
    return home / "reports" / "island" / "winner.yaml"


def test_it_is_valid_and_says_what_it_has(winner: Path, ragsmith: Command) -> None:
    said = json.loads(ragsmith("dataset", "show", "island", "--json").out)
    assert (said["questions"], said["unanswerable"], said["without_evidence"]) == (32, 8, 6)
    assert ragsmith("dataset", "validate", "island").code == 0


def test_the_search_finds_that_declining_pays(winner: Path) -> None:
    assert "abstain" in winner.read_text()


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


def test_the_fitness_of_a_question_is_made_of_the_parts_that_it_has(winner: Path, home: Path) -> None:
    pipeline = library.Pipeline.load(winner)
    with open_store(home / "cache.sqlite") as store:
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


def test_the_report_says_of_how_many_questions_a_mean_is(winner: Path, home: Path) -> None:
    report = (home / "reports" / "island" / "report.md").read_text()
    assert "questions have no evidence: they have no R, and count by G alone." in report
    assert "of them the documents do not answer: their G is 1 if they are declined, else 0." in report
    assert "Refusal" in report
    assert "False refusal (lower is better)" in report


def test_the_file_is_verified(winner: Path, ragsmith: Command) -> None:
    assert ragsmith("verify", winner).code == 0


def test_what_has_no_answer_is_declined_and_what_was_looked_at_is_shown(winner: Path, ragsmith: Command) -> None:
    shown = ragsmith("ask", winner, UNANSWERABLE[0])
    assert shown.code == 0
    assert shown.out.startswith("The documents do not seem to answer this. Closest:\n")
    said = json.loads(ragsmith("ask", winner, UNANSWERABLE[0], "--json").out)
    assert said["declined"] is True
    for source in said["sources"]:
        assert f"{source['doc']} [{source['start']}:{source['end']}]" in shown.out
    assert said["sources"]


def test_what_has_an_answer_is_answered(winner: Path, ragsmith: Command) -> None:
    asked = "Who steers the ferry?"
    said = json.loads(ragsmith("ask", winner, asked, "--json").out)
    assert said["declined"] is False
    assert "Ilse Varn" in said["answer"]
    assert ragsmith("ask", winner, asked).out.startswith(said["answer"])
    reply = library.Pipeline.load(winner).ask(asked)
    assert (reply.answer, reply.declined) == (said["answer"], False)


def test_retrieval_alone_is_tuned_on_the_questions_with_evidence(
    winner: Path, home: Path, tiny_space: Path, ragsmith: Command
) -> None:
    found = library.search(
        home / "island", space=tiny_space, cache=home / "ranked.sqlite", reports=home / "ranked", workers=1,
        objective="retrieval",
    )  # fmt: skip
    about = found.domain.about.record.split
    assert len(about.search) + len(about.test) == 18
    assert ragsmith("verify", home / "ranked" / "island" / "winner.yaml").code == 0
