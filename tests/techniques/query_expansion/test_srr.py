from functools import partial

import pytest

from ragsmith.techniques.query_expansion.srr import (
    JUDGE_SUFFICIENCY,
    REFORMULATE,
    SUB_QUERIES,
    observe,
    parse_candidates,
    parse_decision,
    solve,
    srr,
)
from ragsmith.testing import ScriptedModel, example_chunks, hits_of
from ragsmith.types import Fitted, Gold, Question

QUESTION = Question("Who pays?")
CHUNKS = example_chunks()


def ranked_from(start, scores=(0.9, 0.5, 0.1)):
    """Hits on as many chunks as there are scores, from the chunk ``start``."""
    return hits_of(CHUNKS[start:], scores)


UNFITTED = Fitted({})


def scripted(verdicts, *sampled_candidates, task="reformulations"):
    return ScriptedModel({"evidence_sufficient": verdicts, task: sampled_candidates})


# --- the technique ---------------------------------------------------------------------------------------------------


def test_one_call_where_the_first_search_suffices(search, hits):
    model, found = scripted([True]), search(hits([0.9, 0.5, 0.1]))
    assert srr(QUESTION, found, language_model=model, fitted=UNFITTED, depth=2) == hits([0.9, 0.5])
    assert found.calls == [("Who pays?",)]
    assert [call.task for call in model.calls] == ["evidence_sufficient"]


def test_the_most_probable_candidate_is_searched_next(search, chunks):
    model = scripted([False, True], (("A?", 0.2), ("B?", 0.6), ("C?", 0.6)))
    found = search({"Who pays?": ranked_from(0), "B?": ranked_from(2)})
    assert srr(QUESTION, found, language_model=model, fitted=UNFITTED, snippets=2, max_characters=60) == ranked_from(2)
    assert found.calls == [("Who pays?",), ("B?",)]
    first, proposal, second = model.calls
    assert first.inputs["query"] == "Who pays?"
    assert second.inputs["query"] == "B?"
    shown = proposal.inputs["passages"]
    assert shown == first.inputs["passages"] != second.inputs["passages"]
    assert isinstance(shown, tuple)
    assert [chunk.text.startswith(text) for chunk, text in zip(chunks[:2], shown, strict=True)] == [True, True]
    assert max(map(len, shown)) <= 60


def test_at_most_seven_calls(search):
    proposals = [((f"{n}?", 0.5),) for n in range(9)]
    model = scripted([False] * 9, *proposals)
    found = search({"Who pays?": ranked_from(0), **{f"{n}?": ranked_from(n + 1) for n in range(9)}})
    srr(QUESTION, found, language_model=model, fitted=UNFITTED)
    assert (model.count("evidence_sufficient"), model.count("reformulations")) == (4, 3)
    assert found.queries == ("Who pays?", "0?", "1?", "2?")


def test_sub_questions_are_sampled_once(search):
    model = scripted([False] * 4, (("A?", 0.9), ("B?", 0.5), ("C?", 0.7)), task="sub_queries")
    found = search({"Who pays?": ranked_from(0), "A?": ranked_from(1), "C?": ranked_from(2), "B?": ranked_from(3)})
    last = srr(QUESTION, found, language_model=model, fitted=UNFITTED, candidates="decompose", keep="last")
    assert found.queries == ("Who pays?", "A?", "C?", "B?")
    assert last == ranked_from(3)
    assert model.count("sub_queries") == 1


def test_nothing_found_is_not_sufficient_without_asking(search):
    model = scripted([], (("Who pays? ", 0.9),))
    assert srr(QUESTION, search({}), language_model=model, fitted=UNFITTED) == ()
    assert model.count("evidence_sufficient") == 0


# --- the thresholds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "searches"), [(0.49, 2), (0.5, 1)])
def test_what_suffices_is_given(search, word, searches):
    found = search({"Who pays?": ranked_from(0), "A?": ranked_from(3)})
    srr(QUESTION, found, language_model=scripted([word, 1], (("A?", 0.9),)), fitted=UNFITTED)
    assert len(found.queries) == searches


def test_what_suffices_and_what_settles_is_learned(search):
    found = search({"Who pays?": ranked_from(0), "A?": ranked_from(3), "B?": ranked_from(0)})

    def queries(numbers):
        found.calls.clear()
        model = scripted([0.7] * 3, (("A?", 0.9),), (("B?", 0.9),), ())
        srr(QUESTION, found, language_model=model, fitted=Fitted(numbers), controller="fitted", sufficient=0.0)
        return len(found.queries)

    assert queries({"sufficient": 0.7, "tau": 0.0}) == 1
    assert queries({"sufficient": 0.71, "tau": 0.0}) == 3
    assert queries({"sufficient": 0.71, "tau": 1.1}) == 2  # no hit was there before: the change is 1


def observed(found, relevant, *words, snippets=2, reformulations=3):
    model = scripted(words, (("A?", 0.9),), (("B?", 0.9),), (("C?", 0.9),))
    return observe(
        QUESTION,
        found,
        language_model=model,
        gold=Gold(frozenset(relevant)),
        reformulations=reformulations,
        candidates="reformulate",
        stop_rule="corrected",
        beta=0.5,
        snippets=snippets,
        max_characters=80,
        depth=3,
    )


