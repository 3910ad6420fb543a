"""One run in the store to everything that its report says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from ragsmith.comparison.clusters import Clusters
from ragsmith.diagnosis.option_effects import OptionEffect, option_effects
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.evaluation.ranking import best, common
from ragsmith.pipelines.genes import label
from ragsmith.records.front import front
from ragsmith.records.objectives import costs
from ragsmith.records.record import DatasetRecord, RunRecord, RunSettings
from ragsmith.reporting import facts
from ragsmith.reporting.activity import options
from ragsmith.reporting.latency import timed_pipelines
from ragsmith.reporting.material import Material, choose_run
from ragsmith.reporting.questions import questions
from ragsmith.reporting.rows import best_so_far, by_group, gain, ranking, row
from ragsmith.reporting.values import (
    SHOWN,
    TITLES,
    About,
    Answered,
    Besides,
    Domain,
    Finalist,
    FoldRow,
    Row,
    Score,
    TimedPipeline,
)
from ragsmith.reporting.verdicts import cheapest, compare, next_step_of, rivals, same_as
from ragsmith.store.store import Store


def load_domain(store: Store, dataset: str) -> Domain:
    """What the store has of the latest finished run, else the latest, on ``dataset``.

    Raises:
        UsageError: there is no such run; the message lists the data sets that have one.
    """
    return read_domain(store, choose_run(store, dataset))


def read_domain(store: Store, about: About) -> Domain:
    """Everything a report says about a run."""
    return domain_of(about, Material(store, about, {}))


def domain_of(about: About, material: Material) -> Domain:
    """Everything a report says about a run that has been read."""
    record, fitness = about.record, material.fitness
    proposals = material.proposals
    terms = material.terms
    reduced = (removal.key for removal in record.removals)
    searched = dict.fromkeys([*(proposal.evaluation for proposal in proposals), *record.told])
    searching = material.finishers(list(searched))
    proposed = material.finishers(list(searched | dict.fromkeys(reduced)))
    drawn = material.finishers(record.random)
    best_drawn = best(drawn, terms)
    found = tuple(map(material.timed, ranking(proposed, terms, record.winner)))
    tested = _tested(material)
    pipelines, split = _compared(material, tested, best_drawn)
    found_rivals, look = rivals(tested), record.look
    drafted = not set(record.tested).isdisjoint(about.data.drafted)
    clusters, margin = record.tested_groups, record.settings.margin
    comparisons = compare(
        found_rivals,
        material.terms_of_test,
        len(record.random),
        drafted=drafted,
        clusters=clusters,
        look=look.number if look else 1,
        margin=margin,
    )
    nearest = cheapest(tested, material.terms_of_test, comparisons)
    types, modalities = about.data.questions, about.data.modalities
    return Domain(
        about=about,
        notes=facts.notes(material, best(searching, terms)),
        ranking=found,
        proposed=len(proposals),
        dropped=sum(proposal.dropped is not None for proposal in proposals),
        baselines=_baselines(material),
        random=row(best_drawn, terms) if best_drawn else None,
        search_curve=best_so_far([proposal.fitness for proposal in proposals]),
        random_curve=best_so_far(_scores(material, record.random)),
        finalists=_finalists(material, tested),
        comparisons=comparisons,
        same=same_as(record, tested),
        options=options(material),
        types=by_group(pipelines, types, fitness),
        modalities=by_group(pipelines, modalities, fitness) if modalities else (),
        groups_split=split,
        answered=_answered(material, _roles(record, best_drawn), about.data),
        failures=facts.failures(material.failed()),
        models=facts.models(record.models),
        aside=facts.aside(material),
        lowest=terms.lowest,
        leads=_leads(material, [*[row.key for row in found[:SHOWN]], *record.baselines.values()], best_drawn),
        judged=facts.judged(material),
        front=_front(found, record.settings),
        folds=_folds(material),
        ablation=material.ablation,
        questions=questions(material),
        cheapest=nearest,
        next_step=next_step_of(material, comparisons, tested),
        timed=_timed(material, best_drawn),
        besides=_besides(material),
        effects=_option_effects(material),
    )


def _besides(material: Material) -> Besides:
    record = material.record
    seen = {proposal.evaluation for proposal in material.proposals}

    def new(keys: Iterable[str | None]) -> int:
        fresh = {key for key in keys if key} - seen
        seen.update(fresh)
        return len(fresh)

    probes = [key for probe in record.probes for key in (probe.key, probe.reference)]
    outs = material.ablation.outs if material.ablation else ()
    return Besides(
        new([*record.baselines.values(), record.recommended, *probes]),
        new(record.random),
        new(removal.key for removal in record.removals),
        new(part.key for part in outs),
    )


def _option_effects(material: Material) -> tuple[OptionEffect, ...]:
    record = material.record
    clusters = record.split.search_groups or Clusters.alone(record.split.search)
    return tuple(option_effects(material.all_on_search(material.keys), material.fitness, clusters))


def _front(ranked: Sequence[Row], settings: RunSettings) -> tuple[Row, ...]:
    """Those that find, or answer, anything, and of which no other is as good in everything that was weighed.

    One whose costs are not known is compared with none.
    """
    able = [row for row in ranked if row.scores.get("retrieval", row.scores["fitness"]).mean > 0]
    each = {row.key: costs(settings, row.usage, row.latency_seconds) for row in able}
    worth = {row.key: (row.level, *(-cost for cost in known)) for row in able if (known := each[row.key]) is not None}
    return tuple(front((row for row in able if row.key in worth), lambda row: worth[row.key]))


def _timed(material: Material, best_drawn: Evaluation | None) -> tuple[TimedPipeline, ...]:
    """Those of the pipelines with a name that were timed by station."""
    names = _roles(material.record, best_drawn)
    known = {key: found for key in material.timings if (found := material.on_search(key) or material.on_test(key))}
    return timed_pipelines(names, {key: label(found.candidate) for key, found in known.items()}, material.timings)


def _scores(material: Material, keys: Sequence[str]) -> list[float | None]:
    """What each is ranked by; None for those that were dropped."""
    found = {evaluation.key: material.terms.score(evaluation) for evaluation in material.finishers(keys)}
    return [found.get(key) for key in keys]


def _leads(material: Material, keys: Sequence[str], best_drawn: Evaluation | None) -> dict[str, Score]:
    """What the winner is ahead of each pipeline that is shown, where any of them failed on a question that counts."""
    winner = material.record.winner and material.on_search(material.record.winner)
    shown = [*material.all_on_search(keys), *([best_drawn] if best_drawn else [])]
    if not winner or not any(map(material.terms.missed, shown)):
        return {}
    leads = {one.key: gain("fitness", winner, one, material.fitness) for one in shown if one.key != winner.key}
    return {key: lead for key, lead in leads.items() if lead is not None}


def _baselines(material: Material) -> dict[str, Row]:
    stored = material.record.baselines
    found = {name: material.on_search(stored[name]) for name in TITLES if name in stored}
    return {name: material.timed(row(evaluation, material.terms)) for name, evaluation in found.items() if evaluation}


def _tested(material: Material) -> dict[str, Evaluation]:
    if material.out_of_fold:
        return {name: material.out_of_fold[name] for name in TITLES if name in material.out_of_fold}
    stored = material.record.test
    found = {name: material.on_test(stored[name]) for name in TITLES if name in stored}
    return {name: evaluation for name, evaluation in found.items() if evaluation}


def _folds(material: Material) -> tuple[FoldRow, ...]:
    """What each search of a crossfit came to."""
    found = []
    for fold, winner in zip(material.record.folds, material.fold_winners, strict=True):
        parts = {name: one.on(fold.test).mean("fitness", material.fitness) for name, one in _tested(material).items()}
        means = {name: mean for name, mean in parts.items() if mean is not None}
        found.append(FoldRow(fold.searched, fold.unused, len(fold.test), winner, means))
    return tuple(found)


def _finalists(material: Material, tested: Mapping[str, Evaluation]) -> tuple[Finalist, ...]:
    rows, terms = [], material.terms_of_test
    questions = common([evaluation for evaluation in tested.values() if terms.admit(evaluation)])
    for name, evaluation in tested.items():
        before = material.on_search(evaluation.key)
        rows.append(
            Finalist(
                name,
                TITLES[name],
                row(before, material.terms) if before else None,
                row(evaluation, terms, on=questions),
            )
        )
    return tuple(rows)


def _roles(record: RunRecord, best_drawn: Evaluation | None) -> dict[str, str]:
    """Pipelines that are shown question by question: name to key."""
    stored = {**record.baselines, **record.test}
    if record.winner:
        stored["winner"] = record.winner
    if best_drawn and "random" not in stored:
        stored["random"] = best_drawn.key
    return {name: stored[name] for name in TITLES if name in stored}


def _compared(
    material: Material, tested: Mapping[str, Evaluation], best_drawn: Evaluation | None
) -> tuple[dict[str, Evaluation], Literal["search", "test"]]:
    """Pipelines to compare by group of questions: on the test questions if there are any, for those are unbiased."""
    if tested:
        return {name: one for name, one in tested.items() if material.terms_of_test.admit(one)}, "test"
    roles = _roles(material.record, best_drawn)
    found = {name: material.on_search(key) for name, key in roles.items()}
    return {name: one for name, one in found.items() if one and material.terms.admit(one)}, "search"


def _answered(material: Material, roles: Mapping[str, str], data: DatasetRecord) -> tuple[Answered, ...]:
    rows = (row for name, key in roles.items() for row in answered(material, name, key, data))
    return tuple(sorted(rows, key=lambda row: (row.split, row.question)))


def answered(material: Material, pipeline: str, key: str, data: DatasetRecord) -> Iterator[Answered]:
    """Every question that the evaluation ``key`` of a run met, as the pipeline called ``pipeline``."""
    parts: tuple[tuple[Literal["search", "test"], Evaluation | None], ...] = (
        ("search", material.on_search(key)),
        ("test", material.on_test(key)),
    )
    for split, evaluation in parts:
        if evaluation is None:
            continue
        columns = {name: iter(evaluation.column(name, material.fitness)) for name in HEADLINE}
        for question in evaluation.questions:
            about = question, data.questions.get(question, ""), data.modalities.get(question, ""), split, pipeline
            if record := evaluation.records.get(question):
                headline = {name: next(values) for name, values in columns.items()}
                found = {**headline, **record["measures"]}
                measures = {name: value for name, value in found.items() if value is not None}
                measures["calls"] = float(record["usage"]["calls"])
                yield Answered(*about, "ok", measures, record.get("answer", ""), tuple(record["retrieved"]))
            elif failure := evaluation.failures.get(question):
                yield Answered(*about, "failed", {}, error=failure["error"])
