"""A search strategy decides which genomes to evaluate next. It is told their scores and never sees a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ragsmith.strategies.exhaustive import ExhaustiveSearch
from ragsmith.strategies.genetic import PRESETS, GeneticSearch, GeneticSettings, check_choice
from ragsmith.strategies.greedy import GreedySearch
from ragsmith.strategies.random_search import RandomSearch
from ragsmith.strategies.strategy import Generation, Genome, Repair, Sizes, Strategy, identity
from ragsmith.strategies.tpe import TPESearch

__all__ = [
    "PRESETS",
    "STRATEGIES",
    "ExhaustiveSearch",
    "Generation",
    "GeneticSearch",
    "GeneticSettings",
    "Genome",
    "GreedySearch",
    "RandomSearch",
    "Repair",
    "Sizes",
    "Strategy",
    "TPESearch",
    "make_strategy",
]

Make = Callable[[Sizes, GeneticSettings, int, Repair, int | None], Strategy]

STRATEGIES: Mapping[str, Make] = MappingProxyType(
    {
        "genetic": lambda sizes, settings, seed, repair, most: GeneticSearch(
            sizes, settings, seed=seed, repair=repair, max_evaluations=most
        ),
        "random": lambda sizes, settings, seed, repair, most: RandomSearch(
            sizes, seed=seed, batch=settings.population, repair=repair, max_evaluations=most
        ),
        "tpe": lambda sizes, settings, seed, repair, most: TPESearch(
            sizes, seed=seed, repair=repair, max_evaluations=most
        ),
        "greedy": lambda sizes, settings, seed, repair, most: GreedySearch(sizes, repair=repair, max_evaluations=most),
        "exhaustive": lambda sizes, settings, seed, repair, most: ExhaustiveSearch(
            sizes, repair=repair, max_evaluations=most
        ),
    }
)

ENDLESS = ("random", "tpe")
"""Strategies that go on until the space is used up, unless they are given a limit."""


def make_strategy(
    name: str,
    sizes: Sizes,
    settings: GeneticSettings = PRESETS["default"],
    *,
    seed: int = 42,
    repair: Repair = identity,
    max_evaluations: int | None = None,
) -> Strategy:
    """The strategy called ``name`` for a space of these ``sizes``.

    Those without an end of their own (random, tpe) take their limit from ``settings``:
    as many genomes as the genetic search could score. Raises `UsageError` for an unknown name, listing the known.
    """
    check_choice("strategy", name, STRATEGIES)
    if name in ENDLESS and max_evaluations is None:
        max_evaluations = settings.evaluations
    return STRATEGIES[name](sizes, settings, seed, repair, max_evaluations)
