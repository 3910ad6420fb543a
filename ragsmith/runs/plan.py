"""Plan: what a search would ask of models, before anything is spent.

The search is rehearsed on a sample of the questions, with others in the place of the models that cost something
(`stub_models`): what these would have been asked is counted, and what the cache already holds is read from it. What a
request takes is measured on replies in the cache, or assumed (`token_estimates`). Replies and scores decide where a
search goes, so a plan is an estimate.
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

from ragsmith.evaluation.baselines import BASELINES, probes_of
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment, ordered
from ragsmith.evaluation.latency import TIMED, answered_alone, texts_of, timed_on
from ragsmith.exported.requirements import searchable
from ragsmith.gateway.budget import Budget, Prices
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway, TimingGateway
from ragsmith.gateway.memo import EvictionPolicy
from ragsmith.index.index import Corpus
from ragsmith.measures.faithfulness import CLAIMS, supporting
from ragsmith.measures.judge import JUDGE
from ragsmith.models.calls import StoredCall, is_chat_model, is_costly
from ragsmith.models.names import ModelNames
from ragsmith.models.roles import Models
from ragsmith.models.usage import Meter
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.space import Space
from ragsmith.records.record import CROSSFIT, HELD_OUT, RunRecord, RunSettings
from ragsmith.runs.run import Execution, Run
from ragsmith.runs.stub_models import (
    RERANKED,
    RequestCount,
    RequestCounts,
    added,
    collection_requests,
    stub_models,
)
from ragsmith.runs.token_estimates import TokenEstimate, token_estimate
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.task_lookup import find_tasks
from ragsmith.types import Example

ANSWERS = 5_000
"""A plan is worked out on as many search questions as its pipelines would answer with so many answers in all."""

FEWEST_SAMPLED = 15
"""Or on so many, if that is more."""

REHEARSALS, FEWEST = 5, 3
"""They are dealt out to so many rehearsals, if each has at least so many search questions."""

RACED = 100
"""A race is rehearsed once, on so many search questions: on fewer it would drop candidates later, or not at all."""

SUMMED = ("calls", "input_tokens", "output_tokens", "cost")
"""The totals that have ranges."""

REPLIES = 5_000
"""Replies of each model in the cache that are looked at: more would make the means no better."""


Totals = dict[str, float | None]
"""Sums by the names of what is added up; None is money without a price."""


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One kind of request of a plan; ``cost`` is None where the price is not known.

    ``seconds`` is what waiting for the replies takes when as many requests as may be are always in flight.
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
    """Something that a search can do without: what the requests for it alone take, and the flag that leaves it out.

    Without the options of a family or the judge a search goes other ways, and saves less or more than that: a plan with
    the flag says what is left. What is compared with goes its own way, so that row is what leaving it out saves.
    """

    what: str
    flag: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None


@dataclass(frozen=True)
class SearchPlan:
    """What a search would spend, in all and for each of its ``choices``; ``notes`` say by model what was reckoned with.

    Replies decide where a search goes: ``ranges`` has, by the names of ``totals``, the least and the most that the
    rehearsals came to, each for all questions; of a race, of which there is one, what it would have come to had every
    candidate that it dropped left a look sooner, or later (``raced``). Where no model costs anything nothing is
    rehearsed: ``genomes``, the number of pipelines, is None then. ``about_pipelines`` says about how many there would
    be if the strategy used up its budget and no race were lost, and ``about_made`` how many answers, or rankings
    (``made``), these make on the search questions. Left out are the pipeline that other data sets recommend, the
    references of single options, what is tried to simplify the winner, and the test questions. Where latency is
    weighed, ``timed`` questions are asked once more, one by one, and what that takes has lines of its own. A crossfit
    has several ``searches``: all numbers are those of one, so many times, and there are no ``choices``. ``proposed``
    counts the pipelines that the strategy may propose, which is what ``max_evaluations`` bounds.
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

    def times(self, searches: int) -> SearchPlan:
        """What so many searches of this size would spend at most; what they share is asked once."""

        def more(row: PlanLine) -> PlanLine:
            return replace(
                row,
                calls=row.calls * searches,
                cached=row.cached * searches,
                input_tokens=row.input_tokens * searches,
                output_tokens=row.output_tokens * searches,
                cost=None if row.cost is None else row.cost * searches,
                seconds=row.seconds * searches,
            )

        return replace(
            self,
            genomes=None if self.genomes is None else self.genomes * searches,
            lines=tuple(map(more, self.lines)),
            choices=(),
            ranges={name: (low * searches, high * searches) for name, (low, high) in self.ranges.items()},
            timed=self.timed * searches,
            about_pipelines=self.about_pipelines * searches,
            about_made=self.about_made * searches,
            searches=searches,
            proposed=self.proposed * searches,
        )

    @property
    def totals(self) -> Totals:
        """The sums over all lines, by the names of their fields; money is None where a price is not known."""
        return _totals(self.lines)


