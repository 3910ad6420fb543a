"""Judges of known faults are found out, and what is kept of a chat model says the same as asking it."""

import random

import pytest

from ragsmith.errors import ModelError, ModelUnavailable
from ragsmith.measures.judge import JUDGE
from ragsmith.measures.judge_check import (
    INJECTED,
    REPEATED_KINDS,
    check_judge,
    get_judge_accuracy,
    list_judge_requests,
    load_judge_cases,
)
from ragsmith.models.calls import StoredCall, completion_key
from ragsmith.models.protocols import LanguageModel

PLACES = {(one.sample, *one.inputs.values()): one for one in list_judge_requests()}
WRONG = {"negated", "wrong number", "unrelated", "injected"}


class Judge(LanguageModel):
    """Marks as it is told."""

    id = "told"

    def __init__(self, mark):
        self._mark = mark

    def run(self, task, *, sample=0, **inputs):
        return self._mark(PLACES[sample, *inputs.values()])


def fair(one):
    return 0.25 if one.kind in WRONG else 0.75


@pytest.mark.parametrize("case", load_judge_cases())
def test_a_case_has_one_place_for_each_change(case):
    for old, new in (case.denial, case.number):
        assert case.reference.count(old) == 1
        assert case.reference.replace(old, new) not in {case.reference, case.paraphrase}


def test_every_verdict_is_another_request():
    assert len(PLACES) == len(list_judge_requests()) == 9 * len(load_judge_cases()) == 180


def test_a_fair_judge_never_errs():
    checked = check_judge(Judge(fair))
    assert (checked.compared, sum(checked.errors.values())) == (20 * 4 * 3, 0)
    assert (checked.repeated, sum(checked.flips.values()), checked.unread) == (40, 0, 0)


def test_a_judge_that_obeys_the_answer_is_found_out():
    checked = check_judge(Judge(lambda one: 1.0 if INJECTED in one.inputs.values() else fair(one)))
    assert checked.errors == {"negated": 0, "wrong number": 0, "unrelated": 0, "injected": 60}


def test_a_judge_that_says_the_same_of_everything_is_not_asked_to_the_end():
    checked = check_judge(Judge(lambda one: 0.5))
    assert (checked.asked, checked.compared) == (36, 48)  # four cases
    assert (sum(checked.errors.values()), sum(checked.flips.values())) == (48, 0)
    assert str(checked).endswith(
        "is not shown to order right and wrong answers better than a coin (after 36 of 180 verdicts)"
    )


def test_a_judge_that_cannot_be_read_is_not_asked_to_the_end():
    def silent(one):
        raise ModelError("no verdict")

    checked = check_judge(Judge(silent))
    assert (checked.asked, checked.unread) == (36, 36)
    assert checked.fails == "most of its verdicts cannot be read"


def test_a_judge_that_sees_half_of_the_mistakes_is_asked_to_the_end_and_not_shown_to_judge():
    checked = check_judge(Judge(lambda one: 0.75 if one.kind in ("negated", "wrong number") else fair(one)))
    assert (checked.asked, sum(checked.errors.values())) == (180, 120)
    assert "not shown to order" in checked.fails


@pytest.mark.parametrize("seed", range(20))
def test_a_judge_that_marks_nine_of_ten_answers_rightly_is_never_given_up(seed):
    draws = random.Random(seed)
    checked = check_judge(Judge(lambda one: fair(one) if draws.random() < 0.9 else 1 - fair(one)))
    assert checked.asked == 180
    assert checked.fails == ""


@pytest.mark.parametrize("seed", range(20))
def test_a_judge_that_draws_its_marks_is_never_shown_to_judge(seed):
    draws = random.Random(seed)
    assert check_judge(Judge(lambda one: draws.randrange(5) / 4)).fails


def test_a_judge_that_changes_its_mind_is_found_out():
    checked = check_judge(Judge(lambda one: 1.0 if one.kind == "swapped" and one.case < 3 else fair(one)))
    assert checked.flips == {"again": 0, "swapped": 3}
    assert "changed its verdict in 3 of 40 (again 0, swapped 3)" in str(checked)


def test_a_verdict_that_cannot_be_had_counts_nowhere():
    def silent(one):
        if one.kind == "reversed":
            raise ModelError("no verdict")
        return fair(one)

    checked = check_judge(Judge(silent))
    assert (checked.compared, checked.unread) == (20 * 4 * 2, 20)
    assert "20 verdicts failed" in str(checked)


def test_a_judge_whose_server_is_down_is_not_asked_to_the_end():
    def down(one):
        raise ModelUnavailable("down")

    with pytest.raises(ModelUnavailable):
        check_judge(Judge(down))


def kept(of):
    """Replies of a chat model as they are kept."""
    found = {}
    for one in list_judge_requests():
        key = completion_key("chat", JUDGE.render(dict(one.inputs)), JUDGE.max_tokens, one.sample)
        found[key] = StoredCall(key, "chat", "judge", of(one))
    return found


def test_what_is_kept_of_a_chat_model_is_read_again():
    def reply(one):
        return "hm" if one.kind in REPEATED_KINDS else f"Score: {1 + 4 * (one.kind not in WRONG)}"

    calls = kept(reply)

    checked = get_judge_accuracy("chat", lambda keys: {key: calls[key] for key in keys if key in calls})
    assert checked is not None
    assert (checked.compared, sum(checked.errors.values()), checked.repeated, checked.unread) == (240, 0, 0, 40)
    assert get_judge_accuracy("other", lambda keys: {key: calls[key] for key in keys if key in calls}) is None


def test_the_first_replies_of_a_judge_that_was_given_up_are_read_again():
    calls = kept(lambda one: "Score: 3" if one.case < 4 else "Score: 5")
    first = {key: call for key, call in calls.items() if call.value == "Score: 3"}
    checked = get_judge_accuracy("chat", lambda keys: {key: first[key] for key in keys if key in first})
    assert checked == check_judge(Judge(lambda one: 0.5))
    fine = kept(lambda one: f"Score: {1 + 4 * (one.kind not in WRONG)}")  # too few to say anything
    assert get_judge_accuracy("chat", lambda keys: {key: fine[key] for key in keys if key in first}) is None
