"""Reports to files: a folder for each data set, and a page across them when there are several."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragsmith.diagnosis.transfer import kept
from ragsmith.errors import LeftOut, UsageError
from ragsmith.reporting.across import Across, across
from ragsmith.reporting.domain import read_domain
from ragsmith.reporting.markdown import domain_markdown, index_markdown
from ragsmith.reporting.material import choose_run, reported_datasets
from ragsmith.reporting.page import domain_page, index_page
from ragsmith.reporting.spreadsheet import (
    across_json,
    activity_csv,
    effects_csv,
    groups_csv,
    interactions_csv,
    parts_csv,
    questions_csv,
    ranking_csv,
    run_effects_csv,
    tested_csv,
    transfers_csv,
)
from ragsmith.reporting.values import Domain
from ragsmith.store.store import Store
from ragsmith.text.writing import write_file


@dataclass(frozen=True, slots=True)
class Written:
    """The files that were written, the data sets they are about, and what they say, alone and together."""

    paths: tuple[Path, ...]
    domains: tuple[str, ...]
    read: tuple[Domain, ...]
    across: Across | None = None


def write_report(
    store: Store,
    folder: Path,
    dataset: str | None = None,
) -> Written:
    """Report the latest finished run, else the latest, of every data set in ``store``, or of ``dataset`` alone.

    Into ``folder/<data set>`` go ``report.md``, ``index.html``, ``ranking.csv``, ``activity.csv``, ``groups.csv``,
    ``questions.csv`` and ``effects.csv``, and ``parts.csv`` and ``interactions.csv`` where the winner was taken apart;
    with several data sets, ``index.html``, ``index.md``, ``across.json``, ``test.csv``, ``effects.csv`` and
    ``transfer.csv`` into ``folder``. Equal runs give equal files. Of all, one whose search used a file of one's own
    that is gone or changed is left out, with a `LeftOut` warning.

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
    found = across(domains, kept(store, [domain.about.run for domain in domains])) if len(domains) > 1 else None
    names_read = tuple(domain.about.dataset for domain in domains)
    return Written(write_domains(folder, domains, found), names_read, domains, found)


def write_run(store: Store, folder: Path, dataset: str, key: str) -> tuple[Path, ...]:
    """Write the report of the run ``key`` on ``dataset``, however far it got."""
    return write_domains(folder, [read_domain(store, choose_run(store, dataset, key))])


def write_domains(folder: Path, domains: Sequence[Domain], found: Across | None = None) -> tuple[Path, ...]:
    """Write the report of each of ``domains``, and what was ``found`` across them when there are several."""
    paths: list[Path] = []
    for domain in domains:
        taken = domain.ablation
        apart = {} if taken is None else {"parts.csv": parts_csv(taken), "interactions.csv": interactions_csv(taken)}
        paths += _write(
            folder / domain.about.folder,
            {
                "report.md": domain_markdown(domain),
                "index.html": domain_page(domain),
                "ranking.csv": ranking_csv(domain),
                "activity.csv": activity_csv(domain),
                "groups.csv": groups_csv(domain),
                "questions.csv": questions_csv(domain),
                "effects.csv": run_effects_csv(domain),
                **apart,
            },
        )
    if found is not None:
        paths += write_across(folder, domains, found)
    return tuple(paths)


def write_across(folder: Path, domains: Sequence[Domain], found: Across) -> tuple[Path, ...]:
    """Write what was ``found`` across ``domains``."""
    return tuple(
        _write(
            folder,
            {
                "index.html": index_page(domains, found),
                "index.md": index_markdown(domains, found),
                "test.csv": tested_csv(found),
                "effects.csv": effects_csv(found),
                "transfer.csv": transfers_csv(found),
                "across.json": json.dumps(across_json(found), ensure_ascii=False, indent=1) + "\n",
            },
        )
    )


def _write(folder: Path, files: dict[str, str]) -> list[Path]:
    return [write_file(text, folder / name) for name, text in files.items()]
