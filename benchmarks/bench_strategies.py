"""Strategies at the same budget, over seeds: the best fitness each finds on every fifth question of `law`."""

import statistics
import sys

from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.testbed import Setup
from ragsmith.evaluation.threads import evaluate_job
from ragsmith.pipelines.space_file import load_space
from ragsmith.strategies import PRESETS, make_strategy

BUDGET = 146
SEEDS = range(1, 9)

space = load_space(sys.argv[1] if len(sys.argv) > 1 else "paper")
setup = Setup(load_dataset("law"))
engine = setup.engine()
questions = sorted(setup.examples)[::5]
known: dict[tuple[int, ...], float] = {}


def value(genome: tuple[int, ...]) -> float:
    if genome not in known:
        candidate = space.candidate(genome)
        records = [evaluate_job(engine, setup, candidate, (0, question)).value for question in questions]
        known[genome] = statistics.fmean(Fitness()(record["measures"]) for record in records)
    return known[genome]


print(f"space {space.name!r}, {BUDGET} candidates, {len(SEEDS)} seeds, {len(questions)} questions")
for name in ("genetic", "random", "tpe", "greedy"):
    best = []
    for seed in SEEDS if name != "greedy" else [1]:
        strategy = make_strategy(
            name, space.sizes, PRESETS["paper"], seed=seed, feasible=space.is_feasible, max_evaluations=BUDGET
        )
        while batch := strategy.propose():
            strategy.tell({genome: value(genome) for genome in batch})
        found = strategy.best()
        assert found is not None
        best.append(found[1])
    print(f"{name:<8} mean {statistics.fmean(best):.4f}  worst {min(best):.4f}  best {max(best):.4f}", flush=True)
