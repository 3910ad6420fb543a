"""`search_each`, `report` and `export`: searches on several data sets, reports, and export of pipelines."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from ragsmith.api.resources import CACHE
from ragsmith.api.result import Result
from ragsmith.api.searching import EachArguments, check_arguments, search
from ragsmith.argument_types import checked
from ragsmith.datasets.bundled import ALL_DOMAINS, bundled_domains
from ragsmith.datasets.dataset import load_dataset
from ragsmith.diagnosis.estimates import load_transfers
from ragsmith.display import short_repr
from ragsmith.errors import (
    BudgetExhausted,
    DatasetError,
    ModelUnavailable,
    RagsmithError,
    StageFailed,
    UsageError,
    WrongOption,
)
from ragsmith.exported.writing import ExportedPipeline, load_run_experiment
from ragsmith.exported.writing import export as write_pipeline
from ragsmith.gateway.budget import NOTHING_SPENT, Limits, LimitSpec, Spent, read_limits
from ragsmith.records.record import load_record
from ragsmith.reporting import WrittenReports, folder_of, write_report
from ragsmith.reporting.overview import CombinedReport, combine_reports
from ragsmith.reporting.report_files import write_combined_report
from ragsmith.runs.run_context import Start, StatusReader
from ragsmith.store.store import Store, open_store
from ragsmith.techniques.user_code import import_files
from ragsmith.types import Dataset


@dataclass(frozen=True)
class Searched:
    """The results of `search_each` by name of data set.

    ``found`` has the results of finished and paused searches. ``failed`` has the reasons of failed searches, and
    ``waiting`` of those that were not started or have no results because a common limit was reached; the same call
    resumes them. ``across`` is the comparison of two or more data sets, and ``files`` are the files written for it.
    """

    found: Mapping[str, Result]
    failed: Mapping[str, str]
    waiting: Mapping[str, str]
    across: CombinedReport | None = None
    files: tuple[Path, ...] = ()

    __repr__ = short_repr


@checked
def search_each(
    datasets: str | Sequence[Dataset | str | Path] = ALL_DOMAINS,
    *,
    limits: LimitSpec = None,
    reports: str | Path | None = None,
    on_dataset: Callable[[int, int, str], None] | None = None,
    on_start: Callable[[Start], None] | None = None,
    on_end: Callable[[str, Result | RagsmithError], None] | None = None,
    **arguments: Unpack[EachArguments],
) -> Searched:
    """Search each of several data sets in turn, with one cache, and compare the results.

    >>> both = ragsmith.search_each(["law", "workshop"], space="quick", max_evaluations=8, probes=False, seed=1)
    >>> {name: found.state for name, found in both.found.items()}
    {'law': 'finished', 'workshop': 'finished'}
    >>> [f"{one.against}: {one.pooled.datasets} data sets" for one in both.across.tested][:2]
    ['naive RAG: 2 data sets', 'BM25: 2 data sets']

    ``"all"`` stands for all bundled domains. Each search runs as `search` with the same ``arguments``, so that
    ``max_evaluations`` and the seed apply to each. The results of a search are in ``cache`` and ``reports`` when the
    next one begins, and the same call resumes. ``limits`` and ``time_limit`` apply to all searches together.

    All data sets are read before the first search. A failed search is in ``failed``, and the others continue.
    ``reports`` is a folder for the report of each data set and the page across them. ``on_dataset`` is called with the
    position of a data set, the number of data sets and its name before its search, and ``on_end`` with its result or
    error.

    Raises:
        UsageError: a data set or an argument cannot be used, two data sets have the same name, or all searches failed
            alike.
    """
    limits = read_limits(limits)
    check_arguments(arguments)
    cache = arguments.get("cache", CACHE)
    chosen = _load_datasets(datasets)
    seconds = arguments.pop("time_limit", None)
    if seconds is None and (settings := arguments.get("settings")) is not None:
        seconds = settings.time_limit
    began, spent, stopped = time.monotonic(), NOTHING_SPENT, ""
    found: dict[str, Result] = {}
    failed: dict[str, RagsmithError] = {}
    waiting: dict[str, str] = {}
    for place, data in enumerate(chosen, 1):
        bounds, exhausted = _remaining_limits(limits, spent)
        left = seconds
        if seconds is not None and place > 1:
            left = seconds - (time.monotonic() - began)
            exhausted = exhausted or ("the time limit is reached" if left <= 0 else "")
        if stopped := stopped or exhausted:
            waiting[data.name] = stopped
            continue
        if on_dataset is not None:
            on_dataset(place, len(chosen), data.name)
        read_status: list[StatusReader] = []

        def start(begun: Start, read_status: list[StatusReader] = read_status) -> None:
            read_status.append(begun.read_status)
            if on_start is not None:
                on_start(begun)

        arguments["time_limit"] = left
        ended: Result | RagsmithError
        try:
            ended = search(data, limits=bounds, reports=reports, on_start=start, **arguments)
        except BudgetExhausted as error:
            ended, stopped = error, str(error)
            waiting[data.name] = stopped
        except (UsageError, ModelUnavailable, StageFailed) as error:
            ended = failed[data.name] = error
            spent += read_status[0]()[1] if read_status else NOTHING_SPENT
        else:
            found[data.name] = ended
            spent += ended.spent
            stopped = ended.why if ended.state == "interrupted" else ""
        if on_end is not None:
            on_end(data.name, ended)
    if not found and not waiting and len({str(error) for error in failed.values()}) == 1:
        raise next(iter(failed.values()))
    files, combined = _compare_datasets(cache, list(found.values()), reports)
    return Searched(found, {name: str(error) for name, error in failed.items()}, waiting, combined, files)


def _load_datasets(datasets: str | Sequence[Dataset | str | Path]) -> list[Dataset]:
    """Return all data sets, loaded and checked before the first search.

    Raises:
        UsageError: there is none, or one is invalid, or two have the same name or folder of reports.
    """
    listed = [datasets] if isinstance(datasets, str) else list(datasets)
    is_folder = Path(ALL_DOMAINS).is_dir()
    names = [
        name for each in listed for name in (bundled_domains() if each == ALL_DOMAINS and not is_folder else [each])
    ]
    if not names:
        raise WrongOption("dataset", "is empty: give at least one data set, such as law")
    loaded: dict[str | Path, Dataset] = {}
    mistakes: list[str] = []
    distinct = [one for at, one in enumerate(names) if isinstance(one, Dataset) or one not in names[:at]]
    for one in distinct:
        if isinstance(one, Dataset):
            continue
        try:
            loaded[one] = load_dataset(one)
        except DatasetError as error:
            mistakes += (f"{one}: {mistake}" for mistake in error.mistakes)
    if mistakes:
        raise DatasetError(mistakes)
    chosen = [one if isinstance(one, Dataset) else loaded[one] for one in distinct]
    folders = [folder_of(data.name) for data in chosen]
    if duplicates := [data.name for data, folder in zip(chosen, folders, strict=True) if folders.count(folder) > 1]:
        raise WrongOption("dataset", f"names several data sets called {duplicates[0]}: rename one in its dataset.yaml")
    return chosen


def _remaining_limits(limits: Limits, spent: Spent) -> tuple[Limits, str]:
    """Return the remaining ``limits``, and the reason if one is exhausted, else ""."""
    remaining = {
        name: None if (most := getattr(limits, name)) is None else most - getattr(spent, name)
        for name in ("calls", "tokens", "cost")
    }
    for name, left in remaining.items():
        if left is not None and left <= 0:
            return limits, f"the limit on {name} is reached"
    return replace(limits, **remaining), ""


def _compare_datasets(
    cache: Store | str | Path, results: Sequence[Result], reports: str | Path | None
) -> tuple[tuple[Path, ...], CombinedReport | None]:
    """Write the page across the results and return its files and content, for two or more data sets."""
    if len(results) < 2:
        return (), None
    run_reports = [one.run_report for one in results]
    with open_store(cache, read_only=True) as store:
        combined = combine_reports(run_reports, load_transfers(store, [domain.about.run for domain in run_reports]))
    return (() if reports is None else write_combined_report(Path(reports), run_reports, combined)), combined


@checked
def report(
    cache: Store | str | Path,
    folder: str | Path,
    dataset: str | Path | None = None,
    marks: str | Path | None = None,
) -> WrittenReports:
    """Write the report of the searches in ``cache``, of one data set or of all with a comparison.

    ``marks`` is a file with people's marks of answers (`ragsmith mark`), by default ``marks.jsonl`` in the folder of
    the report.

    Raises:
        UsageError: there is no such cache or search, or the file ``marks`` has no marks of its answers.
    """
    if dataset is not None and Path(dataset).is_dir():  # as given to the search
        dataset = load_dataset(dataset).name
    with open_store(cache, read_only=True) as store:
        return write_report(
            store, Path(folder), None if dataset is None else str(dataset), None if marks is None else Path(marks)
        )


@checked
def export(
    dataset: Dataset | str | Path,
    *,
    cache: Store | str | Path = CACHE,
    output: str | Path | None = None,
    run: str | None = None,
    pick: str | int = "best",
    imports: str | Path | Sequence[str | Path] = (),
) -> ExportedPipeline:
    """Write the winner of a search on ``dataset`` as YAML: the latest search, or the one whose key starts with ``run``.

    After a search with a stated risk it is the calibrated winner, if there is one. ``pick`` selects another evaluated
    pipeline: ``winner``, the winner as it was before, or ``calibrated``; ``knee``, the knee of the Pareto front of
    quality and model calls; ``cheapest``, the cheapest that is not worse than the winner by 0.02 of fitness;
    ``single``, the best with a single option besides naive RAG; ``recommended``, the recommendation of other data sets
    for these documents; a rank; ``"calls<=2"``, the best with at most that many calls per question; or
    ``"latency<=0.5"``, the best with at most that many seconds, if latency was an objective. The default ``output`` is
    ``winner.yaml``, or with ``pick`` a file named after it, such as ``cheapest.yaml``, ``place-3.yaml`` or
    ``calls-2.yaml``; of ``winner`` it is ``winner-uncalibrated.yaml`` if there is a calibrated one. The result
    describes the pipeline; a `Notice` warns if another content of ``output`` is replaced.

    Raises:
        UsageError: there is no such cache, search or pipeline.
    """
    import_files(imports)
    with open_store(cache, read_only=True) as store:
        key, setup = load_run_experiment(store, dataset, run)
        record = load_record(store, key)
        calibrated = bool(record and record.declining and record.declining.key)
        path = Path(output or _default_file_name(str(pick), calibrated))
        return write_pipeline(store, key, setup, path, str(pick))


def _default_file_name(pick: str, calibrated: bool) -> str:
    if pick == "winner" and calibrated:
        return "winner-uncalibrated.yaml"  # winner.yaml has the calibrated one
    if pick == "best":
        return "winner.yaml"
    name = re.sub(r"[^\w.]+", "-", pick).strip("-.")
    return f"place-{name}.yaml" if name.isdigit() else f"{name or 'picked'}.yaml"
