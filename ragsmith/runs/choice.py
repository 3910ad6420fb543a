"""Choose the winner of a run: the best pipeline, without the genes that do not pay for their cost.

The best pipeline has the highest mean, or the highest estimate: the highest of many noisy means is biased upwards, so
`shrink_means` shrinks them towards the prior. docs/effects.md compares the two rules on unseen questions.

Each gene of the chosen pipeline is then switched off, the one that saves most model calls first. It stays off if it
saves calls, or saves none and gains nothing, and if the pipeline without it is shown to be behind by a stated loss at
most: a test of non-inferiority. The upper end of a one-sided interval of the loss is compared with it, by group of
questions, at the level 0.05 divided by the number of options tried (Bonferroni). The loss is always that against the
chosen pipeline, so that small losses do not add up. A gene that changes no ranking and no answer needs no test.

Finally, parameters are reset to their defaults if that changes no ranking and no answer and adds no model usage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ragsmith.comparison.difference import compute_difference
from ragsmith.comparison.questions import ALPHA, MIN_GROUPS, Clusters
from ragsmith.effects import Prior
from ragsmith.errors import ProviderTrouble
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.ranking import (
    Terms,
    common_questions,
    find_significantly_better,
    find_undecided,
    rank_evaluations,
)
from ragsmith.evaluation.statistics import student_quantile
from ragsmith.pipelines.genes import Candidate, Gene, label
from ragsmith.pipelines.space import Space
from ragsmith.records.record import AblationStep, ExcludedQuestion
from ragsmith.techniques.families import FAMILIES

if TYPE_CHECKING:  # for annotations, which are not part of the fingerprint
    from ragsmith.evaluation.evaluation import Evaluation, Record


MIN_FOR_ESTIMATE = 2
"""Minimum number of pipelines, and of questions, for an estimate."""

RETRY = "repeat the requests with --retry-failed"

REQUIRED_FAMILIES = ("retrieval",)
"""Families without a no-op option."""


@dataclass(frozen=True, slots=True)
class WinnerChoice:
    """The chosen pipeline, the one with the highest mean and, with a prior, the one with the highest estimate."""

    chosen: Evaluation
    highest: Evaluation
    estimated: Evaluation | None


def choose(
    proposed: Sequence[Evaluation],
    terms: Terms,
    prior: Prior | None = None,
    *,
    by: str = "mean",
    pruned: Sequence[Evaluation] = (),
) -> tuple[WinnerChoice | None, str]:
    """Choose by the ``mean`` or, with a ``prior``, by the ``estimate``; return the choice, or None and the reason.

    There is none while trouble of a provider leaves open whether one of ``proposed`` or ``pruned`` is better.
    """
    if reason := _no_choice_reason(proposed, terms):
        return None, reason
    ranking = rank_evaluations(proposed, terms)
    estimated = best_estimated(ranking, terms, prior) if prior else None
    leader = estimated if estimated and by == "estimate" else ranking[0]
    # pipelines ranked above the leader have not lost because of failures
    ahead = {one.phenotype for one in ranking[: ranking.index(leader)]}
    others = [one for one in proposed if one.phenotype not in ahead]
    in_trouble = [one for one in [*others, *pruned] if one.has_trouble]
    above = find_significantly_better(leader, others, terms.fitness) or next(
        iter(find_undecided(leader, in_trouble, terms.fitness)), None
    )
    if above is None:
        return WinnerChoice(leader, ranking[0], estimated), ""
    both = len(common_questions([leader, above]))
    return None, (
        f"{label(leader.candidate)} leads, but {label(above.candidate)}, which failed on "
        f"{terms.count_missing(above)} of {len(terms.counted)} questions, "
        f"{f'is better on the {both} that both finished' if both else 'finished none that the first one did'}: the "
        f"better one is unknown until more of its questions are answered; "
        f"{_describe_failures(above.failures.values())}"
    )


def best_estimated(ranking: Sequence[Evaluation], terms: Terms, prior: Prior) -> Evaluation:
    """Return the pipeline of ``ranking``, sorted by mean, that has the highest estimate.

    A failure on a question that counts has the lowest score, as in the means.
    """
    if len(ranking) < MIN_FOR_ESTIMATE or len(terms.counted) < MIN_FOR_ESTIMATE:
        return ranking[0]
    by_question = [one.by_question(terms.fitness) for one in ranking]
    scores = np.array([[row.get(question, np.nan) for question in terms.counted] for row in by_question])
    genomes = prior.genomes([one.candidate for one in ranking])
    expected, _ = prior.predict_genomes(genomes)
    estimates, _ = shrink_means(scores, expected, prior.covariance(genomes, genomes), prior.residual_sd, terms.lowest)
    return ranking[int(np.round(estimates, 12).argmax())]  # rounded, as the last bits of sums are not reproducible


def _no_choice_reason(proposed: Sequence[Evaluation], terms: Terms) -> str:
    """Return why no pipeline can be chosen, or "" if one can."""
    if not proposed:
        return "no candidate was evaluated: raise --max-evaluations or --time-limit"
    if not terms.can_decide:
        total = len(terms.excluded) + len(terms.counted)
        return (
            f"{len(terms.excluded)} of {total} search questions failed for every pipeline, and too few are left to "
            f"choose by; the first is {next(iter(terms.excluded))}; {_describe_failures(terms.excluded.values())}"
        )
    if not any(map(terms.admits, proposed)):
        counted = len(terms.counted)
        fewest = min(proposed, key=terms.count_missing)
        allow = "allow more failures with --max-failure-rate"
        failures = [why for one in proposed for q, why in one.failures.items() if q not in terms.excluded]
        return (
            f"each of the {len(proposed)} candidates failed on more than {100 * terms.max_failure_rate:g} % of "
            f"{counted} questions, the one that failed least on {terms.count_missing(fewest)}; "
            f"{_describe_failures(failures, allow)}"
        )
    return ""


def _describe_failures(failures: Iterable[Record], *more: str) -> str:
    """Describe the most frequent kind of failure, by class and stage, and the remedies."""
    groups: dict[tuple[str, str], list[ExcludedQuestion]] = {}
    for why in map(ExcludedQuestion.from_failure, failures):
        groups.setdefault((why.kind, why.stage), []).append(why)
    most_frequent = max(groups.values(), key=len)
    stage = most_frequent[0].stage
    of_a_technique = stage.partition(".")[0] in {family.name for family in FAMILIES}  # not generation, nor a measure
    without = [f"leave it out with --without {stage}"] if of_a_technique else []
    mend = "mend the system" if stage.startswith("system.") else "take another model"
    trouble = most_frequent[0].kind == ProviderTrouble.kind
    again = "run the same command when the provider has recovered" if trouble else RETRY
    remedies = [mend, *without, again, *more]
    count = f"{len(most_frequent)} of {sum(map(len, groups.values()))} failures are like this one"
    return f"{count}: {most_frequent[0]}; {', '.join(remedies[:-1])} or {remedies[-1]}"


def simplify(
    leader: Evaluation,
    space: Space,
    evaluate: Callable[[Sequence[Candidate]], Sequence[Evaluation]],
    alike: Callable[[Candidate, Evaluation], Evaluation | None],
    terms: Callable[[], Terms],
    *,
    clusters: Clusters,
    max_loss: float,
) -> tuple[Evaluation, tuple[AblationStep, ...]]:
    """Return ``leader`` without the genes that do not pay for their cost, and all steps that were tried.

    ``evaluate`` evaluates candidates on the search questions, which ``clusters`` groups. ``alike`` returns the
    evaluation of a candidate if its results equal those of another evaluation, else None. ``terms`` returns the terms
    of all evaluations so far. The result is shown to be behind ``leader`` by at most ``max_loss`` of fitness.
    """
    current, steps = leader, []
    tried = {place: one for place in range(len(FAMILIES)) if (one := _switch_off(place, leader.candidate, space))}
    alone = dict(zip(tried, evaluate(list(tried.values())), strict=True))
    changing = [place for place, one in alone.items() if one.phenotype != leader.phenotype]
    level = 1 - ALPHA / max(1, len(changing))
    calls = {place: _mean_calls(one) for place, one in alone.items() if one.records}
    for place in sorted(calls, key=lambda place: (place in changing, calls[place], place)):
        candidate = _switch_off(place, current.candidate, space)
        if candidate is None:
            continue
        [simpler] = evaluate([candidate])
        if not terms().admits(simpler) or not common_questions([simpler, current, leader]):
            continue
        step = _ablation_step(place, simpler, current, leader, terms().fitness, clusters, level)
        steps.append(step.taken(_may_go(step, simpler, current, leader, terms().fitness, clusters, max_loss)))
        current = simpler if steps[-1].left_out else current
    for place in range(len(FAMILIES)):
        if found := _reset_parameters(place, current, space, alike):
            steps.append(_ablation_step(place, found, current, leader, terms().fitness, clusters, level).taken(True))
            current = found
    return current, tuple(steps)


def _reset_parameters(
    place: int, current: Evaluation, space: Space, alike: Callable[[Candidate, Evaluation], Evaluation | None]
) -> Evaluation | None:
    """Reset parameters of a gene to their defaults if results stay the same and cost no more; else return None."""
    gene, options = current.candidate[place], space.options[place]
    simpler = [one for one in options if one.technique == gene.technique and len(one.changed) < len(gene.changed)]
    for option in sorted(simpler, key=lambda one: len(one.changed)):
        candidate = _replace_gene(option, place, current.candidate)
        evaluation = alike(candidate, current) if space.allows(candidate) else None
        if evaluation is not None and not _costs_more(evaluation, current):
            return evaluation
    return None


def _replace_gene(option: Gene, place: int, candidate: Candidate) -> Candidate:
    """Replace the gene of ``candidate`` at a place, and remove fitted weights, which depend on it."""
    unfitted = tuple(replace(gene, fit=None) for gene in candidate)
    return (*unfitted[:place], option, *unfitted[place + 1 :])


def _costs_more(one: Evaluation, other: Evaluation) -> bool:
    """Whether ``one`` uses more of any model than ``other`` on the same questions."""
    counts = next(iter(other.records.values()))["usage"]
    return any(math.fsum(one.values(name)) > math.fsum(other.values(name)) for name in counts)


def _switch_off(place: int, candidate: Candidate, space: Space) -> Candidate | None:
    """Return ``candidate`` with the gene at a place switched off; None if it is off, or the space allows no other."""
    name = baseline("naive")[place].technique.name
    off = next((option for option in space.options[place] if option.technique.name == name), None)
    if FAMILIES[place].name in REQUIRED_FAMILIES or off is None or candidate[place].technique.name == name:
        return None
    simpler = _replace_gene(off, place, candidate)
    return simpler if space.allows(simpler) else None


def _may_go(
    step: AblationStep,
    simpler: Evaluation,
    current: Evaluation,
    leader: Evaluation,
    fitness: Fitness,
    clusters: Clusters,
    max_loss: float,
) -> bool:
    """Whether ``simpler`` saves something and loses nothing that counts."""
    if simpler.phenotype == current.phenotype:
        return step.calls >= 0
    both = common_questions([simpler, current, leader])
    apart = [question for question in both if question in clusters.without_gold]
    pays = step.calls > 0 or (step.calls == 0 and _loss(current, simpler, both, fitness) <= 0)
    return pays and step.bound is not None and step.bound <= max_loss and _loss(leader, simpler, apart, fitness) <= 0


def _ablation_step(
    place: int,
    simpler: Evaluation,
    current: Evaluation,
    leader: Evaluation,
    fitness: Fitness,
    clusters: Clusters,
    level: float,
) -> AblationStep:
    """Compute the loss of ``simpler`` against the leader, and its saving against ``current``, with one gene more."""
    both = common_questions([simpler, current, leader])
    tested = clusters.tested(both) or both
    ours, theirs = leader.by_question(fitness), simpler.by_question(fitness)
    numbers = clusters.group_numbers(tested)
    found = compute_difference([ours[one] for one in tested], [theirs[one] for one in tested], numbers)
    error, degrees = found.corrected_error
    enough = clusters.count(both) >= MIN_GROUPS  # of questions with gold, unlike those of ``found`` if none has it
    bound = found.mean_difference + student_quantile(level, degrees) * error if enough else None
    calls = _mean_calls(current.restrict(both)) - _mean_calls(simpler.restrict(both))
    gene, now = current.candidate[place], simpler.candidate[place]
    instead = str(now) if now.technique == gene.technique else ""
    return AblationStep(
        FAMILIES[place].name, str(gene), simpler.key, found.mean_difference, error, calls, bound, instead=instead
    )


def _mean_calls(one: Evaluation) -> float:
    calls = one.values("calls")
    return math.fsum(calls) / len(calls)


def _loss(first: Evaluation, second: Evaluation, questions: Sequence[str], fitness: Fitness) -> float:
    """Return how much ``first`` is ahead of ``second``, summed over questions, but for rounding."""
    ours, theirs = first.by_question(fitness), second.by_question(fitness)
    return round(math.fsum(ours[question] - theirs[question] for question in questions), 12)


Array = NDArray[np.float64]

MIN_QUESTIONS_FOR_COVARIANCE = 4
"""Minimum number of questions to estimate the error of a covariance; with fewer, covariances are shrunk to 0."""

JITTER = 1e-9
"""The regularisation of the covariance, relative to its largest variance; it keeps equal rows invertible."""


def shrink_means(
    scores: Array, expected: Array, covariance: Array, residual_sd: float, lowest: float = 0.0
) -> tuple[Array, Array]:
    """Return the posterior mean score of each pipeline, and the standard deviation of its difference from the mean.

    The highest of many noisy means is biased upwards. With means y over the questions that all have answered,

        y ~ Normal(level + expected, K + residual_sd^2 I + noise),

    where ``expected`` and K are the mean and covariance of a prior on the scores of pipelines, and the level, the
    difficulty of the questions, has a flat prior. The posterior mean without the noise is linear in y (Rasmussen and
    Williams 2006, *Gaussian Processes for Machine Learning*, 2.2 and 2.7).
    The noise is the covariance of means over questions. There are often more pipelines than questions, so it is shrunk
    towards its diagonal (Schäfer and Strimmer 2005, *A Shrinkage Approach to Large-Scale Covariance Matrix Estimation
    and Implications for Functional Genomics*, table 2, target D).

    ``scores`` has a row for each pipeline and a column for each question, two of each at least; NaN is a failure,
    which counts as ``lowest`` in a mean, and is ignored in the noise. ``expected`` and ``covariance`` are those of the
    prior, in the unit of the scores and up to a common constant; ``residual_sd`` is the standard deviation of the part
    of a score that the prior does not explain. The mean over all pipelines is unchanged.
    """
    pipelines = len(scores)
    means = np.where(np.isnan(scores), lowest, scores).mean(axis=1)
    centre = np.eye(pipelines) - 1.0 / pipelines
    # centring removes the level
    signal = centre @ (covariance + residual_sd**2 * np.eye(pipelines)) @ centre
    noise = centre @ _estimate_noise(scores) @ centre
    surprise = centre @ (means - expected)
    total = signal + noise + 1.0 / pipelines  # of full rank; the added direction is not in any difference
    total += JITTER * float(total.diagonal().max()) * np.eye(pipelines)
    solved = np.linalg.solve(total, np.column_stack([surprise, signal]))
    posterior = means.mean() + centre @ expected + signal @ solved[:, 0]
    variances = np.maximum(np.diag(signal - signal @ solved[:, 1:]), 0.0)
    return posterior, np.sqrt(variances)


def _estimate_noise(scores: Array) -> Array:
    """Return the covariance of the means of rows over columns, relative to the mean of all rows.

    A failure is imputed from the means of its row and column, so that it lowers no estimate.
    """
    rows, columns = scores.shape
    known = np.ma.masked_invalid(scores)
    level = float(known.mean())
    by_row, by_column = (known.mean(axis=axis).filled(level) for axis in (1, 0))
    usual = by_row[:, None] + by_column - level
    filled = np.where(np.isnan(scores), usual, scores)
    covariance, share = shrinkage(filled - filled.mean(axis=0))
    # independent rows have 1 - 1 / rows of their variance around the mean of all
    alone = np.diag(np.diag(covariance)) * rows / (rows - 1)
    noise: Array = ((1.0 - share) * covariance + share * alone) / columns
    return noise


def shrinkage(rows: Array) -> tuple[Array, float]:
    """Return the covariance of rows, and its shrinkage intensity towards the diagonal."""
    n = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    covariance = centred @ centred.T / (n - 1)
    # the variance of each entry, estimated from the products that it averages
    spread = (centred**2 @ (centred**2).T) - (centred @ centred.T) ** 2 / n
    variances = spread * n / (n - 1) ** 3
    off = ~np.eye(len(rows), dtype=bool)
    squares = float((covariance[off] ** 2).sum())
    if n < MIN_QUESTIONS_FOR_COVARIANCE or squares == 0.0:
        return covariance, 1.0
    return covariance, min(1.0, max(0.0, float(variances[off].sum()) / squares))
