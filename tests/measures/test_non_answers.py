"""Answers that are none are named by their texts, and answers that quote are not."""

from __future__ import annotations

import pytest

from ragsmith.measures.non_answers import ALIKE, COPIED, DECLINED, RULES, copied_share, find_non_answers
from ragsmith.techniques.generation import PROMPT
from ragsmith.text.declining import NOT_FOUND

PASSAGES = " ".join(
    f"The ferry number {n} sails from the harbour of Marrow to quay {n} at {n} o'clock." for n in range(1, 9)
)
ANSWER = "It takes 50 minutes."


def test_the_share_of_copied_words_is_that_of_runs_of_eight() -> None:
    nine = "one two three four five six seven eight nine"
    assert copied_share(nine, nine) == 1
    assert copied_share(f"so {nine} then", f"as {nine} is") == pytest.approx(9 / 11)
    assert copied_share("one two three four five six seven", nine) == 0  # a name, or a term
    assert copied_share("One, two; THREE four five six seven eight!", nine) == 1
    assert copied_share("", nine) == copied_share(nine, "") == copied_share(nine) == 0


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        (ANSWER, set()),
        (PASSAGES[:250], {COPIED}),
        (PASSAGES[:80], set()),  # a quotation
        (f"{PASSAGES[:250]} {'All of them may be late, as storms are frequent here in winter. ' * 3}", set()),
        ("Answer the question from them and from nothing else, I was told.", {RULES}),
        (NOT_FOUND, set()),
    ],
)
def test_an_answer_is_named_by_what_it_repeats(answer: str, kinds: set[str]) -> None:
    assert set(find_non_answers([answer], PROMPT, [PASSAGES])) == kinds


def test_answers_to_several_questions_are_alike() -> None:
    answers = ["He  is the harbour master.", ANSWER, "he is the harbour master", "He is the harbour master!", ANSWER]
    assert find_non_answers(answers, PROMPT) == {ALIKE: (0, 2, 3)}  # two questions may have one answer
    assert find_non_answers([NOT_FOUND] * 4, PROMPT) == {}
    assert find_non_answers([NOT_FOUND, ANSWER], PROMPT, answerable=True) == {DECLINED: (0,)}


def test_passages_can_only_be_copied_where_they_are_known() -> None:
    assert find_non_answers([PASSAGES], PROMPT) == {}
    assert find_non_answers([ANSWER, PASSAGES], PROMPT, [PASSAGES, "Another text."]) == {}
    assert find_non_answers([ANSWER, PASSAGES], PROMPT, ["Another text.", PASSAGES]) == {COPIED: (1,)}
