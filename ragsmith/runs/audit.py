"""Audit the options of a space, each alone, on a sample of the search questions, before a search.

A search does not detect options without effect, which the published experiments of several papers included. Here each
option is switched on alone and compared, question by question, with the same pipeline without it, and with every other
option of its family.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random

from ragsmith.errors import WrongOption
from ragsmith.evaluation.baselines import OBSERVED_STAGES, OptionActivity, Probe, add_required, baseline, list_probes
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment, sort_examples
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.ranking import Terms, common_questions
from ragsmith.evaluation.statistics import PairedTest, holm, paired_test
from ragsmith.exported.requirements import (
    refuse_missing_answers,
    refuse_missing_models,
    refuse_missing_packages,
    refuse_too_large,
)
from ragsmith.pipelines.genes import Candidate, describe_changes, make_gene
from ragsmith.pipelines.space import Space
from ragsmith.records.audit import Audit, OptionFinding, PairFinding
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.types import Example


def sample_questions(setup: Experiment, size: int, seed: int = 0) -> list[Example]:
    """Draw up to ``size`` search questions."""
    if size < 1:
        raise WrongOption("sample", f"is {size} questions: give at least 1")
    questions = sort_examples(setup.split.search)
    return sort_examples(Random(seed).sample(questions, min(size, len(questions))))


def audit(
    setup: Experiment,
    space: Space,
    store: Store,
    questions: Sequence[Example],
    *,
    workers: int = 1,
    fitness: Fitness | None = None,
) -> Audit:
    """Compare every option of ``space`` alone, on ``questions``, with the same pipeline without it.

    Options that read the gold labels, which a search space must not have, are included as upper bounds.

    Raises:
        UsageError: an option needs a model that this run lacks, or a question has no reference answer.
    """
    ids = setup.loaded_models.ids()
    setup = setup.with_searched_settings(space.settings)
    refuse_missing_answers(questions)
    genes = [gene for options in space.options for gene in options]
    refuse_missing_models(genes, setup.models)
    refuse_missing_packages(genes)
    refuse_too_large(genes, len(setup.corpus.chunks))
    probes = [*list_probes(space), *_analysis_probes(space)]
    trials = list(option_pairs(space))
    probed = [candidate for probe in probes for candidate in (probe.candidate, probe.reference)]
    tried = dict.fromkeys([*probed, *(pipeline for trial in trials for pipeline in trial.pipelines)])
    with Evaluator(setup, store, workers) as evaluator:
        evaluations = dict(zip(tried, evaluator.evaluate(list(tried), questions), strict=True))
    terms = Terms.from_evaluations([evaluations[candidate] for candidate in probed], fitness or Fitness())
    findings = [
        _compare_option(probe, evaluations[probe.candidate], evaluations[probe.reference], terms) for probe in probes
    ]
    marked = _adjust_p_values([*_mark_equal_options(findings, [evaluations[probe.candidate] for probe in probes])])
    pairs = tuple(_compare_pair(trial, *(evaluations[pipeline] for pipeline in trial.pipelines)) for trial in trials)
    return Audit(setup.dataset.name, space.name, len(questions), ids, tuple(marked), pairs)


def _analysis_probes(space: Space) -> Iterator[Probe]:
    """Yield the analysis-only techniques, at their defaults and with each other choice of one parameter."""
    naive = baseline("naive")
    for place, family in enumerate(FAMILIES):
        if len(space.options[place]) < 2:
            continue
        for technique in family.techniques.values():
            if not technique.analysis_only:
                continue
            choices = [{}, *({name: value} for name, values in technique.choices.items() for value in values)]
            genes = dict.fromkeys(make_gene(family.name, technique.name, choice) for choice in choices)
            yield from (Probe(gene, (*naive[:place], gene, *naive[place + 1 :]), naive) for gene in genes)


def _compare_option(probe: Probe, alone: Evaluation, without: Evaluation, terms: Terms) -> OptionFinding:
    family = probe.gene.technique.family
    activity = OptionActivity.from_evaluations(family, alone, without)
    both = common_questions([alone, without])

    def change(name: str) -> PairedTest | None:
        if not both or not (terms.admits(alone) and terms.admits(without)):
            return None
        first, second = (one.restrict(both).values(name, terms.fitness) for one in (alone, without))
        return paired_test(first, second) if first else None  # R is undefined for questions without evidence

    return OptionFinding(
        family,
        str(probe.gene),
        describe_changes(probe.candidate, probe.reference),
        activity.compared,
        len({*alone.failures, *without.failures}),
        activity.share,
        activity.added.get("calls"),
        activity.added.get("texts_embedded"),
        activity.added.get("pairs_scored"),
        change("fitness"),
        change("retrieval"),
        None,
        probe.gene.technique.analysis_only,
    )


def _mark_equal_options(findings: Sequence[OptionFinding], alone: Sequence[Evaluation]) -> Iterator[OptionFinding]:
    """Yield each finding with ``same_as`` set to the first option whose pipeline has the same results."""
    first: dict[str, str] = {}
    for finding, evaluation in zip(findings, alone, strict=True):
        option = f"{finding.family} {finding.option}"
        earlier = first.setdefault(evaluation.phenotype, option) if evaluation.complete else option
        yield finding if earlier == option else replace(finding, same_as=earlier)


def _adjust_p_values(findings: Sequence[OptionFinding]) -> list[OptionFinding]:
    """Adjust p-values by Holm's method over the options that a search space may have."""
    raw = {i: one.fitness.p for i, one in enumerate(findings) if one.fitness is not None and not one.analysis_only}
    adjusted = dict(zip(raw, holm(list(raw.values())), strict=True))
    return [replace(finding, p=adjusted.get(i)) for i, finding in enumerate(findings)]


@dataclass(frozen=True, slots=True)
class OptionPair:
    """Two pipelines that differ in one option of ``family`` only, and the names of the two options."""

    family: str
    names: tuple[str, str]
    pipelines: tuple[Candidate, Candidate]


def option_pairs(space: Space) -> Iterator[OptionPair]:
    """Yield every pair of options of a family in naive RAG, with the other options that either of them requires.

    Pairs that the constraints of the space forbid are left out.
    """
    naive = space.with_default_settings(baseline("naive"))
    for place, options in enumerate(space.options):
        for genes in combinations(dict.fromkeys(options), 2):
            context = naive
            for gene in genes:
                context = add_required(context, gene, space)
            one, other = ((*context[:place], gene, *context[place + 1 :]) for gene in genes)
            if space.allows(one) and space.allows(other):
                yield OptionPair(genes[0].technique.family, (str(genes[0]), str(genes[1])), (one, other))


def _compare_pair(trial: OptionPair, one: Evaluation, other: Evaluation) -> PairFinding:
    both = [(one.records[q], other.records[q]) for q in one.questions if q in one.records and q in other.records]
    if not both:
        return PairFinding(trial.family, *trial.names, 0, None, None)
    stage = OBSERVED_STAGES.get(trial.family, trial.family)
    outputs = sum(a["stages"].get(stage) != b["stages"].get(stage) for a, b in both)
    results = sum((a["retrieved"], a["answer"]) != (b["retrieved"], b["answer"]) for a, b in both)
    return PairFinding(trial.family, *trial.names, len(both), outputs / len(both), results / len(both))
