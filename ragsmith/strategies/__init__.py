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

Make = Callable[[Sizes, GeneticSettings, Repair, int | None], Strategy]


def _genetic(sizes: Sizes, settings: GeneticSettings, repair: Repair, limit: int | None) -> Strategy:
    return GeneticSearch(sizes, settings, repair=repair, max_evaluations=limit)


def _random(sizes: Sizes, settings: GeneticSettings, repair: Repair, limit: int | None) -> Strategy:
    limit = settings.evaluations if limit is None else limit
    return RandomSearch(sizes, seed=settings.seed, batch=settings.population, repair=repair, max_evaluations=limit)


def _tpe(sizes: Sizes, settings: GeneticSettings, repair: Repair, limit: int | None) -> Strategy:
    limit = settings.evaluations if limit is None else limit
    return TPESearch(sizes, seed=settings.seed, repair=repair, max_evaluations=limit)


def _greedy(sizes: Sizes, settings: GeneticSettings, repair: Repair, limit: int | None) -> Strategy:
    return GreedySearch(sizes, repair=repair, max_evaluations=limit)


def _exhaustive(sizes: Sizes, settings: GeneticSettings, repair: Repair, limit: int | None) -> Strategy:
    return ExhaustiveSearch(sizes, repair=repair, max_evaluations=limit)


STRATEGIES: Mapping[str, Make] = MappingProxyType(
    {"genetic": _genetic, "random": _random, "tpe": _tpe, "greedy": _greedy, "exhaustive": _exhaustive}
)


def make_strategy(
    name: str,
    sizes: Sizes,
    settings: GeneticSettings = PRESETS["default"],
    *,
    repair: Repair = identity,
    max_evaluations: int | None = None,
) -> Strategy:
    """The strategy called ``name`` for a space of these ``sizes``.

    The others take the seed from ``settings``, and those without an end of their own (random, tpe) also their limit:
    as many genomes as the genetic search could score. Raises `UsageError` for an unknown name, listing the known.
    """
    check_choice("strategy", name, STRATEGIES)
    return STRATEGIES[name](sizes, settings, repair, max_evaluations)
