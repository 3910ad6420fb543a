"""Calibrate the winner to a stated risk: decline below the least score that keeps it on the search questions."""

import math
from dataclasses import replace
from functools import partial

from ragsmith.comparison.questions import Clusters
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.selective import calibrate_threshold, count_answers, find_wrong
from ragsmith.models.usage import Meter
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import NONE, Candidate, Gene, make_gene
from ragsmith.pipelines.trace import Trace
from ragsmith.records.record import RiskCalibration
from ragsmith.runs.run_context import RunContext, Step
from ragsmith.techniques.families import post_generation
from ragsmith.techniques.post_generation.abstain import SCORE, abstain, score_support
from ragsmith.techniques.task_lookup import tasks_by_role
from ragsmith.types import Example

CALIBRATED = "calibrated"
"""The role of the calibrated pipeline in the test of a run."""


class SupportScorer:
    """Scores answers and their passages, in the processes that run the questions; without passages, None."""

    answers = True

    def __call__(
        self, engine: Engine, setup: Experiment, candidate: Candidate, trace: Trace, example: Example
    ) -> float | None:
        """Score ``trace`` as `abstain` does."""
        role = "controller" if engine.models.controller else ""
        model = engine.gateway.language_model(engine.models.technique_model, Meter(), role)
        if not trace.prompt.passages:
            return None
        return score_support(example.as_question, trace.prompt, trace.answer, model)


def calibrate_winner(context: RunContext, winner: Evaluation) -> Candidate | None:
    """Return the winner with a calibrated `abstain`, and record it; None without a stated risk, or if none is kept.

    `abstain` takes the place of the technique of its family in the winner.
    """
    settings, setup = context.settings, context.setup
    if settings.max_risk is None:
        return None
    least_good, search = context.record.threshold, setup.split.search
    [whole] = context.evaluator.evaluate([_with_gene(winner.candidate, NONE)], search)
    wrong = find_wrong(whole, least_good)
    answered = [question for question, is_wrong in wrong.items() if is_wrong is not None]
    scores = {q: score for _, q, score in context.evaluator.observe([(whole.candidate, answered)], SupportScorer())}
    known = sorted(question for question, score in scores.items() if score is not None)
    scored = [(scores[question], wrong[question] is True) for question in known]
    groups = Clusters.from_examples(setup.dataset, search).group_numbers(known)
    found = RiskCalibration(settings.max_risk, settings.confidence, count_answers(whole, least_good))
    calibrate = partial(calibrate_threshold, scored, confidence=settings.confidence, groups=groups)
    threshold = calibrate(settings.max_risk)
    candidate = None
    if threshold is not None:
        least = max(0.0, round(threshold, 6))
        candidate = _with_gene(winner.candidate, abstain.__name__, least=least, by=SCORE)
        [calibrated] = context.evaluator.evaluate([candidate], search)
        counts = count_answers(calibrated, least_good)
        found = replace(found, key=calibrated.key, least=least, calibrated=counts)
        candidate = calibrated.candidate
    else:
        larger = (percent / 100 for percent in range(math.floor(100 * settings.max_risk) + 1, 100))
        found = replace(found, attainable=next((risk for risk in larger if calibrate(risk) is not None), None))
    context.update(declining=found)
    context.report(Step("the risk of an answer", 0, 0 if candidate is None else 1))
    return candidate


def count_tested_answers(context: RunContext) -> None:
    """Record the answers to the test questions of the calibrated pipeline."""
    found = context.record.declining
    if found is not None and (tested := [one for one in context.tested if one.key == found.key]):
        context.update(
            declining=replace(
                found, tested=count_answers(tested[0], context.record.test_threshold or context.record.threshold)
            )
        )


def _with_gene(candidate: Candidate, name: str, **parameters: float | str) -> Candidate:
    """Return ``candidate`` with another technique of post-generation."""

    def replaced(gene: Gene) -> Gene:
        if gene.technique.family != post_generation.name:
            return gene
        roles = tasks_by_role(post_generation[name])
        prompts = {role: own for role, own in gene.prompts.items() if role in roles}
        return make_gene(post_generation.name, name, parameters, prompts=prompts)

    return tuple(map(replaced, candidate))
