"""Score a pipeline on labelled questions, and measure its latency."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ragsmith.assessment.pairwise import announce_look, check_unseen, select_questions
from ragsmith.diagnosis.causes import good_score_threshold
from ragsmith.display import short_repr
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import HEADLINE, Fitness
from ragsmith.evaluation.latency import describe_machine
from ragsmith.evaluation.selective import count_answers
from ragsmith.exported.pipeline import Pipeline
from ragsmith.gateway.budget import Prices
from ragsmith.records.objectives import PRICED_COUNTS, Unpriced, price_per_question, store_timings
from ragsmith.reporting.results import latency_percentiles, mean_score
from ragsmith.reporting.values import Latency, Score
from ragsmith.store.store import Store
from ragsmith.systems.system import System
from ragsmith.text import numbers
from ragsmith.text.table import Table, counts, texts
from ragsmith.types import Example


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """Scores on a part of the questions: counts, means by measure, and failures by question.

    ``risk`` describes the share of wrong answers beside the stated one, if the pipeline was calibrated to one.
    """

    attempted: int
    scored: int
    failed: int
    metrics: Mapping[str, Score]
    failures: Mapping[str, Mapping[str, Any]]
    risk: str = ""

    @property
    def table(self) -> Table:
        """The mean of each measure with its interval."""
        rows = [
            (
                name if found.n is None else f"{name} (n {found.n})",
                f"{found.mean:.4f}",
                numbers.interval(found.low, found.high, digits=4),
            )
            for name, found in self.metrics.items()
        ]
        counted = f"{self.attempted} attempted = {self.scored} scored + {self.failed} failed"
        return Table(counted, (*texts("metric"), *counts("mean"), *texts("95 % interval")), rows)


@dataclass(frozen=True, slots=True)
class Money:
    """The cost of 1,000 questions, estimated from ``n`` of them; ``why`` is the reason if it is unknown."""

    per_1000: float | None
    n: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class PipelineScores:
    """The scores of a pipeline on a data set, for the ``search`` and ``test`` questions, or for ``all``.

    ``latency`` is of all questions by stage, and in total by question type and by kind of document, on ``machine``.
    ``money`` is None without prices, and that which the rows of another system state. ``flattered`` is whether the
    pipeline was chosen on all of these questions, as the winner of a crossfit is.
    """

    dataset: str
    parts: Mapping[str, ScoredQuestion]
    latency: tuple[Latency, ...] = ()
    machine: str = ""
    money: Money | None = None
    flattered: bool = False

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        shown = (
            replace(one.table, caption=f"{part} questions: {one.table.caption}") for part, one in self.parts.items()
        )
        return "".join(table._repr_html_() for table in shown)

    @property
    def complete(self) -> bool:
        """Whether every question has a score."""
        return not any(scored.failed for scored in self.parts.values())


def evaluate(
    pipeline: Pipeline,
    store: Store,
    *,
    at_home: bool,
    part: str | None = None,
    workers: int = 1,
    latency: bool = False,
    prices: Prices | None = None,
    day: str,
    on_look: Callable[[str], None] | None = None,
) -> PipelineScores:
    """Score ``pipeline`` on the questions of its data set, through the store.

    ``at_home`` is whether the search ran on this data set: its two splits are then scored separately, without test
    questions that it did not test on; for the winner of a crossfit, all are search questions. A ``part`` is scored
    alone, and is a look on this ``day`` if it has such test questions. With ``latency``, every question is also
    timed, with new requests to paid models, and the timings are stored for reports.
    """
    data = pipeline.setup.dataset
    if not data.examples:
        raise WrongOption(
            "dataset", "must name a data set that has some", f"{data.name!r} has no questions to score by"
        )
    parts: dict[str, Sequence[Example]] = {"all": data.examples}
    divided = pipeline.setup.split
    if pipeline.chosen_on_all:
        parts = {"search": divided.search}
    elif at_home and divided.test:
        parts = {"search": divided.search, **({"test": divided.test} if "test" in pipeline.expected else {})}
    if part:
        check_unseen([("the pipeline", pipeline)], part)
        parts = {part: select_questions(pipeline.setup, pipeline.fitness, part)}
        if part != "search" and divided.test and "test" not in pipeline.expected:
            compared = [(pipeline.setup, pipeline.candidate)]
            announce_look(store, pipeline.fitness, compared, parts[part], on_look, "counted")(day)
    found = {part: pipeline.evaluate(store, examples, workers=workers) for part, examples in parts.items()}
    scored = {
        part: replace(_score_questions(evaluation, pipeline.fitness), risk=_describe_risk(evaluation, pipeline, part))
        for part, evaluation in found.items()
    }
    money = None if prices is None else _estimate_money(pipeline, found.values(), prices)
    if isinstance(pipeline, System) and (costs := pipeline.costs(data.examples)):
        money = Money(1000 * math.fsum(costs) / len(costs), len(costs))
    if not latency:
        return PipelineScores(data.name, scored, money=money, flattered=pipeline.chosen_on_all)
    machine = describe_machine()
    timings = pipeline.timings(data.examples)
    for key in {evaluation.key for evaluation in found.values()}:
        store_timings(store, key, data.digest, machine, timings)
    return PipelineScores(
        data.name,
        scored,
        latency_percentiles(timings, partial(_groups, pipeline.setup)),
        machine,
        money,
        pipeline.chosen_on_all,
    )


def evaluate_changed(before: Pipeline, after: Pipeline, store: Store, *, workers: int = 1) -> PipelineScores:
    """Score a pipeline ``before`` and ``after`` its documents changed, on the questions that both have."""
    remaining = {example.id for example in after.setup.dataset.examples}
    examples = [example for example in before.setup.dataset.examples if example.id in remaining]
    if not examples:
        raise UsageError(f"no question of {before.setup.dataset.name!r} has its evidence in these documents")
    found = {
        "before": before.evaluate(store, examples, workers=workers),
        "after": after.evaluate(store, workers=workers),
    }
    scored = {part: _score_questions(evaluation, before.fitness) for part, evaluation in found.items()}
    return PipelineScores(before.setup.dataset.name, scored)


def _estimate_money(pipeline: Pipeline, found: Iterable[Evaluation], prices: Prices) -> Money:
    """Return the cost by the recorded calls and tokens, which include those of cached replies."""
    each = list(found)
    n = sum(len(evaluation.records) for evaluation in each)
    price = price_per_question(pipeline.setup.loaded_models, prices)
    if isinstance(price, Unpriced):
        return Money(None, n, price.why.removeprefix("but ").removeprefix("which "))
    usage = [math.fsum(value for one in each for value in one.values(name)) / max(n, 1) for name in PRICED_COUNTS]
    return Money(1000 * price.cost(*usage), n)


def _groups(setup: Experiment, question: str) -> tuple[str, ...]:
    """Return the groups of a question: its type, and the kind of document of its evidence."""
    example = setup.examples[question]
    return f"type {example.type}", f"evidence in {setup.modality(example)}"


def _describe_risk(evaluation: Evaluation, pipeline: Pipeline, part: str) -> str:
    stated = pipeline.stated_risk
    if not stated:
        return ""
    counts = count_answers(evaluation, good_score_threshold(pipeline.setup, tested=part == "test"))
    shares = f"{100 * stated['at_most']:g} %, with {100 * stated['confidence']:g} % confidence"
    return f"{counts.describe()}; stated: at most {shares}"


def _score_questions(evaluation: Evaluation, fitness: Fitness) -> ScoredQuestion:
    columns = {name: evaluation.values(name, fitness) for name in (*HEADLINE, *evaluation.measures)}
    scored = len(evaluation.records)
    metrics = {name: mean_score(values, scored) for name, values in columns.items() if values}
    counts = len(evaluation.questions), len(evaluation.records), len(evaluation.failures)
    return ScoredQuestion(*counts, metrics, evaluation.failures)
