"""Reports to files: a folder for each data set, and a page across them when there are several."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragsmith.errors import LeftOut, UsageError
from ragsmith.reporting.domain import read_domain
from ragsmith.reporting.markdown import domain_markdown, index_markdown
from ragsmith.reporting.material import choose_run, reported_datasets
from ragsmith.reporting.page import domain_page, index_page
from ragsmith.reporting.spreadsheet import (
    activity_csv,
    groups_csv,
    interactions_csv,
    parts_csv,
    questions_csv,
    ranking_csv,
)
from ragsmith.reporting.values import Domain
from ragsmith.store.store import Store
from ragsmith.text.writing import write_file


@dataclass(frozen=True, slots=True)
class Written:
    """The files that were written, the data sets they are about, and what they say."""

    paths: tuple[Path, ...]
    domains: tuple[str, ...]
    read: tuple[Domain, ...]


def write_report(
    store: Store,
    folder: Path,
    dataset: str | None = None,
) -> Written:
    """Report the latest finished run, else the latest, of every data set in ``store``, or of ``dataset`` alone.

    Into ``folder/<data set>`` go ``report.md``, ``index.html``, ``ranking.csv``, ``activity.csv``, ``groups.csv`` and
    ``questions.csv``, and ``parts.csv`` and ``interactions.csv`` where the winner was taken apart; with several data
    sets, ``index.html`` and ``index.md`` into ``folder``. Equal runs give equal files. Of all, one whose search used a
    file of one's own that is gone or changed is left out, with a `LeftOut` warning.

    Raises:
        UsageError: there is no run that can be reported; the message lists the data sets that have one, or says why.
    """
    domains: tuple[Domain, ...] = ()
    names = reported_datasets(store) if dataset is None else [dataset]
    for name in names:
        try:
            domains += (read_domain(store, choose_run(store, name)),)
        except UsageError as problem:
            if len(names) == 1:
                raise
            warnings.warn(f"{name} is left out of the report: {problem}", LeftOut, stacklevel=2)
    if not domains:
        raise UsageError("no search in this cache can be reported: see the warnings")
    return Written(write_domains(folder, domains), tuple(domain.about.dataset for domain in domains), domains)


def write_run(store: Store, folder: Path, dataset: str, key: str) -> tuple[Path, ...]:
    """Write the report of the run ``key`` on ``dataset``, however far it got."""
    return write_domains(folder, [read_domain(store, choose_run(store, dataset, key))])


def write_domains(folder: Path, domains: Sequence[Domain]) -> tuple[Path, ...]:
    """Write the report of each of ``domains``, and a page across them when there are several."""
    paths: list[Path] = []
    for domain in domains:
        found = domain.ablation
        apart = {} if found is None else {"parts.csv": parts_csv(found), "interactions.csv": interactions_csv(found)}
        paths += _write(
            folder / domain.about.folder,
            {
                "report.md": domain_markdown(domain),
                "index.html": domain_page(domain),
                "ranking.csv": ranking_csv(domain),
                "activity.csv": activity_csv(domain),
                "groups.csv": groups_csv(domain),
                "questions.csv": questions_csv(domain),
                **apart,
            },
        )
    if len(domains) > 1:
        paths += _write(folder, {"index.html": index_page(domains), "index.md": index_markdown(domains)})
    return tuple(paths)


def _write(folder: Path, files: dict[str, str]) -> list[Path]:
    return [write_file(text, folder / name) for name, text in files.items()]
