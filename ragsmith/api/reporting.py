"""`report` and `export`: what searches have left in a cache, for people and for `ask`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ragsmith.api.resources import CACHE
from ragsmith.datasets.dataset import load_dataset
from ragsmith.exported.winner import Exported, run_setup
from ragsmith.exported.winner import export as write_pipeline
from ragsmith.reporting import WrittenReports, write_report
from ragsmith.store.store import Store, open_store
from ragsmith.techniques.user_code import import_files
from ragsmith.types import Dataset


def report(cache: Store | str | Path, folder: str | Path, dataset: str | Path | None = None) -> WrittenReports:
    """Write the report of the searches in ``cache``, of one data set (by name or folder) or of all and compared.

    Raises:
        UsageError: there is no such cache or search.
    """
    if dataset is not None and Path(dataset).is_dir():  # as it was given to the search
        dataset = load_dataset(dataset).name
    with open_store(cache, read_only=True) as store:
        return write_report(store, Path(folder), None if dataset is None else str(dataset))


def export(
    dataset: Dataset | str | Path,
    *,
    cache: Store | str | Path = CACHE,
    output: str | Path | None = None,
    run: str | None = None,
    pick: str | int = "best",
    imports: Sequence[str | Path] = (),
) -> Exported:
    """Write the winner of a search on ``dataset`` as YAML: the latest search, or the one whose key ``run`` begins.

    ``pick`` names another pipeline that the search evaluated: ``knee``, where quality against model calls bends;
    ``cheapest``, shown not to be behind the winner by 0.02 of fitness; ``single``, the best with one option more than
    naive RAG; ``recommended``, what other data sets name for these documents; a place in the ranking; ``"calls<=2"``,
    the best with so few calls a question; or ``"latency<=0.5"``, the best within so many seconds, where the search
    weighed latency.
    Without an ``output`` the winner goes to ``winner.yaml``, and another to a file that is named after ``pick``, such
    as ``cheapest.yaml``, ``place-3.yaml`` or ``calls-2.yaml``. What is returned says which pipeline it is; where
    ``output`` was a file with something else in it, a `Notice` does.

    Raises:
        UsageError: there is no such cache, search or pipeline.
    """
    import_files(imports)
    with open_store(cache, read_only=True) as store:
        key, setup = run_setup(store, dataset, run)
        return write_pipeline(store, key, setup, Path(output or _named_after(str(pick))), str(pick))


def _named_after(pick: str) -> str:
    if pick == "best":
        return "winner.yaml"
    name = re.sub(r"[^\w.]+", "-", pick).strip("-.")
    return f"place-{name}.yaml" if name.isdigit() else f"{name or 'picked'}.yaml"
