"""Build the report of a stored run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from ragsmith.comparison.advice import role_to_take
from ragsmith.comparison.marked_answers import JudgedAnswers, MarkableAnswer, evaluate_marks, judged_answers, read_marks
from ragsmith.comparison.questions import Clusters
from ragsmith.diagnosis.causes import Cause
from ragsmith.diagnosis.diagnosed import QuestionDiagnosis
from ragsmith.diagnosis.estimates import OptionEffect, estimate_option_effects
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.evaluation.ranking import best_evaluation, common_questions
from ragsmith.pipelines.genes import SYSTEM, label
from ragsmith.records.front import pareto_front
from ragsmith.records.objectives import compute_costs
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.reporting import facts
from ragsmith.reporting.facts import (
    compare_finalists,
    drop_duplicates,
    find_cheapest,
    map_duplicate_roles,
    recommend_next_step,
    take_highest,
)
from ragsmith.reporting.results import (
    best_so_far,
    count_good_answers,
    latency_percentiles,
    option_rows,
    paired_gain,
    pipeline_row,
    question_results,
    ranking_rows,
    scores_by_group,
)
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.reporting.values import (
    SHOWN,
    TITLES,
    AnsweredQuestion,
    ExtraEvaluations,
    Finalist,
    FoldRow,
    GoodAnswerCounts,
    PipelineRow,
    RunHeader,
    RunReport,
    Score,
    TimedPipeline,
    rows_by_role,
)
from ragsmith.store.store import Store


def load_report(store: Store, dataset: str) -> RunReport:
    """Load the report of the latest finished run on ``dataset``, or of the latest if none has finished.

    Raises:
        UsageError: there is no such run; the message lists the data sets that have one.
    """
    return read_report(store, choose_run(store, dataset))


def read_report(store: Store, about: RunHeader, marks: Path | None = None) -> RunReport:
    """Read a run from the store and build its report, with people's marks of its answers in a file."""
    return build_report(RunData(store, about, {}), read_marks(marks) if marks else {})


def answers_to_mark(run: RunData) -> tuple[JudgedAnswers, Clusters]:
    """Return the judged answers of a run to its test questions, and the groups of these."""
    tested, clusters, data = drop_duplicates(_tested_evaluations(run)), run.record.tested_groups, run.about.data
    return judged_answers(tested, clusters or Clusters(), data.asked, data.references), clusters or Clusters()


def build_report(run: RunData, marks: Mapping[MarkableAnswer, str] | None = None) -> RunReport:
    """Build the report of a run, with people's ``marks`` of answers."""
    about, record, terms, proposals = run.about, run.record, run.terms, run.proposals
    searched = list(dict.fromkeys([*(proposal.evaluation for proposal in proposals), *record.told]))
    proposed = dict.fromkeys([*searched, *(removal.key for removal in record.removals)])
    found = tuple(map(run.with_latency, ranking_rows(run.finishers(list(proposed)), terms, record.winner)))
    drawn = best_evaluation(run.finishers(record.random), terms)
    roles = _keys_by_role(record, drawn)
    tested = _tested_evaluations(run)
    comparisons = compare_finalists(
        drop_duplicates(tested),
        run.terms_of_test,
        len(record.random),
        drafted=not set(record.tested).isdisjoint(about.data.drafted),
        clusters=record.tested_groups,
        look=record.look.number if record.look else 1,
        margin=record.settings.margin,
    )
    estimates = facts.estimate_choice(run, run.finishers([*proposed, *_others_that_may_win(record)]))
    finalists, baselines = tuple(_finalist_rows(run, tested)), _baseline_rows(run)
    rows = rows_by_role(record, found, finalists, baselines)
    next_step = recommend_next_step(run, comparisons, estimates, tested, rows)
    if not record.no_winner and "winner" in rows and SYSTEM in rows["winner"].genes:
        next_step = take_highest(next_step, rows)
    take = role_to_take(next_step)
    pipelines, split = _pipelines_to_group(run, tested, roles)
    shown = [*[row.key for row in found[:SHOWN]], *record.baselines.values()]
    return RunReport(
        about=about,
        notes=facts.list_notes(run, run.finishers(searched)),
        ranking=found,
        proposed=len(proposals),
        dropped=sum(proposal.dropped is not None for proposal in proposals),
        baselines=baselines,
        random=pipeline_row(drawn, terms) if drawn else None,
        search_curve=best_so_far([proposal.fitness for proposal in proposals]),
        random_curve=best_so_far(_ranking_scores(run, record.random)),
        finalists=finalists,
        comparisons=comparisons,
        estimates=estimates,
        same=map_duplicate_roles(record, tested),
        options=option_rows(run),
        types=tuple(scores_by_group(pipelines, about.data.questions, run.fitness)),
        modalities=tuple(
            scores_by_group(pipelines, about.data.modalities, run.fitness) if about.data.modalities else ()
        ),
        groups_split=split,
        answered=_answered_questions(run, roles),
        failures=facts.group_failures(run.failed()),
        models=facts.describe_models(record.models),
        excluded=facts.list_excluded(run),
        lowest=terms.lowest,
        leads=_winner_leads(run, shown, drawn),
        judged=facts.judge_accuracy(run),
        front=_pareto_rows(found, record.settings),
        folds=tuple(_fold_rows(run, tested)),
        ablation=run.ablation,
        questions=question_results(run, take),
        cheapest=find_cheapest(tested, run.terms_of_test, comparisons),
        next_step=next_step,
        taken_leads=facts.estimate_leads(take, tested, run.terms_of_test, record.tested_groups),
        timed=_timed_pipelines(run, roles),
        besides=_extra_evaluations(run),
        effects=_option_effects(run),
        simplified=facts.compare_simplified(record, tested, run.terms_of_test),
        counted=_answer_counts(run, tested, roles),
        marked=evaluate_marks(*answers_to_mark(run), marks) if marks else None,
    )