@dataclass(frozen=True)
class _Rehearsal(Experiment):
    """A setup whose models stand in for others. All share the engines of ``shared``, which spend and keep nothing."""

    shared: Callable[[Experiment], Engine] = field(kw_only=True)

    @property
    def loaded_models(self) -> Models:
        """Those of the engine."""
        return self.shared(self).models

    @property
    def corpus(self) -> Corpus:
        """That of the engine."""
        return self.shared(self).corpus

    def engine(
        self,
        store: CallStore | None = None,
        budget: Budget | None = None,
        failures: Failures | None = None,
        *,
        gateway: Gateway | None = None,
        room: EvictionPolicy | None = None,
    ) -> Engine:
        """The one engine for these chunks and models."""
        return self.shared(self)


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
    """Rehearse a search on up to ``sample`` of its questions and say what all of them would take.

    Unless ``sample`` is given, that is 100 where candidates are raced; else the fewer pipelines, the more questions.

    ``latency`` is the seconds that a request takes, and ``in_flight`` how many are answered at once: unless given, as
    measured on replies in ``store``, and as the provider is asked.
    """
    count = len(setup.dataset.examples)
    settings = settings or RunSettings()
    if settings.verdict == CROSSFIT:
        asked = {"prices": prices, "latency": latency, "in_flight": in_flight, "sample": sample}
        return plan(setup, space, store, replace(settings, verdict=HELD_OUT), **asked).times(settings.folds + 1)  # type: ignore[arg-type]
    setup = setup.searching(space.settings).scoring(settings.fitness)
    space = searchable(setup, space, ranks=settings.fitness.ranks)
    each_model = {model.id: model for variant in setup.variants for model in variant.loaded_models.all()}
    if not any(is_costly(model) for model in each_model.values()):
        about, searched = about_pipelines(space, settings), len(setup.split.search)
        return SearchPlan(
            None,
            count,
            0,
            about_pipelines=about,
            made=settings.fitness.made,
            about_made=about * searched,
            proposed=_proposed(space, settings),
        )
    stored = {}
    for model in filter(is_chat_model, each_model.values()):
        Gateway(store).language_model(model, Meter())  # tells it what was learnt of it
        stored[model.id] = store.some_calls(model.id, REPLIES)
    if settings.racing:
        samples = _sampled(setup, sample or RACED, 1)
    else:
        enough = max(FEWEST_SAMPLED, ANSWERS // about_pipelines(space, settings))
        samples = _sampled(setup, sample or enough, REHEARSALS)
    sampled = sum(map(len, samples))
    timed = _Timed()
    found = _rehearsed(setup, space, store, settings, stored, samples, timed)
    alone, beside = [one.alone for one in found], [one.beside for one in found]
    whole = added(*alone, *beside)
    expected, notes = {}, {}
    for model in each_model.values():
        own = {request: tally for (name, request), tally in whole.items() if name == model.id}
        if own:
            expected[model.id], notes[model.id] = token_estimate(
                model, stored.get(model.id, ()), own, latency, in_flight
            )

    def lines_of(tallies: RequestCounts, rehearsed: int) -> tuple[PlanLine, ...]:
        return _lines(tallies, expected, rehearsed / count, prices or Prices())

    lines = lines_of(whole, sampled)
    again = {asked: tally for asked, tally in timed.tallies.items() if not is_chat_model(each_model[asked[0]])}
    questions = timed.pipelines * min(TIMED, len(setup.split.search)) / len(samples)
    if questions:  # as many for each pipeline, however many questions there are
        times = _lines(again, expected, timed.questions / questions, prices or Prices())
        lines += tuple(replace(line, request=f"{line.request}, timed") for line in times)
    choices = tuple(
        _choices(setup, space, lines, lines_of(added(*alone), sampled) if settings.control != "none" else None)
    )
    if settings.racing:
        ranges = _raced_ranges(lines, found[0].looks) if found[0].looks else {}
    else:
        shared = {asked: tally for asked, tally in whole.items() if asked[1] in collection_requests()}
        ranges = _ranges(
            [
                _totals(lines_of(added(*parts) | shared, len(examples)))
                for examples, *parts in zip(samples, alone, beside, strict=True)
            ]
        )
    genomes = round(fmean(one.pipelines for one in found))
    raced = settings.racing is not None
    proposed = _proposed(space, settings)
    return SearchPlan(
        genomes, count, sampled, lines, choices, notes, ranges, raced, round(questions), proposed=proposed
    )


def about_pipelines(space: Space, settings: RunSettings) -> int:
    """About how many pipelines a search evaluates that ends by its budget; see `SearchPlan` for what is left out."""
    probed = len(probes_of(space)) if settings.probes else 0
    return len(BASELINES) + probed + (2 if settings.control == "random" else 1) * _proposed(space, settings)


def _proposed(space: Space, settings: RunSettings) -> int:
    """How many pipelines a strategy proposes at most."""
    unless_given = space.feasible_size if settings.strategy_name == "exhaustive" else settings.genetic.evaluations
    return min(space.feasible_size, settings.max_evaluations or unless_given)


def _sampled(setup: Experiment, sample: int, rehearsals: int) -> list[list[Example]]:
    """Questions for each of so many rehearsals, or of fewer: search and test questions in their proportion.

    As few as four fifths of ``sample`` search questions in all, if the proportion is kept better: what is asked for
    the questions of either part is multiplied alike.
    """
    parts = setup.split
    searched, tested = len(parts.search), len(parts.test)
    most = min(sample, searched)

    def beside(size: int) -> int:
        return round(size * tested / searched)

    size = min(range(most, math.ceil(0.8 * most) - 1, -1), key=lambda n: abs(n * tested - beside(n) * searched))
    number = max(1, min(rehearsals, size // FEWEST))
    dealt: list[list[Example]] = [[] for _ in range(number)]
    for name, examples, wanted in (("search", parts.search, size), ("test", parts.test, beside(size))):
        for i, example in enumerate(Random(0).sample(ordered(examples), wanted)):
            dealt[i % number].append(replace(example, split=name))
    return dealt


@dataclass
class _Timed:
    """What all rehearsals asked anew to time pipelines, how many these were, and on how many questions in all."""

    tallies: RequestCounts = field(default_factory=dict)
    pipelines: int = 0
    questions: int = 0


@dataclass(frozen=True, slots=True)
class _Rehearsed:
    """What came of a rehearsal: the number of pipelines, what they asked ``alone``, and what random ones ``beside``.

    Had all who left a race done so a look sooner, or later, there would be as many answers times the first, or the
    second, of ``looks``.
    """

    pipelines: int
    alone: RequestCounts
    beside: RequestCounts
    looks: tuple[float, float] | None = None


def _rehearsed(
    setup: Experiment,
    space: Space,
    store: Store,
    settings: RunSettings,
    stored: Mapping[str, Sequence[StoredCall]],
    samples: Sequence[Sequence[Example]],
    timed: _Timed,
) -> list[_Rehearsed]:
    """A rehearsal for each of ``samples``; what timing takes is added to ``timed``.

    On other questions a search goes another way, so several rehearsals come nearer to what is to be expected than one,
    and show how far searches differ.
    """
    tallies: RequestCounts = {}
    gateway = Gateway()
    engines: dict[tuple[int, int, ModelNames], Engine] = {}
    anew: dict[int, Models] = {}
    calls: dict[tuple[str, tuple[str, ...]], float] = {}

    def shared(wanted: Experiment) -> Engine:
        asked = wanted.chunk_size, wanted.chunk_overlap, wanted.models
        if asked not in engines:
            its = next(one for one in setup.variants if (one.chunk_size, one.chunk_overlap, one.models) == asked)
            chunks = its.corpus.chunks
            real, texts = its.loaded_models, [chunk.text for chunk in chunks]
            stand_in = partial(
                stub_models, raced=settings.racing is not None, languages=[chunk.language for chunk in chunks]
            )
            engines[asked] = Engine(its.corpus, stand_in(real, texts, store, stored, tallies), gateway)
            anew[id(engines[asked])] = stand_in(real, texts, scratch, stored, timed.tallies)
        return engines[asked]

    def latency_of(evaluation: Evaluation, rehearsal: Experiment) -> float:
        """Ask what is asked to time a pipeline, once; each call of a chat model is taken to be a second."""
        asked_of, candidate = (evaluation.key, evaluation.questions), evaluation.candidate
        if asked_of not in calls:  # rehearsals have the same pipelines, on other questions
            engine = shared(rehearsal.of(candidate))
            timing = TimingGateway(gateway, texts_of(engine, candidate))
            for question in timed_on(rehearsal.order, evaluation.records):
                fresh = Engine(engine.corpus, anew[id(engine)], timing)
                asked = rehearsal.examples[question].question
                answered_alone(fresh, engine, candidate, asked, ranks=settings.fitness.ranks)
                timed.questions += 1
            timed.pipelines += 1
            calls[asked_of] = fmean(evaluation.values("calls"))
        return calls[asked_of]

    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "plan.sqlite") as scratch:

        def rehearsed(examples: Sequence[Example], control: str) -> _Rehearsed:
            dataset = replace(setup.dataset, examples=tuple(ordered(examples)))
            of_setup = setup.models, setup.chunk_size, setup.checks_claims
            overlap, gap = setup.chunk_overlap, setup.gap
            rehearsal = _Rehearsal(dataset, *of_setup, chunk_overlap=overlap, gap=gap, shared=shared)
            of_rehearsal = partial(latency_of, rehearsal=rehearsal.searching(space.settings))
            outcome = Run(
                rehearsal,
                space,
                scratch,
                replace(settings, control=control),
                execution=Execution(latency_of=of_rehearsal),
            ).go()
            asked = dict(tallies)
            tallies.clear()
            pipelines = len({key for key, _ in outcome.evaluations})
            row = scratch.run(outcome.key)
            assert row is not None
            return _Rehearsed(pipelines, asked, {}, _looks(RunRecord.read(row.value), pipelines))

        found = [rehearsed(examples, "none") for examples in samples]
        if settings.control != "none":  # the strategy goes the same way, and only what is new is computed
            whole = [rehearsed(examples, settings.control) for examples in samples]
            found = [replace(both, alone=one.alone, beside=both.alone) for one, both in zip(found, whole, strict=True)]
    return found


def _looks(record: RunRecord, pipelines: int) -> tuple[float, float] | None:
    """See ``looks`` of `_Rehearsed`, of the run of ``record``; None where nobody left."""
    if not record.dropped or record.settings.racing is None:
        return None
    questions = len(record.split.search)
    looks = (0, *record.settings.racing.looks(questions))
    left = [dropped.questions for dropped in record.dropped.values()]
    finished = (pipelines - len(left)) * questions
    sooner = sum(max((look for look in looks if look < answers), default=0) for answers in left)
    later = sum(min(look for look in looks if look > answers) for answers in left)
    answers = finished + sum(left)
    return (finished + sooner) / answers, (finished + later) / answers


def _raced_ranges(lines: Sequence[PlanLine], looks: tuple[float, float]) -> dict[str, tuple[float, float]]:
    """The least and the most of each total with so many times as many answers; the collection needs as much."""
    once = collection_requests()
    whole, answering = _totals(lines), _totals([line for line in lines if line.request not in once])
    calls, cached = answering["calls"] or 0, answering["cached"] or 0
    found = {}
    for name in SUMMED:
        total, part = whole[name], answering[name]
        if total is not None and part is not None and calls:
            each = part * (calls + cached) / calls  # what the cache has of the answers is not asked for again
            least, most = (total + (times - 1) * each for times in looks)
            found[name] = max(total - part, least), most
    return found


def _ranges(each: Sequence[Totals]) -> dict[str, tuple[float, float]]:
    """The least and the most of each total among ``each`` of the rehearsals, if there are several."""
    found = {}
    for name in SUMMED:
        values = [value for totals in each if (value := totals[name]) is not None]
        if len(each) > 1 and len(values) == len(each):
            found[name] = min(values), max(values)
    return found


def _lines(
    tallies: RequestCounts, expected: Mapping[str, TokenEstimate], share: float, prices: Prices
) -> tuple[PlanLine, ...]:
    """What was tallied on the sample, for all questions; what the collection needs does not grow with them."""
    once = collection_requests()

    def line(model: str, request: str, tally: RequestCount) -> PlanLine:
        scale = 1.0 if request in once else 1 / share
        usage, price = expected[model].usage(request, tally, scale), prices.price_of(model)
        return PlanLine(
            model,
            request,
            usage.calls,
            math.ceil(tally.cached * scale),
            usage.input_tokens,
            usage.output_tokens,
            None if price is None else price.cost(usage.calls, usage.input_tokens, usage.output_tokens),
            usage.seconds,
        )

    lines = [line(*asked, tally) for asked, tally in tallies.items()]
    return tuple(sorted(lines, key=lambda line: (line.model, -line.calls, line.request)))


def _totals(lines: Sequence[PlanLine]) -> Totals:
    names = ("calls", "cached", "input_tokens", "output_tokens", "seconds")
    return {**{name: sum(getattr(line, name) for line in lines) for name in names}, "cost": _cost(lines)}


def _cost(lines: Sequence[PlanLine]) -> float | None:
    """What lines cost together; None where one has no price."""
    known = [line.cost for line in lines if line.cost is not None]
    return math.fsum(known) if len(known) == len(lines) else None


def _choices(
    setup: Experiment, space: Space, lines: Sequence[PlanLine], without: Sequence[PlanLine] | None
) -> Iterator[OptionalCost]:
    """What a search can do without; ``without`` is what it asks when there is nothing to compare with."""
    if without is not None:
        whole, rest = _choice("", "", lines), _choice("", "", without)
        yield OptionalCost(
            "random pipelines to compare with",
            "--control none",
            whole.calls - rest.calls,
            whole.input_tokens - rest.input_tokens,
            whole.output_tokens - rest.output_tokens,
            None if whole.cost is None or rest.cost is None else whole.cost - rest.cost,
        )
    for family, options in zip(FAMILIES, space.options, strict=False):
        techniques = [gene.technique for gene in options]
        asked = {task.name for technique in techniques for task in find_tasks(technique)}
        if any("cross_encoder" in technique.tools.values() for technique in techniques):
            asked.add(RERANKED)
        if any(gene.technique.name == "none" for gene in options):
            yield from _choice_of(family.purpose, f"--without {family.name}", lines, asked)
    if is_chat_model(setup.loaded_models.judge):
        yield from _choice_of("the judge", "--judge extractive", lines, {JUDGE.name})
        yield from _choice_of("claims checked", "--no-faithfulness", lines, {CLAIMS.name, supporting(1).name})


def _choice_of(what: str, flag: str, lines: Sequence[PlanLine], asked: set[str]) -> Iterator[OptionalCost]:
    """The choice to ask what ``asked`` names, if anything of it is asked."""
    own = [line for line in lines if line.request in asked and line.calls]
    if own:
        yield _choice(what, flag, own)


def _choice(what: str, flag: str, lines: Sequence[PlanLine]) -> OptionalCost:
    read, written = sum(line.input_tokens for line in lines), sum(line.output_tokens for line in lines)
    return OptionalCost(what, flag, sum(line.calls for line in lines), read, written, _cost(lines))
