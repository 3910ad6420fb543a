"""What a measure declares, and one of a user's own from a file: in records, report, CSV and winner files."""

import csv
import json
import math
from pathlib import Path

import pytest
import yaml

from ragsmith.measures.case import Case
from ragsmith.measures.registry import REGISTERED_MEASURES, Measure, measure, measures
from ragsmith.plugins import load_file

OWN = '''
"""Brevity: how short an answer is."""

from ragsmith.measures.case import Case
from ragsmith.measures.registry import measure


@measure(label="Words of the answer", subject="answer", range=(0.0, float("inf")), direction="lower")
def answer_words(case: Case) -> float | None:
    """The words of the answer; None where nothing was answered."""
    return float(len(case.answer.split())) or None
'''


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "answer_words.py"
    path.write_text(OWN)
    load_file(path)
    yield path
    del REGISTERED_MEASURES["answer_words"]


def test_a_measure_in_a_file_is_in_record_report_csv_and_winner(
    own,
    ragsmith,
    search_arguments,
    tmp_path,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    searched = ragsmith(*search_arguments("--max-evaluations", 4, "--no-probes", "--workers", 1, "--quiet"))
    assert searched.code == 0, searched.err
    expected = yaml.safe_load(Path("reports/island/winner.yaml").read_text())["expected"]["search"]
    assert expected["answer_words"] > 1
    best, *_ = csv.DictReader(Path("reports/island/ranking.csv").read_text().splitlines())
    assert float(best["answer_words"]) == pytest.approx(expected["answer_words"], abs=1e-6)
    report = Path("reports/island/report.md").read_text()
    assert "Words of the answer (lower is better)" in report
    assert "Words of the answer: The words of the answer; None where nothing was answered." in report
    questions = list(csv.DictReader(Path("reports/island/questions.csv").read_text().splitlines()))
    assert all(float(row["answer_words"]) >= 1 for row in questions)
    verified = ragsmith("verify", "reports/island/winner.yaml")
    assert verified.code == 0, verified.out


def test_every_measure_says_what_it_is():
    for known in measures().values():
        assert known.summary.endswith(".")
        assert known.label
        assert known.range[0] < known.range[1]
        assert known.paper == "" or known.paper.startswith(("https://arxiv.org/abs/", "https://doi.org/"))
    assert [name for name, known in measures().items() if known.costly] == ["faithfulness"]
    assert {name: known.direction for name, known in measures().items() if known.direction != "higher"} == {
        "context_chars": None,
        "redundancy_ratio": "lower",
        "mean_pairwise_cosine": "lower",
        "false_refusal": "lower",
    }


@pytest.mark.parametrize("name", ["recall", "fitness", "calls", "question", "place"])
def test_a_name_that_is_taken_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} is registered twice, or its name is reserved"):
        measure(label="Taken", subject="answer", name=name)(lambda case: 1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e61, -(10**61)])
def test_what_is_no_number_that_can_be_stored_is_a_failure(value):
    endless = Measure("endless", lambda case: value, "Endless", "answer", range=(-math.inf, math.inf))
    with pytest.raises(ValueError, match=r"a measure is a number from -1e\+60 to 1e\+60, or None"):
        endless(Case(), {})


@pytest.mark.parametrize("value", [700.0, -0.5])
def test_what_is_outside_of_the_declared_range_is_a_failure(value):
    boundless = Measure("chars", lambda case: value, "Characters", "answer")
    with pytest.raises(ValueError, match=rf"chars is {value}, outside of its range from 0 to 1: .*@measure\(range="):
        boundless(Case(), {})
    assert Measure("rounded", lambda case: 1 + 1e-7, "Rounded", "answer")(Case(), {}) == 1 + 1e-7


def test_one_measure_is_explained(ragsmith):
    shown = ragsmith("measures", "redundancy_ratio")
    assert shown.code == 0
    assert shown.out.startswith("redundancy_ratio: Redundancy ratio (lower is better)\n")
    assert "https://doi.org/10.1145/1060745.1060754" in shown.out
    assert ragsmith("measures").out.count("\n") == len(measures()) + 2
    [plain] = json.loads(ragsmith("measures", "context_chars", "--json").out)
    assert (plain["range"], plain["direction"], plain["needs"]) == ([0.0, None], None, [])
    unknown = ragsmith("measures", "recal")
    assert unknown.code == 2
    assert "did you mean 'recall'?" in unknown.err
