"""Reports to files: a folder for each data set, and a page across them when there are several."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragsmith.diagnosis.transfer import kept
from ragsmith.errors import LeftOut, UsageError
from ragsmith.reporting import spreadsheet
from ragsmith.reporting.across import Across, across
from ragsmith.reporting.building import read_report
from ragsmith.reporting.markdown import index_markdown, report_markdown
from ragsmith.reporting.page import index_page, report_page
from ragsmith.reporting.run_data import choose_run, reported_datasets
from ragsmith.reporting.values import RunReport
from ragsmith.store.store import Store
from ragsmith.text.writing import write_file


@dataclass(frozen=True, slots=True)
class WrittenReports:
    """The files that were written, the data sets they are about, and what they say, alone and together."""

    paths: tuple[Path, ...]
    datasets: tuple[str, ...]
    reports: tuple[RunReport, ...]
    across: Across | None = None


def write_report(
    store: Store,
    folder: Path,
    dataset: str | None = None,
) -> WrittenReports:
    """Report the latest finished run, else the latest, of every data set in ``store``, or of ``dataset`` alone.

    Into ``folder/<data set>`` go ``report.md``, ``index.html``, ``ranking.csv``, ``activity.csv``, ``groups.csv``,
    ``questions.csv`` and ``effects.csv``, and ``parts.csv`` and ``interactions.csv`` where the winner was taken apart;
    with several data sets, ``index.html``, ``index.md``, ``across.json``, ``test.csv``, ``effects.csv`` and
    ``transfer.csv`` into ``folder``. Equal runs give equal files. Of all, one whose search used a file of one's own
    that is gone or changed is left out, with a `LeftOut` warning.

    Raises:
        UsageError: there is no run that can be reported; the message lists the data sets that have one, or says why.
    """
    reports: tuple[RunReport, ...] = ()
    names = reported_datasets(store) if dataset is None else [dataset]
    for name in names:
        try:
            reports += (read_report(store, choose_run(store, name)),)
        except UsageError as problem:
            if len(names) == 1:
                raise
            warnings.warn(f"{name} is left out of the report: {problem}", LeftOut, stacklevel=2)
    if not reports:
        raise UsageError("no search in this cache can be reported: see the warnings")
    found = across(reports, kept(store, [report.about.run for report in reports])) if len(reports) > 1 else None
    names_read = tuple(report.about.dataset for report in reports)
    return WrittenReports(write_reports(folder, reports, found), names_read, reports, found)


def write_run(store: Store, folder: Path, dataset: str, key: str) -> tuple[Path, ...]:
    """Write the report of the run ``key`` on ``dataset``, however far it got."""
    return write_reports(folder, [read_report(store, choose_run(store, dataset, key))])


def write_reports(folder: Path, reports: Sequence[RunReport], found: Across | None = None) -> tuple[Path, ...]:
    """Write the report of each of ``reports``, and what was ``found`` across them when there are several."""
    paths: list[Path] = []
    for report in reports:
        files = {
            "report.md": report_markdown(report),
            "index.html": report_page(report),
            "ranking.csv": spreadsheet.ranking_csv(report),
            "activity.csv": spreadsheet.activity_csv(report),
            "groups.csv": spreadsheet.groups_csv(report),
            "questions.csv": spreadsheet.questions_csv(report),
            "effects.csv": spreadsheet.run_effects_csv(report),
        }
        if report.ablation is not None:
            files["parts.csv"] = spreadsheet.parts_csv(report.ablation)
            files["interactions.csv"] = spreadsheet.interactions_csv(report.ablation)
        paths += _write(folder / report.about.folder, files)
    if found is not None:
        paths += write_across(folder, reports, found)
    return tuple(paths)


def write_across(folder: Path, reports: Sequence[RunReport], found: Across) -> tuple[Path, ...]:
    """Write what was ``found`` across ``reports``."""
    files = {
        "index.html": index_page(reports, found),
        "index.md": index_markdown(reports, found),
        "test.csv": spreadsheet.tested_csv(found),
        "effects.csv": spreadsheet.effects_csv(found),
        "transfer.csv": spreadsheet.transfers_csv(found),
        "across.json": json.dumps(spreadsheet.across_json(found), ensure_ascii=False, indent=1) + "\n",
    }
    return tuple(_write(folder, files))


def _write(folder: Path, files: dict[str, str]) -> list[Path]:
    return [write_file(text, folder / name) for name, text in files.items()]
