"""What each option gained over a run: in every pair of its pipelines that differ in nothing else.

A pipeline with the option is compared with the same one that has naive RAG's option of the family, question by question
on those that both answered, and the mean is over all such pairs: naive RAG itself is one of them where options were
switched on alone, and the others are what the search happened to propose. So it is no difference between unlike
pipelines, as means with and without an option are. What a race dropped early counts on the questions that it answered,
on which it was behind: large losses look a little larger than they are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ragsmith.comparison.clusters import Clusters
from ragsmith.diagnosis.ablation import identity
from ragsmith.diagnosis.contrasts import Estimate
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.pipelines.hyperparameters import GENES


@dataclass(frozen=True, slots=True)
class OptionEffect:
    """What an option gains in F over naive RAG's option of its family, over ``pairs`` pairs of pipelines of a run."""

    family: str
    option: str
    instead: str
    gain: Estimate
    pairs: int


def option_effects(evaluations: Sequence[Evaluation], fitness: Fitness, clusters: Clusters) -> list[OptionEffect]:
    """The effects of all options that any pair of ``evaluations`` shows, family by family."""
    found, whole = [], [(identity(one.candidate), one) for one in evaluations]
    for place, plain in islice(enumerate(baseline("naive")), GENES):
        alike: defaultdict[tuple[str, ...], dict[str, Evaluation]] = defaultdict(dict)
        for genes, one in whole:
            alike[(*genes[:place], *genes[place + 1 :])].setdefault(str(one.candidate[place]), one)
        pairs: defaultdict[str, list[tuple[Evaluation, Evaluation]]] = defaultdict(list)
        for its in alike.values():
            if (without := its.get(str(plain))) is not None:
                for option, one in its.items():
                    if one is not without:
                        pairs[option].append((one, without))
        for option in sorted(pairs):
            gain = _gain(pairs[option], fitness, clusters)
            if gain is not None:
                effect = OptionEffect(plain.technique.family, option, str(plain), gain, len(pairs[option]))
                found.append(effect)
    return found


def _gain(pairs: Sequence[tuple[Evaluation, Evaluation]], fitness: Fitness, clusters: Clusters) -> Estimate | None:
    """The mean difference over all questions of all pairs: a ratio of two sums over questions.

    Its error is that of the ratio, linearised: a question in which more pairs were compared weighs more, and so does
    its group in the effective number of groups.
    """
    sums: defaultdict[str, list[float]] = defaultdict(list)
    for one, other in pairs:
        ours, theirs = one.by_question(fitness), other.by_question(fitness)
        for question, value in ours.items():
            if question in theirs:
                sums[question].append(value - theirs[question])
    if not sums:
        return None
    counted = sum(map(len, sums.values()))
    mean = math.fsum(map(math.fsum, sums.values())) / counted
    n = len(sums)
    moved = {q: n / counted * (math.fsum(values) - len(values) * mean) for q, values in sums.items()}
    return Estimate.by_student(mean, moved, clusters, {q: float(len(values)) for q, values in sums.items()})
