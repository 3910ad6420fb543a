"""What a search may weigh against quality, and what a pipeline costs by it: means over questions, lower is better.

All of it is counted, nothing is timed, so a search that is run again on stored results goes the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ragsmith.errors import WrongOption
from ragsmith.gateway.budget import Price, Prices
from ragsmith.models.calls import completes
from ragsmith.models.roles import Models
from ragsmith.strategies.strategy import Costs

if TYPE_CHECKING:  # how evaluations are come by is no part of what they cost, nor of its fingerprint
    from ragsmith.evaluation.evaluator import Evaluation
    from ragsmith.runs.record import RunSettings

COUNTS = ("calls", "input_tokens", "output_tokens")
"""What of the usage of a question costs something."""


def priced(settings: RunSettings, models: Models, prices: Prices) -> RunSettings:
    """``settings`` with the price of what answers and techniques ask, where money is one of the objectives.

    Raises:
        UsageError: money is one, and what a question costs cannot be told.
    """
    if "money" not in settings.objectives:
        return settings
    chats = [model.id for model in (models.language_model, models.asked) if completes(model)]
    if not chats:
        raise WrongOption("objectives", "have money, but no chat model is asked, so nothing costs any: leave it out")
    found = [prices.of(model) for model in dict.fromkeys(chats)]
    if (price := found[0]) is None or None in found:
        unknown = ", ".join(model for model in dict.fromkeys(chats) if prices.of(model) is None)
        raise WrongOption(
            "objectives", f"have money, which needs the price of {unknown}: add it to the prices (--prices)"
        )
    if any(other != price for other in found):
        raise WrongOption(
            "objectives",
            "have money, but the model that writes and the controller have two prices, and the tokens of a question "
            "are recorded as one sum: weigh calls instead",
        )
    if prices.of(models.cross_encoder.id):
        raise WrongOption(
            "objectives",
            f"have money, but what {models.cross_encoder.id} costs a question is not recorded: weigh calls instead",
        )
    return replace(settings, price=price)


def costs(settings: RunSettings, usage: Mapping[str, float]) -> Costs:
    """What a question costs by each objective beside quality, from its mean ``usage``; its calls where there is none.

    Raises:
        UsageError: money is an objective without a price.
    """
    others = settings.objectives[1:] or ("calls",)
    return tuple(usage["calls"] if name == "calls" else _money(settings.price, usage) for name in others)


def costs_of(settings: RunSettings, evaluation: Evaluation) -> Costs:
    """The same of an evaluation, over the questions that it finished, of which there is at least one."""
    finished = len(evaluation.records)
    return costs(settings, {name: math.fsum(evaluation.values(name)) / finished for name in COUNTS})


def _money(price: Price | None, usage: Mapping[str, float]) -> float:
    if price is None:
        raise WrongOption("objectives", "have money, which needs prices")
    return price.of_counts(*(usage[name] for name in COUNTS))
