"""A stored run to its report: everything that is said of it, as frozen values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from ragsmith.comparison.questions import Clusters
from ragsmith.diagnosis.estimates import OptionEffect, option_effects
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.evaluation.ranking import best, common
from ragsmith.pipelines.genes import label
from ragsmith.records.front import pareto_front
from ragsmith.records.objectives import costs
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.reporting import facts
from ragsmith.reporting.facts import cheapest, compare, next_step_of, rivals, same_as
from ragsmith.reporting.results import best_so_far, by_group, gain, latencies, options, questions, ranking, row
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.reporting.values import (
    SHOWN,
    TITLES,
    AnsweredQuestion,
    ExtraEvaluations,
    Finalist,
    FoldRow,
    PipelineRow,
    RunHeader,
    RunReport,
    Score,
    TimedPipeline,
)
from ragsmith.store.store import Store


def load_report(store: Store, dataset: str) -> RunReport:
    """What the store has of the latest finished run, else the latest, on ``dataset``.

    Raises:
        UsageError: there is no such run; the message lists the data sets that have one.
    """
    return read_report(store, choose_run(store, dataset))


def read_report(store: Store, about: RunHeader) -> RunReport:
    """Everything a report says about a run."""
    return build_report(RunData(store, about, {}))


def build_report(run: RunData) -> RunReport:
    """Everything a report says about a run that has been read."""
    about, record, terms, proposals = run.about, run.record, run.terms, run.proposals
    searched = list(dict.fromkeys([*(proposal.evaluation for proposal in proposals), *record.told]))
    proposed = dict.fromkeys([*searched, *(removal.key for removal in record.removals)])
    found = tuple(map(run.timed, ranking(run.finishers(list(proposed)), terms, record.winner)))
    drawn = best(run.finishers(record.random), terms)
    roles = _roles(record, drawn)
    tested = _tested(run)
    comparisons = compare(
        rivals(tested),
        run.terms_of_test,
        len(record.random),
        drafted=not set(record.tested).isdisjoint(about.data.drafted),
        clusters=record.tested_groups,
        look=record.look.number if record.look else 1,
        margin=record.settings.margin,
    )
    pipelines, split = _compared(run, tested, roles)
    shown = [*[row.key for row in found[:SHOWN]], *record.baselines.values()]
    return RunReport(
        about=about,
        notes=facts.notes(run, best(run.finishers(searched), terms)),
        ranking=found,
        proposed=len(proposals),
        dropped=sum(proposal.dropped is not None for proposal in proposals),
        baselines=_baselines(run),
        random=row(drawn, terms) if drawn else None,
        search_curve=best_so_far([proposal.fitness for proposal in proposals]),
        random_curve=best_so_far(_scores(run, record.random)),
        finalists=_finalists(run, tested),
        comparisons=comparisons,
        same=same_as(record, tested),
        options=options(run),
        types=by_group(pipelines, about.data.questions, run.fitness),
        modalities=by_group(pipelines, about.data.modalities, run.fitness) if about.data.modalities else (),
        groups_split=split,
        answered=_answered(run, roles),
        failures=facts.failures(run.failed()),
        models=facts.models(record.models),
        excluded=facts.excluded(run),
        lowest=terms.lowest,
        leads=_leads(run, shown, drawn),
        judged=facts.judged(run),
        front=_front(found, record.settings),
        folds=_folds(run, tested),
        ablation=run.ablation,
        questions=questions(run),
        cheapest=cheapest(tested, run.terms_of_test, comparisons),
        next_step=next_step_of(run, comparisons, tested),
        timed=_timed(run, roles),
        besides=_besides(run),
        effects=_option_effects(run),
    )


def _besides(run: RunData) -> ExtraEvaluations:
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
    clusters = record.split.search_groups or Clusters.alone(record.split.search)
    return tuple(option_effects(run.all_on_search(run.keys), run.fitness, clusters))


def _front(ranked: Sequence[PipelineRow], settings: RunSettings) -> tuple[PipelineRow, ...]:
    """Those that find, or answer, anything, and of which no other is as good in everything that was weighed.

    One whose costs are not known is compared with none.
    """
    able = [row for row in ranked if row.scores.get("retrieval", row.scores["fitness"]).mean > 0]
    each = {row.key: costs(settings, row.usage, row.latency_seconds) for row in able}
    worth = {row.key: (row.level, *(-cost for cost in known)) for row in able if (known := each[row.key]) is not None}
    return tuple(pareto_front((row for row in able if row.key in worth), lambda row: worth[row.key]))


def _timed(run: RunData, roles: Mapping[str, str]) -> tuple[TimedPipeline, ...]:
    """Those of the pipelines with a name that were timed by station."""
    met = {key: run.on_search(key) or run.on_test(key) for key in roles.values()}
    return tuple(
        TimedPipeline(name, label(evaluation.candidate) if evaluation else "", machine, latencies(timings))
        for name, evaluation in ((name, met[key]) for name, key in roles.items())
        for machine, timings in run.timings.get(roles[name], {}).items()
    )


def _scores(run: RunData, keys: Sequence[str]) -> list[float | None]:
    """What each is ranked by; None for those that were dropped."""
    found = {evaluation.key: run.terms.score(evaluation) for evaluation in run.finishers(keys)}
    return [found.get(key) for key in keys]


def _leads(run: RunData, keys: Sequence[str], best_drawn: Evaluation | None) -> dict[str, Score]:
    """What the winner is ahead of each pipeline that is shown, where any of them failed on a question that counts."""
    winner = run.record.winner and run.on_search(run.record.winner)
    shown = [*run.all_on_search(keys), *([best_drawn] if best_drawn else [])]
    if not winner or not any(map(run.terms.missed, shown)):
        return {}
    leads = {one.key: gain("fitness", winner, one, run.fitness) for one in shown if one.key != winner.key}
    return {key: lead for key, lead in leads.items() if lead is not None}


def _baselines(run: RunData) -> dict[str, PipelineRow]:
    stored = run.record.baselines
    found = {name: run.on_search(stored[name]) for name in TITLES if name in stored}
    return {name: run.timed(row(evaluation, run.terms)) for name, evaluation in found.items() if evaluation}


def _tested(run: RunData) -> dict[str, Evaluation]:
    if run.out_of_fold:
        return {name: run.out_of_fold[name] for name in TITLES if name in run.out_of_fold}
    stored = run.record.test
    found = {name: run.on_test(stored[name]) for name in TITLES if name in stored}
    return {name: evaluation for name, evaluation in found.items() if evaluation}


def _folds(run: RunData, tested: Mapping[str, Evaluation]) -> tuple[FoldRow, ...]:
    """What each search of a crossfit came to."""
    found = []
    for fold, winner in zip(run.record.folds, run.fold_winners, strict=True):
        parts = {name: one.on(fold.test).mean("fitness", run.fitness) for name, one in tested.items()}
        means = {name: mean for name, mean in parts.items() if mean is not None}
        found.append(FoldRow(fold.searched, fold.unused, len(fold.test), winner, means))
    return tuple(found)


def _finalists(run: RunData, tested: Mapping[str, Evaluation]) -> tuple[Finalist, ...]:
    found, terms = [], run.terms_of_test
    questions = common([evaluation for evaluation in tested.values() if terms.admit(evaluation)])
    for name, evaluation in tested.items():
        before = run.on_search(evaluation.key)
        searched = row(before, run.terms) if before else None
        found.append(Finalist(name, TITLES[name], searched, row(evaluation, terms, on=questions)))
    return tuple(found)


def _roles(record: RunRecord, best_drawn: Evaluation | None) -> dict[str, str]:
    """Pipelines that are shown question by question: name to key."""
    stored = {**record.baselines, **record.test}
    if record.winner:
        stored["winner"] = record.winner
    if best_drawn and "random" not in stored:
        stored["random"] = best_drawn.key
    return {name: stored[name] for name in TITLES if name in stored}


def _compared(
    run: RunData, tested: Mapping[str, Evaluation], roles: Mapping[str, str]
) -> tuple[dict[str, Evaluation], Literal["search", "test"]]:
    """Pipelines to compare by group of questions: on the test questions if there are any, for those are unbiased."""
    if tested:
        return {name: one for name, one in tested.items() if run.terms_of_test.admit(one)}, "test"
    found = {name: run.on_search(key) for name, key in roles.items()}
    return {name: one for name, one in found.items() if one and run.terms.admit(one)}, "search"


def _answered(run: RunData, roles: Mapping[str, str]) -> tuple[AnsweredQuestion, ...]:
    rows = (row for name, key in roles.items() for row in answered(run, name, key))
    return tuple(sorted(rows, key=lambda row: (row.split, row.question)))


def answered(run: RunData, pipeline: str, key: str) -> Iterator[AnsweredQuestion]:
    """Every question that the evaluation ``key`` of a run met, as the pipeline called ``pipeline``."""
    parts: tuple[tuple[Literal["search", "test"], Evaluation | None], ...] = (
        ("search", run.on_search(key)),
        ("test", run.on_test(key)),
    )
    data = run.about.data
    for split, evaluation in parts:
        if evaluation is None:
            continue
        columns = {name: iter(evaluation.column(name, run.fitness)) for name in HEADLINE}
        for question in evaluation.questions:
            about = question, data.questions.get(question, ""), data.modalities.get(question, ""), split, pipeline
            if record := evaluation.records.get(question):
                headline = {name: next(values) for name, values in columns.items()}
                found = {**headline, **record["measures"]}
                measures = {name: value for name, value in found.items() if value is not None}
                measures["calls"] = float(record["usage"]["calls"])
                yield AnsweredQuestion(*about, "ok", measures, record.get("answer", ""), tuple(record["retrieved"]))
            elif failure := evaluation.failures.get(question):
                yield AnsweredQuestion(*about, "failed", {}, error=failure["error"])