def test_what_each_reason_to_stop_looks_at_is_observed(search):
    found = search({"Who pays?": ranked_from(0), "A?": ranked_from(1), "B?": ranked_from(1), "C?": ranked_from(3)})
    first, second, third, fourth, last = (CHUNKS[i].id for i in (0, 1, 2, 3, 5))
    assert observed(found, {first, second}, 0.6)["evidence"] == [0.6, True]
    assert observed(found, {first, third}, 0.6)["evidence"] == [0.6, False]  # the third hit was not shown
    assert observed(found, {first, second, third}, 0.6)["evidence"] == [0.6, True]  # no more could be shown
    # 2 of 4 in common, then all, and only what comes behind the last search tells nothing
    assert observed(found, {last}, 0.6)["changes"] == [[0.5, True], [0.0, True]]
    assert observed(found, {fourth}, 0.6)["changes"] == [[0.5, False], [0.0, False]]  # the second search had it
    assert observed(found, {fourth}, 0.6, reformulations=1)["changes"] == []
    assert observed(found, set()) == {"evidence": [], "changes": []}


def test_the_controller_is_believed_from_where_it_tells_best():
    def seen(word, right, *changes):
        return {"evidence": [word, right], "changes": [list(change) for change in changes]}

    observations = [
        seen(0.2, False, (0.9, True), (0.3, False)),
        seen(0.4, False, (0.8, True)),
        seen(0.6, True, (0.2, False)),
        seen(0.9, True),
        {"evidence": [], "changes": []},
    ]
    assert solve(observations, beta=0.5, tau=0.1) == {"sufficient": 0.5, "tau": 0.55}
    assert solve([seen(0.2, True)], beta=0.5, tau=0.1) == {"sufficient": 0.0, "tau": 0.1}  # always; nothing to learn
    assert solve([seen(0.9, False, (0.4, False))], beta=0.5, tau=0.1) == {"sufficient": 2.0, "tau": 2.5}  # never
    with pytest.raises(ValueError, match="no calibration question has gold"):
        solve([{"evidence": [], "changes": []}], beta=0.5, tau=0.1)


# --- replies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Sufficient", True),
        ("**Insufficient**", False),
        ("Verdict: INSUFFICIENT, sufficient evidence would name the payer.", False),
        ("<think>Is it insufficient?</think>sufficient.", True),
        ("The passages are not sufficient.", False),
        ("They do not provide sufficient detail.", False),
        ("No. Insufficient.", False),
    ],
)
def test_the_first_of_the_two_words_is_the_verdict(reply, expected):
    assert parse_decision(reply) is expected


@pytest.mark.parametrize("reply", ["", "Yes", "sufficiently so", "That is not insufficient.", "<think>Sufficient"])
def test_a_verdict_that_cannot_be_read_is_refused(reply):
    with pytest.raises(ValueError, match="expected Sufficient or Insufficient"):
        parse_decision(reply)
    with pytest.raises(ValueError, match="expected Sufficient or Insufficient"):
        JUDGE_SUFFICIENCY.parse(reply)


def test_tagged_candidates_are_read_tolerantly_and_probabilities_clipped():
    reply = """Here they are:
    <query>"Who pays
      the dues?"</query>
    <probability>0.4</probability>
    <QUERY>Who owes?<probability> 55% </probability>
    <query></query><probability>0.9</probability>
    <query>no number</query>
    <query>A?</query> <probability>1.7</probability>
    <query>B?</query> <probability>-0,2</probability>"""
    assert parse_candidates(reply) == (("Who pays the dues?", 0.4), ("Who owes?", 0.55), ("A?", 1.0), ("B?", 0.0))


@pytest.mark.parametrize("reply", ["", "I cannot do that.", "<query>A?</query>", "<query> </query><probability>1"])
def test_a_reply_without_any_candidate_is_refused(reply):
    with pytest.raises(ValueError, match="expected tagged blocks"):
        parse_candidates(reply)


# --- offline ---------------------------------------------------------------------------------------------------------


def test_offline_the_verdict_grows_with_what_the_passages_say(extractive, chunks):
    run = partial(extractive.run, JUDGE_SUFFICIENCY, question="Who rings the bell of the Tide Tower?", query="bell")
    assert run(passages=()) == 0 <= run(passages=(chunks[4].text,)) < run(passages=(chunks[1].text,)) <= 1
    assert run(passages=(chunks[4].text, chunks[1].text)) >= run(passages=(chunks[1].text,))


def test_offline_candidates_differ_from_the_question_and_ask_for_what_is_missing(extractive, chunks):
    question = "Which warden paid for the sea wall after the flood?"
    passages = (chunks[0].text,)
    found = extractive.run(REFORMULATE, question=question, query=question, passages=passages, n=5)
    assert found == extractive.run(REFORMULATE, question=question, query=question, passages=passages, n=5)
    assert 2 <= len(found) <= 5
    assert len({query for query, _ in found} - {question}) == len(found)
    assert all(0 <= probability <= 1 for _, probability in found)
    assert {"warden", "wall", "flood"} <= set(found[0][0].split())


def test_offline_the_last_query_changes_the_candidates(extractive, chunks):
    run = partial(extractive.run, REFORMULATE, question="Who paid for the sea wall?", passages=(chunks[0].text,), n=5)
    assert run(query="sea wall loan") != run(query="salt pans oath")


def test_offline_sub_questions_are_the_clauses(extractive):
    question = "How are harbour dues raised and when was the Salt Guild founded?"
    found = extractive.run(SUB_QUERIES, question=question, n=5)
    assert [query for query, _ in found] == ["How are harbour dues raised?", "When was the Salt Guild founded?"]
    assert extractive.run(SUB_QUERIES, question="Who rings the bell?", n=5) == ()
