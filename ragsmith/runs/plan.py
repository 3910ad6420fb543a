"""Estimate the requests, tokens, money and seconds of a search before anything is spent.

The search is simulated on a sample of the questions, with stubs in place of costly models
(`stub_models`): they count requests, and answer from the cache where they can. The tokens and seconds of a request are
measured on replies in the cache, or assumed (`token_estimates`). The course of a search depends on replies and scores,
so a plan is an estimate.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, TypeVar

from ragsmith.datasets.splits import search_only_split
from ragsmith.evaluation.baselines import BASELINES, list_probes
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment, sort_examples
from ragsmith.evaluation.latency import TIMED_QUESTIONS, answer_alone, list_collection_texts, select_timed_questions
from ragsmith.gateway.budget import Budget, Prices, Spent
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway, TimingGateway
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.index.index import Corpus
from ragsmith.measures.faithfulness import CLAIMS, support_task
from ragsmith.measures.judge import JUDGE
from ragsmith.measures.planted_answers import plant_answers
from ragsmith.models.calls import StoredCall, is_chat_model, is_costly
from ragsmith.models.capabilities import find_learner
from ragsmith.models.names import ModelNames
from ragsmith.models.roles import Models
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.space import Space
from ragsmith.records.objectives import with_machine
from ragsmith.records.record import CROSSFIT, HELD_OUT, RunRecord, RunSettings, load_record
from ragsmith.runs.rankings import count_pipelines, resolve_rankings_first
from ragsmith.runs.run import Execution, Run, select_space
from ragsmith.runs.stub_models import (
    SCORE_PASSAGES,
    RequestCount,
    RequestCounts,
    add_counts,
    collection_requests,
    stub_models,
)
from ragsmith.runs.token_estimates import TokenEstimate, estimate_tokens
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.task_lookup import find_tasks
from ragsmith.types import Example

SAMPLED_ANSWERS = 5_000
"""Approximate number of answers to search questions, over all pipelines, that a plan without races simulates."""

MIN_SAMPLED_QUESTIONS = 15
"""Minimum number of search questions of a simulation without races."""

MAX_SIMULATIONS, MIN_QUESTIONS_PER_SIMULATION = 5, 3
"""Maximum number of simulations that share the sampled questions, and the minimum number of questions of each."""

RACED_QUESTIONS = 100
"""Search questions of a simulation with races; with fewer, races would prune candidates later, or never."""

RANGED_TOTALS = ("calls", "input_tokens", "output_tokens", "cost")
"""The totals for which a range is estimated."""

MAX_CACHED_REPLIES = 5_000
"""Maximum number of cached replies read for each model; more would not improve the means."""


Totals = dict[str, float | None]
"""Sums over lines of a plan, by field; the cost is None if a price is not known."""


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One kind of request of a plan; ``cost`` is None if the price is not known.

    ``seconds`` is the time until all replies arrive if the maximum number of requests is always in flight.
    """

    model: str
    request: str
    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class OptionalCost:
    """An optional part of a search: the cost of its requests, and the flag that leaves it out.

    Leaving out a family or the judge changes the course of a search, so the actual saving differs: a plan with the flag
    estimates it. For the random control, the numbers are the actual saving.
    """

    what: str
    flag: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None


