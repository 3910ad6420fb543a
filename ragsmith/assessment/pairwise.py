"""Compare two pipelines on the same questions: scores, answers and a verdict.

Differences are first minus second, paired by question, with intervals and tests by group of questions. The verdict is
on the fitness alone; the p of measures, and of question types, are adjusted among themselves.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from ragsmith.comparison.difference import Difference, compute_difference
from ragsmith.comparison.ledger import count_look, identify_comparison, identify_pipeline, peek_look
from ragsmith.comparison.questions import Clusters, HoldoutUse, digest_questions
from ragsmith.comparison.verdicts import Comparison, compare_two
from ragsmith.display import short_repr
from ragsmith.errors import NotComparable, WrongOption
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import COMPOSITES, HEADLINE, RETRIEVAL, RETRIEVAL_ALONE, Fitness
from ragsmith.evaluation.ranking import Terms, common_questions
from ragsmith.evaluation.statistics import Verdict, holm
from ragsmith.exported import reference
from ragsmith.exported.pipeline import Pipeline
from ragsmith.grouping import group_values
from ragsmith.pipelines.genes import Candidate, label
from ragsmith.reporting.facts import describe_earlier_looks
from ragsmith.reporting.wording import NAIVE, describe_cost
from ragsmith.store.store import Store
from ragsmith.systems.system import System
from ragsmith.text import numbers
from ragsmith.text.table import ColumnPath, Table, counts, figures, texts, to_csv
from ragsmith.types import Example

PARTS = ("test", "search", "all")
"""The parts of a data set that pipelines may be compared on."""


PAIRWISE_COLUMNS: Mapping[str, ColumnPath] = {
    "question": "id",
    **{name: name for name in ("type", "group", "gain")},
    **{
        f"{side}_{part}": f"{side}.{part}"
        for side in ("first", "second")
        for part in ("fitness", "retrieval", "generation", "answer")
    },
    "text": "question",
    "reference": "reference",
}
"""The columns of the CSV file, with the paths of their values."""


MIN_ROUNDED_MEAN = 100
"""Minimum mean that is printed without decimals, as means of counts are."""


@dataclass(frozen=True, slots=True)
class ComparedPipeline:
    """One of the two pipelines: its name, options, model calls a question, and failures by question.

    ``calls`` is None for another system, whose calls are unknown.
    """

    name: str
    label: str
    calls: float | None
    failures: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """The means of two pipelines on the questions with a measure; ``p`` is adjusted by Holm over measures or types."""

    measure: str
    first: float
    second: float
    difference: Difference
    p: float


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """The scores (None if undefined) and answer for a question; ``retrieved`` are chunk ids, best first."""

    fitness: float
    retrieval: float | None
    generation: float | None
    answer: str
    retrieved: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuestionPair:
    """A question with its reference answer and both results; ``group`` is the number of its cluster."""

    id: str
    question: str
    type: str
    reference: str
    group: int
    first: ComparedAnswer
    second: ComparedAnswer

    @property
    def gain(self) -> float:
        """The fitness of the first minus that of the second."""
        return self.first.fitness - self.second.fitness


@dataclass(frozen=True, slots=True)
class PairwiseComparison:
    """Two pipelines on the questions of a ``part`` of a data set that both finished.

    ``questions`` are sorted by gain, largest first. ``measures`` begin with those of the headline. ``comparison`` is of
    the fitness, or of retrieval alone if a machine drafted some of the questions. ``look`` is None on search questions,
    if nothing is tested, and without a verdict.
    """

    dataset: str
    part: str
    first: ComparedPipeline
    second: ComparedPipeline
    comparison: Comparison
    clusters: Clusters
    measures: tuple[MeasureDifference, ...]
    types: tuple[MeasureDifference, ...]
    questions: tuple[QuestionPair, ...]
    notes: tuple[str, ...] = ()
    look: HoldoutUse | None = None

    __repr__ = short_repr

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the first; None if one of the two failed on more questions than allowed."""
        return self.comparison.verdict

    @property
    def fitness(self) -> MeasureDifference:
        """The difference that the verdict is on."""
        return self.measures[0]

    @property
    def table(self) -> Table:
        """The means of measures and types of questions; measures without any difference are left out."""
        shown = [("", one) for one in self.measures if one is self.fitness or one.difference.nonzero]
        rows = [
            (
                f"{kind}{one.measure}",
                one.difference.n,
                numbers.plain(one.first, digits),
                numbers.plain(one.second, digits),
                numbers.signed(one.difference.mean_difference, digits),
                numbers.interval(one.difference.low, one.difference.high, sign=True, digits=digits),
                one.p,
            )
            for kind, one in (*shown, *(("type ", one) for one in self.types))
            for digits in (0 if max(one.first, one.second) >= MIN_ROUNDED_MEAN else 3,)
        ]
        columns = counts("n", "A", "B", "A − B", "95 % interval"), figures(numbers.probability, "p")
        caption = f"A, {self.first.name}, and B, {self.second.name}, on {self.part} questions of {self.dataset}"
        return Table(caption, (*texts(""), *columns[0], *columns[1]), rows)

    def __str__(self) -> str:
        return "\n".join((str(self.table), *self.notes))

    def _repr_html_(self) -> str:
        return self.table._repr_html_()

    def gained(self, most: int) -> list[QuestionPair]:
        """Return up to ``most`` questions with the largest gains."""
        return [one for one in self.questions[:most] if one.gain > 0]

    def lost(self, most: int) -> list[QuestionPair]:
        """Return up to ``most`` questions with the largest losses."""
        return [one for one in self.questions[::-1][:most] if one.gain < 0]


