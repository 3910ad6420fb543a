"""The costs that a search may weigh against quality (lower is better), and latencies in the store.

Calls and money are means of counts over questions. Latency is measured, and differs each time: it is stored, so that
the same search on stored results takes the same course.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias

from ragsmith.digest import digest, fingerprint
from ragsmith.errors import WrongOption
from ragsmith.evaluation.latency import describe_machine, measure_seconds, select_timed_questions
from ragsmith.gateway.budget import Price, Prices
from ragsmith.models.calls import is_chat_model
from ragsmith.models.names import ModelName
from ragsmith.models.options import SERVED_OPTIONS
from ragsmith.models.roles import Models
from ragsmith.models.vector_stores import serves_one_process
from ragsmith.pipelines.stages import COLD, WARM, StageTimes
from ragsmith.store.store import LatencyRow, Store
from ragsmith.strategies.strategy import Costs
from ragsmith.text.restoring import stored_by_other_code

if TYPE_CHECKING:  # for annotations, which are not part of the fingerprint
    from ragsmith.evaluation.evaluation import Evaluation
    from ragsmith.evaluation.experiment import Experiment
    from ragsmith.records.record import RunRecord, RunSettings


LATENCY_ROLES = ("language_model", "controller", "embedder", "cross_encoder")
"""The roles that determine latency."""

OPTIONS_WITHOUT_LATENCY = frozenset(SERVED_OPTIONS) - {"in_flight"} | {
    "accept_model",
    "thinking_tokens",
    "vector_store",
}
"""Options that do not determine latency: addresses, failures, parameters. Vector stores are handled separately."""

LatencyOf: TypeAlias = "Callable[[Evaluation], float | None]"
"""Returns the seconds of a pipeline for a question; None if they could not be measured."""

PRICED_COUNTS = ("calls", "input_tokens", "output_tokens")
"""The usage of a question that has a price."""


def with_price(settings: RunSettings, models: Models, prices: Prices) -> RunSettings:
    """Return ``settings`` with the price of a question, if money is one of the objectives.

    Raises:
        UsageError: money is an objective, and the price of a question is unknown.
    """
    if "money" not in settings.objectives:
        return settings
    price = price_per_question(models, prices)
    if isinstance(price, Unpriced):
        raise WrongOption("objectives", f"have money, {price.why}: {price.remedy}")
    return replace(settings, price=price)


@dataclass(frozen=True, slots=True)
class Unpriced:
    """The reason why the price of a question is unknown, and a remedy."""

    why: str
    remedy: str = "weigh calls instead"


def price_per_question(models: Models, prices: Prices) -> Price | Unpriced:
    """Return the price of the chat models that answer a question, or why it is unknown."""
    chats = list(
        dict.fromkeys(model.id for model in (models.language_model, models.technique_model) if is_chat_model(model))
    )
    if not chats:
        return Unpriced("but no chat model is used, so there is no cost", "leave it out")
    known = {model: prices.get_price(model) for model in chats}
    price = known[chats[0]]
    if price is None or None in known.values():
        unknown = ", ".join(model for model, known_price in known.items() if known_price is None)
        return Unpriced(f"which needs the price of {unknown}", "add it to the prices (--prices)")
    if any(other != price for other in known.values()):
        return Unpriced(
            "but the generator and the controller have different prices, and only the sum of their tokens is recorded"
        )
    if prices.get_price(models.cross_encoder.id):
        return Unpriced(f"but the cost of {models.cross_encoder.id} for a question is not recorded")
    return price


def with_machine(settings: RunSettings, setups: Iterable[Experiment]) -> RunSettings:
    """Return ``settings`` with the machine that latency is measured on, if latency is one of the objectives."""
    if not settings.timed:
        return settings
    each = [setup.models for setup in setups]
    asked = [names.for_role(role) for names in each for role in LATENCY_ROLES]
    options = {digest(model.name, _latency_options(model)) for model in asked}
    stores = {
        (names.vector_store_address.partition(":")[0], serves_one_process(names.vector_store_address)) for names in each
    }
    measuring = digest(
        sorted(options), sorted(stores), fingerprint(measure_seconds.__module__, measure_seconds.__name__)
    )
    return replace(settings, machine=settings.machine or describe_machine(), measuring=measuring)


def _latency_options(model: ModelName) -> dict[str, Any]:
    """Return the options that may change the latency, but no result."""
    return {
        name: value
        for name, value in model.option_items
        if name not in model.result_options.keys() | OPTIONS_WITHOUT_LATENCY
    }


def compute_costs(settings: RunSettings, usage: Mapping[str, float], latency: float | None = None) -> Costs | None:
    """Return the costs of a question by each objective besides quality, or its calls if there is none.

    ``usage`` are means, ``latency`` is in seconds. None if latency is an objective and unknown.

    Raises:
        UsageError: money is an objective without a price.
    """
    if settings.timed and latency is None:
        return None
    known = {"calls": usage["calls"], "latency": latency or 0.0}
    others = settings.objectives[1:] or ("calls",)
    return tuple(_compute_money(settings.price, usage) if name == "money" else known[name] for name in others)


def compute_evaluation_costs(settings: RunSettings, latency_of: LatencyOf, evaluation: Evaluation) -> Costs | None:
    """Return the `compute_costs` of an evaluation over the questions that it finished, at least one."""
    finished = len(evaluation.records)
    usage = {name: math.fsum(evaluation.values(name)) / finished for name in PRICED_COUNTS}
    return compute_costs(settings, usage, latency_of(evaluation) if settings.timed else None)


def _compute_money(price: Price | None, usage: Mapping[str, float]) -> float:
    if price is None:
        raise WrongOption("objectives", "have money, which needs prices")
    return price.cost(*(usage[name] for name in PRICED_COUNTS))


TIMINGS_KIND = "latency"
"""The kind of the findings of ``evaluate --latency``: seconds by machine, question, state and stage."""


def load_latencies(store: Store, record: RunRecord, evaluations: Iterable[Evaluation]) -> dict[str, float]:
    """Return the median seconds of the pipelines of a run that were timed on all their questions, by key."""
    asked = {one.key: select_timed_questions(record.split.order, one.records) for one in evaluations}
    machine = record.settings.measured_on
    rows = store.latencies(asked, machine) if machine else {}
    found = {key: median_seconds(rows[key], asked[key]) for key in rows}
    return {key: seconds for key, seconds in found.items() if seconds is not None}


@stored_by_other_code("the timings of a pipeline")
def store_timings(store: Store, evaluation: str, dataset: str, machine: str, timings: Iterable[StageTimes]) -> None:
    """Store timings of ``evaluate --latency``, replacing those on the same kind of machine."""
    seconds: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for timing in timings:
        seconds[timing.question][timing.state] = dict(timing.seconds)
    before: Any = store.findings(TIMINGS_KIND, [evaluation]).get(evaluation, {})
    store.put_finding(TIMINGS_KIND, evaluation, dataset, {**before, machine: dict(seconds)})


def load_timings(store: Store, evaluations: Iterable[str]) -> dict[str, dict[str, list[StageTimes]]]:
    """Return the stored timings by evaluation and kind of machine, sorted by question."""
    found: dict[str, dict[str, list[StageTimes]]] = {}
    for evaluation, by_machine in store.findings(TIMINGS_KIND, evaluations).items():
        with stored_by_other_code("the timings of a pipeline", f"finding:{TIMINGS_KIND}/{evaluation}"):
            found[evaluation] = {
                machine: [
                    StageTimes(question, state, seconds[question][state])
                    for question in sorted(seconds)
                    for state in (WARM, COLD)
                    if state in seconds[question]
                ]
                for machine, seconds in sorted(by_machine.items())
            }
    return found


def median_seconds(rows: Mapping[str, LatencyRow], questions: Sequence[str]) -> float | None:
    """Return the median over ``questions``, or None if one is missing or there is none."""
    known = [rows[question].value for question in questions if question in rows and rows[question].state == "ok"]
    return median(known) if known and len(known) == len(questions) else None
