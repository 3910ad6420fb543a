"""A search strategy decides which genomes to evaluate next. It is told their scores and never sees a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypedDict

from ragsmith.strategies.exhaustive import ExhaustiveSearch
from ragsmith.strategies.genetic import PRESETS, GeneticSearch, GeneticSettings, check_choice
from ragsmith.strategies.greedy import GreedySearch
from ragsmith.strategies.random_search import RandomSearch
from ragsmith.strategies.strategy import (
    Dropped,
    Feasible,
    Generation,
    Genome,
    Prior,
    Sizes,
    Strategy,
    Told,
    anything,
)
from ragsmith.strategies.tpe import TPESearch

__all__ = [
    "PRESETS",
    "STRATEGIES",
    "Dropped",
    "ExhaustiveSearch",
    "Feasible",
    "Generation",
    "GeneticSearch",
    "GeneticSettings",
    "Genome",
    "GreedySearch",
    "Prior",
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


Make = Callable[[Sizes, GeneticSettings, int, Bounds], Strategy]

STRATEGIES: Mapping[str, Make] = MappingProxyType(
    {
        "genetic": lambda sizes, settings, seed, bounds: GeneticSearch(sizes, settings, seed=seed, **bounds),
        "random": lambda sizes, settings, seed, bounds: RandomSearch(
            sizes, seed=seed, batch=settings.population, **bounds
        ),
        "tpe": lambda sizes, settings, seed, bounds: TPESearch(sizes, seed=seed, **bounds),
        "greedy": lambda sizes, settings, seed, bounds: GreedySearch(sizes, **bounds),
        "exhaustive": lambda sizes, settings, seed, bounds: ExhaustiveSearch(sizes, **bounds),
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
    feasible: Feasible = anything,
    max_evaluations: int | None = None,
    prior: Prior | None = None,
) -> Strategy:
    """The strategy called ``name`` for a space of these ``sizes``.

    Those without an end of their own (random, tpe) take their limit from ``settings``: as many genomes as the genetic
    search could score. ``prior`` is what those that model the space begin with.

    Raises:
        UsageError: the name is not known.
    """
    check_choice("strategy", name, STRATEGIES)
    if name in ENDLESS and max_evaluations is None:
        max_evaluations = settings.evaluations
    return STRATEGIES[name](sizes, settings, seed, {"feasible": feasible, "max_evaluations": max_evaluations})