def compare(
    first: tuple[str, Pipeline],
    second: tuple[str, Pipeline],
    store: Store,
    *,
    part: str = "search",
    workers: int = 1,
    day: str,
    on_look: Callable[[str], None] | None = None,
) -> PairwiseComparison:
    """Compare two pipelines, each with its name, on a ``part`` of the questions of their data set.

    A verdict on test questions, or on all, counts as a look at them on this ``day``; p is corrected for earlier ones.
    ``on_look`` is called before anything is computed with a sentence on what such a look costs.

    Raises:
        NotComparable: their data sets, or their scoring, are not the same.
        UsageError: there are no such questions.
    """
    (one, ours), (other, theirs) = first, second
    check_comparable(one, ours, other, theirs)
    check_unseen((first, second), part)
    selected = select_questions(ours.setup, ours.fitness, part)
    terms = verdict_terms(selected, ours.fitness)
    examples, fitness, of = terms.examples, terms.fitness, terms.of
    pair = [(one.setup, one.candidate) for one in (ours, theirs)]
    located = Clusters.from_examples(ours.setup.dataset, examples).groups  # without any gold no answer is tested
    differ = len({identify_pipeline(*one) for one in pair}) > 1  # equal pipelines are not tested, either
    tests = part != "search" and located and differ
    count = announce_look(store, ours.fitness, pair, selected, on_look if tests else None)
    found = evaluate_on([ours, theirs], examples, store, workers)
    both = common_questions(found)
    if not both:
        failures = (f"{why['stage']}: {why['error']}" for one in found for why in one.failures.values())
        why = next(failures, "neither attempted any")
        raise NotComparable(f"no question was finished by {one} and by {other}: {why}")
    asked = [ours.setup.examples[question] for question in both]
    clusters = Clusters.from_examples(ours.setup.dataset, asked)
    look = None
    if (
        tests and clusters.groups and all(map(Terms.from_evaluations(found, fitness).admits, found))
    ):  # else there is no verdict
        look = count(day)
    number = look.number if look else 1
    compared = compare_two(found[0], found[1], clusters, fitness, name=other, look=number, of=of)
    measures = _measure_differences(found, both, fitness, clusters)
    if compared.adjusted_p is not None:
        measures[0] = replace(measures[0], p=compared.adjusted_p)
    return PairwiseComparison(
        ours.setup.dataset.name,
        part,
        _compared_pipeline(one, found[0], both),
        _compared_pipeline(other, found[1], both),
        compared,
        clusters,
        tuple(measures),
        _type_differences(found, asked, fitness, clusters),
        _question_pairs(found, asked, clusters.group_numbers(both), fitness),
        (*_notes(ours, theirs, one, other, part), *filter(None, [describe_earlier_looks(look)])),
        look,
    )


