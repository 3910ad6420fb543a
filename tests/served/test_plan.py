"""A plan says before a search what it takes, and what of it the cache has already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fault_server import FaultServer
from never_repeating import answer
from served import is_judging
from stored import recorded

import ragsmith
from ragsmith.comparison.questions import HoldoutUse
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.racing import Racing
from ragsmith.gateway.budget import Price, Prices
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.runs.check import check_models
from ragsmith.runs.plan import SearchPlan, plan
from ragsmith.runs.run import Execution, Run
from ragsmith.store.store import Store

SETTINGS = RunSettings(max_evaluations=4, racing=None, probes=False, simplify=False, warm_start=False)

DEAR = """
families:
  pre_embedding: [none]
  query_expansion: [none, hyde]
  retrieval: [vector, bm25]
  reranking: [none]
  passage_filter: [top_k]
  passage_augment: [none]
  passage_compress: [none, llm_refine]
  prompt_maker: [listing]
  post_generation: [none, reflection_revising]
"""


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture
def setup(server: FaultServer, tiny_setup: Experiment) -> Experiment:
    names = ModelNames(language_model=ModelName("openai:tiny", base_url=server.url))
    return Experiment(tiny_setup.dataset, names, tiny_setup.chunk_size)


@pytest.fixture
def dear(tmp_path: Path) -> Space:
    (tmp_path / "dear.yaml").write_text(DEAR)
    return load_space(tmp_path / "dear.yaml")


def test_nothing_is_sent_to_work_out_a_plan(
    server: FaultServer, setup: Experiment, tiny_setup: Experiment, space: Space, store: Store
) -> None:
    found = plan(setup, space, store, SETTINGS, sample=6)
    assert server.log == []
    assert found.totals["calls"]
    assert found.totals["cached"] == 0
    assert found.totals["cost"] is None
    assert {line.request for line in found.lines} >= {"answer", "judge"}
    assert found.sampled < found.questions == len(tiny_setup.dataset.examples)


def test_the_plan_comes_near_what_is_sent_to_a_server_whose_replies_never_repeat(
    server: FaultServer, setup: Experiment, space: Space, store: Store
) -> None:
    settings = RunSettings(max_evaluations=12, rankings_first=False)
    server.answer = answer
    found = plan(setup, space, store, settings, sample=1000)
    Run(setup, space, store, settings, execution=Execution(workers=8)).go()
    sent = Counter("judge" if is_judging(request) else "other" for request in server.log)
    assert found.sampled == found.questions
    planned = {line.request: line.calls for line in found.lines}
    assert found.totals["calls"] == pytest.approx(sent.total(), rel=0.25), "replies decide who leaves the race"
    assert planned["judge"] == pytest.approx(sent["judge"], rel=0.25), "different prompts are answered differently"


def test_a_plan_is_no_look_at_the_test_questions(
    setup: Experiment, dear: Space, ledger: Path, tmp_path: Path, store: Store
) -> None:
    plan(setup, dear, store, SETTINGS, sample=1000)
    assert not ledger.exists()
    outcome = Run(setup, dear, store, SETTINGS, execution=Execution(workers=8)).go()
    assert recorded(store, outcome).look == HoldoutUse(1, len(setup.split.test), len(setup.split.test))


def test_the_rehearsals_say_how_far_searches_differ(setup: Experiment, space: Space, store: Store) -> None:
    several = plan(setup, space, store, SETTINGS, sample=1000)
    one = plan(setup, space, store, SETTINGS, sample=3)
    for name, (least, most) in several.ranges.items():
        assert least <= several.totals[name] <= most  # type: ignore[operator]
        assert least < most, "other questions lead elsewhere"
    assert set(several.ranges) == {"calls", "input_tokens", "output_tokens"}, "without prices there is no money"
    assert one.ranges == {}


def test_the_range_of_a_race_is_of_leaving_it_sooner_and_later(setup: Experiment, dear: Space, store: Store) -> None:
    settings = RunSettings(probes=False, simplify=False, warm_start=False, racing=Racing(block=4, front=1))
    found = plan(setup, dear, store, settings, sample=1000)
    whole = plan(setup, dear, store, replace(settings, racing=None), sample=1000)
    least, most = found.ranges["calls"]
    total = found.totals["calls"]
    assert total is not None
    assert 0 < least < total < most <= whole.totals["calls"]  # type: ignore[operator]
    assert (found.raced, whole.raced) == (True, False)


def test_rankings_are_in_the_range_of_a_race_of_which_they_are_all(
    setup: Experiment, dear: Space, store: Store
) -> None:
    settings = RunSettings(probes=False, simplify=False, warm_start=False, racing=Racing(block=4, front=1))
    settings = replace(settings, fitness=Fitness().with_objective("retrieval"))
    found = plan(setup, dear, store, settings, sample=1000)
    least, most = found.ranges["calls"]
    total = found.totals["calls"]
    assert total == calls_of(found, "imagine_passage")
    assert least < total < most, "a pruned pipeline ranks no more questions"  # type: ignore[operator]


def test_marks_in_the_cache_do_not_decide_who_leaves_a_rehearsed_race(
    server: FaultServer, setup: Experiment, dear: Space, tmp_path: Path, store: Store
) -> None:
    settings = RunSettings(probes=False, simplify=False, warm_start=False, racing=Racing(block=4, front=1))

    def worst(path: str, body: Any) -> Any:
        """The judge finds nothing good, and answers are those of before."""
        good = answer(path, body)
        if "<reference>" in str(body):
            good["choices"][0]["message"]["content"] = "Score: 1"
        return good

    server.answer = answer
    with Store.open(tmp_path / "usual.sqlite") as usual:
        Run(setup, dear, usual, SETTINGS, execution=Execution(workers=8)).go()
        found = plan(setup, dear, usual, settings, sample=1000)
    server.answer = worst
    Run(setup, dear, store, replace(SETTINGS, trust_judge=True), execution=Execution(workers=8)).go()
    harsh = plan(setup, dear, store, settings, sample=1000)
    assert calls_of(found, "judge") == calls_of(harsh, "judge")


def test_what_is_asked_once_for_a_collection_is_not_multiplied_in_a_range(
    setup: Experiment, tmp_path: Path, store: Store
) -> None:
    (tmp_path / "hype.yaml").write_text(DEAR.replace("pre_embedding: [none]", "pre_embedding: [hype]"))
    found = plan(setup, load_space(tmp_path / "hype.yaml"), store, SETTINGS, sample=1000)
    once = calls_of(found, "hypothetical_questions")
    assert once == len(setup.corpus.chunks)
    for end in found.ranges["calls"]:
        assert (end - once) == pytest.approx(found.totals["calls"] - once, rel=0.3)  # type: ignore[operator]


def test_before_any_reply_is_known_a_text_has_half_the_words_that_it_may_have(
    setup: Experiment, tmp_path: Path, store: Store
) -> None:
    limits = {words: f"[{{llm_refine: {{max_words: {words}}}}}]" for words in (10, 20)}
    written = {}
    for words, options in limits.items():
        (tmp_path / "dear.yaml").write_text(DEAR.replace("[none, llm_refine]", options))
        found = plan(setup, load_space(tmp_path / "dear.yaml"), store, SETTINGS, sample=6)
        (line,) = [line for line in found.lines if line.request == "refine_summary"]
        written[words] = line.output_tokens / line.calls
    mark = 3  # tokens of the word that no other reply has
    assert written[20] - mark == pytest.approx(2 * (written[10] - mark), rel=0.25)


def test_what_the_cache_has_is_not_asked_for_again(setup: Experiment, space: Space, store: Store) -> None:
    before = plan(setup, space, store, SETTINGS, sample=1000)
    Run(setup, space, store, SETTINGS, execution=Execution(workers=8)).go()
    after = plan(setup, space, store, SETTINGS, sample=1000)
    assert after.totals["cached"]
    assert after.totals["calls"] < before.totals["calls"] / 4  # type: ignore[operator]


def test_money_and_time_follow_from_calls_and_tokens(setup: Experiment, space: Space, store: Store) -> None:
    prices = Prices({"openai:tiny": Price(input=2.0, output=8.0)})
    found = plan(setup, space, store, SETTINGS, prices=prices, latency=0.5, in_flight=4, sample=6)
    for line in found.lines:
        assert line.cost == pytest.approx((2.0 * line.input_tokens + 8.0 * line.output_tokens) / 1e6)
        assert line.seconds == pytest.approx(line.calls * 0.5 / 4)
    assert found.totals["cost"] == pytest.approx(sum(line.cost or 0 for line in found.lines))


def test_tokens_and_seconds_are_those_of_the_replies_that_are_there(
    server: FaultServer, setup: Experiment, space: Space, store: Store
) -> None:
    more = replace(SETTINGS, max_evaluations=12)
    server.latency = 0.02
    server.answer = answer
    assumed = plan(setup, space, store, SETTINGS)
    Run(setup, space, store, SETTINGS, execution=Execution(workers=8)).go()
    begun = len(server.log)
    found = plan(setup, space, store, more, sample=1000)
    spent = Run(setup, space, store, more, execution=Execution(workers=8)).go().spent
    made = len(server.log) - begun
    replies = store.sample_calls("openai:tiny@temperature=0", 10_000)
    mean = sum(reply.output_tokens for reply in replies) / len(replies)
    assert assumed.totals["seconds"] == pytest.approx(assumed.totals["calls"])
    assert any(
        "1 at once (the first number at a private server" in note for note in assumed.notes["openai:tiny@temperature=0"]
    )
    many = plan(setup, space, store, SETTINGS, in_flight=32)
    assert not any("private server" in note for notes in many.notes.values() for note in notes)
    assert found.totals["seconds"] < found.totals["calls"], "a second a request was far too much"
    assert found.totals["output_tokens"] == pytest.approx(mean * found.totals["calls"], rel=0.1)
    assert found.totals["calls"] == pytest.approx(made, rel=0.1)
    assert spent.calls == made
    assert any("measured" in note for notes in found.notes.values() for note in notes)


def test_what_a_model_may_think_is_part_of_every_reply(tiny_setup: Experiment, space: Space, store: Store) -> None:
    def planned(**traits: int) -> SearchPlan:
        models = {"language_model": SimpleNamespace(id="mine", complete=print, **traits)}
        size = tiny_setup.chunk_size
        return ragsmith.plan(
            tiny_setup.dataset, space=space, settings=SETTINGS, models=models, chunk_size=size, cache=store
        )

    plain, thinking = planned(), planned(thinking_tokens=500)
    assert thinking.totals["calls"] == plain.totals["calls"]
    more = thinking.totals["output_tokens"] - plain.totals["output_tokens"]
    assert more == pytest.approx(500 * plain.totals["calls"], rel=0.01)
    assert any("500 reasoning tokens" in note for note in thinking.notes["mine"])


def test_each_choice_says_what_it_costs_and_how_it_is_left_out(setup: Experiment, dear: Space, store: Store) -> None:
    settings = replace(SETTINGS, max_evaluations=6, control="random")
    whole = plan(setup, dear, store, settings, sample=6)
    alone = plan(setup, dear, store, replace(settings, control="none"), sample=6)
    short = plan(setup, dear.without_options(["passage_compress"]), store, settings, sample=6)
    choices = {choice.flag: choice for choice in whole.choices}
    assert set(choices) == {
        "--control none",
        "--without query_expansion",
        "--without passage_compress",
        "--without post_generation",
        "--judge extractive",
    }
    assert choices["--control none"].calls == pytest.approx(whole.totals["calls"] - alone.totals["calls"], rel=0.01)
    assert choices["--judge extractive"].calls == calls_of(whole, "judge")
    assert choices["--without passage_compress"].calls == calls_of(whole, "refine_summary")
    assert calls_of(short, "refine_summary") == 0
    assert "--control none" not in {choice.flag for choice in alone.choices}


def test_verdicts_are_given_as_often_as_the_model_was_seen_to_give_them(
    server: FaultServer, setup: Experiment, tmp_path: Path, store: Store
) -> None:
    (tmp_path / "dear.yaml").write_text(DEAR.replace("[none, reflection_revising]", "[reflection_revising]"))
    strict = load_space(tmp_path / "dear.yaml")
    settings = RunSettings(max_evaluations=6, probes=False, rankings_first=False)
    server.answer = lambda path, body: finding_fault(answer(path, body))
    Run(setup, strict, store, replace(settings, max_evaluations=1), execution=Execution(workers=8)).go()
    found = plan(setup, strict, store, settings)
    assert calls_of(found, "review_answer") > 0
    assert calls_of(found, "revise_answer") == pytest.approx(calls_of(found, "review_answer"), rel=0.1), (
        "no draft was good enough so far"
    )


def test_before_any_verdict_is_known_half_of_them_ask_for_more(setup: Experiment, tmp_path: Path, store: Store) -> None:
    (tmp_path / "dear.yaml").write_text(DEAR.replace("[none, reflection_revising]", "[reflection_revising]"))
    found = plan(setup, load_space(tmp_path / "dear.yaml"), store, SETTINGS)
    assert calls_of(found, "revise_answer") >= calls_of(found, "review_answer") / 3


def test_a_chat_model_writes_as_many_queries_as_it_is_asked_for(
    setup: Experiment, tmp_path: Path, store: Store
) -> None:
    (tmp_path / "srr.yaml").write_text(
        DEAR.replace("[none, hyde]", "[{srr: {candidates: decompose, stop_rule: none, reformulations: 1}}]")
    )
    found = plan(setup, load_space(tmp_path / "srr.yaml"), store, SETTINGS)
    first = calls_of(found, "sub_queries")
    assert first > 0
    verdicts = calls_of(found, "evidence_sufficient")
    assert verdicts > first, "each sampling is followed by a further search and its verdict"


def test_a_plan_knows_what_the_check_of_the_models_has_shown(
    server: FaultServer, setup: Experiment, dear: Space, store: Store
) -> None:
    server.answer = lambda path, body: at_length(answer(path, body), body)
    before = plan(setup, dear, store, SETTINGS)
    check_models(setup.models, dear, judge_cases=False, store=store)
    after = plan(setup, dear, store, SETTINGS)
    (unknown,) = [note for notes in before.notes.values() for note in notes if "models check" in note]
    assert unknown.startswith("no reply to answer, ")
    assert not any("models check" in note for notes in after.notes.values() for note in notes)
    assert judged_tokens(after) > 2 * judged_tokens(before), "answers of this length are read by the judge"


def at_length(reply: Any, body: Any) -> Any:
    """Answers of 3,000 letters more."""
    if "Answer the question from them" in body["messages"][-1]["content"]:
        reply["choices"][0]["message"]["content"] += " and so on" * 300
    return reply


def judged_tokens(found: SearchPlan) -> float:
    """Those of a prompt of the judge."""
    (line,) = [line for line in found.lines if line.request == "judge"]
    return line.input_tokens / line.calls


def finding_fault(reply: Any) -> Any:
    """No draft passes a review."""
    if reply["choices"][0]["message"]["content"] == "Verdict: ok":
        reply["choices"][0]["message"]["content"] = "Verdict: revise\n- missing: what it costs"
    return reply


def calls_of(found: SearchPlan, request: str) -> int:
    return sum(line.calls for line in found.lines if line.request == request)


def test_the_command_prints_it(  # type: ignore[no-untyped-def]
    ragsmith, server: FaultServer, tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    (tmp_path / "prices.yaml").write_text("openai:tiny: {input: 1, output: 2}\n")
    places = ("--dataset", tiny_folder, "--space", tiny_space)
    command = ("plan", *places, "--llm", "openai:tiny", "--base-url", server.url)
    shown = ragsmith(*command, "--prices", tmp_path / "prices.yaml", "--max-evaluations", 3, "--sample", 4)
    assert server.log == []
    assert shown.code == 0
    assert "openai:tiny" in shown.out
    assert "--judge extractive" in shown.out
    assert "plan with its flag, too" in shown.out, "what is saved is more or less than what is asked for it"
    assert "the course of a search depends on the replies" not in shown.out, "one rehearsal shows no difference"
    local = "1 at once (the first number at a private server, which learns it: the time is at most this)"
    assert f"openai:tiny: at 1 s a request (assumed: set it with --latency) and {local}" in shown.out.splitlines()
    wrong = ragsmith(*command, "--latency", 0)
    assert wrong.code == 2
    assert wrong.err == "error: --latency is 0.0: give a number above 0\n"
