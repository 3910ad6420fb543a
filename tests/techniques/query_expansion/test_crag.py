import pytest

from ragsmith.techniques.query_expansion.crag import JUDGE_EVIDENCE, crag, observe, parse_score, solve
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Fitted, Gold, Question, Scale

QUESTION = Question("Who pays?")
UNFITTED = Fitted({})


def scripted(*scores):
    return ScriptedModel({"judge_evidence": scores, "rewrite_query": ["dues payer"]})


@pytest.fixture
def old(chunks):
    return hits_of(chunks[:3], [0.9, 0.5, 0.1])


@pytest.fixture
def new(chunks):
    return hits_of((chunks[4], chunks[1]), [0.8, 0.7])


@pytest.mark.parametrize("verdict", [25, 40, 100])
def test_good_evidence_is_handed_on_as_it_is(search, old, verdict):
    model, found = scripted(verdict), search(old)
    assert crag(QUESTION, found, language_model=model, fitted=UNFITTED, depth=2) == old[:2]
    assert found.calls == [("Who pays?",)]
    assert len(model.calls) == 1


def test_the_judge_reads_the_beginnings_of_the_first_hits(search, chunks):
    model = scripted(99)
    crag(QUESTION, search(hits_of(chunks, [9, 8, 7, 6])), language_model=model, fitted=UNFITTED, max_characters=60)
    shown = model.calls[0].inputs["passages"]
    assert isinstance(shown, tuple)
    assert len(shown) == 3
    assert all(chunk.text.startswith(text) and len(text) <= 60 for chunk, text in zip(chunks, shown, strict=False))


@pytest.mark.parametrize(
    ("scores", "best"), [((10, 20, 30), "merged"), ((10, 30, 20), "new"), ((20, 10, 15), "old"), ((20, 20, 20), "old")]
)
def test_weak_evidence_is_searched_again_and_the_best_list_kept(search, chunks, old, new, scores, best):
    model, found = scripted(*scores), search({"Who pays?": old, "dues payer": new})
    result = crag(QUESTION, found, language_model=model, fitted=UNFITTED)
    assert found.calls == [("Who pays?",), ("dues payer",)]
    assert len(model.calls) == 4
    if best != "merged":
        assert result == (old if best == "old" else new)
        return
    # chunk 1 is second in both lists: 2 / 62; chunk 0 and 4 are first in one: 1 / 61
    assert [hit.chunk for hit in result] == [chunks[1], chunks[4], chunks[0], chunks[2]]
    assert [hit.score for hit in result] == pytest.approx([2 / 62, 1 / 61, 1 / 61, 1 / 63])
    assert {hit.scale for hit in result} == {Scale.RRF}


def test_replace_takes_the_new_list_unseen(search, old, new):
    model, found = scripted(24), search({"Who pays?": old, "dues payer": new})
    assert crag(QUESTION, found, language_model=model, fitted=UNFITTED, on_low="replace") == new
    assert len(model.calls) == 2


@pytest.mark.parametrize(("learned", "again"), [(59, False), (59.5, True)])
def test_the_threshold_can_be_learned(search, old, new, learned, again):
    found, fitted = search({"Who pays?": old, "dues payer": new}), Fitted({"lower": learned})
    result = crag(QUESTION, found, language_model=scripted(59), fitted=fitted, threshold="fitted", on_low="replace")
    assert result == (new if again else old)


def test_it_is_learned_from_what_the_judge_saw(search, old, chunks):
    def observed(*relevant):
        gold = Gold(frozenset(relevant))
        common = {"snippets": 2, "max_characters": 60, "depth": 3}
        return observe(QUESTION, search(old), language_model=scripted(40), gold=gold, **common)

    assert observed(chunks[1].id, chunks[5].id) == [40, True]
    assert observed(chunks[2].id) == [40, False]  # the third hit was not shown
    assert observed() == []


def test_the_threshold_is_where_scores_tell_best():
    assert solve([[10, False], [30, False], [40, True], [], [90, True]]) == {"lower": 35}
    assert solve([[10, False], [60, True], [40, False], [80, True], [20, True]]) == {"lower": 50}
    assert solve([[10, True], [30, True]]) == {"lower": 1}  # never again
    assert solve([[10, False], [30, False]]) == {"lower": 101}  # always
    assert solve([[30, True], [90, False]]) == {"lower": 1}  # the scores tell nothing
    with pytest.raises(ValueError, match="no calibration question has gold"):
        solve([[], []])


@pytest.mark.parametrize("on_low", ["merge_rerank", "replace"])
def test_nothing_found_goes_straight_to_the_rewriting(search, new, on_low):
    model, found = scripted(), search({"dues payer": new})
    assert crag(QUESTION, found, language_model=model, fitted=UNFITTED, on_low=on_low) == new
    assert [call.task for call in model.calls] == ["rewrite_query"]


def test_a_rewriting_that_finds_nothing_changes_nothing(search, old):
    model, found = scripted(1), search({"Who pays?": old})
    assert crag(QUESTION, found, language_model=model, fitted=UNFITTED) == old
    assert crag(QUESTION, search({}), language_model=scripted(), fitted=UNFITTED) == ()


def test_a_rewriting_that_finds_the_same_passages_is_not_judged_again(search, old):
    model = scripted(10)
    assert crag(QUESTION, search(old), language_model=model, fitted=UNFITTED) == old
    assert model.count("judge_evidence") == 1


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("72", 72),
        ("**Score: 60/100**", 60),
        ("Relevance: 1", 1),
        ("25%", 25),
        ("<think>90?</think>\n 100.", 100),
        ("Score: 40 - the passages name the dues only", 40),
        ("They are about dues.\nScore: 30", 30),
    ],
)
def test_a_score_is_read(reply, expected):
    assert parse_score(reply) == expected


@pytest.mark.parametrize("reply", ["", "good", "0", "101", "-5", "20 or 30", "20-30", "Score: 20\nScore: 30"])
def test_anything_but_one_score_from_1_to_100_is_refused(reply):
    with pytest.raises(ValueError, match="from 1 to 100"):
        parse_score(reply)


def test_offline_the_score_grows_with_what_the_best_passage_says(extractive, chunks):
    def judged(*passages):
        return extractive.run(JUDGE_EVIDENCE, question="Who rings the bell of the Tide Tower?", passages=passages)

    good, related, other = chunks[1].text, chunks[5].text, "The bakery opens at six."
    assert judged(other) < judged(related) < judged(good) <= 100
    assert judged(other) < 25 < judged(good)
    assert judged(other, good) == judged(good)
    assert judged("") == judged() == 1