def announce_look(
    store: Store,
    fitness: Fitness,
    compared: Sequence[tuple[Experiment, Candidate]],
    examples: Sequence[Example],
    on_look: Callable[[str], None] | None,
    how: str = "tested",
) -> Callable[[str], HoldoutUse]:
    """Call ``on_look`` with what a look at ``examples`` costs, and return the function that counts it on a day.

    The first of the pipelines ``compared`` is compared with each other. Scores that are shown without a test are
    ``counted``.
    """
    first, *others = (identify_pipeline(*one) for one in compared)
    contents = digest_questions(compared[0][0].dataset, examples).values()
    used = store, identify_comparison(fitness, first, others), contents
    if on_look:
        look, recorded = peek_look(*used)
        on_look(describe_cost(look, recorded=recorded, how=how))
    return partial(count_look, *used)


def pairwise_csv(found: PairwiseComparison) -> str:
    """Return the questions of a comparison as CSV, largest gain first."""
    return to_csv(found.questions, PAIRWISE_COLUMNS)


@dataclass(frozen=True, slots=True)
class VerdictTerms:
    """The ``fitness`` and ``examples`` of a verdict; ``of`` is ``retrieval`` if any are machine-``drafted``."""

    examples: list[Example]
    fitness: Fitness
    of: str = "fitness"
    drafted: int = 0


def verdict_terms(examples: Sequence[Example], fitness: Fitness) -> VerdictTerms:
    """Return the terms of a verdict on ``examples``, as in the report of a search.

    If a machine drafted any of them, retrieval alone is compared, on those with evidence.
    """
    drafted = sum(example.drafted for example in examples)
    if not drafted or fitness.ranking_only:
        return VerdictTerms(list(examples), fitness)
    with_evidence = [example for example in examples if example.evidence]
    return VerdictTerms(with_evidence, Fitness(RETRIEVAL_ALONE, objective=RETRIEVAL), RETRIEVAL, drafted)


def select_questions(setup: Experiment, fitness: Fitness, part: str) -> list[Example]:
    """Return the questions of a ``part`` of a data set for which the fitness is defined.

    Raises:
        UsageError: there are no such questions.
    """
    data = setup.dataset
    parts = {"test": setup.split.test, "search": setup.split.search, "all": data.examples}
    found = [example for example in parts[part] if example.evidence or not fitness.needs_evidence]
    if not found:
        part = "" if part == "all" or not data.examples else f"{part} "
        why = f"{data.name!r} has no {part}questions" + (f" ({setup.split.rule})" if part == "test " else "")
        if part:
            raise WrongOption("split", "all takes every question", why)
        raise WrongOption("dataset", "must name a data set that has some", why)
    return found


def check_unseen(named: Sequence[tuple[str, Pipeline]], part: str) -> None:
    """Raise UsageError if the questions are a test set, and one of the pipelines was selected on all of them."""
    if part == "test":
        for name, pipeline in named:
            pipeline.refuse_test(name, instead="take --split all, which flatters it, or test it")


def check_comparable(one: str, ours: Pipeline, other: str, theirs: Pipeline) -> None:
    """Raise NotComparable if two pipelines have different data sets or scoring."""
    if ours.setup.dataset.digest != theirs.setup.dataset.digest:
        names = ours.setup.dataset.name, theirs.setup.dataset.name
        raise NotComparable(
            f"{one} is on the data set {names[0]!r} and {other} on {names[1]!r} with other documents or questions: put "
            "both on one with --dataset"
        )
    marks = (reference.scoring_digests(pipeline.setup, pipeline.fitness) for pipeline in (ours, theirs))
    if changed := reference.describe_difference(*marks):
        raise NotComparable(
            f"{one} and {other} are scored differently, {changed}: name the same models for both (--judge, --embedder)"
        )


def evaluate_on(
    pipelines: Sequence[Pipeline], examples: Sequence[Example], store: Store, workers: int
) -> list[Evaluation]:
    """Evaluate pipelines on ``examples``, together if they have the same experiment."""
    first = pipelines[0]
    if isinstance(first, System) or any(one.setup != first.setup or one.fitness != first.fitness for one in pipelines):
        return [one.evaluate(store, examples, workers=workers) for one in pipelines]
    with Evaluator(first.setup, store, workers, ranking_only=first.fitness.ranking_only) as evaluator:
        return evaluator.evaluate([one.candidate for one in pipelines], examples)


def _measure_differences(
    found: Sequence[Evaluation], both: tuple[str, ...], fitness: Fitness, clusters: Clusters
) -> list[MeasureDifference]:
    """Return all measures defined for both on some question, with p adjusted except for the fitness."""
    shown = [one.restrict(both) for one in found]
    names = dict.fromkeys([*HEADLINE, *shown[0].measures])
    columns = {
        name: [one.column(name, fitness) if name in {*HEADLINE, *one.measures} else [] for one in shown]
        for name in names
    }
    measured = (_measure_difference(name, both, each, clusters) for name, each in columns.items())
    listed = [one for one in measured if one]
    return [listed[0], *_adjust_p(listed[1:])]


