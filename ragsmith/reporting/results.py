"""Compute the rows of a report from evaluations: pipelines, options, latencies and questions."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import fsum
from typing import Any, Literal

import numpy as np

from ragsmith.caches import bounded_cache
from ragsmith.comparison.questions import MIN_GROUPS, Clusters
from ragsmith.diagnosis.causes import Cause
from ragsmith.diagnosis.diagnosed import QuestionDiagnosis, find_neighbours, select_shown_questions
from ragsmith.evaluation.baselines import OptionActivity
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE, REFUSAL, Fitness
from ragsmith.evaluation.ranking import Terms, common_questions, rank_evaluations
from ragsmith.evaluation.selective import find_wrong
from ragsmith.evaluation.statistics import bootstrap_interval
from ragsmith.grouping import group_values
from ragsmith.pipelines.genes import label, sort_names
from ragsmith.pipelines.stages import COLD, STAGES, TOTAL, WARM, StageTimes
from ragsmith.records.record import ProbeRecord
from ragsmith.reporting.run_data import RunData
from ragsmith.reporting.values import (
    SHOWN,
    CauseCounts,
    Coverage,
    GoodAnswerCounts,
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
    Share,
    SpaceOption,
)
from ragsmith.store.store import ProposalRow
from ragsmith.text.restoring import stored_by_other_code

COSTS = ("calls", "input_tokens", "output_tokens", "texts_embedded", "pairs_scored", "context_chars")
"""Costs per question of a group: counts of the usage, and the prompt length in characters."""


@bounded_cache(1000, key="the values of a row")
def _interval(values: tuple[float, ...]) -> tuple[float, float]:
    """Cache `bootstrap_interval`: pipelines that differ only after retrieval have the same retrieval scores."""
    return bootstrap_interval(values)


def mean_score(values: Sequence[float], questions: int, *, interval: bool = True) -> Score:
    """Return the mean of ``values`` with its interval, and their number if not every question has a value."""
    low, high = _interval(tuple(values)) if interval else (None, None)
    return Score(fsum(values) / len(values), low, high, None if len(values) == questions else len(values))


def pipeline_row(
    evaluation: Evaluation,
    terms: Terms,
    *,
    on: tuple[str, ...] | None = None,
    intervals: Collection[str] = tuple(HEADLINE),
    shared: int = 1,
) -> PipelineRow:
    """Return the row of a pipeline; the scores named in ``intervals`` have intervals.

    Scores are means over the questions ``on``, by default all that it finished.
    """
    coverage = Coverage(len(evaluation.questions), len(evaluation.records), len(evaluation.failures))
    scores: dict[str, Score] = {}
    usage: dict[str, float] = {}
    ranked_by = terms.score(evaluation)
    compared = evaluation.restrict(on) if on is not None else evaluation
    if ranked_by is not None and compared.records:
        scores = {
            name: mean_score(values, coverage.questions, interval=name in intervals)
            for name in (*HEADLINE, *evaluation.measures)
            if (values := compared.values(name, terms.fitness))
        }
        first = next(iter(compared.records.values()))
        usage = {name: fsum(compared.values(name)) / len(compared.records) for name in sorted(first["usage"])}
    genes = {gene.technique.family: str(gene) for gene in evaluation.candidate}
    fitted = {gene.technique.family: dict(gene.fit.numbers) for gene in evaluation.candidate if gene.fit}
    known = label(evaluation.candidate), genes, coverage, scores, usage, shared, fitted
    return PipelineRow(evaluation.key, *known, ranked_by if terms.count_missing(evaluation) else None)


def ranking_rows(evaluations: Sequence[Evaluation], terms: Terms, winner: str | None = None) -> tuple[PipelineRow, ...]:
    """Rank the pipelines within the maximum failure rate, one per phenotype; the first `SHOWN` with all intervals.

    The ``winner`` of the run comes first, also if later runs change the scores.
    """
    shared = Counter(evaluation.phenotype for evaluation in evaluations if terms.admits(evaluation))
    return tuple(
        pipeline_row(
            evaluation,
            terms,
            intervals=(*HEADLINE, *evaluation.measures) if place < SHOWN else (),
            shared=shared[evaluation.phenotype],
        )
        for place, evaluation in enumerate(rank_evaluations(evaluations, terms, winner))
    )


def paired_gain(name: str, first: Evaluation, second: Evaluation, fitness: Fitness) -> Score | None:
    """Return the mean paired difference ``first`` minus ``second``; None if they have no question in common.

    Questions without a value are left out.
    """
    both = common_questions([first, second])
    if not both:
        return None
    pairs = zip(first.restrict(both).column(name, fitness), second.restrict(both).column(name, fitness), strict=True)
    gains = [a - b for a, b in pairs if a is not None and b is not None]
    return mean_score(gains, len(first.questions)) if gains else None


def best_so_far(scores: Iterable[float | None]) -> tuple[float | None, ...]:
    """Return the running maximum of ``scores``; None before the first score."""

    def better(highest: float | None, value: float | None) -> float | None:
        return value if highest is None or (value is not None and value > highest) else highest

    return tuple(accumulate(scores, better))


def scores_by_group(
    pipelines: Mapping[str, Evaluation], groups: Mapping[str, str], fitness: Fitness
) -> Iterator[GroupScores]:
    """Yield the scores of pipelines by group of questions, on the questions that all of them finished; sorted by group.

    ``groups`` maps questions to groups.
    """
    questions = common_questions(list(pipelines.values()))
    if not questions:
        return
    values = {name: _columns(evaluation.restrict(questions), fitness) for name, evaluation in pipelines.items()}
    for group in sorted({groups.get(question, "") for question in questions}):
        places = [place for place, question in enumerate(questions) if groups.get(question, "") == group]
        for name, columns in values.items():
            held = {column: _drop_missing(values[place] for place in places) for column, values in columns.items()}
            scores = {metric: mean_score(held[metric], len(places)) for metric in HEADLINE if held[metric]}
            costs = {cost: fsum(held[cost]) / len(held[cost]) for cost in COSTS if held.get(cost)}
            yield GroupScores(group, name, len(places), scores, costs)


CITED = "citation_precision"
"""The measure of right citations: the share of the cited passages that hold gold."""


def count_good_answers(
    pipelines: Mapping[str, Evaluation], least_good: float | None, fitness: Fitness, clusters: Clusters
) -> dict[str, GoodAnswerCounts]:
    """Count good answers and right refusals by pipeline, on the questions that all of them finished.

    ``least_good`` is the judge's least score of a good answer. If it is None, no answer was scored: then questions with
    all their gold are counted.
    """
    questions = common_questions(list(pipelines.values()))
    tested = clusters.tested(questions)

    def count(evaluation: Evaluation) -> GoodAnswerCounts:
        rows = {question: evaluation.records[question]["measures"] for question in questions}
        if least_good is None:
            known = ((question, row.get("recall")) for question, row in rows.items())
            wrong: dict[str, bool | None] = {question: recall < 1 for question, recall in known if recall is not None}
        else:
            wrong = find_wrong(evaluation.restrict(questions), least_good)
        asked, apart = ([wrong[q] for q in wrong if (rows[q].get(REFUSAL) is None) == has] for has in (True, False))
        cited = _drop_missing(row.get(CITED) for row in rows.values() if row.get(REFUSAL) is None)
        scores = evaluation.restrict(tested).values("fitness", fitness)
        return GoodAnswerCounts(
            len(questions),
            least_good,
            Share(asked.count(False), len(asked)),
            Share(asked.count(None), len(asked)),
            Share(apart.count(None), len(apart)),
            _mean(cited),
            mean_score(scores, 0, interval=False) if scores else None,
        )

    return {name: count(evaluation) for name, evaluation in pipelines.items()} if questions else {}


def _drop_missing(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _columns(evaluation: Evaluation, fitness: Fitness) -> dict[str, list[float | None]]:
    """Return F, R, G and the available costs, question by question."""
    first = next(iter(evaluation.records.values()))
    costs = (name for name in COSTS if name in first["usage"] or name in evaluation.measures)
    return {name: evaluation.column(name, fitness) for name in (*HEADLINE, *costs)}


def option_rows(run: RunData) -> tuple[SpaceOption, ...]:
    """Return all options of the search space, family by family."""
    alone = {(probe.family, probe.option): _option_alone(run, probe) for probe in run.record.probes}
    return tuple(
        SpaceOption(family, name, alone.get((family, name)), proposal_means(run.proposals, place, position))
        for place, (family, names) in enumerate(_in_genome_order(run.record.space.options))
        for position, name in enumerate(names)
    )


def _option_alone(run: RunData, stored: ProbeRecord) -> OptionAlone | None:
    """Compare an option with its reference pipeline; None if the store lacks either evaluation."""
    alone, reference = run.on_search(stored.key), run.on_search(stored.reference)
    if alone is None or reference is None:
        return None
    activity = OptionActivity.from_evaluations(stored.family, alone, reference)
    change = retrieval = None
    if activity.compared and all(one.key in run.dropped or run.terms.admits(one) for one in (alone, reference)):
        linked = run.record.split.search_groups
        few = linked is not None and len(linked.groups) < MIN_GROUPS
        found = (paired_gain(metric, alone, reference, run.fitness) for metric in ("fitness", "retrieval"))
        change, retrieval = (replace(one, low=None, high=None) if one and few else one for one in found)
    against = "" if stored.reference == run.record.baselines.get("naive") else label(reference.candidate)
    calls = activity.added.get("calls")
    return OptionAlone(activity.compared, activity.share, calls, change, retrieval, against, stored.difference)


def proposal_means(proposals: Sequence[ProposalRow], place: int, position: int) -> ProposalMeans:
    """Return the mean fitness of the proposals with option ``position`` in gene ``place``, and of the others."""
    scored = [(p.genome[place], fitness) for p in proposals if (fitness := p.fitness) is not None]
    chosen = [fitness for gene, fitness in scored if gene == position]
    others = [fitness for gene, fitness in scored if gene != position]
    return ProposalMeans(_mean(chosen), len(chosen), _mean(others), len(others))


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def _in_genome_order(listed: Mapping[str, tuple[str, ...]]) -> list[tuple[str, tuple[str, ...]]]:
    """Sort options in the order of genomes: families, then settings. The store returns mappings sorted by key."""
    return [(name, listed[name]) for name in sort_names(listed)]


ALL_QUESTIONS = "all"


def latency_percentiles(
    timings: Sequence[StageTimes], groups: Callable[[str], Iterable[str]] = lambda _: ()
) -> tuple[Latency, ...]:
    """Return percentiles by stage, warm then cold; then warm percentiles in total by group of questions."""
    found = []
    for state in (WARM, COLD):
        of_state = [timing for timing in timings if timing.state == state]
        present = {stage for timing in of_state for stage in timing.seconds}
        for stage in (*(one for one in STAGES if one in present), *([TOTAL] if of_state else [])):
            found.append(
                _percentiles(ALL_QUESTIONS, state, stage, [timing.seconds.get(stage, 0.0) for timing in of_state])
            )
    by_group = group_values(
        (group, timing.seconds[TOTAL])
        for timing in timings
        if timing.state == WARM
        for group in groups(timing.question)
    )
    return (*found, *(_percentiles(group, WARM, TOTAL, by_group[group]) for group in sorted(by_group)))


def _percentiles(questions: str, state: str, stage: str, seconds: Sequence[float]) -> Latency:
    """Return percentiles over questions; a stage that did not run took 0 seconds."""
    p50, p90, p99 = (float(1000 * value) for value in np.quantile(seconds, [0.5, 0.9, 0.99]))
    return Latency(questions, state, stage, len(seconds), p50, p90, p99)


DIAGNOSED_PIPELINES = ("naive", "bm25", "single", "recommended", "cheapest", "winner")
"""Roles of the pipelines whose causes are counted, in the order of the report."""


def question_results(run: RunData, taken: str) -> Questions:
    """Return the question-level results of a run, where the pipeline with the role ``taken`` is to be taken."""
    found = _QuestionReader(run, taken)
    return Questions(
        found.results(),
        tuple(found.examples()),
        tuple(found.causes()),
        tuple(found.repairs()),
        tuple(found.interventions()),
    )


class _QuestionReader:
    """Reader of question-level outcomes and diagnoses of the pipelines of a run."""

    def __init__(self, run: RunData, taken: str) -> None:
        record = run.record
        self._run = run
        self._parts: tuple[tuple[Literal["search", "test"], tuple[str, ...]], ...] = (
            ("search", record.split.search),
            ("test", record.split.test),
        )
        stored = {**record.test, **record.baselines, "recommended": record.recommended, "winner": record.winner}
        self._keys = {name: key for name in DIAGNOSED_PIPELINES if (key := stored.get(name))}
        self._taken = taken if taken in self._keys and taken != "naive" else "winner"
        winner = run.on_search(record.winner) if record.winner else None
        self._completed = {part.key for part in run.ablation.outs} if run.ablation else set()  # by the ablation
        self._neighbours = find_neighbours(winner, run.all_on_search(run.keys)) if winner else []
        wanted = {*(near.evaluation.key for near in self._neighbours), *self._keys.values()}
        self._why = {
            key: {question: QuestionDiagnosis.from_dict(value, f"{key}/{question}") for question, value in rows.items()}
            for key, rows in run.diagnoses.items()
            if key in wanted
        }
        self._outcomes = {name: self._outcomes_of(key) for name, key in self._keys.items()}

    def results(self) -> tuple[QuestionResult, ...]:
        """Return all questions with the outcomes of the pipeline to take and of naive RAG."""
        data = self._run.about.data
        taken, naive = (self._outcomes.get(name, {}) for name in (self._taken, "naive"))
        return tuple(
            QuestionResult(
                question,
                data.questions.get(question, ""),
                part,
                data.asked.get(question, ""),
                data.references.get(question, ""),
                taken.get(question),
                naive.get(question),
                self._taken,
            )
            for part, its in self._parts
            for question in its
        )

    def examples(self) -> Iterator[QuestionExample]:
        """Yield the examples, largest gains first; only questions with stored passages."""
        worth = [
            {
                question: outcome.scores["fitness"]
                for question, outcome in self._outcomes.get(name, {}).items()
                if "fitness" in outcome.scores
            }
            for name in (self._taken, "naive")
        ]
        for question, why in select_shown_questions(*worth).items():
            taken, naive = (self._answer(name, question) for name in (self._taken, "naive"))
            if taken and naive:
                evidence = self._why[self._keys[self._taken]][question].evidence
                yield QuestionExample(question, why, evidence, taken, naive)

    def causes(self) -> Iterator[CauseCounts]:
        """Yield the counts of causes by pipeline and split."""
        for name, outcomes in self._outcomes.items():
            for part, its in self._parts:
                each = [outcomes[question].cause for question in its if question in outcomes]
                if counts := _count_causes(each):
                    yield CauseCounts(name, part, sum(counts.values()), counts)

    def repairs(self) -> Iterator[RepairCounts]:
        """Yield the questions that the winner, and each of its options, repaired and broke."""
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
        """Yield the interventions on naive RAG and the winner, if they used the fitness of this run."""
        for name in ("naive", "winner"):
            kept: Any = self._run.interventions.get(key := self._keys.get(name, ""))
            with stored_by_other_code("the interventions on a pipeline", f"finding:interventions/{key}"):
                is_current = kept and kept["fitness"] == self._run.fitness.identity
                found = [Intervened(**one, pipeline=name) for one in kept["means"]] if is_current else []
            yield from found

    def _causes(self, evaluation: Evaluation) -> dict[str, str]:
        """Return the cause of each question of an evaluation; "" without a diagnosis."""
        why = self._why.get(evaluation.key, {})
        found = {}
        for question in evaluation.questions:
            if question in evaluation.failures:
                found[question] = Cause.FAILED.value
            elif question in evaluation.records or (question in why and evaluation.key in self._completed):
                found[question] = why[question].cause.value if question in why else ""
        return found

    def _outcomes_of(self, key: str) -> dict[str, QuestionOutcome]:
        """Return the outcomes of a pipeline on search and test questions."""
        found = {}
        why = self._why.get(key, {})
        for evaluation in filter(None, (self._run.on_search(key), self._run.on_test(key))):
            columns = {score: iter(evaluation.column(score, self._run.fitness)) for score in HEADLINE}
            for question, cause in self._causes(evaluation).items():
                if question in evaluation.failures:
                    found[question] = QuestionOutcome({}, cause)
                if question not in evaluation.records:
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
        """Return the number of questions diagnosed for both, and the repaired and broken ones by cause."""
        was, becomes = self._causes(before), self._causes(after)
        both = [question for question, cause in was.items() if cause and becomes.get(question)]
        right_before = {question for question in both if Cause(was[question]).good}
        right_after = {question for question in both if Cause(becomes[question]).good}
        repaired = _count_causes([was[question] for question in right_after - right_before])
        broken = _count_causes([becomes[question] for question in right_before - right_after])
        return (len(both), repaired, broken) if both else None


def _count_causes(causes: list[str]) -> dict[str, int]:
    """Count causes, in the order of `Cause`."""
    return {cause.value: n for cause in Cause if (n := causes.count(cause.value))}
