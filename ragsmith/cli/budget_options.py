"""The options that bound what a run may spend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ragsmith.gateway.budget import Limits, Prices
    from ragsmith.models.roles import Models

MaxCallsOption = Annotated[
    int | None, typer.Option("--max-calls", help="Most requests to send to servers, over all resumes of the search.")
]
MaxTokensOption = Annotated[
    int | None, typer.Option("--max-tokens", help="Most tokens that servers may read and write, over all resumes.")
]
MaxCostOption = Annotated[
    float | None, typer.Option("--max-cost", help="Most money to spend, in the currency of the price file.")
]
PricesOption = Annotated[
    Path | None, typer.Option("--prices", help="YAML: 'openai:MODEL: {input: ..., output: ...}' a million tokens.")
]


def limits_of(max_calls: int | None, max_tokens: int | None, max_cost: float | None) -> Limits:
    """The limits that flags name.

    Raises:
        UsageError: one is not above 0.
    """
    from ragsmith.gateway.budget import Limits

    return Limits(max_calls, max_tokens, max_cost)


def prices_of(file: Path | None, limits: Limits, models: Models) -> Prices:
    """The prices of the models of a run.

    Raises:
        UsageError: the file is wrong, or a limit on cost stands beside a model whose price nobody said.
    """
    from ragsmith.errors import UsageError
    from ragsmith.gateway.budget import Prices, read_prices

    prices = Prices() if file is None else read_prices(file)
    if limits.cost is not None:
        served = dict.fromkeys(
            model.id.partition("@")[0] for model in models.all() if getattr(model, "provider", None) is not None
        )
        unknown = [name for name in served if prices.of(name) is None]
        if unknown:
            where = "name a file with --prices" if file is None else f"add to {file}"
            raise UsageError(f"--max-cost needs the price of {', '.join(unknown)}: {where}")
    return prices