def _measure_difference(
    name: str, questions: Sequence[str], columns: Sequence[Sequence[float | None]], clusters: Clusters
) -> MeasureDifference | None:
    """Return the difference in a measure on the questions that have it; None if there are none."""
    if any(len(column) != len(questions) for column in columns):
        return None
    values = [(q, a, b) for q, a, b in zip(questions, *columns, strict=True) if a is not None and b is not None]
    placed = set(clusters.tested(questions))
    values = [row for row in values if row[0] in placed] or values  # else a measure of questions without gold
    if not values:
        return None
    asked, ours, theirs = zip(*values, strict=True)
    between = compute_difference(ours, theirs, clusters.group_numbers(asked))
    return MeasureDifference(name, math.fsum(ours) / len(ours), math.fsum(theirs) / len(theirs), between, between.p)


def _type_differences(
    found: Sequence[Evaluation], asked: Sequence[Example], fitness: Fitness, clusters: Clusters
) -> tuple[MeasureDifference, ...]:
    """Return the differences in fitness by question type."""
    scores = [one.by_question(fitness) for one in found]
    by_type = group_values((example.type, example.id) for example in asked)
    measured = (
        _measure_difference(type_, questions, [[its[question] for question in questions] for its in scores], clusters)
        for type_, questions in sorted(by_type.items())
    )
    return tuple(_adjust_p([one for one in measured if one]))


def _adjust_p(listed: Sequence[MeasureDifference]) -> list[MeasureDifference]:
    p = holm([one.difference.p for one in listed])
    return [replace(one, p=adjusted) for one, adjusted in zip(listed, p, strict=True)]


def _compared_pipeline(name: str, found: Evaluation, both: tuple[str, ...]) -> ComparedPipeline:
    calls = fmean(found.restrict(both).values("calls")) if found.candidate else None
    failures = {question: f"{why['stage']}: {why['error']}" for question, why in found.failures.items()}
    return ComparedPipeline(name, describe_candidate(found.candidate), calls, failures)


def describe_candidate(candidate: Candidate) -> str:
    """Return the options of a pipeline besides those of naive RAG; another system has no options."""
    return (label(candidate) or NAIVE) if candidate else "another system"


def _question_pairs(
    found: Sequence[Evaluation], asked: Sequence[Example], groups: Sequence[int], fitness: Fitness
) -> tuple[QuestionPair, ...]:
    questions = tuple(example.id for example in asked)
    sides = [_compared_answers(one.restrict(questions), fitness) for one in found]
    rows = [
        QuestionPair(example.id, example.question, example.type, example.answer, group, first, second)
        for example, group, first, second in zip(asked, groups, *sides, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (-round(row.gain, 12), row.id)))


def _compared_answers(found: Evaluation, fitness: Fitness) -> list[ComparedAnswer]:
    scores = found.by_question(fitness)
    parts = [found.column(name) for name in COMPOSITES]
    return [
        ComparedAnswer(
            scores[question],
            r,
            g,
            found.records[question].get("answer", ""),
            tuple(found.records[question]["retrieved"]),
        )
        for question, r, g in zip(found.questions, *parts, strict=True)
    ]


def _notes(ours: Pipeline, theirs: Pipeline, one: str, other: str, part: str) -> Iterator[str]:
    """Yield the caveats of the comparison."""
    setup, named = ours.setup, ((one, ours), (other, theirs))
    chosen = [name for name, pipeline in named if pipeline.chosen]
    before = [name for name, one in named if one.chosen and one.found_on not in ("", setup.dataset.digest)]
    others = ": the split 'test' has the others, and counts as a look" if setup.split.test else ""
    if chosen and part != "test":
        were, them = ("was", "it") if len(chosen) == 1 else ("were", "them")
        yield f"{' and '.join(chosen)} {were} chosen on the search questions, which flatter {them}{others}"
    if before:
        yield (
            f"{setup.dataset.name!r} is another data set than the one that {' and '.join(before)} was chosen on, or a "
            "changed state of it" + "; it may have been chosen on some of these test questions" * (part == "test")
        )
