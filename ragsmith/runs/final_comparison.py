"""The end of a search: simplify the chosen pipeline, test it once against its rivals, and measure its parts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from ragsmith.comparison.ledger import count_look, identify_comparison, identify_pipeline, peek_look
from ragsmith.comparison.questions import Clusters, digest_questions
from ragsmith.diagnosis.ablation import compute_ablation, list_missing_candidates
from ragsmith.diagnosis.causes import good_score_threshold
from ragsmith.diagnosis.diagnosed import (
    EvidenceTracer,
    code_digest,
    find_neighbours,
    make_diagnosis,
    select_shown_questions,
)
from ragsmith.diagnosis.interventions import Repetition
from ragsmith.errors import BudgetExhausted, ModelUnavailable
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.racing import RaceResult
from ragsmith.evaluation.ranking import best_evaluation
from ragsmith.models.calls import may_vary
from ragsmith.pipelines.genes import Candidate
from ragsmith.records.front import find_cheapest, rank_points, single_option_evaluations
from ragsmith.records.record import WINNER_SOURCES, RunSettings
from ragsmith.runs.calibration import CALIBRATED, calibrate_winner, count_tested_answers
from ragsmith.runs.choice import WinnerChoice, simplify
from ragsmith.runs.rankings import keep_free_genes
from ragsmith.runs.run_context import RunContext, Step, timestamp
from ragsmith.store.store import DiagnosisRow, Store


def run_final_comparison(
    context: RunContext, choice: WinnerChoice, eligible: Sequence[Evaluation], random_control: Sequence[Evaluation]
) -> Evaluation:
    """Simplify the chosen pipeline, compare it with its rivals, and return it.

    ``eligible`` are the pipelines that may win, and ``random_control`` those of the random control.
    """
    winner, terms = choice.chosen, context.seen.terms
    try:
        winner = _simplify_winner(context, choice.chosen)
        if context.evaluator.forget_trouble():
            winner = _simplify_winner(context, choice.chosen)
        calibrated = calibrate_winner(context, winner)
        by_key = {one.key: one for one in context.seen.evaluations}
        baselines = {name: by_key[key] for name, key in context.record.baselines.items()}
        finalists = final_candidates(
            winner,
            leader=choice.highest,
            estimated=choice.estimated,
            baselines=baselines,
            single=best_evaluation(single_option_evaluations(eligible, baselines["naive"]), terms),
            recommended=by_key.get(context.record.recommended or ""),
            cheapest=_cheapest(context, winner, eligible),
            random=best_evaluation(random_control, terms),
        )
        _evaluate_on_test(context, {**finalists, **({CALIBRATED: calibrated} if calibrated else {})})
        count_tested_answers(context)
        if not context.within and not context.settings.rankings_first:  # it would cost more than the search
            _ablate(context, winner)
        _measure_noise(context, winner)
    except BudgetExhausted as stop:
        context.stopped = str(stop)
    return winner


def _simplify_winner(context: RunContext, chosen: Evaluation) -> Evaluation:
    """Return the chosen pipeline without the genes that do not pay for their cost."""
    if not context.settings.simplify:
        return chosen
    dear = context.settings.rankings_first
    winner, removals = simplify(
        chosen,
        keep_free_genes(context.space, chosen.candidate, context.setup) if dear else context.space,
        context.evaluate,
        partial(_evaluate_if_equal, context),
        lambda: context.seen.terms,
        clusters=context.record.split.search_groups or Clusters.singletons(chosen.questions),
        max_loss=context.settings.max_loss,
    )
    context.update(winner=winner.key, removals=removals)
    if context.settings.timed:  # simplified pipelines may be on the Pareto front
        tried = {removal.key for removal in removals}
        for one in {one.key: one for one in context.seen.evaluations if one.key in tried}.values():
            context.latency_of(one)
    context.report(Step("each option left out", 0, len(removals)))
    return winner


def _evaluate_if_equal(context: RunContext, candidate: Candidate, other: Evaluation) -> Evaluation | None:
    """Evaluate ``candidate`` if its results equal those of ``other``; return None at the first difference.

    Results are compared after 1, 2, 4 and so on questions, so that a difference stops the evaluation early.
    """
    order, count = context.search_order, 1
    while True:
        [found] = context.evaluator.evaluate([candidate], order[:count])
        if found.phenotype != other.restrict(found.questions).phenotype:
            return None
        if count >= len(order):
            context.seen.add([RaceResult.from_evaluation(found)])
            return found
        count *= 2


def _cheapest(context: RunContext, winner: Evaluation, eligible: Sequence[Evaluation]) -> Evaluation:
    """Return the cheapest pipeline shown to be less than the margin behind the winner, simplified ones included."""
    tried = {removal.key for removal in context.record.removals}
    distinct = {one.key: one for one in [*eligible, *(one for one in context.seen.evaluations if one.key in tried)]}
    evaluations = list(distinct.values())
    terms = context.seen.terms_of(evaluations)
    return find_cheapest([*rank_points(evaluations, terms)], winner, terms, context.settings.margin)


def _evaluate_on_test(context: RunContext, candidates: Mapping[str, Candidate]) -> None:
    """Evaluate the winner and its rivals on the test questions, unless others looked at them and no test is asked for.

    Nor are they if no test is wanted, or beyond the limit of the store on looks. The folds of a crossfit are tested in
    any case: it counts one use for all of them.
    """
    test = context.setup.split.test
    if not test:
        return
    first, *others = (
        identify_pipeline(context.setup, one) for name, one in candidates.items() if name not in WINNER_SOURCES
    )
    compared = identify_comparison(context.settings.fitness, first, others)
    used = context.store, compared, digest_questions(context.setup.dataset, test).values()
    if not context.within:
        look, recorded = peek_look(*used)
        limits = context.store.max_looks, {None: 1, True: None, False: 0}[context.settings.test]
        if not recorded and any(most is not None and look.number > most for most in limits):
            context.update(untested=look)
            return
    context.tested = context.evaluator.evaluate(list(candidates.values()), test)
    context.update(
        test={name: one.key for name, one in zip(candidates, context.tested, strict=True)},
        test_keys={one.key: context.evaluator.stored_key(one.key, test[0].id) for one in context.tested}
        if "test_judge" in context.record.models
        else {},
    )
    if not context.within and context.setup.counts_looks:
        context.update(look=count_look(*used, timestamp(context.now())[:10]))
    context.report(Step("test questions", 0, len(candidates)))


def find_repeated(setup: Experiment, settings: RunSettings, tested: Sequence[Evaluation]) -> dict[str, float]:
    """Return F by question for the test questions that the ``tested`` winner, if there is one, answers again.

    They have gold, and are a prefix of the stratified order. There are none for rankings, or without a chat model in
    the pipeline.
    """
    scores = {
        question: score
        for one in tested
        for models in [setup.for_candidate(one.candidate).loaded_models]
        if any(map(may_vary, (models.language_model, models.technique_model))) and not settings.fitness.ranking_only
        for question, score in one.by_question(settings.fitness).items()
    }
    known = [question for question in setup.order if question in scores and setup.examples[question].evidence]
    return {question: scores[question] for question in known[: settings.noise]}


def _measure_noise(context: RunContext, winner: Evaluation) -> None:
    """Have the tested winner answer a sample of the test questions again, and record how F changes.

    Nothing is recorded for the folds of a crossfit or after the time limit. If the budget ends or the model goes away,
    the run is paused: the verdict stands, and the same command measures the noise.
    """
    evaluator, fitness = context.evaluator, context.settings.fitness
    tested = [one for one in context.tested if one.key == winner.key and not context.within and not context.is_late()]
    scores = find_repeated(context.setup, context.settings, tested)
    wanted = [(winner.candidate, list(scores))]
    try:
        again = sorted((asked, fitness(measures)) for _, asked, measures in evaluator.observe(wanted, Repetition()))
    except (BudgetExhausted, ModelUnavailable) as stop:
        context.stopped = str(stop)
    else:
        context.update(noise=tuple(score - scores[asked] for asked, score in again))


def _ablate(context: RunContext, winner: Evaluation) -> None:
    """Compute and store the ablation of the winner.

    Pipelines that simplification did not evaluate are evaluated now, unless simplification is off or the time limit is
    reached. They cannot become the winner.
    """
    data = context.setup.dataset
    evaluations = {one.key: one for one in context.seen.evaluations if one.questions == winner.questions}
    if context.settings.simplify and not context.is_late():
        missing = list_missing_candidates(winner.candidate, context.space, evaluations.values())
        evaluations |= {one.key: one for one in context.evaluator.evaluate(missing, context.setup.split.search)}
    found = compute_ablation(
        winner,
        evaluations.values(),
        context.space,
        context.seen.terms,
        dataset=data.name,
        clusters=context.record.split.search_groups or Clusters.singletons(winner.questions),
        seconds_of=context.latency_of if context.settings.timed else None,
    )
    found.save(context.store, data.digest)


def final_candidates(
    winner: Evaluation,
    *,
    leader: Evaluation,
    estimated: Evaluation | None,
    baselines: Mapping[str, Evaluation],
    single: Evaluation | None,
    recommended: Evaluation | None,
    cheapest: Evaluation,
    random: Evaluation | None,
) -> dict[str, Candidate]:
    """Return the winner, the pipelines that it was derived from, and its rivals, by role.

    A pipeline with several roles is listed once, except that the best random candidate may be the winner.
    """
    roles = {
        "winner": (winner, ()),
        "leader": (leader, (winner,)),
        "estimate": (estimated, (winner, leader)),
        **{name: (one, ()) for name, one in baselines.items()},
        "single": (single, (winner, recommended, *baselines.values())),
        "recommended": (recommended, (winner,)),
        "cheapest": (cheapest, (winner,)),
        "random": (random, ()),
    }
    return {
        name: one.candidate
        for name, (one, others) in roles.items()
        if one and one.key not in {other.key for other in others if other}
    }


ROLES_WITH_PASSAGES = ("winner", "bm25", "recommended", "single", "cheapest")
"""The roles whose diagnoses include the passages in the prompt, on the questions that a report of each shows.

