"""Learning effects: a sample of pipelines on the search questions of data sets, through evaluator and cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random

import numpy as np
from effect_model import design_of, learned_from, sampling_noise
from weights import learn_weights

from ragsmith.datasets.groups import Group, group_by_links, iter_groupings
from ragsmith.datasets.overlap import sample_shingles as sample_of_documents
from ragsmith.effects.beliefs import Array
from ragsmith.effects.corpus import profile_corpus
from ragsmith.effects.knowledge import MIN_DATASETS, Knowledge, ObservedDataset, RecommendationCheck
from ragsmith.effects.recommending import COST_CLASSES, recommend_pipelines
from ragsmith.effects.terms import GROUPS, PARTS, ModelClasses, option_labels, usual_pipeline
from ragsmith.errors import UsageError
from ragsmith.evaluation.baselines import baseline, list_probes
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment, sort_examples
from ragsmith.evaluation.fitness import Weights
from ragsmith.evaluation.general_weights import GeneralWeights
from ragsmith.evaluation.statistics import student_quantile
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space
from ragsmith.store.store import Store
from ragsmith.techniques.registry import load_techniques
from ragsmith.types import Dataset, Example

PIPELINES = 96
"""Pipelines of the sample on each data set, unless said otherwise: with 17 data sets, what is expected of a new one is
worked out from these in less than a second."""

BATCH = 10
"""Pipelines that are evaluated together: what they share is computed once, and between batches one may look."""

CHECK_STEPS = 6
"""Steps to the variances without one data set, from those with it: they are near."""

FEWEST_GROUPS = 5
"""Groups of questions that can tell how much depends on which questions are asked."""

Progress = Callable[[str, int, int], None]
"""Told the name of a data set, how many of its pipelines are done, and of how many."""


def learn(
    setups: Sequence[Experiment],
    space: Space,
    store: Store,
    *,
    pipelines: int = PIPELINES,
    seed: int = 0,
    workers: int = 1,
    ranking: GeneralWeights | None = None,
    on_progress: Progress | None = None,
) -> Knowledge:
    """Learn what the options of ``space`` are worth on the data sets of ``setups``; test questions are not looked at.

    First come the weights of signals, unless ``ranking`` has them. Then, with those that the other data sets teach,
    naive RAG, BM25, every option alone and random feasible pipelines are evaluated on each, ``pipelines`` in all; what
    ``store`` has is not computed again. Then each data set is left out in turn: the pipelines that the others name for
    it are evaluated on it, which stands in ``checked`` of what is returned.

    Raises:
        UsageError: there are fewer than two data sets.
    """
    if len(setups) < MIN_DATASETS:
        raise UsageError(
            f"effects are learned from {MIN_DATASETS} data sets or more, which tell how they differ: name more"
        )
    load_techniques()
    space = space.without_settings()
    ranking = ranking or learn_weights(setups, store)
    setups = [replace(setup, weights=ranking) for setup in setups]
    told = on_progress or (lambda name, done, total: None)
    observed = []
    for setup in setups:
        able = space.without(setup.lacks_weights)
        able = able if len(setup.folds) > 1 else able.without(lambda gene: gene.learns)
        sample = sample_of(able, pipelines, f"{seed}:{setup.dataset.digest}")
        evaluations: list[Evaluation] = []
        with Evaluator(setup, store, workers) as evaluator:
            for start in range(0, len(sample), BATCH):
                told(setup.dataset.name, start, len(sample))
                evaluations += _evaluated(evaluator, setup, sample[start : start + BATCH])
        observed.append(observed_of(setup, sample, evaluations))
    knowledge = learned_from(observed)
    checks = [check for setup in setups for check in _checks(knowledge, setup, space, store, workers, told)]
    made: dict[str, str | int] = {"space": space.name, "pipelines": pipelines, "seed": seed}
    return replace(knowledge, checked=tuple(checks), made=made, ranking=ranking)


def _evaluated(evaluator: Evaluator, setup: Experiment, candidates: Sequence[Candidate]) -> list[Evaluation]:
    """Evaluations on the search questions: of the ranking alone where these have no answers."""
    return (evaluator.evaluate if _answered(setup) else evaluator.rank)(candidates, _questions(setup))


def _questions(setup: Experiment) -> tuple[Example, ...]:
    """The search questions that have both R and G, or would if they had answers: those with evidence."""
    return setup.split.with_evidence().search


def _answered(setup: Experiment) -> bool:
    return any(question.answer for question in _questions(setup))


def sample_of(space: Space, size: int, seed: str) -> list[Candidate]:
    """``size`` pipelines to learn from, or all that there are.

    First naive RAG, BM25 and every option alone. Of the rest, half are options in what most people would build and in
    BM25, which gains are told against, drawn at random, as far as there are any, and half are random feasible
    pipelines: what options do alone is known best, and what they do together everywhere a little.
    """
    found = dict.fromkeys([baseline("naive"), baseline("bm25"), *(probe.candidate for probe in list_probes(space))])
    draw = Random(f"effects:{seed}")
    varied: list[Candidate] = []
    for known in (usual_pipeline(), baseline("bm25")):
        if all(gene in options for gene, options in zip(known, space.options, strict=True)):
            changed = ((*known[:i], gene, *known[i + 1 :]) for i, its in enumerate(space.options) for gene in its)
            varied += [candidate for candidate in changed if space.allows(candidate)]
    wanted = min(size, space.feasible_size)
    rest = max(0, wanted - len(found))
    draw.shuffle(varied)
    for candidate in varied:
        if len(found) >= wanted - rest // 2:
            break
        found.setdefault(candidate)
    while len(found) < wanted:
        genome = tuple(draw.randrange(options) for options in space.sizes)
        if space.is_feasible(genome):
            found.setdefault(space.candidate(genome))
    return list(found)[: max(wanted, 2)]


def observed_of(setup: Experiment, sample: Sequence[Candidate], evaluations: Sequence[Evaluation]) -> ObservedDataset:
    """What ``evaluations`` of a sample on the search questions show; those that lack an answer are left out."""
    pairs = [
        (option_labels(candidate), one) for candidate, one in zip(sample, evaluations, strict=True) if one.complete
    ]
    labels = tuple(label for label, _ in pairs)
    complete = [evaluation for _, evaluation in pairs]
    questions = _questions(setup)
    together = groups_of(setup.dataset, questions)
    models = ModelClasses.from_names(setup.models)
    answered = _answered(setup)
    means, noise = {}, {}
    for part in PARTS if answered else PARTS[:1]:
        scores = np.array([evaluation.values(part) for evaluation in complete])
        means[part] = tuple(scores.mean(axis=1).tolist())
        design, columns = design_of(labels, part, models)
        noise[part] = tuple(sampling_noise(design, columns, len(GROUPS), deviations(scores, together)).tolist())
    calls = tuple(float(np.mean(evaluation.values("calls"))) for evaluation in complete) if answered else ()
    return ObservedDataset(
        setup.dataset.name,
        setup.dataset.digest,
        sample_of_documents(setup.dataset.documents),
        profile_corpus(setup.dataset.documents, questions),
        models,
        len(questions),
        len(together),
        labels,
        means,
        noise,
        calls,
    )


def deviations(scores: Array, together: Sequence[Sequence[int]]) -> Array:
    """How far each group of questions moves the mean of each row of ``scores``; see `sampling_noise`."""
    centred = scores - scores.mean(axis=1, keepdims=True)
    return np.array([centred[:, list(group)].sum(axis=1) / scores.shape[1] for group in together])


def group_by_main_document(questions: Sequence[Example]) -> list[Group]:
    """Group questions by the document with most of their evidence; groups may share other documents."""
    return group_by_links(questions, [[_main_document(question)] for question in questions])


def _main_document(question: Example) -> str:
    gold: Counter[str] = Counter()
    for span in question.evidence:
        gold[span.doc] += span.end - span.start
    return max(sorted(gold), key=lambda document: gold[document], default="")


def groups_of(dataset: Dataset, questions: Sequence[Example]) -> list[list[int]]:
    """The positions, in the order of evaluations, of the questions that hang together: one sample, not several.

    They do by document; where nearly all do, by neighbourhood, then by section, and at last by the document that has
    most of a question's gold.
    """
    at = {example.id: place for place, example in enumerate(sort_examples(questions))}
    ways = (*iter_groupings(dataset, questions), group_by_main_document(questions))
    parts = next((parts for parts in ways if len(parts) >= FEWEST_GROUPS), ways[-1])
    return [[at[example.id] for example in group.examples] for group in parts]


def _checks(
    knowledge: Knowledge, setup: Experiment, space: Space, store: Store, workers: int, told: Progress
) -> Iterator[RecommendationCheck]:
    """What the other data sets name for the one of ``setup``, in each class of costs, and what it gains there."""
    data, questions = setup.dataset, _questions(setup)
    others = knowledge.without(sample_of_documents(data.documents))
    together = groups_of(data, questions)
    if len(together) < 2 or any(sum(part in one.means for one in others.observed) < MIN_DATASETS for part in PARTS):
        return
    told(f"{data.name}, left out", 0, len(COST_CLASSES))
    apart = learned_from(others.observed, steps=CHECK_STEPS, start=knowledge)
    answered = _answered(setup)
    weights = Weights() if answered else Weights(1, 0)
    models = ModelClasses.from_names(setup.models)
    named = recommend_pipelines(
        space.without(setup.lacks_weights), apart, profile_corpus(data.documents), models, weights=weights
    )
    with Evaluator(setup, store, workers) as evaluator:
        candidates = [baseline("bm25"), *(one.candidate for one in named)]
        rival, *found = _evaluated(evaluator, setup, candidates)
    name = "fitness" if answered else "retrieval"
    for one, evaluation in zip(named, found, strict=True):
        if not (rival.complete and evaluation.complete):
            continue
        gains = np.array([evaluation.values(name)]) - np.array([rival.values(name)])
        moved = deviations(gains, together)
        error = float(np.sqrt((moved**2).sum() * len(moved) / (len(moved) - 1)))
        reach = student_quantile(0.975, len(moved) - 1) * error
        gain = float(gains.mean())
        calls = float(np.mean(evaluation.values("calls"))) if answered else one.calls
        labels = option_labels(one.candidate)
        yield RecommendationCheck(
            data.name, name, one.most_calls, labels, one.gain, one.sd, gain, gain - reach, gain + reach, calls
        )