def _others_that_may_win(record: RunRecord) -> Iterable[str]:
    """Return the keys of what the search may choose besides its proposals: baselines, or combinations of a system."""
    return record.told if SYSTEM in record.space.options else record.baselines.values()


def _extra_evaluations(run: RunData) -> ExtraEvaluations:
    record = run.record
    seen = {proposal.evaluation for proposal in run.proposals}

    def new(keys: Iterable[str | None]) -> int:
        fresh = {key for key in keys if key} - seen
        seen.update(fresh)
        return len(fresh)

    probes = [key for probe in record.probes for key in (probe.key, probe.reference)]
    outs = run.ablation.outs if run.ablation else ()
    return ExtraEvaluations(
        new([*record.baselines.values(), record.recommended, *probes]),
        new(record.random),
        new(removal.key for removal in record.removals),
        new(part.key for part in outs),
    )


def _option_effects(run: RunData) -> tuple[OptionEffect, ...]:
    record = run.record
    clusters = record.split.search_groups or Clusters.singletons(record.split.search)
    return tuple(estimate_option_effects(run.all_on_search(run.keys), run.fitness, clusters))


def _pareto_rows(ranked: Sequence[PipelineRow], settings: RunSettings) -> tuple[PipelineRow, ...]:
    """Return the Pareto front of the pipelines with a retrieval score above 0, or fitness without labelled evidence.

    Pipelines with unknown costs are left out.
    """
    able = [row for row in ranked if row.scores.get("retrieval", row.scores["fitness"]).mean > 0]
    each = {row.key: compute_costs(settings, row.usage, row.latency_seconds) for row in able}
    worth = {row.key: (row.level, *(-cost for cost in known)) for row in able if (known := each[row.key]) is not None}
    return tuple(pareto_front((row for row in able if row.key in worth), lambda row: worth[row.key]))


def _timed_pipelines(run: RunData, roles: Mapping[str, str]) -> tuple[TimedPipeline, ...]:
    """Return the latencies of the named pipelines that were timed."""
    met = {key: run.on_search(key) or run.on_test(key) for key in roles.values()}
    return tuple(
        TimedPipeline(name, label(evaluation.candidate) if evaluation else "", machine, latency_percentiles(timings))
        for name, evaluation in ((name, met[key]) for name, key in roles.items())
        for machine, timings in run.timings.get(roles[name], {}).items()
    )


def _ranking_scores(run: RunData, keys: Sequence[str]) -> list[float | None]:
    """Return the ranking score of each pipeline; None for pruned ones."""
    found = {evaluation.key: run.terms.score(evaluation) for evaluation in run.finishers(keys)}
    return [found.get(key) for key in keys]


def _winner_leads(run: RunData, keys: Sequence[str], best_drawn: Evaluation | None) -> dict[str, Score]:
    """Return the lead of the winner over each listed pipeline; empty if none failed on a counted question."""
    winner = run.record.winner and run.on_search(run.record.winner)
    shown = [*run.all_on_search(keys), *([best_drawn] if best_drawn else [])]
    if not winner or not any(map(run.terms.count_missing, shown)):
        return {}
    leads = {one.key: paired_gain("fitness", winner, one, run.fitness) for one in shown if one.key != winner.key}
    return {key: lead for key, lead in leads.items() if lead is not None}


def _baseline_rows(run: RunData) -> dict[str, PipelineRow]:
    stored = run.record.baselines
    found = {name: run.on_search(stored[name]) for name in TITLES if name in stored}
    return {
        name: run.with_latency(pipeline_row(evaluation, run.terms)) for name, evaluation in found.items() if evaluation
    }


def _tested_evaluations(run: RunData) -> dict[str, Evaluation]:
    if run.out_of_fold:
        return {name: run.out_of_fold[name] for name in TITLES if name in run.out_of_fold}
    stored = run.record.test
    found = {name: run.on_test(stored[name]) for name in TITLES if name in stored}
    return {name: evaluation for name, evaluation in found.items() if evaluation}