@dataclass(frozen=True)
class SearchPlan:
    """The total cost of a search, and the cost of each optional part (``choices``).

    ``notes`` has the assumptions by model. ``genomes`` is the number of pipelines, or None if no model is costly, as
    nothing is simulated then; ``proposed`` is the maximum number of those that the strategy proposes
    (``max_evaluations``), and ``feasible`` the number of pipelines of the space. ``ranges`` has the minimum and
    maximum of each of ``totals`` over the simulations. With races (``raced``) there is one simulation, and the range
    is that of pruning every candidate one block of questions earlier or later.

    ``about_pipelines`` is the number of pipelines if the strategy uses up its budget and prunes none, and
    ``about_made`` the number of their outputs on the search questions: ``made`` says whether these are answers or
    rankings. Both exclude the recommended pipeline, the reference pipelines of options that are probed alone, the
    simplification of the winner and the test. If latency is an objective, ``timed`` is the number of questions that are
    answered once more, with lines of their own. For a crossfit all numbers are those of one search times ``searches``,
    and there are no ``choices``.
    """

    genomes: int | None
    questions: int
    sampled: int
    lines: tuple[PlanLine, ...] = ()
    choices: tuple[OptionalCost, ...] = ()
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    raced: bool = False
    timed: int = 0
    about_pipelines: int = 0
    made: str = "answers"
    about_made: int = 0
    searches: int = 1
    proposed: int = 0
    feasible: int = 0

    def for_searches(self, searches: int) -> SearchPlan:
        """Return an upper bound of the cost of several searches of this size, which may share requests."""
        return replace(
            _scale(self, searches, ("genomes", "timed", "about_pipelines", "about_made", "proposed")),
            lines=tuple(_scale(line, searches, (*COUNT_FIELDS, "cost")) for line in self.lines),
            choices=(),
            ranges={name: (low * searches, high * searches) for name, (low, high) in self.ranges.items()},
            searches=searches,
        )

    @property
    def spending(self) -> Spent:
        """The sums over all lines as an amount of spending, without money if a price is not known."""
        calls, read, written = (round(self.totals[name] or 0) for name in ("calls", "input_tokens", "output_tokens"))
        return Spent(calls, read + written, self.totals["cost"] or 0.0)

    @property
    def totals(self) -> Totals:
        """The sums over all lines, by field; the cost is None if a price is not known."""
        return _totals(self.lines)


COUNT_FIELDS = ("calls", "cached", "input_tokens", "output_tokens", "seconds")
"""Fields of a line that are never None."""

Row = TypeVar("Row", PlanLine, SearchPlan)


def _scale(row: Row, factor: int, names: Sequence[str]) -> Row:
    values = {name: getattr(row, name) for name in names}
    scaled: dict[str, Any] = {name: None if value is None else value * factor for name, value in values.items()}
    return replace(row, **scaled)


@dataclass(frozen=True)
class _SimulatedExperiment(Experiment):
    """An experiment with stub models; ``get_engine`` returns the engine of an experiment, which simulations share."""

    get_engine: Callable[[Experiment], Engine] = field(kw_only=True)

    counts_looks = False

    @property
    def loaded_models(self) -> Models:
        """The models of the engine."""
        return self.get_engine(self).models

    @property
    def corpus(self) -> Corpus:
        """The corpus of the engine."""
        return self.get_engine(self).corpus

    def engine(
        self,
        store: CallStore | None = None,
        budget: Budget | None = None,
        failures: Failures | None = None,
        *,
        gateway: Gateway | None = None,
        room: EvictionPolicy | None = None,
    ) -> Engine:
        """Return the shared engine for these chunks and models."""
        return self.get_engine(self)


def plan(
    setup: Experiment,
    space: Space,
    store: Store,
    settings: RunSettings | None = None,
    *,
    prices: Prices | None = None,
    latency: float | None = None,
    in_flight: int | None = None,
    sample: int | None = None,
) -> SearchPlan:
    """Simulate a search on up to ``sample`` of its search questions and estimate the cost of all of them.

    By default, ``sample`` is 100 with races; without races, it is larger the fewer pipelines are searched. ``latency``
    is the seconds of a request, by default as measured on replies in ``store``, and ``in_flight`` the number of
    concurrent requests, by default that of the provider.
    """
    settings = settings or RunSettings()
    setup = setup.with_searched_settings(space.settings).for_fitness(settings.fitness)
    settings = resolve_rankings_first(with_machine(settings, setup.variants), setup)
    is_crossfit = settings.verdict == CROSSFIT
    searched = replace(setup, fixed_split=search_only_split(setup.dataset)) if is_crossfit else setup
    space = select_space(searched, space, store, settings)[0]
    settings = replace(settings, verdict=HELD_OUT)  # of each search of a crossfit
    found = _plan_search(setup, space, store, settings, prices or Prices(), latency, in_flight, sample)
    return found.for_searches(settings.folds + 1) if is_crossfit else found


