from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.models.extractive import ExtractiveModel
from ragsmith.techniques.query_expansion.srr import (
    CONTROL,
    REFORMULATE,
    SUB_QUERIES,
    Candidates,
    Reflection,
    Round,
    confidence,
    converged,
    kept,
    most_probable,
    reflect,
    sampled,
    srr,
    verdict,
)
from ragsmith.testing import ScriptedModel, example_chunks, hits_of
from ragsmith.types import Chunks, Hits, Question, Scale

QUESTION = Question("Who pays?")
CHUNKS = example_chunks()


def ranked_from(start: int, scores: Sequence[float] = (0.9, 0.5, 0.1)) -> Hits:
    """Hits on as many chunks as there are scores, from the chunk ``start``."""
    return hits_of(CHUNKS[start:], scores)


def scripted(verdicts: Sequence[bool], *sampled_candidates: Candidates, task: str = "reformulations") -> ScriptedModel:
    return ScriptedModel({"evidence_sufficient": verdicts, task: sampled_candidates})


@dataclass
class Script:
    """What a controller and a sampler say, round by round, and what was searched with."""

    verdicts: list[bool]
    found: list[Hits] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)

    def look(self, query: str) -> Round:
        hits = self.found[len(self.queries)] if self.found else ()
        self.queries.append(query)
        return Round(query, hits, (), self.verdicts[len(self.queries) - 1])


def numbered(last: Round) -> Candidates:
    return ((f"{last.query}+", 0.5),)


def never(now: Hits, before: Hits) -> bool:
    return False


# --- stop reasons ----------------------------------------------------------------------------------------------------


def test_sufficient_evidence_ends_the_loop_at_once() -> None:
    script = Script([True])
    reflection = reflect("Q", script.look, numbered, never, 3)
    assert reflection == Reflection((Round("Q", (), (), True),), "sufficient")


def test_sufficient_evidence_ends_the_loop_later() -> None:
    script = Script([False, False, True])
    reflection = reflect("Q", script.look, numbered, never, 3)
    assert [done.query for done in reflection.rounds] == ["Q", "Q+", "Q++"]
    assert [done.sufficient for done in reflection.rounds] == [False, False, True]
    assert reflection.stop == "sufficient"


def test_hits_that_do_not_change_end_the_loop() -> None:
    script = Script([False] * 4, [ranked_from(0), ranked_from(3), ranked_from(3), ranked_from(0)])
    reflection = reflect("Q", script.look, numbered, partial(converged, rule="corrected", beta=0.5, tau=0.1), 3)
    assert (script.queries, reflection.stop) == (["Q", "Q+", "Q++"], "converged")


def test_a_verdict_goes_before_convergence() -> None:
    script = Script([False, True], [ranked_from(0), ranked_from(0)])
    assert reflect("Q", script.look, numbered, lambda now, before: True, 3).stop == "sufficient"


@pytest.mark.parametrize("reformulations", [0, 1, 3])
def test_the_budget_ends_the_loop(reformulations: int) -> None:
    script = Script([False] * 9)
    reflection = reflect("Q", script.look, numbered, never, reformulations)
    assert (len(script.queries), reflection.stop) == (reformulations + 1, "budget")


def test_no_new_candidate_ends_the_loop() -> None:
    script = Script([False] * 9)
    reflection = reflect("Who pays?", script.look, lambda last: (("WHO  pays?", 0.9), ("Who owes?", 0.1)), never, 3)
    assert (script.queries, reflection.stop) == (["Who pays?", "Who owes?"], "no candidate")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.booleans(), min_size=9, max_size=9),
    st.lists(st.lists(st.tuples(st.text("ab ", max_size=3), st.floats(0, 1)), max_size=4), min_size=9, max_size=9),
    st.integers(0, 5),
)
def test_the_loop_is_bounded_and_searches_nothing_twice_whatever_the_model_says(
    verdicts: list[bool], candidates: list[list[tuple[str, float]]], reformulations: int
) -> None:
    script, proposals = Script(verdicts), iter(candidates)
    reflection = reflect("Q", script.look, lambda last: tuple(next(proposals)), never, reformulations)
    assert 1 <= len(reflection.rounds) <= 1 + reformulations
    folded = [" ".join(query.lower().split()) for query in script.queries]
    assert len(set(folded)) == len(folded)
    assert not any(done.sufficient for done in reflection.rounds[:-1])
    assert (reflection.stop == "sufficient") == reflection.rounds[-1].sufficient


# --- the rule --------------------------------------------------------------------------------------------------------


def test_confidence_is_the_mean_of_the_five_best_normalised_scores() -> None:
    # min-max: 1, 0.75, 0.5, 0.25, 0.125, 0; the first five: 2.625 / 5
    assert confidence(ranked_from(0, [9, 7, 5, 3, 2, 1])) == pytest.approx(0.525)
    assert confidence(ranked_from(0, [0.4])) == 1.0
    assert confidence(()) == 0.0


