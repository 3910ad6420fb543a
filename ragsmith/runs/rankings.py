"""Search rankings first, without an answer, where answers cost money: then only what decides is answered.

Rankings that ask no costly model are free, so a search of them costs nothing. The best of them start the search of
answers, which changes one option at a time and tries those first from which most is expected per call
(`ragsmith.strategies.priced`): by what was learned on other data sets, and by what was seen.
"""

from dataclasses import replace

from ragsmith.effects import Knowledge, Prior, read_effects
from ragsmith.effects.terms import option_labels
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import RETRIEVAL
from ragsmith.evaluation.racing import list_costly_tools
from ragsmith.evaluation.ranking import Terms, rank_evaluations
from ragsmith.models.calls import is_chat_model
from ragsmith.pipelines.genes import Candidate, Gene
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunSettings
from ragsmith.runs.run_context import RunContext, Step
from ragsmith.strategies import Genome, make_strategy
from ragsmith.strategies.priced import PricedSearch
from ragsmith.techniques.families import FAMILIES, FILTER_INDEX

STARTS = 3
"""Number of best rankings that are answered."""

ANSWERED_SHARE = 0.2
"""Pipelines that are answered, as a share of the rankings that are searched."""


def count_pipelines(settings: RunSettings) -> tuple[int, int]:
    """Return the maximum numbers of rankings that are searched, and of pipelines that are answered after them."""
    if settings.max_evaluations is not None:
        return round(settings.max_evaluations / ANSWERED_SHARE), settings.max_evaluations
    return settings.genetic.evaluations, round(ANSWERED_SHARE * settings.genetic.evaluations)


def resolve_rankings_first(settings: RunSettings, setup: Experiment) -> RunSettings:
    """Return ``settings`` with ``rankings_first`` decided: by default, if answers are written by a costly chat model.

    Presets without races, several objectives, a fitness that is no sum of R and G, and strategies other than the
    default one search whole pipelines, and so does a search of the parameters of another system.
    """
    model, fitness = setup.loaded_models.language_model, settings.fitness
    whole = settings.racing is None or settings.is_multiobjective or settings.strategy_name != "genetic"
    if settings.rankings_first is not None or whole or fitness.ranking_only or not fitness.is_additive or setup.system:
        return settings
    costs = is_chat_model(getattr(model, "real", model))  # a plan has a stub in its place
    return replace(settings, rankings_first=True) if costs else settings


def build_answer_search(context: RunContext, prior: Prior | None) -> PricedSearch:
    """Search the rankings, and return the search of answers that begins with the best of them."""
    settings, space = context.settings, context.space
    knowledge = read_effects()
    chunks = len(context.setup.corpus.chunks) / len(context.setup.split.search)
    rankings, answered = count_pipelines(settings)
    return PricedSearch(
        space.sizes,
        _search_rankings(context, rankings) or [next(space.genomes())],
        lambda genome: _estimate_calls(space.candidate(genome), knowledge, chunks),
        seed=settings.seed,
        prior=prior.predict_genomes if prior else None,
        feasible=space.is_feasible,
        max_evaluations=answered,
    )


def _estimate_calls(candidate: Candidate, knowledge: Knowledge, chunks: float) -> float:
    """Return the expected calls per question: of the judge, as learned on other data sets, and once for each chunk.

    There are so many ``chunks`` for each question.
    """
    used = [(family.tier, gene.tools) for family, gene in zip(FAMILIES, candidate, strict=False)]
    made_once = sum(
        "entity_graph" in tools or ("language_model" in tools and tier == "collection") for tier, tools in used
    )
    return 1.0 + knowledge.calls(option_labels(candidate)) + made_once * chunks


def _list_costly_tools(setup: Experiment) -> frozenset[str]:
    """Return the kinds of tools that cost money or time; the entity graph is made by the language model."""
    costly = frozenset[str]().union(*(list_costly_tools(variant.loaded_models) for variant in setup.variants))
    return costly | {"entity_graph"} if "language_model" in costly else costly


def keep_free_genes(space: Space, candidate: Candidate, setup: Experiment) -> Space:
    """Return ``space`` with a single option for each gene of ``candidate`` that asks no costly model.

    To leave such a gene out saves nothing, so it is not worth the answers that would show its effect.
    """
    costly = _list_costly_tools(setup)

    def options_of(gene: Gene, options: tuple[Gene, ...]) -> tuple[Gene, ...]:
        return (gene,) if costly and costly.isdisjoint(gene.tools) else options

    return replace(space, options=tuple(map(options_of, candidate, space.options)))


def _search_rankings(context: RunContext, limit: int) -> list[Genome]:
    """Return the best distinct rankings of at most ``limit``, as genomes with the least options behind the filter.

    There are none without evidence, or if every option of a family asks a costly model.
    """
    settings, questions = context.settings, [one for one in context.setup.split.search if one.evidence]
    space, costly = context.space.restricted_to_rankings(), _list_costly_tools(context.setup)
    free = [tuple(gene for gene in genes if costly.isdisjoint(gene.tools)) for genes in space.options]
    if not questions or not all(free):
        return []
    space = replace(space, options=tuple(free))
    strategy = make_strategy(
        settings.strategy,
        space.sizes,
        settings.genetic,
        seed=settings.seed,
        feasible=space.is_feasible,
        max_evaluations=limit,
    )
    fitness = settings.fitness.with_objective(RETRIEVAL)
    found: dict[Genome, Evaluation] = {}
    terms = Terms.from_evaluations((), fitness, settings.max_failure_rate)
    while genomes := strategy.propose():
        found |= zip(genomes, context.evaluator.rank([space.candidate(one) for one in genomes], questions), strict=True)
        terms = Terms.from_evaluations(list(found.values()), fitness, settings.max_failure_rate)
        strategy.tell({genome: terms.score(found[genome]) for genome in genomes})
        best = strategy.best()
        shown = (best[1], space.candidate(best[0])) if best else (None, None)
        context.report(Step("rankings", len(strategy.history), len(found), *shown))
    context.update(rankings=len(found))
    ranked = rank_evaluations(list(found.values()), terms)  # one of those with equal rankings
    starts = [_with_least_answer(one.candidate, context.space) for one in ranked]
    return [context.space.genome(one) for one in starts if context.space.allows(one)][:STARTS]


def _with_least_answer(ranking: Candidate, space: Space) -> Candidate:
    """Return a ranking with the first options of ``space`` behind the filter that are none, or else its first ones."""
    least = {family.name for family in FAMILIES[FILTER_INDEX + 1 :]}
    return tuple(
        next((one for one in options if one.technique.name in ("none", "listing")), options[0])
        if gene.technique.family in least
        else replace(gene, fit=None)
        for gene, options in zip(ranking, space.options, strict=True)
    )