def _plan_search(
    setup: Experiment,
    space: Space,
    store: Store,
    settings: RunSettings,
    prices: Prices,
    latency: float | None,
    in_flight: int | None,
    sample: int | None,
) -> SearchPlan:
    """Plan a search of exactly ``space``; the arguments are those of `plan`."""
    models = {model.id: model for variant in setup.variants for model in variant.loaded_models.all()}
    about, proposed = estimate_pipeline_count(space, settings), _max_proposals(space, settings)
    if not any(map(is_costly, models.values())):
        return SearchPlan(
            None,
            len(setup.dataset.examples),
            0,
            about_pipelines=about,
            made=settings.fitness.output_name,
            about_made=about * len(setup.split.search),
            proposed=proposed,
            feasible=space.feasible_size,
        )
    stored = {}
    for model in filter(is_chat_model, models.values()):
        if (learner := find_learner(model)) and (known := store.capabilities(model.id)):
            learner.restore(known)
        stored[model.id] = store.sample_calls(model.id, MAX_CACHED_REPLIES)
    size = RACED_QUESTIONS if settings.racing else max(MIN_SAMPLED_QUESTIONS, SAMPLED_ANSWERS // about)
    samples = _draw_samples(setup, sample or size, 1 if settings.racing else MAX_SIMULATIONS)
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "plan.sqlite") as scratch:
        simulator = _Simulator(setup, space, store, scratch, settings, stored)
        simulations = simulator.simulate_all(samples)
    counted = add_counts(*(one.search for one in simulations), *(one.control for one in simulations))
    estimates, notes = {}, {}
    for model in models.values():
        model_counts = {request: count for (name, request), count in counted.items() if name == model.id}
        if model_counts:
            estimates[model.id], notes[model.id] = estimate_tokens(
                model, stored.get(model.id, ()), model_counts, latency, in_flight
            )
    costs = _Costs(estimates, prices, len(setup.dataset.examples))
    return replace(
        _build_plan(setup, space, settings, samples, simulations, costs, simulator.timed),
        notes=notes,
        proposed=proposed,
        feasible=space.feasible_size,
    )