def test_the_printed_rule_stops_on_change_and_the_corrected_one_on_convergence() -> None:
    same, other = ranked_from(0), ranked_from(3)  # equal scores, so Conf does not change
    holds = partial(converged, beta=0.5, tau=0.1)
    # Sim = 1: as printed Delta = 1, corrected Delta = 0;  Sim = 0: the other way round
    assert not holds(same, same, rule="as_printed")
    assert holds(same, same, rule="corrected")
    assert holds(other, same, rule="as_printed")
    assert not holds(other, same, rule="corrected")
    assert not any(holds(hits, same, rule="none") for hits in (same, other))


def test_delta_by_hand() -> None:
    before, now = ranked_from(0, [1.0, 0.5, 0.0]), ranked_from(1, [1.0, 0.8, 0.0])
    # Jaccard 2 / 4; Conf 0.5 and 0.6; corrected Delta = 0.5 + 0.5 * 0.1 = 0.55, as printed too
    for rule in ("corrected", "as_printed"):
        assert converged(now, before, rule=rule, beta=0.5, tau=0.551)
        assert not converged(now, before, rule=rule, beta=0.5, tau=0.549)
        assert converged(now, before, rule=rule, beta=0.0, tau=0.501)


def test_two_searches_that_find_nothing_have_converged() -> None:
    assert converged((), (), rule="corrected", beta=0.5, tau=0.1)


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_what_is_kept_without_sufficient_evidence() -> None:
    flat, steep = ranked_from(0, [0.9, 0.8, 0.8, 0.1]), ranked_from(2, [0.9, 0.2, 0.1])
    reflection = Reflection((Round("Q", flat, (), False), Round("Q+", steep, (), False)), "budget")
    assert kept(reflection, "last") == steep
    assert kept(reflection, "best_conf") == flat
    union = kept(reflection, "rrf_union")
    # chunk 2 is third, then first: 1 / 63 + 1 / 61
    assert (union[0].chunk, union[0].scale) == (CHUNKS[2], Scale.RRF)
    assert union[0].score == pytest.approx(1 / 63 + 1 / 61)
    assert len(union) == 5


@pytest.mark.parametrize("keep", ["last", "best_conf", "rrf_union"])
def test_sufficient_evidence_is_kept_as_it_is(keep: str) -> None:
    flat, steep = ranked_from(0, [0.9, 0.8, 0.8, 0.1]), ranked_from(2, [0.9, 0.2, 0.1])
    assert kept(Reflection((Round("Q", flat, (), False), Round("+", steep, (), True)), "sufficient"), keep) == steep
    assert kept(Reflection((Round("Q", flat, (), False),), "no candidate"), keep) == flat


# --- the technique ---------------------------------------------------------------------------------------------------


def test_one_call_where_the_first_search_suffices(search: Callable[..., Any], hits: Callable[..., Hits]) -> None:
    model, found = scripted([True]), search(hits([0.9, 0.5, 0.1]))
    assert srr(QUESTION, found, language_model=model, depth=2) == hits([0.9, 0.5])
    assert found.calls == [("Who pays?",)]
    assert [call.task for call in model.calls] == ["evidence_sufficient"]


def test_the_most_probable_candidate_is_searched_next(search: Callable[..., Any], chunks: Chunks) -> None:
    model = scripted([False, True], (("A?", 0.2), ("B?", 0.6), ("C?", 0.6)))
    found = search({"Who pays?": ranked_from(0), "B?": ranked_from(2)})
    assert srr(QUESTION, found, language_model=model, snippets=2, max_characters=60) == ranked_from(2)
    assert found.calls == [("Who pays?",), ("B?",)]
    first, proposal, second = model.calls
    assert first.inputs["query"] == "Who pays?"
    assert second.inputs["query"] == "B?"
    shown = proposal.inputs["passages"]
    assert shown == first.inputs["passages"] != second.inputs["passages"]
    assert isinstance(shown, tuple)
    assert [chunk.text.startswith(text) for chunk, text in zip(chunks[:2], shown, strict=True)] == [True, True]
    assert max(map(len, shown)) <= 60


def test_at_most_seven_calls(search: Callable[..., Any]) -> None:
    proposals: list[Candidates] = [((f"{n}?", 0.5),) for n in range(9)]
    model = scripted([False] * 9, *proposals)
    found = search({"Who pays?": ranked_from(0), **{f"{n}?": ranked_from(n + 1) for n in range(9)}})
    srr(QUESTION, found, language_model=model)
    assert (model.count("evidence_sufficient"), model.count("reformulations")) == (4, 3)
    assert found.queries == ("Who pays?", "0?", "1?", "2?")


