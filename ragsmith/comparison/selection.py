"""Cross-validation of a selection: the score of the best of many pipelines on questions that did not select it.

The highest of many means is biased upwards on the questions that selected it. So the choice is repeated without each
fold, and each fold is scored by the pipeline that is best on the others (Stone 1974, *Cross-validatory choice and
assessment of statistical predictions*; Varma and Simon 2006, *Bias in error estimation when using cross-validation for
model selection*). No pipeline is evaluated again. What stays is that the pipelines themselves were proposed by a search
that saw every fold: this corrects the choice among them, and not their proposal.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.ranking import Terms
from ragsmith.pipelines.genes import label


def cross_validate_choice(
    evaluations: Sequence[Evaluation], terms: Terms, folds: Sequence[Sequence[str]]
) -> Evaluation | None:
    """Return the records of each fold by the pipeline with the highest mean on the others; None with one fold.

    Failures count with the lowest score in the means. Ties are broken by fewer model calls, then the name: nothing
    that depends on the fold. The pipeline of the result is that of the first fold.
    """
    able = sorted(
        (one for one in evaluations if terms.admits(one)),
        key=lambda one: (math.fsum(one.values("calls")) / len(one.records), label(one.candidate)),
    )
    if not able or len(folds) < 2:
        return None
    each = [one.by_question(terms.fitness) for one in able]
    scores = np.array([[known.get(question, terms.lowest) for question in terms.counted] for known in each])
    parts = []
    for fold in folds:
        others = ~np.isin(terms.counted, fold)
        if not others.any():
            return None
        chosen = able[int(scores[:, others].mean(axis=1).round(12).argmax())]
        parts.append(chosen.restrict(tuple(question for question in chosen.questions if question in fold)))
    return replace(
        parts[0],
        key="the choice of each fold",
        questions=tuple(question for part in parts for question in part.questions),
        records={question: record for part in parts for question, record in part.records.items()},
        failures={question: failure for part in parts for question, failure in part.failures.items()},
    )
