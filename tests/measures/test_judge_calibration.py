"""A judge is held against answers that are known to be right or wrong."""

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from ragsmith.errors import ModelUnavailable, Unreadable, WrongOption
from ragsmith.measures.judge_calibration import (
    RIGHT,
    Calibration,
    CalibrationCase,
    CalibrationResult,
    Proportion,
    pool_results,
    summarize_scores,
)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_is_wilsons(counted):
    hits, n = counted
    assert Proportion(hits, n).interval == pytest.approx(proportion_confint(hits, n, method="wilson"), abs=1e-12)


def test_of_nothing_nothing_is_said():
    assert (Proportion(0, 0).value, Proportion(0, 0).interval) == (None, None)


def case(id_, kind):
    return CalibrationCase(id_, kind, "Why?", "So.", "An answer.")


CASES = tuple(
    case(id_, kind) for id_, wrong in (("a", "number"), ("b", "number"), ("c", "negation")) for kind in (RIGHT, wrong)
)


@pytest.mark.parametrize(
    ("marks", "right", "number", "ordered", "unread"),
    [
        ([1, 0, 1, 0, 1, 0], (3, 3), (2, 2), (2, 2), 0),
        ([1, 1, 1, 0.5, 0.25, 1], (2, 3), (1, 2), (1, 2), 0),  # the middle is not above it, and as high is not below
        ([0.75, 0.75, None, 0, 1, 0], (2, 2), (1, 2), (0, 1), 1),
        ([None] * 6, (0, 0), (0, 0), (0, 0), 6),
    ],
)
def test_marks_are_counted(
    marks,
    right,
    number,
    ordered,
    unread,
):
    found = summarize_scores("set", CASES, marks)
    assert found.accuracy[RIGHT] == Proportion(*right)
    assert found.accuracy["number"] == Proportion(*number)
    assert found.ordered["number"] == Proportion(*ordered)
    assert found.accuracy["confusion"] == Proportion(0, 0)
    assert found.unread == unread


def test_several_are_added():
    one, other = (
        summarize_scores("one", CASES, [1, 0, 1, 0, 1, 0]),
        summarize_scores("other", CASES, [1, 1, 0, 0, 1, None]),
    )
    both = pool_results([one, other])
    assert both.accuracy[RIGHT] == Proportion(5, 6)
    assert both.accuracy["number"] == Proportion(3, 4)
    assert both.ordered["negation"] == Proportion(1, 1)
    assert both.unread == 1


class Marks:
    """A judge that marks by the answer alone, and says what it was asked."""

    id = "marks"

    def __init__(self, known):
        self.known, self.asked = known, []

    def run(self, task, *, sample=0, **inputs):
        self.asked.append(inputs)
        found = self.known[inputs["answer"]]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def folder(tiny_folder, tmp_path):
    """The island, with two questions that are annotated, and a third that the documents do not answer."""
    home = shutil.copytree(tiny_folder, tmp_path / "island")
    note = {"cluster": "c", "traits": [], "wrong_kind": "number"}
    rows = [
        {**note, "id": "ferry-1", "paraphrase": "At 7 a.m.", "wrong": "At nine."},
        {**note, "id": "ferry-2", "paraphrase": "50 minutes.", "wrong": "An hour."},
        {**note, "id": "nobody-1", "paraphrase": "It is not said.", "wrong": "Green.", "wrong_kind": "confusion"},
    ]
    (home / "annotations.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = {"id": "nobody-1", "question": "What colour is the ferry?", "answer": "Not said.", "type": "factual"}
    with (home / "questions.jsonl").open("a") as file:
        file.write(json.dumps({**asked, "answerable": False}) + "\n")
    return home


def test_answers_are_those_of_the_annotations_of_questions_that_can_be_answered(folder):
    found = Calibration.read(folder)
    assert [(one.id, one.kind, one.answer) for one in found.cases] == [
        ("ferry-1", RIGHT, "At 7 a.m."),
        ("ferry-1", "number", "At nine."),
        ("ferry-2", RIGHT, "50 minutes."),
        ("ferry-2", "number", "An hour."),
    ]
    judge = Marks({one.answer: float(one.kind == RIGHT) for one in found.cases})
    marked = found.evaluate(judge)
    assert marked == CalibrationResult(
        "island",
        {
            RIGHT: Proportion(2, 2),
            "number": Proportion(2, 2),
            "negation": Proportion(0, 0),
            "confusion": Proportion(0, 0),
        },
        {"number": Proportion(2, 2), "negation": Proportion(0, 0), "confusion": Proportion(0, 0)},
    )
    assert {one["question"]: one["reference"] for one in judge.asked} == {
        "When does the ferry to Marrow leave?": "At seven in the morning.",
        "How long is a crossing in calm weather?": "Fifty minutes.",
    }


def test_a_verdict_that_cannot_be_had_is_counted_and_a_judge_that_is_down_is_said(folder):
    found = Calibration.read(folder)
    known = {one.answer: 1.0 for one in found.cases}
    assert found.evaluate(Marks({**known, "At nine.": Unreadable("?")})).unread == 1
    with pytest.raises(ModelUnavailable):
        found.evaluate(Marks({**known, "At nine.": ModelUnavailable("down")}))


def test_a_data_set_without_annotations_is_refused(tiny_folder):
    with pytest.raises(WrongOption, match=r"island has no answers to calibrate with: .*annotations\.jsonl is missing"):
        Calibration.read(tiny_folder)
