"""Several objectives: costs of pipelines, refused settings, and a search."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from stored import go_on, recorded

from ragsmith.errors import UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import OBJECTIVES, Fitness
from ragsmith.evaluation.racing import Racing
from ragsmith.gateway.budget import Price, Prices
from ragsmith.models.roles import Models
from ragsmith.pipelines.space import Space
from ragsmith.records.front import pick_pipeline
from ragsmith.records.objectives import compute_costs, with_price
from ragsmith.records.record import RunSettings, check_objective
from ragsmith.reporting.building import load_report
from ragsmith.reporting.summary import summary_lines
from ragsmith.runs.final_comparison import final_candidates
from ragsmith.runs.run import Run, RunOutcome
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings

SETTINGS = RunSettings(
    strategy="nsga2",
    objectives=("quality", "calls"),
    racing=None,
    seed=7,
    genetic=GeneticSettings(population=6, generations=3, elitism=2),
)
PAID = replace(SETTINGS, objectives=("quality", "calls", "money"))


def chat(name: str) -> Any:
    return SimpleNamespace(id=f"{name}@1", complete=lambda *given, **more: None)


def models(writer: Any, controller: Any = None, reranker: str = "late_interaction") -> Models:
    plain = SimpleNamespace(id="wordllama@1")
    return Models(writer, plain, SimpleNamespace(id=f"{reranker}@1"), writer, controller)


def test_a_question_costs_its_calls_and_what_these_are_paid_with() -> None:
    usage = {"calls": 2.5, "input_tokens": 2000.0, "output_tokens": 100.0}
    assert compute_costs(RunSettings(), usage) == compute_costs(SETTINGS, usage) == (2.5,)
    paid = replace(PAID, price=Price(input=0.4, output=1.6, requests=2.0))
    assert compute_costs(paid, usage) == (2.5, pytest.approx((2000 * 0.4 + 100 * 1.6) / 1e6 + 2.5 * 2.0 / 1e3))


def test_money_has_the_price_of_the_model_that_is_asked() -> None:
    prices = Prices({"openai:a": Price(1, 2), "openai:b": Price(3, 4), "openai:same": Price(1, 2)})
    assert with_price(PAID, models(chat("openai:a")), prices).price == Price(1, 2)
    assert with_price(PAID, models(chat("openai:a"), chat("openai:same")), prices).price == Price(1, 2)
    assert with_price(SETTINGS, models(chat("openai:a")), prices) == SETTINGS


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (models(SimpleNamespace(id="extractive@1")), "no chat model is used, so there is no cost: leave it out"),
        (models(chat("openai:a"), chat("openai:c")), "needs the price of openai:c@1: add it to the prices"),
        (models(chat("openai:a"), chat("openai:b")), "have different prices"),
        (models(chat("openai:a"), reranker="rerank:r"), "the cost of rerank:r@1 for a question is not recorded"),
    ],
)
def test_money_is_refused_where_it_cannot_be_told(found: Models, said: str) -> None:
    prices = Prices({"openai:a": Price(1, 2), "openai:b": Price(3, 4), "rerank:r": Price(requests=2)})
    with pytest.raises(UsageError, match=said):
        with_price(PAID, found, prices)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"objectives": ("calls",)}, "objectives are calls: give quality, and after it any of calls, latency, money"),
        ({"objectives": ("quality", "calls", "calls")}, "give quality, and after it"),
        (
            {"objectives": ("quality", "beauty")},
            "objectives are quality,beauty: give quality, and after it any of calls",
        ),
        ({"objectives": ("retrieval",)}, "; to tune retrieval alone, give --objective retrieval"),
        ({"strategy": "tpe"}, "optimises quality alone: with quality,calls give one of exhaustive, nsga2, random"),
        ({"racing": Racing()}, "race prunes by quality alone"),
        ({"objectives": ("quality",)}, "strategy is nsga2, which weighs several objectives"),
        *(
            ({"margin": margin}, f"margin is {margin}: give a difference of fitness above 0 and below 1")
            for margin in (0.0, -0.1, 1.0, 5.0, math.inf, math.nan)
        ),
    ],
)
def test_what_makes_no_search_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        replace(SETTINGS, **given)


def test_a_fitness_of_one_s_own_may_have_a_larger_margin() -> None:
    own = replace(SETTINGS, fitness=Fitness(file="percent.py", function="percent"))
    assert replace(own, margin=5.0).margin == 5.0
    with pytest.raises(UsageError, match=r"give a difference of fitness above 0$"):
        replace(own, margin=0.0)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("beauty", "is 'beauty': give quality or retrieval$"),
        ("calls", "; to weigh quality against costs, give --objectives quality,calls$"),
        ("quality,calls", "; to weigh quality against costs, give --objectives quality,calls$"),
        ("money, calls", "; to weigh quality against costs, give --objectives quality,calls,money$"),
    ],
)
def test_what_is_tuned_is_not_what_is_weighed(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_objective(name)
    for known in OBJECTIVES:
        check_objective(known)


# --- a run -----------------------------------------------------------------------------------------------------------


def end(store: Store, outcome: RunOutcome, setup: Experiment) -> tuple[Any, ...]:
    record = recorded(store, outcome)
    proposals = [
        (row.position, row.step, row.genome, row.evaluation, row.value) for row in store.proposals(outcome.key)
    ]
    front = [(row.key, row.level, row.usage["calls"]) for row in load_report(store, setup.dataset.name).front]
    return record.history, record.winner, record.test, record.removals, proposals, front


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_setup: Experiment, space: Space) -> Any:
    with Store.open(tmp_path_factory.mktemp("weighed") / "cache.sqlite") as opened:
        yield opened, Run(tiny_setup, space, opened, SETTINGS).go()


def test_a_search_that_weighs_lets_everybody_finish_and_hands_over_the_best(
    finished: tuple[Store, RunOutcome], tiny_setup: Experiment
) -> None:
    store, outcome = finished
    record = recorded(store, outcome)
    assert record.strategy == "nsga2"
    assert not record.dropped
    assert record.settings == SETTINGS
    rows = [row.value["fitness"] for row in store.proposals(outcome.key)]
    assert all(fitness is not None for fitness in rows)
    domain = load_report(store, tiny_setup.dataset.name)
    assert domain.winner is not None
    assert domain.winner.key == record.winner
    leader = next(row for row in domain.ranking if row.key == record.leader)
    assert leader.level == max(row.level for row in domain.ranking)


def test_its_front_is_what_nothing_else_is_as_good_as(
    finished: tuple[Store, RunOutcome], tiny_setup: Experiment
) -> None:
    store, _ = finished
    domain = load_report(store, tiny_setup.dataset.name)
    reached = {(row.level, row.usage["calls"]) for row in domain.ranking}
    best = {(f, c) for f, c in reached if not any(g >= f and d <= c and (g, d) != (f, c) for g, d in reached)}
    assert {(row.level, row.usage["calls"]) for row in domain.front} == best
    lines = summary_lines(domain, columns=1000)
    at = lines.index("front of quality, calls, the best first")
    assert [line.split()[0] for line in lines[at + 1 : at + 1 + len(best)]] == [
        f"{row.level:.3f}" for row in domain.front
    ]


def test_it_goes_on_after_pauses_to_the_same_front(
    finished: tuple[Store, RunOutcome], tiny_setup: Experiment, space: Space, tmp_path: Path
) -> None:
    store, outcome = finished
    ticks, short = itertools.count(), replace(SETTINGS, time_limit=100.0)
    with Store.open(tmp_path / "paused.sqlite") as other:
        resumed, starts = go_on(lambda: Run(tiny_setup, space, other, short, now=lambda: float(next(ticks))).go())
        assert starts > 2
        assert end(other, resumed, tiny_setup) == end(store, outcome, tiny_setup)


def test_the_cheapest_that_was_tested_is_the_one_that_is_picked(finished: tuple[Store, RunOutcome]) -> None:
    store, outcome = finished
    record = recorded(store, outcome)
    assert pick_pipeline(store, outcome.key, record, "cheapest").key == record.test.get("cheapest", record.winner)


def test_the_cheapest_meets_the_test_questions_unless_it_is_the_winner() -> None:
    winner, cheap = (Evaluation(name, baseline(name), (), {}, {}) for name in ("bm25", "naive"))
    meets = partial(
        final_candidates,
        winner,
        leader=winner,
        estimated=winner,
        recommended=None,
        single=None,
        random=None,
        baselines={"naive": cheap, "bm25": winner},
    )
    assert meets(cheapest=cheap)["cheapest"] == cheap.candidate
    assert "cheapest" not in meets(cheapest=winner)