def test_sub_questions_are_sampled_once(search: Callable[..., Any]) -> None:
    model = scripted([False] * 4, (("A?", 0.9), ("B?", 0.5), ("C?", 0.7)), task="sub_queries")
    found = search({"Who pays?": ranked_from(0), "A?": ranked_from(1), "C?": ranked_from(2), "B?": ranked_from(3)})
    last = srr(QUESTION, found, language_model=model, candidates="decompose", keep="last")
    assert found.queries == ("Who pays?", "A?", "C?", "B?")
    assert last == ranked_from(3)
    assert model.count("sub_queries") == 1


def test_nothing_found_is_not_sufficient_without_asking(search: Callable[..., Any]) -> None:
    model = scripted([], (("Who pays? ", 0.9),))
    assert srr(QUESTION, search({}), language_model=model) == ()
    assert model.count("evidence_sufficient") == 0


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
def test_the_first_of_the_two_words_is_the_verdict(reply: str, expected: bool) -> None:
    assert verdict(reply) is expected


@pytest.mark.parametrize("reply", ["", "Yes", "sufficiently so", "That is not insufficient.", "<think>Sufficient"])
def test_a_verdict_that_cannot_be_read_is_refused(reply: str) -> None:
    with pytest.raises(ValueError, match="expected Sufficient or Insufficient"):
        verdict(reply)


def test_tagged_candidates_are_read_tolerantly_and_probabilities_clipped() -> None:
    reply = """Here they are:
    <query>"Who pays
      the dues?"</query>
    <probability>0.4</probability>
    <QUERY>Who owes?<probability> 55% </probability>
    <query></query><probability>0.9</probability>
    <query>no number</query>
    <query>A?</query> <probability>1.7</probability>
    <query>B?</query> <probability>-0,2</probability>"""
    assert sampled(reply) == (("Who pays the dues?", 0.4), ("Who owes?", 0.55), ("A?", 1.0), ("B?", 0.0))


@pytest.mark.parametrize("reply", ["", "I cannot do that.", "<query>A?</query>", "<query> </query><probability>1"])
def test_a_reply_without_any_candidate_is_refused(reply: str) -> None:
    with pytest.raises(ValueError, match="expected tagged blocks"):
        sampled(reply)


def test_ties_go_to_the_first_candidate_that_was_not_tried() -> None:
    candidates = (("a b", 0.9), ("C", 0.5), ("D", 0.5))
    assert most_probable(candidates, ["A  B"]) == "C"
    assert most_probable(candidates, ["a b", "c", "d"]) is None
    assert most_probable((), []) is None


# --- offline ---------------------------------------------------------------------------------------------------------


def test_offline_the_verdict_follows_what_the_passages_say(extractive: ExtractiveModel, chunks: Chunks) -> None:
    run = partial(extractive.run, CONTROL, question="Who rings the bell of the Tide Tower?", query="bell")
    assert run(passages=(chunks[1].text,))
    assert not run(passages=(chunks[4].text,))
    assert not run(passages=())


def test_offline_candidates_differ_from_the_question_and_ask_for_what_is_missing(
    extractive: ExtractiveModel, chunks: Chunks
) -> None:
    question = "Which warden paid for the sea wall after the flood?"
    passages = (chunks[0].text,)
    found = extractive.run(REFORMULATE, question=question, query=question, passages=passages, n=5)
    assert found == extractive.run(REFORMULATE, question=question, query=question, passages=passages, n=5)
    assert 2 <= len(found) <= 5
    assert len({query for query, _ in found} - {question}) == len(found)
    assert all(0 <= probability <= 1 for _, probability in found)
    assert {"warden", "wall", "flood"} <= set(found[0][0].split())


def test_offline_the_last_query_changes_the_candidates(extractive: ExtractiveModel, chunks: Chunks) -> None:
    run = partial(extractive.run, REFORMULATE, question="Who paid for the sea wall?", passages=(chunks[0].text,), n=5)
    assert run(query="sea wall loan") != run(query="salt pans oath")


def test_offline_sub_questions_are_the_clauses(extractive: ExtractiveModel) -> None:
    question = "How are harbour dues raised and when was the Salt Guild founded?"
    found = extractive.run(SUB_QUERIES, question=question, n=5)
    assert [query for query, _ in found] == ["How are harbour dues raised?", "When was the Salt Guild founded?"]
    assert extractive.run(SUB_QUERIES, question="Who rings the bell?", n=5) == ()


def test_offline_a_question_without_words_has_no_candidate(extractive: ExtractiveModel) -> None:
    assert extractive.run(REFORMULATE, question="?", query="?", passages=(), n=5) == ()
