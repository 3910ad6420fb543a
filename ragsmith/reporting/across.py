"""What several reports say together: the test pooled, effects of options with their signs, and transfers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragsmith.comparison.questions import FEWEST_GROUPS
from ragsmith.diagnosis.estimates import Estimate, OptionEffect, PooledEstimate, Transferred, pooled
from ragsmith.records.record import RunRecord
from ragsmith.reporting.values import RunReport

RIVALS: Mapping[str, str] = {"naive": "naive RAG", "bm25": "BM25", "recommended": "the recommended pipeline"}
"""What the winners are pooled against."""

SETTINGS_ALIKE = ("models", "chunk_size", "chunk_overlap")
"""What a pipeline runs on: only where that is the same is it the same pipeline."""


@dataclass(frozen=True, slots=True)
class PooledTest:
    """The winners against a rival on the test questions: of each data set by name, and ``pooled`` over them.

    A winner that is the rival is ahead of it by 0. ``left_out`` names data sets where retrieval alone is compared, or
    nothing is.
    """

    name: str
    against: str
    each: Mapping[str, Estimate]
    pooled: PooledEstimate | None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PooledEffect:
    """What an option gains over naive RAG's option of its family: on ``each`` data set by name, and over all."""

    family: str
    option: str
    instead: str
    each: Mapping[str, OptionEffect]
    pooled: PooledEstimate | None


@dataclass(frozen=True, slots=True)
class Across:
    """What reports on several data sets say together."""

    tested: tuple[PooledTest, ...]
    effects: tuple[PooledEffect, ...]
    transfers: tuple[Transferred, ...]


def across(reports: Sequence[RunReport], kept: Sequence[Transferred] = ()) -> Across:
    """Combine reports; ``kept`` are transfers that were computed, in addition to those that searches met by chance."""
    known = {(one.source, one.target, one.part) for one in kept}
    met = (_met(source, target) for source in reports for target in reports if source is not target)
    more = [one for one in met if one is not None and (one.source, one.target, one.part) not in known]
    own = [one for report in reports for one in _own(report)]
    return Across(
        tuple(found for name in RIVALS if (found := _tested(name, reports)).each),
        _effects(reports),
        (*own, *kept, *more),
    )


def _tested(name: str, reports: Sequence[RunReport]) -> PooledTest:
    each, left_out = {}, []
    for report in reports:
        dataset, record = report.about.dataset, report.about.record
        same = _recommended(record) if name == "recommended" else set()
        found = next((one for one in report.comparisons if one.name == name or one.name in same), None)
        if found is not None and found.difference is not None and found.of == "fitness":
            its = found.difference
            error, _ = its.widened
            low, high = (its.low, its.high) if its.groups >= FEWEST_GROUPS else (None, None)
            each[dataset] = Estimate(its.mean_difference, low, high, its.n, its.groups, error)
        elif "winner" in same and all(one.of == "fitness" for one in report.comparisons):
            each[dataset] = Estimate(0.0, 0.0, 0.0, len(record.tested), 0, 0.0)
        else:
            left_out.append(dataset)
    return PooledTest(name, RIVALS[name], each, _pooled(each), tuple(left_out))


def _recommended(record: RunRecord) -> set[str]:
    """The roles that the recommended pipeline had in the test: in that of every fold, where there are folds."""
    if not record.recommended:
        return set()
    tests = [(fold.entrants, fold.entrants.get("recommended")) for fold in record.folds if fold.entrants]
    tests = tests or [(record.test, record.recommended)]
    return set.intersection(*({role for role, key in test.items() if key == its} for test, its in tests))


def _effects(reports: Sequence[RunReport]) -> tuple[PooledEffect, ...]:
    """Effects that two data sets or more tell something of, the largest first within their families."""
    by_option: dict[tuple[str, str, str], dict[str, OptionEffect]] = {}
    for report in reports:
        for one in report.effects:
            by_option.setdefault((one.family, one.option, one.instead), {})[report.about.dataset] = one
    found = []
    for name, each in by_option.items():
        if len(each) > 1:
            found.append(PooledEffect(*name, each, _pooled({dataset: one.gain for dataset, one in each.items()})))
    return tuple(sorted(found, key=lambda one: -one.pooled.mean if one.pooled else 0.0))


def _pooled(each: Mapping[str, Estimate]) -> PooledEstimate | None:
    return pooled([one.mean for one in each.values()], [math.sqrt(one.variance) for one in each.values()])


def _own(report: RunReport) -> list[Transferred]:
    """The winner at home, on both kinds of questions."""
    name, found = report.about.dataset, []
    tested = None if report.folds else report.winner_on_test  # folds test a search, and not this winner
    for part, row, place in (("search", report.winner, (1, len(report.ranking))), ("test", tested, (None, None))):
        if row is not None and "fitness" in row.scores:
            fitness, asked = row.scores["fitness"].mean, row.coverage.questions
            scored = asked, fitness, row.usage["calls"], fitness, None
            found.append(Transferred(name, name, part, row.label, row.key, *scored, *place))
    return found


def _met(source: RunReport, target: RunReport) -> Transferred | None:
    """The winner of ``source`` in the ranking of ``target``, whose search happened to evaluate it, too."""
    winner, own = source.winner, target.winner
    ours, theirs = source.about.record, target.about.record
    if winner is None or own is None or any(getattr(ours, name) != getattr(theirs, name) for name in SETTINGS_ALIKE):
        return None
    for place, row in enumerate(target.ranking, 1):
        if row.genes == winner.genes and row.fitted == winner.fitted and "fitness" in row.scores:
            return Transferred(
                source.about.dataset,
                target.about.dataset,
                "search",
                winner.label,
                row.key,
                row.coverage.questions,
                row.scores["fitness"].mean,
                row.usage["calls"],
                own.scores["fitness"].mean,
                None,
                place,
                len(target.ranking),
            )
    return None
