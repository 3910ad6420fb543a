"""The settings of a search, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ragsmith.api.arguments import SettingChanges
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.racing import Racing
from ragsmith.records.record import CROSSFIT, WEIGHABLE, RunSettings, check_objective
from ragsmith.strategies import STRATEGIES
from ragsmith.strategies.settings import PRESETS, GeneticSettings, check_choice


def settings_of(settings: RunSettings | None, preset: str | None, changes: Mapping[str, Any]) -> RunSettings:
    """``settings``, or those of ``preset``, with what ``changes`` has a value for.

    Raises:
        UsageError: there is no such preset or setting, or both are given.
    """
    if settings is None:
        check_choice("preset", preset or "default", PRESETS)
        settings = RunSettings.preset(preset or "default")
    elif preset is not None:
        raise WrongOption("preset", "was given beside settings, which say the same: leave one of them out")
    given = {name: value for name, value in changes.items() if value is not None}
    if "folds" in given and given.get("verdict", settings.verdict) != CROSSFIT:
        raise WrongOption("folds", f"is {given['folds']}, and only a {CROSSFIT} has folds: add  --verdict {CROSSFIT}")
    if "objectives" in given:
        given |= _weighing(settings, given)
    if "race" in given:
        given["racing"] = (settings.racing or Racing()) if given.pop("race") else None
    if "fitness" in given:
        given["fitness"] = Fitness.of(given["fitness"])
    if "objective" in given:
        check_objective(given["objective"])
        given["fitness"] = given.get("fitness", settings.fitness).about(given.pop("objective"))
    of_the_run, genetic = (
        {field.name: given.pop(field.name) for field in fields(part) if field.name in given}
        for part in (RunSettings, GeneticSettings)
    )
    if "strategy" in of_the_run:
        of_the_run["strategy"] = str(STRATEGIES.parse(of_the_run["strategy"]))
    _check_read(of_the_run.get("strategy", settings.strategy), settings.genetic, genetic)
    for unread in given:
        if unread in SettingChanges.__annotations__:
            raise UsageError(f"the setting {unread!r} is declared and read by nothing: give RunSettings a field for it")
        check_choice("setting", unread, SettingChanges.__annotations__)
    return replace(settings, genetic=settings.genetic.changed(**genetic), **of_the_run)


def _check_read(strategy: str, before: GeneticSettings, changes: Mapping[str, Any]) -> None:
    """Raise WrongOption where the strategy, or the parts of it that are chosen, do not read a setting."""
    reads = STRATEGIES.parse(strategy).reads
    selection, mutation = (changes.get(name, getattr(before, name)) for name in ("selection", "mutation"))
    for name, value in changes.items():
        if name not in reads:
            others = " or ".join(known.name for known in STRATEGIES if name in known.reads)
            raise WrongOption(name, f"is {value}, and the strategy {strategy} does not read it, as {others} would")
        if name == "tournament" and selection != "tournament":
            raise WrongOption(name, f"is {value}, and parents are selected by {selection}: add  --selection tournament")
        if name in ("mutation_min", "mutation_max") and mutation != "adaptive":
            raise WrongOption(name, f"is {value}, and mutation is {mutation}: add  --mutation adaptive")


def _weighing(settings: RunSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """The objectives of ``given``, and what goes with several where nothing else is asked for: NSGA-II and no race."""
    asked = given["objectives"]
    names = [name.strip() for name in asked.split(",")] if isinstance(asked, str) else list(asked)
    found: dict[str, Any] = {"objectives": tuple(sorted(names, key=lambda name: (*WEIGHABLE, name).index(name)))}
    if len(names) > 1:
        found["race"] = given.get("race", False)
        found["strategy"] = given.get("strategy", "nsga2" if settings.strategy == "genetic" else settings.strategy)
    return found
