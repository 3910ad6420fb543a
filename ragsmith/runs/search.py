"""The search of a run: the warm start, the candidates of the strategy, and the random control."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from ragsmith.effects import Prior
from ragsmith.errors import BudgetExhausted
from ragsmith.evaluation.evaluation import read_candidate
from ragsmith.evaluation.racing import RaceResult, Races
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.objectives import compute_evaluation_costs
from ragsmith.records.record import load_record
from ragsmith.runs.rankings import build_answer_search
from ragsmith.runs.recommended import prior_for_search, recommend_candidate
from ragsmith.runs.run_context import TIME_LIMIT_REACHED, RunContext, Step
from ragsmith.runs.search_loop import ProposalBatch, run_batches, warm_start
from ragsmith.store.store import ProposalRow
from ragsmith.strategies import make_strategy
from ragsmith.strategies.strategy import Genome, Pruned, SteppedSearch


def _make_prior(context: RunContext) -> Prior | None:
    """Return the prior over pipelines; None if the settings use none, or too few data sets are known."""
    settings = context.settings
    if context.space.system or (not settings.warm_start and settings.choose == "mean"):
        return None
    return prior_for_search(context.setup, context.space, settings.fitness, learned=settings.warm_start)


def run_search(context: RunContext) -> tuple[list[RaceResult], list[RaceResult], Prior | None]:
    """Evaluate the warm start, race the candidates of the strategy, and race random ones as a control.

    Return the candidates that may win, the random ones, and the prior.

    Raises:
        BudgetExhausted: the budget was spent before the first batch of the strategy was evaluated, or the time limit
            reached before the warm start was.
    """
    settings = context.settings
    known = _warm_start(context)
    prior = _make_prior(context)
    learned = prior if settings.warm_start else None
    try:
        strategy = (
            build_answer_search(context, learned)
            if settings.rankings_first
            else _build_strategy(context, settings.strategy, settings.max_evaluations, learned)
        )
    except BudgetExhausted as stop:
        if not (context.is_late() and known):
            raise
        context.stopped = str(stop)
        return [*known.values()], [], prior
    proposed = _race(context, strategy, known)
    random = _race_control(context, len({one.behaviour for one in proposed}))
    terms = context.seen.terms
    context.proposals = [  # the scores observed in each step are replaced by scores on the final terms
        replace(row, value={**row.value, "fitness": None if raced.dropped else terms.score(raced.evaluation)})
        for row, raced in zip(context.proposals, proposed, strict=True)
    ]
    return [*known.values(), *proposed], random, prior


def _warm_start(context: RunContext) -> dict[Genome, RaceResult]:
    """Evaluate the baselines, the recommended pipeline and each option alone; return the results in the space."""
    start = warm_start(
        context.evaluator,
        _make_races(context),
        context.setup.split.search,
        context.space,
        _find_recommended(context),
        probes=context.settings.probes and not context.settings.rankings_first,
    )
    context.seen.add([raced for _, raced in start.raced])
    known = start.within(context.space)
    context.update(
        baselines=start.baselines,
        recommended=start.recommended,
        probes=start.probes,
        told=tuple(one.evaluation.key for one in known.values()),
    )
    evaluated = len({raced.evaluation.key for _, raced in start.raced})
    context.report(Step("warm start", 0, evaluated))
    return known


def _find_recommended(context: RunContext) -> Candidate | None:
    """Return the pipeline recommended for these documents; None if the space has no such pipeline.

    A system is compared with what is recommended of all pipelines.
    """
    if not context.settings.warm_start:
        return None
    earlier = load_record(context.store, context.key)
    if earlier and earlier.recommended and (stored := context.store.evaluation(earlier.recommended)):
        candidate = read_candidate(stored)  # a new recommendation takes seconds
        return tuple(replace(gene, fit=None) for gene in candidate)  # the options of a space are not fitted
    space = load_space("default") if context.space.system else context.space
    return recommend_candidate(context.setup, space, context.settings.fitness)


def _build_strategy(
    context: RunContext, name: str, max_evaluations: int | None, prior: Prior | None = None
) -> SteppedSearch:
    settings, space = context.settings, context.space
    return make_strategy(
        name,
        space.sizes,
        settings.genetic,
        seed=settings.seed,
        feasible=space.is_feasible,
        max_evaluations=max_evaluations,
        prior=prior.predict_genomes if prior else None,
    )


def _make_races(context: RunContext) -> Races:
    settings = context.settings
    race = settings.racing, settings.fitness, settings.max_failure_rate
    return Races(
        context.evaluator,
        context.search_order,
        *race,
        lambda candidate: context.setup.for_candidate(candidate).loaded_models,
    )


def _race(
    context: RunContext, strategy: SteppedSearch, known: Mapping[Genome, RaceResult], *, control: bool = False
) -> list[RaceResult]:
    """Race the proposals of ``strategy`` until it is done or a limit is reached."""
    settings = context.settings
    proposed: list[RaceResult] = []
    costs = (
        partial(compute_evaluation_costs, settings, context.latency_of)
        if settings.is_multiobjective and not control
        else None
    )
    try:
        for batch in run_batches(strategy, _make_races(context), context.space.candidate, known, context.seen, costs):
            if not control:
                _store_proposals(context, len(proposed), batch)
            proposed += batch.raced
            _report(context, strategy, "random control" if control else "search", batch.step, len(proposed))
            if context.is_late():
                context.stopped = TIME_LIMIT_REACHED
                break
    except BudgetExhausted as stop:
        if not (proposed or control or (context.is_late() and known)):
            raise
        context.stopped = str(stop)
    if not control:
        context.update(history=tuple(strategy.history))
    return proposed


def _race_control(context: RunContext, budget: int) -> list[RaceResult]:
    """Race as many random candidates of distinct behaviour as the search found, if the settings include it."""
    settings = context.settings
    if settings.control != "random" or settings.strategy_name == "random" or context.stopped or not budget:
        return []
    raced = _race(context, _build_strategy(context, "random", budget), {}, control=True)
    context.update(random=tuple(result.evaluation.key for result in raced))
    return raced


def _report(context: RunContext, strategy: SteppedSearch, phase: str, step: int, evaluated: int) -> None:
    score, candidate = None, None
    if best := strategy.best():
        score, candidate = best[1], context.space.candidate(best[0])
    context.report(Step(phase, step, evaluated, score, candidate))


def _store_proposals(context: RunContext, position: int, batch: ProposalBatch) -> None:
    """Store a batch as the rows of the run from ``position`` on."""
    rows = []
    for i, (genome, one, score) in enumerate(zip(batch.genomes, batch.raced, batch.observations, strict=True)):
        value: dict[str, Any] = {"fitness": score, "dropped": None}
        if isinstance(score, Pruned):
            value = {"fitness": None, "dropped": score.questions}
        rows.append(ProposalRow(position + i, batch.step, list(genome), one.evaluation.key, value))
    context.proposals += rows
    if context.stores_proposals:
        context.store.put_proposals(context.key, rows)