On all of these, the diagnosis of naive RAG includes them, too.
"""

MAX_DIAGNOSED_QUESTIONS = 1000
"""Maximum number of questions of a split that are diagnosed, besides those shown in full.

The first questions of the race are taken, which are a random sample. Workers cache no more answers than these.
"""


def diagnose(
    evaluator: Evaluator,
    setup: Experiment,
    store: Store,
    fitness: Fitness,
    roles: Mapping[str, Collection[Evaluation]],
    seen: Sequence[Evaluation],
    *,
    most: int = MAX_DIAGNOSED_QUESTIONS,
) -> None:
    """Diagnose the questions of the pipelines in ``roles``, and of the neighbours of the winner.

    ``roles`` has evaluations on the search and on the test questions by role, ``seen`` all those on the search
    questions. Only scored answers that have no diagnosis yet are diagnosed, so no model gets a new request. If a model
    cannot be reached or the budget is exhausted, nothing is stored.
    """
    winner = next(iter(roles.get("winner", ())), None)
    requested = [(one.evaluation, frozenset[str]()) for one in (find_neighbours(winner, seen) if winner else ())]
    scores = {
        role: {question: score for one in roles.get(role, ()) for question, score in one.by_question(fitness).items()}
        for role in ("naive", *ROLES_WITH_PASSAGES)
    }
    in_full: dict[str, frozenset[str]] = {}
    if not fitness.ranking_only:
        in_full = {
            role: frozenset(select_shown_questions(scores[role], scores["naive"])) for role in ROLES_WITH_PASSAGES
        }
        in_full["naive"] = frozenset().union(*in_full.values())
    for role, evaluations in roles.items():
        requested += [(one, in_full.get(role, frozenset())) for one in evaluations]
    try:
        found = _new_diagnoses(evaluator, setup, store, requested, most, answers=not fitness.ranking_only)
        store.put_diagnoses(list(found))
    except (BudgetExhausted, ModelUnavailable):
        return


def _new_diagnoses(
    evaluator: Evaluator,
    setup: Experiment,
    store: Store,
    requested: Sequence[tuple[Evaluation, frozenset[str]]],
    most: int,
    *,
    answers: bool,
) -> Iterator[DiagnosisRow]:
    """Diagnose the questions without a current diagnosis."""
    under = evaluator.stored_key
    known = store.diagnoses({under(one.key, question) for one, _ in requested for question in one.records})
    order = {question: at for at, question in enumerate(setup.order)}
    missing: dict[tuple[str, str], tuple[Evaluation, bool]] = {}
    for one, in_full in requested:
        first = sorted(one.records, key=order.__getitem__)[:most]
        for question in dict.fromkeys([*first, *sorted(in_full & one.records.keys())]):
            stored = known[under(one.key, question)].get(question, {})
            if stored.get("code") != code_digest() or (question in in_full and "passages" not in stored):
                before = missing.get((one.key, question))  # a pipeline with two roles may be shown in full for either
                missing[one.key, question] = one, question in in_full or (before is not None and before[1])
    for full in (False, True):
        part = {which: one for which, (one, is_in_full) in missing.items() if is_in_full == full}
        by_key = {one.key: one for one in part.values()}
        jobs = [(one.candidate, [q for key, q in part if key == one.key]) for one in by_key.values()]
        tracer = EvidenceTracer(frozenset(question for _, question in part) if full else frozenset(), answers)
        each = list(by_key)
        for at, question, value in evaluator.observe(jobs, tracer):
            key = each[at]
            measures = part[key, question].records[question]["measures"]
            found = make_diagnosis(
                value,
                setup.examples[question],
                measures,
                good_score_threshold(setup, tested=question in setup.tested),
            )
            yield DiagnosisRow(under(key, question), question, found.to_dict())
