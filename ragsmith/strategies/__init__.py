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


def _genetic(sizes: Sizes, settings: GeneticSettings, seed: int, repair: Repair, limit: int | None) -> Strategy:
    return GeneticSearch(sizes, settings, seed=seed, repair=repair, max_evaluations=limit)


def _random(sizes: Sizes, settings: GeneticSettings, seed: int, repair: Repair, limit: int | None) -> Strategy:
    limit = settings.evaluations if limit is None else limit
    return RandomSearch(sizes, seed=seed, batch=settings.population, repair=repair, max_evaluations=limit)


def _tpe(sizes: Sizes, settings: GeneticSettings, seed: int, repair: Repair, limit: int | None) -> Strategy:
    limit = settings.evaluations if limit is None else limit
    return TPESearch(sizes, seed=seed, repair=repair, max_evaluations=limit)


def _greedy(sizes: Sizes, settings: GeneticSettings, seed: int, repair: Repair, limit: int | None) -> Strategy:
    return GreedySearch(sizes, repair=repair, max_evaluations=limit)


def _exhaustive(sizes: Sizes, settings: GeneticSettings, seed: int, repair: Repair, limit: int | None) -> Strategy:
    return ExhaustiveSearch(sizes, repair=repair, max_evaluations=limit)


STRATEGIES: Mapping[str, Make] = MappingProxyType(
    {"genetic": _genetic, "random": _random, "tpe": _tpe, "greedy": _greedy, "exhaustive": _exhaustive}
)


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
    return STRATEGIES[name](sizes, settings, seed, repair, max_evaluations)