def _fold_rows(run: RunData, tested: Mapping[str, Evaluation]) -> Iterator[FoldRow]:
    """Yield the result of each fold of a crossfit."""
    for fold, winner in zip(run.record.folds, run.fold_winners, strict=True):
        parts = {name: one.restrict(fold.test).mean("fitness", run.fitness) for name, one in tested.items()}
        means = {name: mean for name, mean in parts.items() if mean is not None}
        yield FoldRow(fold.searched, fold.unused, len(fold.test), winner, means)


def _finalist_rows(run: RunData, tested: Mapping[str, Evaluation]) -> Iterator[Finalist]:
    terms = run.terms_of_test
    questions = common_questions([evaluation for evaluation in tested.values() if terms.admits(evaluation)])
    for name, evaluation in tested.items():
        before = run.on_search(evaluation.key)
        searched = pipeline_row(before, run.terms) if before else None
        yield Finalist(name, TITLES[name], searched, pipeline_row(evaluation, terms, on=questions))


def _keys_by_role(record: RunRecord, best_drawn: Evaluation | None) -> dict[str, str]:
    """Return the keys of the pipelines with question-level results, by role."""
    stored = {**record.baselines, **record.test}
    if record.recommended and record.recommended not in (record.winner, *stored.values()):
        stored["recommended"] = record.recommended
    if record.winner:
        stored["winner"] = record.winner
    if best_drawn and "random" not in stored:
        stored["random"] = best_drawn.key
    return {name: stored[name] for name in TITLES if name in stored}


def _pipelines_to_group(
    run: RunData, tested: Mapping[str, Evaluation], roles: Mapping[str, str]
) -> tuple[dict[str, Evaluation], Literal["search", "test"]]:
    """Return the pipelines to compare by group, on the unbiased test questions if there are any, and the split."""
    if tested:
        return {name: one for name, one in tested.items() if run.terms_of_test.admits(one)}, "test"
    found = {name: run.on_search(key) for name, key in roles.items()}
    return {name: one for name, one in found.items() if one and run.terms.admits(one)}, "search"


def _answer_counts(
    run: RunData, tested: Mapping[str, Evaluation], roles: Mapping[str, str]
) -> dict[str, dict[str, GoodAnswerCounts]]:
    """Return the counts of answers of the complete pipelines, by split and role."""
    record, judged = run.record, not run.fitness.ranking_only and "judge" in run.record.models
    found = {name: one for name, key in roles.items() if (one := run.on_search(key)) and run.terms.admits(one)}
    able = {name: one for name, one in tested.items() if run.terms_of_test.admits(one)}
    parts = {
        "search": (found, record.threshold, record.split.search_groups or Clusters()),
        "test": (able, record.test_threshold or record.threshold, record.tested_groups or Clusters()),
    }
    return {
        part: count_good_answers(each, least if judged else None, run.fitness, clusters)
        for part, (each, least, clusters) in parts.items()
    }


def _answered_questions(run: RunData, roles: Mapping[str, str]) -> tuple[AnsweredQuestion, ...]:
    rows = (row for name, key in roles.items() for row in iterate_answers(run, name, key))
    return tuple(sorted(rows, key=lambda row: (row.split, row.question)))


def iterate_answers(run: RunData, pipeline: str, key: str) -> Iterator[AnsweredQuestion]:
    """Yield the question-level results of the evaluation ``key`` of a run, under the name ``pipeline``."""
    parts: tuple[tuple[Literal["search", "test"], Evaluation | None], ...] = (
        ("search", run.on_search(key)),
        ("test", run.on_test(key)),
    )
    data, diagnosed = run.about.data, run.diagnoses.get(key, {})
    for split, evaluation in parts:
        if evaluation is None:
            continue
        columns = {name: iter(evaluation.column(name, run.fitness)) for name in HEADLINE}
        for question in evaluation.questions:
            asked, reference = data.asked.get(question, ""), data.references.get(question, "")
            described = data.questions.get(question, ""), data.modalities.get(question, "")
            about = question, asked, reference, *described, split, pipeline
            if record := evaluation.records.get(question):
                headline = {name: next(values) for name, values in columns.items()}
                found = {**headline, **record["measures"]}
                measures = {name: value for name, value in found.items() if value is not None}
                measures["calls"] = float(record["usage"]["calls"])
                cause = QuestionDiagnosis.from_dict(diagnosed[question]).cause.value if question in diagnosed else ""
                retrieved = tuple(record["retrieved"])
                yield AnsweredQuestion(*about, "ok", measures, record.get("answer", ""), retrieved, cause=cause)
            elif failure := evaluation.failures.get(question):
                yield AnsweredQuestion(*about, "failed", {}, error=failure["error"], cause=Cause.FAILED.value)
