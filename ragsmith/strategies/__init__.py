"""A search strategy decides which genomes to evaluate next. It is told their scores and never sees a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice, product
from types import MappingProxyType
from typing import TypedDict

from ragsmith.strategies.exhaustive import ExhaustiveSearch
from ragsmith.strategies.genetic import GeneticSearch
from ragsmith.strategies.greedy import GreedySearch
from ragsmith.strategies.model_search import ModelSearch
from ragsmith.strategies.nsga2 import NSGA2Search
from ragsmith.strategies.random_search import RandomSearch
from ragsmith.strategies.settings import PRESETS, GeneticSettings, check_choice
from ragsmith.strategies.strategy import (
    Feasible,
    Generation,
    Genome,
    Prior,
    Pruned,
    Sizes,
    Strategy,
    Told,
    anything,
)
from ragsmith.strategies.tpe import TPESearch

__all__ = [
    "PRESETS",
    "STRATEGIES",
    "ExhaustiveSearch",
    "Feasible",
    "Generation",
    "GeneticSearch",
    "GeneticSettings",
    "Genome",
    "GreedySearch",
    "ModelSearch",
    "NSGA2Search",
    "Prior",
    "Pruned",
    "RandomSearch",
    "Sizes",
    "Strategy",
    "TPESearch",
    "Told",
    "make_strategy",
]


class Bounds(TypedDict):
    """What every strategy keeps to."""

    feasible: Feasible
    max_evaluations: int | None


Make = Callable[[Sizes, GeneticSettings, int, Prior | None, Bounds], Strategy]

STRATEGIES: Mapping[str, Make] = MappingProxyType(
    {
        "genetic": lambda sizes, settings, seed, prior, bounds: GeneticSearch(
            sizes, settings, seed=seed, prior=prior, **bounds
        ),
        "nsga2": lambda sizes, settings, seed, prior, bounds: NSGA2Search(sizes, settings, seed=seed, **bounds),
        "model": lambda sizes, settings, seed, prior, bounds: ModelSearch(
            sizes, seed=seed, first=settings.population, prior=prior, **bounds
        ),
        "tpe": lambda sizes, settings, seed, prior, bounds: TPESearch(sizes, seed=seed, **bounds),
        "greedy": lambda sizes, settings, seed, prior, bounds: GreedySearch(sizes, **bounds),
        "random": lambda sizes, settings, seed, prior, bounds: RandomSearch(
            sizes, seed=seed, batch=settings.population, **bounds
        ),
        "exhaustive": lambda sizes, settings, seed, prior, bounds: ExhaustiveSearch(sizes, **bounds),
    }
)


def make_strategy(
    name: str,
    sizes: Sizes,
    settings: GeneticSettings = PRESETS["default"],
    *,
    seed: int = 42,
    feasible: Feasible = anything,
    max_evaluations: int | None = None,
    prior: Prior | None = None,
) -> Strategy:
    """The strategy called ``name`` for a space of these ``sizes``; the exhaustive one where the budget suffices for it.

    Unless ``max_evaluations`` says otherwise, the budget is that of ``settings``; an exhaustive search has no limit
    then. ``prior`` is what those that model the space begin with.

    Raises:
        UsageError: the name is not known.
    """
    check_choice("strategy", name, STRATEGIES)
    budget = max_evaluations
    if name != "exhaustive":
        budget = settings.evaluations if budget is None else budget
        feasible_ones = filter(feasible, product(*map(range, sizes)))
        if sum(1 for _ in islice(feasible_ones, budget + 1)) <= budget:
            name = "exhaustive"
    return STRATEGIES[name](sizes, settings, seed, prior, {"feasible": feasible, "max_evaluations": budget})