def _plan_planted(setup: Experiment, counted: RequestCounts, costs: _Costs) -> tuple[PlanLine, ...]:
    """Plan the requests for the check of the judge, as long as its other ones; none if the cache has verdicts of it."""
    judged = setup.loaded_models.judge.id, JUDGE.name
    known = counted.get(judged, RequestCount())
    if not known.needed or JUDGE.name in costs.estimates[judged[0]].tasks:
        return ()
    n = 2 * len(plant_answers(setup.split.search))
    characters = (n * total // known.needed for total in (known.prompt_characters, known.reply_characters))
    lines = costs.lines({judged: RequestCount(n, 0, *characters)}, costs.questions)
    return tuple(replace(line, request=f"{line.request}, planted answers") for line in lines)


def _build_plan(
    setup: Experiment,
    space: Space,
    settings: RunSettings,
    samples: Sequence[Sequence[Example]],
    simulations: Sequence[_Simulation],
    costs: _Costs,
    timed: _TimedRequests,
) -> SearchPlan:
    """Build the plan from the simulations on ``samples``."""
    sampled = sum(map(len, samples))
    counted = add_counts(*(one.search for one in simulations), *(one.control for one in simulations))
    lines, planted = costs.lines(counted, sampled), _plan_planted(setup, counted, costs)
    lines += planted
    again = {asked: count for asked, count in timed.counts.items() if asked[0] not in timed.chat}
    questions = timed.pipelines * min(TIMED_QUESTIONS, len(setup.split.search)) / len(samples)
    if questions:  # the number of timed questions of a pipeline does not depend on the number of questions
        times = costs.lines(again, costs.questions * timed.questions / questions)
        lines += tuple(replace(line, request=f"{line.request}, timed") for line in times)
    uncontrolled = None
    if settings.control != "none":
        uncontrolled = costs.lines(add_counts(*(one.search for one in simulations)), sampled) + planted
    if settings.racing:
        ranges = _pruning_ranges(lines, simulations[0].pruning_factors) if simulations[0].pruning_factors else {}
    else:
        shared = {asked: count for asked, count in counted.items() if asked[1] in collection_requests()}
        ranges = _simulation_ranges(
            [
                _totals(costs.lines(add_counts(one.search, one.control) | shared, len(examples)))
                for examples, one in zip(samples, simulations, strict=True)
            ]
        )
    return SearchPlan(
        round(fmean(one.pipelines for one in simulations)),
        costs.questions,
        sampled,
        lines,
        tuple(_optional_costs(setup, space, lines, uncontrolled)),
        ranges=ranges,
        raced=settings.racing is not None,
        timed=round(questions),
    )


def estimate_pipeline_count(space: Space, settings: RunSettings) -> int:
    """Return the approximate number of pipelines of a search that uses up its budget; see `SearchPlan`."""
    probed = len(list_probes(space)) if settings.probes and not settings.rankings_first else 0
    return len(BASELINES) + probed + (2 if settings.control == "random" else 1) * _max_proposals(space, settings)


def _max_proposals(space: Space, settings: RunSettings) -> int:
    """Return the maximum number of pipelines that the strategy proposes."""
    unless_given = space.feasible_size if settings.strategy_name == "exhaustive" else settings.genetic.evaluations
    if settings.rankings_first:
        unless_given = count_pipelines(settings)[1]
    return min(space.feasible_size, settings.max_evaluations or unless_given)


def _draw_samples(setup: Experiment, sample: int, simulations: int) -> list[list[Example]]:
    """Draw questions for up to ``simulations`` simulations, in the proportion of search and test questions of the
    split.

    Between 80 % and 100 % of ``sample`` search questions are drawn, the number that preserves the proportion best, as
    the requests for both are scaled by the same factor.
    """
    parts = setup.split
    searched, tested = len(parts.search), len(parts.test)
    max_size = min(sample, searched)

    def test_questions(size: int) -> int:
        return round(size * tested / searched)

    size = min(
        range(max_size, math.ceil(0.8 * max_size) - 1, -1), key=lambda n: abs(n * tested - test_questions(n) * searched)
    )
    number = max(1, min(simulations, size // MIN_QUESTIONS_PER_SIMULATION))
    samples: list[list[Example]] = [[] for _ in range(number)]
    for name, examples, wanted in (("search", parts.search, size), ("test", parts.test, test_questions(size))):
        for i, example in enumerate(Random(0).sample(sort_examples(examples), wanted)):
            samples[i % number].append(replace(example, split=name))
    return samples


@dataclass
class _TimedRequests:
    """The requests of all simulations that time pipelines, and the numbers of these pipelines and their questions."""

    counts: RequestCounts = field(default_factory=dict)
    chat: set[str] = field(default_factory=set)
    pipelines: int = 0
    questions: int = 0


@dataclass(frozen=True, slots=True)
class _Simulation:
    """The number of pipelines of a simulation, and the requests of the ``search`` and of the random ``control``.

    ``pruning_factors`` are the factors by which the number of answers changes if every candidate is pruned one block of
    questions earlier, or later.
    """

    pipelines: int
    search: RequestCounts
    control: RequestCounts
    pruning_factors: tuple[float, float] | None = None


class _Simulator:
    """Simulates a search with stub models, without any request; results are written to the store ``scratch``."""

    def __init__(
        self,
        setup: Experiment,
        space: Space,
        store: Store,
        scratch: Store,
        settings: RunSettings,
        stored: Mapping[str, Sequence[StoredCall]],
    ) -> None:
        """``stored`` has replies in ``store`` by the id of their model."""
        self._setup = setup
        self._space = space
        self._store = store
        self._scratch = scratch
        self._settings = settings
        self._stored = stored
        self._counts: RequestCounts = {}
        self._gateway = Gateway()
        self._engines: dict[tuple[int, int, ModelNames], Engine] = {}
        self._timed_models: dict[int, Models] = {}
        self._calls: dict[tuple[str, tuple[str, ...]], float] = {}
        self.timed = _TimedRequests()

    def simulate_all(self, samples: Sequence[Sequence[Example]]) -> list[_Simulation]:
        """Simulate on each of ``samples``, with and without the random control.

        The course of a search depends on the questions, so several simulations estimate the mean better than one, and
        show the variation between searches.
        """
        found = [self._simulate(examples, "none") for examples in samples]
        control = self._settings.control
        if control != "none":  # the strategy proposes the same candidates, so only the control is computed
            whole = [self._simulate(examples, control) for examples in samples]
            found = [
                replace(both, search=one.search, control=both.search) for one, both in zip(found, whole, strict=True)
            ]
        return found

    def _simulate(self, examples: Sequence[Example], control: str) -> _Simulation:
        setup = self._setup
        simulated = _SimulatedExperiment(
            replace(setup.dataset, examples=tuple(sort_examples(examples))),
            setup.models,
            setup.chunk_size,
            setup.checks_claims,
            chunk_overlap=setup.chunk_overlap,
            gap=setup.gap,
            get_engine=self._engine,
        )
        latency_of = partial(self._latency_of, simulated.with_searched_settings(self._space.settings))
        settings = replace(
            self._settings,
            control=control,
            time_limit=None,
            noise=math.ceil(self._settings.noise * len(examples) / len(setup.dataset.examples)),
        )
        execution = Execution(latency_of=latency_of)
        outcome = Run(simulated, self._space, self._scratch, settings, execution=execution).go()
        counts = dict(self._counts)
        self._counts.clear()
        pipelines = len({key for key, _ in outcome.evaluations})
        record = load_record(self._scratch, outcome.key)
        assert record is not None
        return _Simulation(pipelines, counts, {}, _pruning_factors(record, pipelines))

    def _engine(self, wanted: Experiment) -> Engine:
        """Return the engine with stub models for the chunks and models of an experiment."""
        cut = wanted.chunk_size, wanted.chunk_overlap, wanted.models
        if cut not in self._engines:
            variants = self._setup.variants
            variant = next(one for one in variants if (one.chunk_size, one.chunk_overlap, one.models) == cut)
            chunks = variant.corpus.chunks
            stubs = partial(
                stub_models,
                variant.loaded_models,
                [chunk.text for chunk in chunks],
                stored_calls=self._stored,
                racing=self._settings.racing is not None,
                languages=[chunk.language for chunk in chunks],
            )
            engine = Engine(variant.corpus, stubs(store=self._store, counts=self._counts), self._gateway)
            self._engines[cut] = engine
            self._timed_models[id(engine)] = stubs(store=self._scratch, counts=self.timed.counts)
            self.timed.chat |= {model.id for model in variant.loaded_models.all() if is_chat_model(model)}
        return self._engines[cut]

    def _latency_of(self, simulated: Experiment, evaluation: Evaluation) -> float:
        """Make the requests that time a pipeline, once; each call of a chat model is assumed to take a second."""
        timed, candidate = (evaluation.key, evaluation.questions), evaluation.candidate
        if timed not in self._calls:  # simulations have the same pipelines, on other questions
            engine = self._engine(simulated.for_candidate(candidate))
            gateway = TimingGateway(self._gateway, list_collection_texts(engine, candidate))
            for question in select_timed_questions(simulated.order, evaluation.records):
                fresh = Engine(engine.corpus, self._timed_models[id(engine)], gateway)
                asked = simulated.examples[question].as_question
                answer_alone(fresh, engine, candidate, asked, ranking_only=self._settings.fitness.ranking_only)
                self.timed.questions += 1
            self.timed.pipelines += 1
            self._calls[timed] = fmean(evaluation.values("calls"))
        return self._calls[timed]


@dataclass(frozen=True)
class _Costs:
    """The token estimates and prices of a plan for ``questions`` questions."""

    estimates: Mapping[str, TokenEstimate]
    prices: Prices
    questions: int

    def lines(self, counts: RequestCounts, sampled: float) -> tuple[PlanLine, ...]:
        """Scale requests counted on ``sampled`` questions to all, except those for the collection, and price them."""
        once = collection_requests()

        def line(model: str, request: str, count: RequestCount) -> PlanLine:
            scale = 1.0 if request in once else self.questions / sampled
            usage, price = self.estimates[model].usage(request, count, scale), self.prices.get_price(model)
            return PlanLine(
                model,
                request,
                usage.calls,
                math.ceil(count.cached * scale),
                usage.input_tokens,
                usage.output_tokens,
                None if price is None else price.cost(usage.calls, usage.input_tokens, usage.output_tokens),
                usage.seconds,
            )

        lines = [line(*asked, count) for asked, count in counts.items()]
        return tuple(sorted(lines, key=lambda line: (line.model, -line.calls, line.request)))


def _pruning_factors(record: RunRecord, pipelines: int) -> tuple[float, float] | None:
    """Return ``pruning_factors`` of `_Simulation`; None if no candidate was pruned."""
    if not record.dropped or record.settings.racing is None:
        return None
    questions = len(record.split.search)
    looks = (0, *record.settings.racing.looks(questions))
    pruned = [dropped.questions for dropped in record.dropped.values()]
    finished = (pipelines - len(pruned)) * questions
    sooner = sum(max((look for look in looks if look < answers), default=0) for answers in pruned)
    later = sum(min(look for look in looks if look > answers) for answers in pruned)
    answers = finished + sum(pruned)
    return (finished + sooner) / answers, (finished + later) / answers


def _pruning_ranges(lines: Sequence[PlanLine], factors: tuple[float, float]) -> dict[str, tuple[float, float]]:
    """Return the range of each total if the number of answers is multiplied by ``factors``."""
    once = collection_requests()
    whole, answering = _totals(lines), _totals([line for line in lines if line.request not in once])
    calls, cached = answering["calls"] or 0, answering["cached"] or 0
    ranges = {}
    for name in RANGED_TOTALS:
        total, part = whole[name], answering[name]
        if total is not None and part is not None and calls:
            each = part * (calls + cached) / calls  # cached answers are not requested again
            least, most = (total + (factor - 1) * each for factor in factors)
            ranges[name] = max(total - part, least), most
    return ranges


def _simulation_ranges(totals: Sequence[Totals]) -> dict[str, tuple[float, float]]:
    """Return the range of each total among several simulations."""
    ranges = {}
    for name in RANGED_TOTALS:
        values = [value for one in totals if (value := one[name]) is not None]
        if 1 < len(values) == len(totals):
            ranges[name] = min(values), max(values)
    return ranges


def _totals(lines: Sequence[PlanLine]) -> Totals:
    costs = [line.cost for line in lines if line.cost is not None]
    cost = math.fsum(costs) if len(costs) == len(lines) else None
    return {**{name: sum(getattr(line, name) for line in lines) for name in COUNT_FIELDS}, "cost": cost}


def _optional_costs(
    setup: Experiment, space: Space, lines: Sequence[PlanLine], uncontrolled: Sequence[PlanLine] | None
) -> Iterator[OptionalCost]:
    """Yield the optional parts of a search; ``uncontrolled`` are the lines without the random control, if any."""
    if uncontrolled is not None:
        whole, rest = _totals(lines), _totals(uncontrolled)
        pairs: list[tuple[str, Any, Any]] = [(name, whole[name], rest[name]) for name in RANGED_TOTALS]
        saved: dict[str, Any] = {name: None if None in (more, less) else more - less for name, more, less in pairs}
        yield OptionalCost("random pipelines to compare with", "--control none", **saved)
    parts: list[tuple[str, str, set[str]]] = []
    for family, options in zip(FAMILIES, space.options, strict=False):
        techniques = [gene.technique for gene in options]
        if any(technique.name == "none" for technique in techniques):
            requests = {task.name for technique in techniques for task in find_tasks(technique)}
            if any("cross_encoder" in technique.tools.values() for technique in techniques):
                requests.add(SCORE_PASSAGES)
            parts.append((family.purpose, f"--without {family.name}", requests))
    if is_chat_model(setup.loaded_models.judge):
        parts.append(("the judge", "--judge extractive", {JUDGE.name}))
    if any(map(is_chat_model, setup.loaded_models.judges)):
        parts.append(("the faithfulness check", "--no-faithfulness", {CLAIMS.name, support_task(1).name}))
    for what, flag, requests in parts:
        if own := [
            line
            for line in lines
            if line.request in requests
            and line.calls
            and (line.request != JUDGE.name or line.model == setup.loaded_models.judge.id)  # not that of the test
        ]:
            sums: dict[str, Any] = {name: value for name, value in _totals(own).items() if name in RANGED_TOTALS}
            yield OptionalCost(what, flag, **sums)
