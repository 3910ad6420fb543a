"""Answers that are planted in a data set show whether a judge tells right from wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ragsmith.datasets.dataset import load_dataset
from ragsmith.measures.planted_answers import MAX_PLANTED, PlantedCheck, check_planted, plant_answers
from ragsmith.models.tasks import Input
from ragsmith.types import Example

LAW = load_dataset("law").examples
Requests = Sequence[tuple[int, Mapping[str, Input]]]


def test_wrong_answers_are_those_to_other_questions_and_share_few_words() -> None:
    planted = plant_answers(LAW)
    assert len(planted) == MAX_PLANTED
    references = {one.answer for one in LAW}
    assert all(wrong in references - {one.answer} for one, wrong in planted)
    assert plant_answers(list(reversed(LAW))) == planted


def test_data_without_unlike_answers_have_none_to_plant() -> None:
    alike = [Example(f"q{n}", "Is it?", "Yes, it is green.", "fact", ()) for n in range(5)]
    assert plant_answers(alike) == []
    assert plant_answers([]) == []


@pytest.mark.parametrize(
    ("score", "found", "trusted"),
    [
        (lambda right: 1.0 if right else 0.0, PlantedCheck(4, 4), True),
        (lambda right: 1.0, PlantedCheck(4, 0), False),
        (lambda right: 0.0 if right else 1.0, PlantedCheck(4, 0), False),
        (lambda right: None, PlantedCheck(4, 0, 4), False),
    ],
)
def test_a_judge_is_trusted_that_scores_right_answers_above_wrong_ones(
    score: object, found: PlantedCheck, trusted: bool
) -> None:
    def judge(requests: Requests) -> list[float | None]:
        return [score(inputs["reference"] == inputs["answer"]) for _, inputs in requests]  # type: ignore[operator]

    check = check_planted(plant_answers(LAW), judge)
    assert check == found
    assert check.is_trusted is trusted


def test_one_question_in_four_may_be_taken_wrongly() -> None:
    assert PlantedCheck(4, 3).is_trusted
    assert not PlantedCheck(4, 2).is_trusted
    assert PlantedCheck(0, 0).is_trusted
    assert str(PlantedCheck(4, 2, 1)) == (
        "scored the reference above the answer to another question for 2 of 4 search questions of this data set, "
        "and gave no usable verdict on 1"
    )
