"""Answers compared as SQuAD does."""

import pytest

from ragsmith.measures.case import Case
from ragsmith.measures.without_judge import exact_match, token_f1


@pytest.mark.parametrize(
    ("answer", "reference", "match", "f1"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1, 1),
        ("in the tower", "the Eiffel tower", 0, 0.5),
        ("a a cat cat dog", "cat", 0, 0.5),
        ("cat cat cat", "cat cat dog", 0, 2 / 3),
        ("yes", "no", 0, 0),
        ("", "the", 1, 1),
        ("", "no", 0, 0),
        ("no", "", 0, 0),
    ],
)
def test_answers_are_compared_as_squad_does(answer, reference, match, f1):
    case = Case(answer=answer, reference=reference)
    assert exact_match(case) == match
    assert token_f1(case) == pytest.approx(f1)
