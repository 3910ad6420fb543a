"""What holds for every strategy; `STRATEGIES` is the list."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from landscapes import additive, even, run

from ragsmith.errors import Notice, UsageError
from ragsmith.strategies import PRESETS, STRATEGIES, GeneticSettings, Genome, Pruned, make_strategy
from ragsmith.strategies.strategy import MAX_IDLE_STEPS, Population, SteppedSearch

NAMES = [known.name for known in STRATEGIES]
SIZES = (4, 1, 5, 3)
SMALL = GeneticSettings(population=6, generations=6, elitism=2)

every = pytest.mark.parametrize("name", NAMES)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(NAMES),
    st.lists(st.integers(1, 4), min_size=1, max_size=5).map(tuple),
    st.integers(0, 20),
    st.none() | st.integers(1, 12),
    st.floats(0, 1),
)
def test_it_proposes_distinct_feasible_genomes_and_finds_the_best_of_them(
    name: str, sizes: tuple[int, ...], seed: int, limit: int | None, failing: float
) -> None:
    rng = random.Random(seed)
    score = additive(sizes, seed)
    told: dict[Genome, float | None] = {}

    def evaluate(genome: Genome) -> float | None:
        told[genome] = None if rng.random() < failing else score(genome)
        return told[genome]

    space = GeneticSettings(population=4, generations=4, elitism=1)
    strategy = make_strategy(name, sizes, space, seed=seed, max_evaluations=limit)
    proposed = run(strategy, evaluate)

    assert len(set(proposed)) == len(proposed) >= 1
    assert limit is None or len(proposed) <= limit
    assert all(0 <= gene < size for genome in proposed for gene, size in zip(genome, sizes, strict=True))
    assert strategy.propose() == ()
    scored = {genome: value for genome, value in told.items() if value is not None}
    if not scored:
        assert strategy.best() is None
    else:
        winner = max(scored, key=scored.__getitem__)  # the first of equals in the order of proposal
        assert strategy.best() == (winner, scored[winner])


@every
def test_history_tells_the_whole_search_and_is_json(name: str) -> None:
    strategy = make_strategy(name, SIZES, SMALL)
    score = additive(SIZES, 1)
    proposed = run(strategy, score)
    history = strategy.history

    assert [step.number for step in history] == list(range(len(history)))
    assert sum(step.evaluations for step in history) == len(proposed)
    assert {genome for step in history for genome in step.population} == set(proposed)
    best = [step.best for step in history]
    assert best == sorted(best)
    assert (history[-1].best_genome, history[-1].best) == strategy.best()
    for before, step in zip([None, *history], history, strict=False):
        assert step.diversity == len(set(step.population)) / len(step.population)
        assert step.mean == pytest.approx(sum(map(score, step.population)) / len(step.population))
        assert step.stagnant == (0 if before is None or step.best > before.best else before.stagnant + 1)
    assert json.loads(json.dumps([asdict(step) for step in history]))[0]["best"] == history[0].best


@every
def test_feasible_genomes_only(name: str) -> None:
    strategy = make_strategy(name, SIZES, SMALL, feasible=even)
    strategy.tell({(0, 0, 0, 1): 9.0})  # what is not feasible is passed over
    assert strategy.best() is None
    proposed = run(strategy, additive(SIZES, 1))
    assert all(map(even, proposed))
    assert all(even(genome) for step in strategy.history for genome in step.population)


@every
def test_a_dropped_genome_never_wins_and_counts_as_evaluated(name: str) -> None:
    score = additive((4, 4, 4), 1)
    strategy = make_strategy(name, (4, 4, 4), max_evaluations=9)
    proposed = run(strategy, lambda genome: Pruned(7, 2.0, 0.076) if genome[2] == 0 else score(genome))
    scored = {genome: score(genome) for genome in proposed if genome[2]}
    assert len(set(proposed)) == len(proposed) == 9
    assert strategy.best() == (max(scored, key=scored.__getitem__), max(scored.values()))


@every
def test_repeats_are_refunded(name: str) -> None:
    strategy = make_strategy(name, (4, 4, 4), max_evaluations=8)
    proposed: list[Genome] = []
    while batch := strategy.propose():
        repeats = [genome for genome in batch if sum(genome) % 2]
        strategy.tell({genome: sum(genome) / 10 for genome in batch}, repeats)
        strategy.tell({genome: sum(genome) / 10 for genome in batch}, repeats)  # said twice, refunded once
        proposed += batch
    assert sum(1 for genome in proposed if sum(genome) % 2 == 0) == 8


@every
def test_when_everything_is_a_repeat_the_space_ends_it(name: str) -> None:
    strategy = make_strategy(name, (2, 3), max_evaluations=2)
    proposed: list[Genome] = []
    while batch := strategy.propose():
        strategy.tell(dict.fromkeys(batch, 0.5), batch)
        proposed += batch
    assert len(set(proposed)) == len(proposed)
    assert len(proposed) == 6 or name == "greedy"


@every
def test_same_seed_same_run_whatever_the_global_generator_and_the_order_of_answers(name: str) -> None:
    score = additive(SIZES, 2)
    random.seed(1)
    first = make_strategy(name, SIZES, SMALL)
    run(first, score)

    random.seed(2)
    state = random.getstate()
    second = make_strategy(name, SIZES, SMALL)
    while batch := second.propose():
        for genome in reversed(batch):  # as if several workers answered, one at a time
            second.tell({genome: score(genome)})
            rest = second.propose() if genome != batch[0] else ()
            assert rest == batch[: len(rest)]
    assert random.getstate() == state
    assert second.history == first.history
    assert second.best() == first.best()


@pytest.mark.parametrize("name", ["genetic", "model", "nsga2", "random", "tpe"])
def test_another_seed_is_another_run(name: str) -> None:
    sizes = (4, 4, 4, 4)
    runs = [run(make_strategy(name, sizes, seed=seed, max_evaluations=20), additive(sizes, 1)) for seed in (1, 2)]
    assert runs[0] != runs[1]


@pytest.mark.processes
def test_runs_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "from ragsmith.strategies import *\n"
        "for name in ('genetic', 'model', 'nsga2', 'random', 'greedy', 'tpe'):\n"
        "    s = make_strategy(name, (4, 3, 3, 2), GeneticSettings(mutation='composite', selection='rank'),"
        " max_evaluations=30)\n"
        "    while b := s.propose(): s.tell({g: (7 * g[0] + 5 * g[1] * g[2]) % 11 / 11 for g in b})\n"
        "    print(s.history)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@every
def test_propose_repeats_what_was_not_told(name: str) -> None:
    strategy = make_strategy(name, SIZES, SMALL)
    batch = strategy.propose()
    assert strategy.propose() == batch
    strategy.tell({batch[0]: None})
    assert strategy.propose() == batch[1:] or len(batch) == 1


@every
def test_a_genome_told_ahead_is_known_and_never_proposed(name: str) -> None:
    score = additive(SIZES, 3)
    stored = [one for one in run(make_strategy(name, SIZES, SMALL), score) if any(one)]
    again = make_strategy(name, SIZES, SMALL)
    again.tell({**{genome: score(genome) for genome in stored}, (0, 0, 0, 0): 2.0})
    assert not set(run(again, score)) & {*stored, (0, 0, 0, 0)}
    assert again.best() == ((0, 0, 0, 0), 2.0)
    everything = make_strategy(name, SIZES, max_evaluations=20)
    everything.tell(dict.fromkeys(product(*map(range, SIZES)), 0.5))
    assert everything.propose() == ()


@every
def test_when_everything_fails_nothing_wins_and_the_search_still_ends(name: str) -> None:
    strategy = make_strategy(name, SIZES, SMALL)
    run(strategy, lambda genome: None)
    assert strategy.best() is None
    assert {(step.best, step.best_genome, step.mean) for step in strategy.history} == {(None, None, None)}


def test_a_failure_or_a_dropped_one_may_be_replaced_by_a_score_but_a_score_is_final() -> None:
    strategy = make_strategy("exhaustive", (3,))
    strategy.tell({(0,): None, (1,): 0.2, (2,): Pruned(3, 0.1, 0.115)})
    strategy.tell({(0,): 0.2, (1,): 0.2, (2,): 0.1})
    assert strategy.best() == ((0,), 0.2)
    with pytest.raises(UsageError, match=r"genome \(1,\) has the score 0.2 and was reported with 0.3"):
        strategy.tell({(1,): 0.3})
    with pytest.raises(UsageError, match=r"genome \(1,\) has the score 0.2 and was reported with Pruned"):
        strategy.tell({(1,): Pruned(3, 0.2, 0.115)})


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({(0, 2): 0.5}, r"genome \(0, 2\) is outside the space \(2, 2\)"),
        ({(0, -1): 0.5}, "outside"),
        ({(0,): 0.5}, "outside"),
        ({(0, 1): float("nan")}, "is nan: report a finite number, or None"),
        ({(0, 1): float("inf")}, "is inf"),
        ({(0, 1): Pruned(3, float("nan"), 0.115)}, "is nan"),
    ],
)
def test_wrong_scores_are_refused_and_nothing_is_kept(scores: dict[Genome, float], message: str) -> None:
    strategy = make_strategy("exhaustive", (2, 2))
    with pytest.raises(UsageError, match=message):
        strategy.tell({(1, 1): 0.9, **scores})
    assert strategy.best() is None


@pytest.mark.parametrize(
    ("name", "sizes", "limit", "said"),
    [
        ("genetic", (), None, "give every gene at least one option"),
        ("genetic", (3, 0), None, "give every gene at least one option"),
        ("random", (2, 2), 0, "max_evaluations is 0: give at least 1, or None"),
        ("annealing", (2, 2), None, f"unknown strategy 'annealing': known: {', '.join(NAMES[:3])}"),
    ],
)
def test_what_cannot_be_searched_is_refused(name: str, sizes: tuple[int, ...], limit: int | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_strategy(name, sizes, max_evaluations=limit)


@every
def test_the_name_is_the_one_it_was_made_by_and_every_step_says_it(name: str) -> None:
    strategy = make_strategy(name, (5, 5, 5), max_evaluations=20)
    run(strategy, additive((5, 5, 5), 1))
    assert strategy.name == name
    assert {step.by for step in strategy.history} <= {name, "local search"}


@every
def test_a_budget_that_suffices_for_the_space_makes_any_search_exhaustive(name: str) -> None:
    """Of 60 genomes 30 are feasible."""
    enough = make_strategy(name, SIZES, feasible=even, max_evaluations=30)
    assert sorted(run(enough, additive(SIZES, 1))) == [one for one in product(*map(range, SIZES)) if even(one)]
    assert {step.by for step in enough.history} == {"exhaustive"}
    assert make_strategy(name, SIZES, feasible=even, max_evaluations=29).name == name


@pytest.mark.parametrize("name", ["model", "random", "tpe"])
def test_strategies_without_an_end_get_the_genetic_searchs_allowance(name: str) -> None:
    strategy = make_strategy(name, (5, 5, 5), GeneticSettings(population=5, generations=3, elitism=1))
    assert len(run(strategy, additive((5, 5, 5), 1))) == 5 + 3 * 4


@pytest.mark.parametrize("name", ["genetic", "model", "nsga2", "random", "tpe"])
@pytest.mark.parametrize("budget", [1, 7, 33, 58])
def test_the_budget_is_used_to_the_last_evaluation(name: str, budget: int) -> None:
    knobs = replace(PRESETS["default"], convergence=None, target=None)
    strategy = make_strategy(name, SIZES, knobs, max_evaluations=budget)
    strategy.tell({(0, 0, 0, 0): 0.1})
    assert len(run(strategy, additive(SIZES, 1))) == budget


def test_a_strategy_that_proposes_only_known_genomes_ends_with_a_sentence() -> None:
    class Stubborn(SteppedSearch):
        name = "stubborn"

        def steps(self) -> Iterator[Population]:
            while True:
                yield Population(((0, 0), (0, 1)))

    strategy = Stubborn((2, 2), max_evaluations=4)
    strategy.tell(dict.fromkeys(strategy.propose(), 0.5))
    with pytest.warns(Notice, match="the strategy stubborn proposed no new genome 1,000 times in a row"):
        assert strategy.propose() == ()
    assert len(strategy.history) == MAX_IDLE_STEPS
