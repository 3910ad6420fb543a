"""What a search may weigh against quality, and what a pipeline costs by it: lower is better.

Calls and money are means over questions of what was counted. Latency is measured, and differs each time: it is kept, so
that a search which is run again on stored results goes the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ragsmith.digest import digest, fingerprint
from ragsmith.errors import WrongOption
from ragsmith.evaluation.latency import Timer, this_machine
from ragsmith.gateway.budget import Price, Prices
from ragsmith.models.calls import is_chat_model
from ragsmith.models.names import ModelName
from ragsmith.models.options import SERVED_OPTIONS
from ragsmith.models.roles import Models
from ragsmith.models.vector_stores import serves_one_process
from ragsmith.strategies.strategy import Costs

if TYPE_CHECKING:  # how evaluations are come by is no part of what they cost, nor of its fingerprint
    from ragsmith.evaluation.evaluation import Evaluation
    from ragsmith.evaluation.experiment import Experiment
    from ragsmith.records.record import RunSettings

ANSWERING = ("language_model", "controller", "embedder", "cross_encoder")
"""The roles that a user waits for."""

NO_SECONDS = frozenset(SERVED_OPTIONS) - {"in_flight"} | {"accept_model", "thinking_tokens", "vector_store"}
"""Options that say where a model is served, when to give it up, and what to take of it. Vector stores count apart."""

LatencyOf: TypeAlias = "Callable[[Evaluation], float | None]"
"""The seconds that a pipeline takes for a question; None where that could not be measured."""

COUNTS = ("calls", "input_tokens", "output_tokens")
"""What of the usage of a question costs something."""


def priced(settings: RunSettings, models: Models, prices: Prices) -> RunSettings:
    """``settings`` with the price of what answers and techniques ask, where money is one of the objectives.

    Raises:
        UsageError: money is one, and what a question costs cannot be told.
    """
    if "money" not in settings.objectives:
        return settings
    price = price_of_a_question(models, prices)
    if isinstance(price, Unpriced):
        raise WrongOption("objectives", f"have money, {price.why}: {price.remedy}")
    return replace(settings, price=price)


@dataclass(frozen=True, slots=True)
class Unpriced:
    """Why it cannot be told what a question costs, and what who wants to weigh that can do."""

    why: str
    remedy: str = "weigh calls instead"


def price_of_a_question(models: Models, prices: Prices) -> Price | Unpriced:
    """The price of what answers and techniques ask for a question."""
    chats = list(dict.fromkeys(model.id for model in (models.language_model, models.asked) if is_chat_model(model)))
    if not chats:
        return Unpriced("but no chat model is asked, so nothing costs any", "leave it out")
    known = {model: prices.price_of(model) for model in chats}
    price = known[chats[0]]
    if price is None or None in known.values():
        unknown = ", ".join(model for model, its in known.items() if its is None)
        return Unpriced(f"which needs the price of {unknown}", "add it to the prices (--prices)")
    if any(other != price for other in known.values()):
        return Unpriced(
            "but the model that writes and the controller have two prices, and the tokens of a question are recorded "
            "as one sum"
        )
    if prices.price_of(models.cross_encoder.id):
        return Unpriced(f"but what {models.cross_encoder.id} costs a question is not recorded")
    return price


def on_this_machine(settings: RunSettings, setups: Iterable[Experiment]) -> RunSettings:
    """``settings`` with the machine that latency is measured on, where latency is one of the objectives."""
    if not settings.timed:
        return settings
    each = [setup.models for setup in setups]
    asked = [names.for_role(role) for names in each for role in ANSWERING]
    options = {digest(model.name, _taking_time(model)) for model in asked}
    stores = {(names.vectors_at.partition(":")[0], serves_one_process(names.vectors_at)) for names in each}
    measuring = digest(sorted(options), sorted(stores), fingerprint(Timer.__module__, Timer.__name__))
    return replace(settings, machine=settings.machine or this_machine(), measuring=measuring)


def _taking_time(model: ModelName) -> dict[str, Any]:
    """The options that determine no result, and may determine how long it takes."""
    return {name: value for name, value in model.given if name not in model.shaping.keys() | NO_SECONDS}


def costs(settings: RunSettings, usage: Mapping[str, float], latency: float | None = None) -> Costs | None:
    """What a question costs by each objective beside quality; its calls where there is none.

    ``usage`` are means, and ``latency`` is in seconds; where it is an objective and not known, nothing is.

    Raises:
        UsageError: money is an objective without a price.
    """
    if settings.timed and latency is None:
        return None
    known = {"calls": usage["calls"], "latency": latency or 0.0}
    others = settings.objectives[1:] or ("calls",)
    return tuple(_money(settings.price, usage) if name == "money" else known[name] for name in others)


def costs_of(settings: RunSettings, latency_of: LatencyOf, evaluation: Evaluation) -> Costs | None:
    """The same of an evaluation, over the questions that it finished, of which there is at least one."""
    finished = len(evaluation.records)
    usage = {name: math.fsum(evaluation.values(name)) / finished for name in COUNTS}
    return costs(settings, usage, latency_of(evaluation) if settings.timed else None)


def _money(price: Price | None, usage: Mapping[str, float]) -> float:
    if price is None:
        raise WrongOption("objectives", "have money, which needs prices")
    return price.cost(*(usage[name] for name in COUNTS))
