"""What a run refers to in the store, read once: which runs are reported, their pipelines and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluator import Evaluation, evaluation_of
from ragsmith.pipelines.genes import Candidate, read_configuration
from ragsmith.reporting.values import About
from ragsmith.runs.record import DatasetRecord, RunRecord
from ragsmith.store.store import DatasetRow, ProposalRow, ResultRow, RunRow, Store
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.suggest import did_you_mean

Rows = Mapping[str, Mapping[str, ResultRow]]
"""Results by evaluation and question."""


def choose_runs(store: Store, dataset: str | None = None, key: str | None = None) -> list[About]:
    """The latest finished run, else the latest, of every data set (by name) or of ``dataset``; or the run ``key``.

    Raises:
        UsageError: there is no run, or none on ``dataset``.
    """
    described = {row.digest: row for row in store.datasets()}
    latest: dict[str, tuple[DatasetRow, RunRow]] = {}
    for run in sorted(store.runs(), key=_recency):
        if run.dataset in described and key in (None, run.key):
            data = described[run.dataset]
            latest[data.name] = data, run
    if not latest:
        raise UsageError(f"the cache {store.place} has no run yet: start one with  ragsmith search --dataset NAME")
    if dataset is not None and dataset not in latest:
        raise UsageError(f"the cache {store.place} has no run on data set {dataset!r}: {did_you_mean(dataset, latest)}")
    wanted = sorted(latest) if dataset is None else [dataset]
    return [_about(*latest[name]) for name in wanted]


def _about(data: DatasetRow, run: RunRow) -> About:
    times = run.started or "", run.finished or ""
    described, record = DatasetRecord.read(data.value), RunRecord.read(run.value)
    return About(data.name, data.digest, described, run.key, run.state, *times, record)


def _recency(run: RunRow) -> tuple[bool, str, str]:
    """Sorts the run to report last."""
    return run.state == "finished", run.started or "", run.key


def _proposals(store: Store, about: About) -> tuple[ProposalRow, ...]:
    """What the run proposed; a longer list of an earlier attempt at it may stand behind that."""
    stored = store.proposals(about.run)
    history = about.record.history
    return tuple(stored[: sum(step.evaluations for step in history)] if history else stored)


class Material:
    """The pipelines and answers that a run refers to."""

    def __init__(self, store: Store, about: About, known: Rows) -> None:
        load_techniques()
        self.about = about
        self.record = record = about.record
        self.search = record.split.search
        self.test = record.split.test
        self.fitness = record.settings.fitness
        self.proposals = _proposals(store, about)
        self.keys = _keys(record, self.proposals)
        wanted = set(self.keys)
        runs = (other for other in store.runs() if other.dataset == about.digest)
        self.tests = sum(bool(RunRecord.read(other.value).test) for other in runs)
        self._tested = set(record.test.values())
        self._candidates: dict[str, Candidate] = {
            row.key: read_configuration(row.configuration["pipeline"])
            for row in store.evaluations(about.digest)
            if row.key in wanted
        }
        unknown = store.results_many(key for key in self._candidates if not self._covers(known, key))
        self._rows: Rows = {**{key: known[key] for key in self._candidates if key not in unknown}, **unknown}
        self._seen: dict[str, Evaluation] = {}

    def _covers(self, known: Rows, key: str) -> bool:
        """Whether everything that the store can say of an evaluation on the search questions is known already."""
        tested = set(self.test) if key in self._tested else set()
        return key in known and {*self.search, *tested} <= known[key].keys()

    @property
    def missing(self) -> int:
        """How many evaluations of the run the store has lost."""
        return len(set(self.keys) - set(self._candidates))

    def on_search(self, key: str) -> Evaluation | None:
        """An evaluation on the search questions; None when the store does not have it."""
        if key not in self._seen and key in self._candidates:
            self._seen[key] = self._evaluation(key, self.search)
        return self._seen.get(key)

    def on_test(self, key: str) -> Evaluation | None:
        """An evaluation on the test questions; None when the store does not have it."""
        return self._evaluation(key, self.test) if key in self._candidates else None

    def all_on_search(self, keys: Sequence[str]) -> list[Evaluation]:
        """Those of the evaluations that the store has."""
        return [found for key in keys if (found := self.on_search(key)) is not None]

    def failed(self) -> list[ResultRow]:
        """Every failed question of every pipeline of the run, in order."""
        asked = {*self.search, *self.test}
        return [
            row
            for _, rows in sorted(self._rows.items())
            for question, row in sorted(rows.items())
            if row.state == "failed" and question in asked
        ]

    def _evaluation(self, key: str, questions: tuple[str, ...]) -> Evaluation:
        return evaluation_of(key, self._candidates[key], questions, self._rows[key])


def _keys(record: RunRecord, proposals: Sequence[ProposalRow]) -> tuple[str, ...]:
    """Every evaluation a run names, once."""
    named = [
        *record.baselines.values(),
        *(proposal.evaluation for proposal in proposals),
        *record.random,
        *(probe.key for probe in record.probes),
        *(probe.reference for probe in record.probes),
        *record.test.values(),
    ]
    return tuple(dict.fromkeys(named))
