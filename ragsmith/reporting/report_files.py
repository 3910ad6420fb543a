"""Write reports as HTML, Markdown, CSV and JSON: a folder per data set, and an index of several.

CSV files are safe to open in spreadsheets.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragsmith.comparison.marked_answers import MARKS_FILE
from ragsmith.diagnosis.estimates import Estimate, load_transfers
from ragsmith.errors import LeftOut, UsageError, warn_caller
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.reporting.building import read_report
from ragsmith.reporting.decision import decide
from ragsmith.reporting.facts import describe_rival
from ragsmith.reporting.overview import CombinedReport, PooledEffect, PooledTest, combine_reports
from ragsmith.reporting.rendering import index_markdown, index_page, report_markdown, report_page
from ragsmith.reporting.run_data import choose_run, reported_datasets
from ragsmith.reporting.values import PipelineRow, RunReport, folder_of
from ragsmith.reporting.wording import NAIVE
from ragsmith.store.store import Store
from ragsmith.text.table import ColumnPath, round_values, to_csv
from ragsmith.text.writing import write_file


def _bounds(name: str, *path: str) -> dict[str, ColumnPath]:
    """Return the columns of a mean and its interval."""
    return {name: (*path, "mean"), f"{name}_low": (*path, "low"), f"{name}_high": (*path, "high")}


EFFECT_COLUMNS: Mapping[str, ColumnPath] = {
    "pairs": "its.pairs",
    "questions": "its.gain.n",
    "groups": "its.gain.groups",
    "gain": "gain.mean",
    "low": "gain.low",
    "high": "gain.high",
    "error": "its.gain.error",
}

POOLED_COLUMNS: Mapping[str, ColumnPath] = {
    "between": "pooled.between_sd",
    **{name: f"pooled.{name}" for name in ("datasets", "agree", "unchanged")},
}

ACTIVITY_COLUMNS: Mapping[str, ColumnPath] = {
    "family": "option.family",
    "option": "option.name",
    "against": "against",
    "difference": "option.probe.difference",
    "activity": "option.probe.activity",
    "questions": "option.probe.compared",
    "inert": "option.probe.inert",
    "calls_added": "option.probe.calls",
    **_bounds("change", "option", "probe", "change"),
    **_bounds("retrieval_change", "option", "probe", "retrieval"),
    "fitness_with": "option.effect.with_mean",
    "proposed_with": "option.effect.with_n",
    "fitness_without": "option.effect.without_mean",
    "proposed_without": "option.effect.without_n",
}

PART_COLUMNS: Mapping[str, ColumnPath] = {
    **{name: name for name in ("kind", "family", "option", "instead", "together")},
    "questions": "worth.fitness.n",
    "groups": "worth.fitness.groups",
    **{
        f"{name}_{end}": f"worth.{name}.{'mean' if end == 'worth' else end}"
        for name in HEADLINE
        for end in ("worth", "low", "high")
    },
    "calls_saved": "calls",
    "seconds_saved": "seconds",
    "why_not": "why_not",
}

INTERACTION_COLUMNS: Mapping[str, ColumnPath] = {
    "parts": "options",
    "questions": "beyond.n",
    "groups": "beyond.groups",
    **_bounds("expected", "expected"),
    **_bounds("observed", "observed"),
    **_bounds("beyond", "beyond"),
}

TRANSFER_COLUMNS: Mapping[str, ColumnPath] = {
    "winner_of": "source",
    "on": "target",
    "part": "part",
    "pipeline": "label",
    "questions": "questions",
    "fitness": "fitness",
    "calls": "calls",
    "own_fitness": "own",
    "behind": "regret",
    "behind_low": "behind.low",
    "behind_high": "behind.high",
    "place": "place",
    "of": "of",
}


def ranking_csv(report: RunReport) -> str:
    """Return all scored pipelines of the search with all measures, then the baselines; on search questions.

    ``<measure>_n`` is the number of questions with a value, for measures that not every question has. ``ranked_by`` is
    included if a pipeline failed on counted questions.
    """
    compared = {**report.baselines, **({"random": report.random} if report.random else {})}
    records: list[dict[str, Any]] = [
        {"rank": f"{place}", "row": row, "genomes": row.shared} for place, row in enumerate(report.ranking, 1)
    ]
    records += [{"rank": describe_rival(name, len(report.random_curve)), "row": row} for name, row in compared.items()]
    rows: list[PipelineRow] = [record["row"] for record in records]
    columns: dict[str, ColumnPath] = {"rank": "rank", "pipeline": "row.label", "genomes": "genomes"}
    columns |= {name: f"row.coverage.{name}" for name in ("questions", "attempted", "scored", "failed")}
    if any(row.ranked_by is not None for row in rows):
        columns["ranked_by"] = "level"
        records = [{**record, "level": record["row"].level if record["row"].scores else None} for record in records]
    for name in dict.fromkeys(name for row in rows for name in row.scores):
        columns |= _bounds(name, "row", "scores", name)
        if any(name in row.scores and row.scores[name].n is not None for row in rows):
            columns[f"{name}_n"] = ("row", "scores", name, "n")
    columns |= {f"{name}_per_question": ("row", "usage", name) for row in rows for name in row.usage}
    if any(row.latency_seconds is not None for row in rows):
        columns["latency_seconds"] = "row.latency_seconds"
    columns |= {f"gene_{name}": ("row", "genes", name) for row in rows for name in row.genes}
    return to_csv(records, columns)


def activity_csv(report: RunReport) -> str:
    """Return the effect of each option alone, in naive RAG or in the pipeline ``against``, and among proposals."""
    options = ({"option": one, "against": one.probe and (one.probe.against or NAIVE)} for one in report.options)
    return to_csv(options, ACTIVITY_COLUMNS)


def questions_csv(report: RunReport) -> str:
    """Return the results of the winner and its rivals by question, with the causes of those that were diagnosed."""
    named = ("split", "question", "text", "reference", "type", "modality", "pipeline", "state", "cause")
    measured = sorted({name for one in report.answered for name in one.measures})
    return to_csv(report.answered, {name: name for name in named} | {name: ("measures", name) for name in measured})


def groups_csv(report: RunReport) -> str:
    """Return scores and costs of the winner and its rivals by question type and by kind of document."""
    listed = [("type", group) for group in report.types] + [("modality", group) for group in report.modalities]
    records = ({"split": report.groups_split, "by": by, "its": group} for by, group in listed)
    columns: dict[str, ColumnPath] = {"split": "split", "by": "by", "group": "its.group"}
    columns |= {"pipeline": "its.pipeline", "questions": "its.n"}
    for name in HEADLINE:
        columns |= _bounds(name, "its", "scores", name)
    columns |= {f"{name}_per_question": ("its", "costs", name) for _, group in listed for name in group.costs}
    return to_csv(records, columns)


def run_effects_csv(report: RunReport) -> str:
    """Return the gains of options over those of naive RAG, over all pairs of pipelines of the run."""
    named: dict[str, ColumnPath] = {name: f"its.{name}" for name in ("family", "option", "instead")}
    return to_csv(({"its": one, "gain": one.gain} for one in report.effects), {**named, **EFFECT_COLUMNS})


def tested_csv(found: CombinedReport) -> str:
    """Return the differences between winners and rivals on test questions, by data set and pooled."""
    records = _by_dataset((one, one.each) for one in found.tested)
    columns: dict[str, ColumnPath] = {"against": "of.name", "dataset": "dataset"}
    columns |= {"questions": "its.n", "groups": "its.groups"}
    columns |= {"difference": "gain.mean", "low": "gain.low", "high": "gain.high", "error": "its.error"}
    return to_csv(records, {**columns, **POOLED_COLUMNS})


def effects_csv(found: CombinedReport) -> str:
    """Return the gains of options over those of naive RAG, by data set and pooled."""
    gains = ((one, {dataset: its.gain for dataset, its in one.each.items()}) for one in found.effects)
    named: dict[str, ColumnPath] = {name: f"of.{name}" for name in ("family", "option", "instead")}
    return to_csv(_by_dataset(gains), {**named, "dataset": "dataset", **EFFECT_COLUMNS, **POOLED_COLUMNS})


def _by_dataset(
    found: Iterable[tuple[PooledTest | PooledEffect, Mapping[str, Estimate]]],
) -> Iterator[dict[str, Any]]:
    for one, gains in found:
        for dataset, gain in gains.items():
            yield {"of": one, "dataset": dataset, "its": one.each[dataset], "gain": gain}
        if one.pooled:
            yield {"of": one, "dataset": "pooled", "gain": one.pooled, "pooled": one.pooled}


def report_json(report: RunReport | CombinedReport) -> dict[str, Any]:
    """Return a report, or a combined report, as JSON-compatible data with at most six decimals."""
    decision = decide(report) if isinstance(report, RunReport) else None
    plain: dict[str, Any] = round_values({**({"decision": decision.to_dict()} if decision else {}), **asdict(report)})
    return plain


@dataclass(frozen=True, slots=True)
class WrittenReports:
    """The written files, with their data sets, reports and combined report."""

    paths: tuple[Path, ...]
    datasets: tuple[str, ...]
    reports: tuple[RunReport, ...]
    across: CombinedReport | None = None


def write_report(
    store: Store,
    folder: Path,
    dataset: str | None = None,
    marks: Path | None = None,
) -> WrittenReports:
    """Report the latest finished run, else the latest, of every data set in ``store``, or of ``dataset`` alone.

    Into ``folder/<data set>`` go ``report.md``, ``index.html``, ``ranking.csv``, ``activity.csv``, ``groups.csv``,
    ``questions.csv`` and ``effects.csv``, and ``parts.csv`` and ``interactions.csv`` if the winner was ablated;
    with several data sets, ``index.html``, ``index.md``, ``across.json``, ``test.csv``, ``effects.csv`` and
    ``transfer.csv`` into ``folder``. Equal runs give equal files. With several data sets, one whose search used a
    user module that is missing or has changed is left out, with a `LeftOut` warning.

    People's marks of answers are read from ``marks.jsonl`` in the folder of the data set, or from the file ``marks``.

    Raises:
        UsageError: no run can be reported; the message lists the data sets with a run, or the reason.
    """
    reports: tuple[RunReport, ...] = ()
    names = reported_datasets(store) if dataset is None else [dataset]
    for name in names:
        try:
            reports += (read_report(store, choose_run(store, name), marks or folder / folder_of(name) / MARKS_FILE),)
        except UsageError as problem:
            if len(names) == 1:
                raise
            warn_caller(f"{name} is left out of the report: {problem}", LeftOut)
    if not reports:
        raise UsageError("no search in this cache can be reported: see the warnings")
    if marks and not any(report.marked for report in reports):
        raise UsageError(
            f"{marks} has no marks of answers of this search: make some with  ragsmith mark --dataset {names[0]}"
        )
    found = (
        combine_reports(reports, load_transfers(store, [report.about.run for report in reports]))
        if len(reports) > 1
        else None
    )
    names_read = tuple(report.about.dataset for report in reports)
    return WrittenReports(write_reports(folder, reports, found), names_read, reports, found)


def write_run(store: Store, folder: Path, dataset: str, key: str) -> tuple[Path, ...]:
    """Write the report of the run ``key`` on ``dataset``, even if it is unfinished."""
    return write_reports(
        folder, [read_report(store, choose_run(store, dataset, key), folder / folder_of(dataset) / MARKS_FILE)]
    )


def write_reports(folder: Path, reports: Sequence[RunReport], found: CombinedReport | None = None) -> tuple[Path, ...]:
    """Write each of ``reports``, and the combined report ``found`` if there is one."""
    paths: list[Path] = []
    for report in reports:
        files = {
            "report.md": report_markdown(report),
            "index.html": report_page(report),
            "ranking.csv": ranking_csv(report),
            "activity.csv": activity_csv(report),
            "groups.csv": groups_csv(report),
            "questions.csv": questions_csv(report),
            "effects.csv": run_effects_csv(report),
        }
        if report.ablation is not None:
            files["parts.csv"] = to_csv(report.ablation.parts, PART_COLUMNS)
            files["interactions.csv"] = to_csv(report.ablation.interactions, INTERACTION_COLUMNS)
        paths += _write_files(folder / report.about.folder, files)
    if found is not None:
        paths += write_combined_report(folder, reports, found)
    return tuple(paths)


def write_combined_report(folder: Path, reports: Sequence[RunReport], found: CombinedReport) -> tuple[Path, ...]:
    """Write the combined report ``found`` of ``reports``."""
    files = {
        "index.html": index_page(reports, found),
        "index.md": index_markdown(reports, found),
        "test.csv": tested_csv(found),
        "effects.csv": effects_csv(found),
        "transfer.csv": to_csv(found.transfers, TRANSFER_COLUMNS),
        "across.json": json.dumps(report_json(found), ensure_ascii=False, indent=1) + "\n",
    }
    return tuple(_write_files(folder, files))


def _write_files(folder: Path, files: dict[str, str]) -> list[Path]:
    return [write_file(text, folder / name) for name, text in files.items()]
