"""A search strategy decides which genomes to evaluate next. It gets their scores and never sees a pipeline."""

from __future__ import annotations

from ragsmith.strategies.exhaustive import ExhaustiveSearch
from ragsmith.strategies.genetic import GeneticSearch
from ragsmith.strategies.greedy import GreedySearch
from ragsmith.strategies.model_search import ModelSearch
from ragsmith.strategies.nsga2 import NSGA2Search
from ragsmith.strategies.random_search import RandomSearch
from ragsmith.strategies.registry import STRATEGIES, Bounds, SearchProblem
from ragsmith.strategies.settings import PRESETS, GeneticSettings
from ragsmith.strategies.strategy import (
    Feasible,
    Generation,
    Genome,
    Population,
    Prior,
    Pruned,
    Sizes,
    SteppedSearch,
    Told,
    anything,
    has_at_most,
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
    "Population",
    "Prior",
    "Pruned",
    "RandomSearch",
    "SearchProblem",
    "Sizes",
    "SteppedSearch",
    "TPESearch",
    "Told",
    "anything",
    "make_strategy",
]


def make_strategy(
    name: str,
    sizes: Sizes,
    settings: GeneticSettings = PRESETS["default"],
    *,
    seed: int = 42,
    feasible: Feasible = anything,
    max_evaluations: int | None = None,
    prior: Prior | None = None,
) -> SteppedSearch:
    """Start the strategy ``name``, or ``name(option=value)``; the exhaustive one where the budget covers the space.

    Unless ``max_evaluations`` is given, the budget is that of ``settings``, and an exhaustive search has no limit.

    Raises:
        UsageError: the name or an option is not known, or a package is missing.
    """
    chosen, budget = STRATEGIES.parse(name), max_evaluations
    if chosen.name != "exhaustive":
        budget = settings.evaluations if budget is None else budget
        if has_at_most(budget, sizes, feasible):
            chosen = STRATEGIES["exhaustive"]
    bounds: Bounds = {"feasible": feasible, "max_evaluations": budget}
    return chosen.start(SearchProblem(sizes, bounds, settings, seed, prior))
