"""Which questions are shown in full."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragsmith.diagnosis.diagnosed import MAX_CHANGED_QUESTIONS, MAX_WRONG_QUESTIONS, select_shown_questions

WORTH = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=40)


@given(WORTH, WORTH)
def test_nobody_who_is_left_out_gained_or_lost_more(winner: dict[str, float], naive: dict[str, float]) -> None:
    found = select_shown_questions(winner, naive)
    gain = {q: winner[q] - naive[q] for q in winner.keys() & naive.keys()}
    gained = [q for q, why in found.items() if why == "gained"]
    lost = [q for q, why in found.items() if why == "lost"]
    wrong = [q for q, why in found.items() if why == "wrong"]
    assert len(gained) == min(MAX_CHANGED_QUESTIONS, sum(value > 0 for value in gain.values()))
    assert len(lost) == min(MAX_CHANGED_QUESTIONS, sum(value < 0 for value in gain.values()))
    assert all(gain[q] <= min(gain[g] for g in gained) for q in gain.keys() - set(gained) if gained)
    assert all(gain[q] >= max(gain[g] for g in lost) for q in gain.keys() - set(lost) if lost)
    assert [gain[q] for q in gained] == sorted((gain[q] for q in gained), reverse=True)
    left = winner.keys() - set(gained) - set(lost)
    assert len(wrong) == min(MAX_WRONG_QUESTIONS, len(left))
    assert all(winner[q] >= max(winner[w] for w in wrong) for q in left - set(wrong) if wrong)
