"""Search strategies: algorithms that choose the next genomes to evaluate from the scores of earlier ones."""

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
    Observation,
    Population,
    Prior,
    Pruned,
    Sizes,
    SteppedSearch,
    always_feasible,
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
    "Observation",
    "Population",
    "Prior",
    "Pruned",
    "RandomSearch",
    "SearchProblem",
    "Sizes",
    "SteppedSearch",
    "TPESearch",
    "always_feasible",
    "make_strategy",
]


def make_strategy(
    name: str,
    sizes: Sizes,
    settings: GeneticSettings = PRESETS["default"],
    *,
    seed: int = 42,
    feasible: Feasible = always_feasible,
    max_evaluations: int | None = None,
    prior: Prior | None = None,
) -> SteppedSearch:
    """Create the strategy ``name`` or ``name(option=value)``; exhaustive search if the budget covers the whole space.

    Without ``max_evaluations``, the budget of ``settings`` applies, except to exhaustive search, which has no limit.

    Raises:
        UsageError: the name or an option is unknown, or a package is not installed.
    """
    chosen, budget = STRATEGIES.parse(name), max_evaluations
    if chosen.name != "exhaustive":
        budget = settings.evaluations if budget is None else budget
        if has_at_most(budget, sizes, feasible):
            chosen = STRATEGIES["exhaustive"]
    bounds: Bounds = {"feasible": feasible, "max_evaluations": budget}
    return chosen.start(SearchProblem(sizes, bounds, settings, seed, prior))
