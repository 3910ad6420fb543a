"""`search_each`, `report` and `export`: searches on several data sets, and what searches left in a cache."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from ragsmith.api.resources import CACHE
from ragsmith.api.result import Result
from ragsmith.api.searching import EachArguments, refuse_wrong, search
from ragsmith.datasets.bundled import ALL, domains
from ragsmith.datasets.dataset import load_dataset
from ragsmith.diagnosis.estimates import kept_transfers
from ragsmith.errors import (
    BudgetExhausted,
    DatasetError,
    ModelUnavailable,
    RagsmithError,
    StageFailed,
    UsageError,
    WrongOption,
)
from ragsmith.exported.writing import Exported, run_setup
from ragsmith.exported.writing import export as write_pipeline
from ragsmith.gateway.budget import NOTHING_SPENT, Limits, Spent
from ragsmith.reporting import WrittenReports, folder_of, write_report
from ragsmith.reporting.overview import Across, across
from ragsmith.reporting.report_files import write_across
from ragsmith.runs.run_context import Pulse, Start
from ragsmith.store.store import Store, open_store
from ragsmith.techniques.user_code import import_files
from ragsmith.types import Dataset


@dataclass(frozen=True)
class Searched:
    """What `search_each` found of several data sets, each by its name.

    ``found`` has what a search of each found, finished or paused. ``failed`` says why a search ended without anything
    to hand out, and ``waiting`` why one was not begun, or has come to nothing yet: what bounds all of them together was
    reached before, and the same call goes on there.
    ``across`` is what the reports say together, of two data sets or more, and ``files`` are those written of it.
    """

    found: Mapping[str, Result]
    failed: Mapping[str, str]
    waiting: Mapping[str, str]
    across: Across | None = None
    files: tuple[Path, ...] = ()


def search_each(
    datasets: str | Sequence[Dataset | str | Path] = ALL,
    *,
    limits: Limits | None = None,
    reports: str | Path | None = None,
    on_dataset: Callable[[int, int, str], None] | None = None,
    on_start: Callable[[Start], None] | None = None,
    on_end: Callable[[str, Result | RagsmithError], None] | None = None,
    **arguments: Unpack[EachArguments],
) -> Searched:
    """Search each of several data sets in turn, with one cache, and say what they say together.

    >>> both = ragsmith.search_each(["law", "workshop"], space="quick", max_evaluations=8, probes=False, seed=1)
    >>> {name: found.state for name, found in both.found.items()}
    {'law': 'finished', 'workshop': 'finished'}
    >>> [f"{one.against}: {one.pooled.datasets} data sets" for one in both.across.tested][:2]
    ['naive RAG: 2 data sets', 'BM25: 2 data sets']

    ``"all"`` is every bundled domain. Each search goes as `search` would with the same ``arguments``, so that
    ``max_evaluations`` and the seed are those of each; what one has found is in ``cache`` and ``reports`` when the next
    begins, and the same call goes on where it stopped. ``limits`` and ``time_limit`` bound all of them together: what
    one leaves is what the next may spend.

    All data sets are read before anything is searched. A search that fails is in ``failed``, and the others go on.
    ``reports`` names a folder for the report of each and the page across them. ``on_dataset`` gets the place of a
    data set, their number and its name before its search, and ``on_end`` its result or error.

    Raises:
        UsageError: a data set or an argument cannot be used, or two data sets have one name; or no search could begin.
    """
    refuse_wrong(arguments)
    cache = arguments.get("cache", CACHE)
    chosen = _read(datasets)
    seconds = arguments.pop("time_limit", None)
    if seconds is None and (settings := arguments.get("settings")) is not None:
        seconds = settings.time_limit
    began, spent, stopped = time.monotonic(), NOTHING_SPENT, ""
    found: dict[str, Result] = {}
    failed: dict[str, RagsmithError] = {}
    waiting: dict[str, str] = {}
    for place, data in enumerate(chosen, 1):
        bounds, exhausted = _left(limits or Limits(), spent)
        left = seconds
        if seconds is not None and place > 1:
            left = seconds - (time.monotonic() - began)
            exhausted = exhausted or ("the time limit is reached" if left <= 0 else "")
        if stopped := stopped or exhausted:
            waiting[data.name] = stopped
            continue
        if on_dataset is not None:
            on_dataset(place, len(chosen), data.name)
        pulse: list[Pulse] = []

        def start(begun: Start, pulse: list[Pulse] = pulse) -> None:
            pulse.append(begun.pulse)
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
            spent += pulse[0]()[1] if pulse else NOTHING_SPENT
        else:
            found[data.name] = ended
            spent += ended.spent
            stopped = ended.why if ended.state == "interrupted" else ""
        if on_end is not None:
            on_end(data.name, ended)
    if not found and not waiting and len({str(error) for error in failed.values()}) == 1:
        raise next(iter(failed.values()))
    files, together = _together(cache, list(found.values()), reports)
    return Searched(found, {name: str(error) for name, error in failed.items()}, waiting, together, files)


def _read(given: str | Sequence[Dataset | str | Path]) -> list[Dataset]:
    """The data sets, all read and checked, so that none is found to be wrong after the others were searched.

    Raises:
        UsageError: there is none, or one is no data set, or two have one name, or would report to one folder.
    """
    listed = [given] if isinstance(given, str) else list(given)
    names = [one for each in listed for one in (domains() if each == ALL and not Path(ALL).is_dir() else [each])]
    if not names:
        raise WrongOption("dataset", "names no data set: give one at least")
    read: dict[str | Path, Dataset] = {}
    mistakes: list[str] = []
    each_once = [one for at, one in enumerate(names) if isinstance(one, Dataset) or one not in names[:at]]
    for one in each_once:
        if isinstance(one, Dataset):
            continue
        try:
            read[one] = load_dataset(one)
        except DatasetError as error:
            mistakes += (f"{one}: {mistake}" for mistake in error.mistakes)
    if mistakes:
        raise DatasetError(mistakes)
    chosen = [one if isinstance(one, Dataset) else read[one] for one in each_once]
    folders = [folder_of(data.name) for data in chosen]
    if twice := [data.name for data, folder in zip(chosen, folders, strict=True) if folders.count(folder) > 1]:
        raise WrongOption("dataset", f"names several data sets called {twice[0]}: rename one in its dataset.yaml")
    return chosen


def _left(limits: Limits, spent: Spent) -> tuple[Limits, str]:
    """What is left of ``limits``; or why there is nothing."""
    rest = {
        name: None if (most := getattr(limits, name)) is None else most - getattr(spent, name)
        for name in ("calls", "tokens", "cost")
    }
    for name, left in rest.items():
        if left is not None and left <= 0:
            return limits, f"the limit on {name} is reached"
    return replace(limits, **rest), ""


def _together(
    cache: Store | str | Path, found: Sequence[Result], reports: str | Path | None
) -> tuple[tuple[Path, ...], Across | None]:
    """The page across what was ``found``, where that is of two data sets or more."""
    if len(found) < 2:
        return (), None
    read = [one.run_report for one in found]
    with open_store(cache, read_only=True) as store:
        together = across(read, kept_transfers(store, [domain.about.run for domain in read]))
    return (() if reports is None else write_across(Path(reports), read, together)), together


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
