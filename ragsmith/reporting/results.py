"""Evaluations to what a report shows of pipelines, options and latency, and of single questions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Literal

import numpy as np

from ragsmith.caches import bounded_cache
from ragsmith.comparison.questions import FEWEST_GROUPS
from ragsmith.diagnosis.causes import Cause
from ragsmith.diagnosis.diagnosed import Diagnosed, neighbours, shown
from ragsmith.evaluation.baselines import OptionActivity
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE, Fitness
from ragsmith.evaluation.ranking import Terms, common, ranked
from ragsmith.evaluation.statistics import bootstrap_interval
from ragsmith.pipelines.genes import SETTINGS, label
from ragsmith.pipelines.stages import COLD, STAGES, WARM, WHOLE, StageTimes
from ragsmith.records.record import ProbeRecord
from ragsmith.reporting.run_data import RunData
from ragsmith.reporting.values import (
    SHOWN,
    CauseCounts,
    Coverage,
    GroupScores,
    Intervened,
    Latency,
    OptionAlone,
    PipelineAnswer,
    PipelineRow,
    ProposalMeans,
    QuestionExample,
    QuestionOutcome,
    QuestionResult,
    Questions,
    RepairCounts,
    Score,
    SpaceOption,
)
from ragsmith.store.store import ProposalRow
from ragsmith.techniques.families import FAMILIES

COSTS = ("calls", "input_tokens", "output_tokens", "texts_embedded", "pairs_scored", "context_chars")
"""What a group of questions costs, per question: counts of the usage, and the length of the prompt in characters."""


@bounded_cache(1000, key="the values of a row")
def _interval(values: tuple[float, ...]) -> tuple[float, float]:
    """See `bootstrap_interval`. Pipelines that differ late in the pipeline retrieve the same."""
    return bootstrap_interval(values)


def score(values: Sequence[float], questions: int, *, interval: bool = True) -> Score:
    """The mean of ``values`` and its interval; how many they are, if they are not one for each question."""
    low, high = _interval(tuple(values)) if interval else (None, None)
    return Score(fsum(values) / len(values), low, high, None if len(values) == questions else len(values))


def row(
    evaluation: Evaluation,
    terms: Terms,
    *,
    on: tuple[str, ...] | None = None,
    intervals: Collection[str] = tuple(HEADLINE),
    shared: int = 1,
) -> PipelineRow:
    """A pipeline as the report shows it; the scores named in ``intervals`` get one.

    The scores are means over the questions ``on`` which it is compared, which it finished; over all that it finished
    unless given.
    """
    coverage = Coverage(len(evaluation.questions), len(evaluation.records), len(evaluation.failures))
    scores: dict[str, Score] = {}
    usage: dict[str, float] = {}
    ranked_by = terms.score(evaluation)
    compared = evaluation.on(on) if on is not None else evaluation
    if ranked_by is not None and compared.records:
        for name in (*HEADLINE, *evaluation.measures):
            values = compared.values(name, terms.fitness)
            if values:
                scores[name] = score(values, coverage.questions, interval=name in intervals)
        first = next(iter(compared.records.values()))
        usage = {name: fsum(compared.values(name)) / len(compared.records) for name in sorted(first["usage"])}
    genes = {gene.technique.family: str(gene) for gene in evaluation.candidate}
    fitted = {gene.technique.family: dict(gene.fit.numbers) for gene in evaluation.candidate if gene.fit}
    known = label(evaluation.candidate), genes, coverage, scores, usage, shared, fitted
    return PipelineRow(evaluation.key, *known, ranked_by if terms.missed(evaluation) else None)


def ranking(evaluations: Sequence[Evaluation], terms: Terms, winner: str | None = None) -> tuple[PipelineRow, ...]:
    """Those that are complete enough, one for each phenotype, best first; the first `SHOWN` with every interval.

    A run names its ``winner`` once, and the winner comes first: results of later runs do not change it.
    """
    shared = Counter(evaluation.phenotype for evaluation in evaluations if terms.admit(evaluation))
    return tuple(
        row(
            evaluation,
            terms,
            intervals=(*HEADLINE, *evaluation.measures) if place < SHOWN else (),
            shared=shared[evaluation.phenotype],
        )
        for place, evaluation in enumerate(ranked(evaluations, terms, winner))
    )


def gain(name: str, first: Evaluation, second: Evaluation, fitness: Fitness) -> Score | None:
    """The mean of ``first`` minus ``second``, question by question, on those that both finished; None without any.

    A question without such a value, which no pipeline then has, is left out.
    """
    both = common([first, second])
    if not both:
        return None
    pairs = zip(first.on(both).column(name, fitness), second.on(both).column(name, fitness), strict=True)
    gains = [a - b for a, b in pairs if a is not None and b is not None]
    return score(gains, len(first.questions)) if gains else None


def best_so_far(scores: Iterable[float | None]) -> tuple[float | None, ...]:
    """The highest score up to each place; None before the first."""
    curve: list[float | None] = []
    highest: float | None = None
    for value in scores:
        if value is not None and (highest is None or value > highest):
            highest = value
        curve.append(highest)
    return tuple(curve)


def by_group(
    pipelines: Mapping[str, Evaluation], groups: Mapping[str, str], fitness: Fitness
) -> tuple[GroupScores, ...]:
    """Pipelines on each group of questions, those that all of them finished, in order of the groups' names.

    ``groups``: question to group.
    """
    questions = common(list(pipelines.values()))
    if not questions:
        return ()
    values = {name: _columns(evaluation.on(questions), fitness) for name, evaluation in pipelines.items()}
    found = []
    for group in sorted({groups.get(question, "") for question in questions}):
        places = [place for place, question in enumerate(questions) if groups.get(question, "") == group]
        for name, columns in values.items():
            held = {column: _known(values[place] for place in places) for column, values in columns.items()}
            scores = {metric: score(held[metric], len(places)) for metric in HEADLINE if held[metric]}
            costs = {cost: fsum(held[cost]) / len(held[cost]) for cost in COSTS if held.get(cost)}
            found.append(GroupScores(group, name, len(places), scores, costs))
    return tuple(found)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _columns(evaluation: Evaluation, fitness: Fitness) -> dict[str, list[float | None]]:
    """The headline values and the costs, question by question; costs that the records do not have are left out."""
    first = next(iter(evaluation.records.values()))
    costs = (name for name in COSTS if name in first["usage"] or name in evaluation.measures)
    return {name: evaluation.column(name, fitness) for name in (*HEADLINE, *costs)}


def options(run: RunData) -> tuple[SpaceOption, ...]:
    """Every option of the space, family by family."""
    probes = {(probe.family, probe.option): probe for probe in run.record.probes}
    found = []
    for place, (family, names) in enumerate(_in_order(run.record.space.options)):
        for position, name in enumerate(names):
            stored = probes.get((family, name))
            tried = _tried(run, stored) if stored else None
            found.append(SpaceOption(family, name, tried, effect(run.proposals, place, position)))
    return tuple(found)


def _tried(run: RunData, stored: ProbeRecord) -> OptionAlone | None:
    """An option against the pipeline without it, naive RAG unless the store names another; None if one is lost."""
    alone, reference = run.on_search(stored.key), run.on_search(stored.reference)
    if alone is None or reference is None:
        return None
    activity = OptionActivity.between(stored.family, alone, reference)
    change = retrieval = None
    if activity.compared and all(one.key in run.dropped or run.terms.admit(one) for one in (alone, reference)):
        linked = run.record.split.search_groups
        few = linked is not None and len(linked.groups) < FEWEST_GROUPS
        found = (gain(metric, alone, reference, run.fitness) for metric in ("fitness", "retrieval"))
        change, retrieval = (replace(one, low=None, high=None) if one and few else one for one in found)
    against = "" if stored.reference == run.record.baselines.get("naive") else label(reference.candidate)
    calls = activity.added.get("calls")
    return OptionAlone(activity.compared, activity.share, calls, change, retrieval, against, stored.difference)


def effect(proposals: Sequence[ProposalRow], place: int, position: int) -> ProposalMeans:
    """Mean fitness of proposals whose gene at ``place`` is option ``position``, and of the others."""
    scored = [(p.genome[place], fitness) for p in proposals if (fitness := p.fitness) is not None]
    chosen = [fitness for gene, fitness in scored if gene == position]
    others = [fitness for gene, fitness in scored if gene != position]
    return ProposalMeans(_mean(chosen), len(chosen), _mean(others), len(others))


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _in_order(listed: Mapping[str, tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
    """The store returns mappings sorted by key; a genome is in the order of the families, and of settings."""
    names = (*(family.name for family in FAMILIES), *SETTINGS)
    return [(name, listed[name]) for name in names if name in listed]


ALL = "all"


def latencies(
    timings: Sequence[StageTimes], groups: Callable[[str], Iterable[str]] = lambda _: ()
) -> tuple[Latency, ...]:
    """Percentiles of all questions by station, warm and then cold; then, warm and in all, of the ``groups`` of each."""
    found = []
    for state in (WARM, COLD):
        of_state = [timing for timing in timings if timing.state == state]
        present = {station for timing in of_state for station in timing.seconds}
        for station in (*(one for one in STAGES if one in present), *([WHOLE] if of_state else [])):
            found.append(_percentiles(ALL, state, station, [timing.seconds.get(station, 0.0) for timing in of_state]))
    by_group: defaultdict[str, list[float]] = defaultdict(list)
    for timing in timings:
        if timing.state == WARM:
            for group in groups(timing.question):
                by_group[group].append(timing.seconds[WHOLE])
    return (*found, *(_percentiles(group, WARM, WHOLE, by_group[group]) for group in sorted(by_group)))


def _percentiles(questions: str, state: str, station: str, seconds: Sequence[float]) -> Latency:
    """Over questions: one at which a station was not called took no time there."""
    p50, p90, p99 = (float(1000 * value) for value in np.quantile(seconds, [0.5, 0.9, 0.99]))
    return Latency(questions, state, station, len(seconds), p50, p90, p99)


PIPELINES = ("naive", "bm25", "recommended", "winner")
"""Those whose causes are counted, as far as a run has them, in the order in which they are shown."""


def questions(run: RunData) -> Questions:
    """Everything that is known of single questions."""
    found = _QuestionReader(run)
    return Questions(
        found.results(), found.examples(), tuple(found.causes()), tuple(found.repairs()), tuple(found.interventions())
    )


class _QuestionReader:
    """The pipelines of a run that are looked at question by question, and why each went as it did."""

    def __init__(self, run: RunData) -> None:
        record = run.record
        self._run = run
        self._parts: tuple[tuple[Literal["search", "test"], tuple[str, ...]], ...] = (
            ("search", record.split.search),
            ("test", record.split.test),
        )
        stored = {**record.baselines, "recommended": record.recommended, "winner": record.winner}
        self._keys = {name: key for name in PIPELINES if (key := stored.get(name))}
        winner = run.on_search(record.winner) if record.winner else None
        self._neighbours = neighbours(winner, run.all_on_search(run.keys)) if winner else []
        wanted = {*(near.evaluation.key for near in self._neighbours), *self._keys.values()}
        self._why = {
            key: {question: Diagnosed.stored(value) for question, value in rows.items()}
            for key, rows in run.diagnoses.items()
            if key in wanted
        }
        self._outcomes = {name: self._outcomes_of(key) for name, key in self._keys.items()}

    def results(self) -> tuple[QuestionResult, ...]:
        """Every question, with what the winner and naive RAG made of it."""
        data = self._run.about.data
        winner, naive = (self._outcomes.get(name, {}) for name in ("winner", "naive"))
        return tuple(
            QuestionResult(
                question,
                data.questions.get(question, ""),
                part,
                data.asked.get(question, ""),
                data.references.get(question, ""),
                winner.get(question),
                naive.get(question),
            )
            for part, its in self._parts
            for question in its
        )

    def examples(self) -> tuple[QuestionExample, ...]:
        """The examples, those that gained most first; none where it is not known what was read."""
        worth = [
            {
                question: outcome.scores["fitness"]
                for question, outcome in self._outcomes.get(name, {}).items()
                if "fitness" in outcome.scores
            }
            for name in ("winner", "naive")
        ]
        found = []
        for question, why in shown(*worth).items():
            winner, naive = (self._answer(name, question) for name in ("winner", "naive"))
            if winner and naive:
                evidence = self._why[self._keys["winner"]][question].evidence
                found.append(QuestionExample(question, why, evidence, winner, naive))
        return tuple(found)

    def causes(self) -> Iterator[CauseCounts]:
        """How often each cause occurs, by pipeline and part."""
        for name, outcomes in self._outcomes.items():
            for part, its in self._parts:
                each = [outcomes[question].cause for question in its if question in outcomes]
                if counts := _count(each):
                    yield CauseCounts(name, part, sum(counts.values()), counts)

    def repairs(self) -> Iterator[RepairCounts]:
        """What the winner, and each option of it, turned from wrong to right, or from right to wrong."""
        winner, naive = (self._run.on_search(self._keys.get(name, "")) for name in ("winner", "naive"))
        if winner is None or naive is None:
            return
        if compared := self._compare(naive, winner):
            yield RepairCounts("whole", "", "", *compared)
        for near in self._neighbours:
            before, after = (naive, near.evaluation) if near.view == "alone" else (near.evaluation, winner)
            if compared := self._compare(before, after):
                yield RepairCounts(near.view, near.gene.technique.family, str(near.gene), *compared)

    def interventions(self) -> Iterator[Intervened]:
        """What was asked for of the winner and of naive RAG, by the fitness of this run."""
        for name in ("naive", "winner"):
            kept = self._run.interventions.get(self._keys.get(name, ""))
            if kept and kept["fitness"] == self._run.fitness.identity:
                yield from (Intervened(**one, pipeline=name) for one in kept["means"])

    def _causes(self, evaluation: Evaluation) -> dict[str, str]:
        """The cause of each question that an evaluation has; "" where it was not diagnosed."""
        why = self._why.get(evaluation.key, {})
        found = {}
        for question in evaluation.questions:
            if question in evaluation.failures:
                found[question] = Cause.FAILED.value
            elif question in evaluation.records:
                found[question] = why[question].cause.value if question in why else ""
        return found

    def _outcomes_of(self, key: str) -> dict[str, QuestionOutcome]:
        """How a pipeline did on each question of both parts."""
        found = {}
        why = self._why.get(key, {})
        for evaluation in filter(None, (self._run.on_search(key), self._run.on_test(key))):
            columns = {score: iter(evaluation.column(score, self._run.fitness)) for score in HEADLINE}
            for question, cause in self._causes(evaluation).items():
                if question in evaluation.failures:
                    found[question] = QuestionOutcome({}, cause)
                    continue
                values = {score: next(column) for score, column in columns.items()}
                scores = {score: value for score, value in values.items() if value is not None}
                known = why.get(question)
                found[question] = QuestionOutcome(scores, cause, *((known.gold, known.read) if known else (0, 0)))
        return found

    def _answer(self, name: str, question: str) -> PipelineAnswer | None:
        key = self._keys.get(name, "")
        known = self._why.get(key, {}).get(question)
        if known is None or known.passages is None:
            return None
        parts = (self._run.on_search(key), self._run.on_test(key))
        answer = next((one.records[question]["answer"] for one in parts if one and question in one.records), "")
        return PipelineAnswer(answer, known.passages, known.further)

    def _compare(self, before: Evaluation, after: Evaluation) -> tuple[int, dict[str, int], dict[str, int]] | None:
        """How many questions both have a cause of, and by cause those that went from wrong to right, and back."""
        was, becomes = self._causes(before), self._causes(after)
        both = [question for question, cause in was.items() if cause and becomes.get(question)]
        right_before = {question for question in both if Cause(was[question]).good}
        right_after = {question for question in both if Cause(becomes[question]).good}
        repaired = _count([was[question] for question in right_after - right_before])
        broken = _count([becomes[question] for question in right_before - right_after])
        return (len(both), repaired, broken) if both else None


def _count(causes: list[str]) -> dict[str, int]:
    """How often each cause is there, in the order of `Cause`."""
    return {cause.value: n for cause in Cause if (n := causes.count(cause.value))}
