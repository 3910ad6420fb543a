"""Read the data of runs from the store: which run to report, its evaluations and diagnoses."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path

from ragsmith.diagnosis.ablation import load_ablation as kept_ablation
from ragsmith.diagnosis.interventions import INTERVENTIONS_KIND as INTERVENTIONS
from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluation import Evaluation, Evaluations, Record
from ragsmith.evaluation.keys import finding_key, scoring_model_ids
from ragsmith.evaluation.ranking import Terms
from ragsmith.measures.judge_check import get_judge_accuracy
from ragsmith.records.objectives import load_latencies, load_timings
from ragsmith.records.record import DatasetRecord, RunRecord, list_searches
from ragsmith.records.stored_run import StoredRun, fold_winners, out_of_fold_evaluations
from ragsmith.reporting.values import PipelineRow, RunHeader
from ragsmith.store import DEFAULT_FILE
from ragsmith.store.store import DatasetRow, RunRow, Store
from ragsmith.techniques.registry import load_techniques
from ragsmith.techniques.user_code import FILESYSTEM_ROOT, import_recorded_files
from ragsmith.text.suggest import did_you_mean


def reported_datasets(store: Store) -> list[str]:
    """Return the names of the data sets that have a run.

    Raises:
        UsageError: no data set has a run.
    """
    return sorted(_latest(store))


def choose_run(store: Store, dataset: str, key: str | None = None) -> RunHeader:
    """Return the latest finished run on ``dataset``, the latest if none has finished, or the run ``key``.

    Raises:
        UsageError: there is no such run, or a user module that it used is missing or has changed.
    """
    latest = _latest(store, key)
    if dataset not in latest:
        raise UsageError(f"the cache {store.place} has no run on data set {dataset!r}: {did_you_mean(dataset, latest)}")
    return _run_header(store.place, *latest[dataset])


def _latest(store: Store, key: str | None = None) -> dict[str, tuple[DatasetRow, RunRow]]:
    """Return the data sets with a run, by name, each with the run to report."""
    described = {row.digest: row for row in store.datasets()}
    latest = {
        data.name: (data, run)
        for run in sorted(list_searches(store), key=lambda run: (run.state == "finished", run.started or "", run.key))
        if key in (None, run.key) and (data := described.get(run.dataset))
    }
    if not latest and key:
        raise UsageError(f"no search {key!r} is in the cache {store.place}: see `ragsmith runs`")
    if not latest:
        raise UsageError(f"the cache {store.place} has no run yet: start one with  ragsmith search NAME")
    return latest


def _run_header(cache: str, data: DatasetRow, run: RunRow) -> RunHeader:
    times = run.started or "", run.finished or ""
    described, record = DatasetRecord.from_dict(data.value, data.digest), RunRecord.from_dict(run.value, run.key)
    import_recorded_files(record.imports, FILESYSTEM_ROOT)
    place = _relative(cache)
    given = _relative(record.source) or data.name, "" if place == DEFAULT_FILE else place
    return RunHeader(data.name, data.digest, described, run.key, run.state, *times, record, *given)


def _relative(place: str) -> str:
    """Return a path in the working directory as relative to it, and any other place as it is."""
    return str(Path(place).relative_to(Path.cwd())) if Path(place).is_relative_to(Path.cwd()) else place


class RunData:
    """The evaluations, diagnoses and timings of a run.

    Evaluations in ``known`` are not read from the store; if ``known`` is ``whole``, as read by `StoredRun`, none is.
    """

    def __init__(self, store: Store, about: RunHeader, known: Evaluations, *, whole: bool = False) -> None:
        load_techniques()
        self.about = about
        self.record = record = about.record
        self.search = record.split.search
        self.test = record.split.test if record.untested is None else ()  # another run may have tested them
        self.fitness = record.settings.fitness
        kept = StoredRun(store, about.run, about.digest, record)
        self.proposals = kept.proposals
        self.keys = kept.keys
        self.judged = get_judge_accuracy(
            scoring_model_ids(record.models, tested=True).get("judge", ""), store.get_calls
        )
        self.dropped = kept.dropped
        self.ablation = kept_ablation(store, record.winner) if record.winner else None
        self._found = {found: evaluation for found, evaluation in known.items() if whole or evaluation.attempted}
        if not whole:
            self._found |= kept.read({key for key in self.keys if not self._is_found(key)})
        self.out_of_fold = out_of_fold_evaluations(store, record)
        self.fold_winners = fold_winners(store, record)
        self.diagnoses = kept.by_question(self.keys, store.diagnoses)
        named = {*record.baselines.values(), *record.test.values(), *filter(None, [record.winner])}
        self.timings = load_timings(store, named)
        judged = {finding_key(key, record.models.get("test_judge", "")): key for key in self.keys}
        self.interventions = {judged[name]: value for name, value in store.findings(INTERVENTIONS, judged).items()}
        self._latencies = load_latencies(store, record, filter(None, map(self.on_search, self.keys)))

    def _is_found(self, key: str) -> bool:
        """Whether an evaluation has already been read completely.

        The pipelines of a run that stopped before its test may have been tested by another run.
        """
        tested = key in self.record.test.values() or not self.record.test
        parts = (self.search, self.test) if tested and self.test else (self.search,)
        return key not in self.dropped and all((key, part) in self._found for part in parts)

    @property
    def missing(self) -> int:
        """The number of evaluations of the run that are missing from the store."""
        return sum((key, self.search) not in self._found for key in self.keys)

    @property
    def cut(self) -> int:
        """The number of scored answers that were truncated at their token limit."""
        evaluations = [found for key in self.keys for found in (self.on_search(key), self.on_test(key)) if found]
        return sum(record.get("cut", False) for found in evaluations for record in found.records.values())

    def with_latency(self, row: PipelineRow) -> PipelineRow:
        """Return the row with the latency of its pipeline, if it was measured."""
        return replace(row, latency_seconds=self._latencies.get(row.key))

    def on_search(self, key: str) -> Evaluation | None:
        """Return an evaluation on the search questions; None if the store does not have it."""
        return self._found.get((key, self.search))

    def on_test(self, key: str) -> Evaluation | None:
        """Return an evaluation on the test questions; None if the store does not have it."""
        return self._found.get((key, self.test))

    def all_on_search(self, keys: Sequence[str]) -> list[Evaluation]:
        """Return the evaluations on the search questions that the store has."""
        return [found for key in keys if (found := self.on_search(key)) is not None]

    def finishers(self, keys: Sequence[str]) -> list[Evaluation]:
        """Return the evaluations on the search questions that the store has, without pruned ones."""
        return self.all_on_search([key for key in keys if key not in self.dropped])

    @cached_property
    def terms(self) -> Terms:
        """The terms of comparing pipelines on the search questions.

        Questions that were excluded when the run chose its winner stay excluded, whatever other runs finish later.
        """
        found = self._terms([self.on_search(key) for key in self.keys])
        if self.record.winner is None:
            return found
        excluded = {question: asdict(why) for question, why in self.record.excluded.items() if question in self.search}
        return replace(found, excluded=excluded, counted=tuple(q for q in self.search if q not in excluded))

    @cached_property
    def terms_of_test(self) -> Terms:
        """The terms of comparing the tested pipelines on the test questions."""
        tested = [self.on_test(key) for key in self.record.test.values()]
        return self._terms([*self.out_of_fold.values()] or tested)

    def _terms(self, evaluations: Iterable[Evaluation | None]) -> Terms:
        return Terms.from_evaluations(
            [one for one in evaluations if one], self.fitness, self.record.settings.max_failure_rate
        )

    def failed(self) -> list[Record]:
        """Return the failures of all pipelines of the run, sorted by pipeline key and question."""
        evaluations = [(key, found) for key in sorted(self.keys) for found in (self.on_search(key), self.on_test(key))]
        failures = [(key, q, value) for key, found in evaluations if found for q, value in found.failures.items()]
        return [value for _, _, value in sorted(failures, key=lambda failure: failure[:2])]
