"""The charts of a report: what is drawn, and what each mark says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase

from ragsmith.comparison.verdicts import Comparison
from ragsmith.diagnosis.ablation import Ablation
from ragsmith.records.objectives import costs
from ragsmith.reporting.charts import (
    Cloud,
    CloudPoint,
    DotMark,
    Dots,
    ForestPlot,
    ForestRow,
    ReferenceLine,
    Series,
    Steps,
)
from ragsmith.reporting.values import TITLES, PipelineRow, RunReport, SpaceOption
from ragsmith.text import numbers

KINDS: Mapping[str, str] = {"winner": "one", "naive": "two", "bm25": "three"}
"""Pipelines that have a colour and a form of their own, the same in every chart."""

MOST_OPTIONS = 12
"""Options of either sign that are drawn; the table has them all."""

SHORT: Mapping[str, str] = {"recommended": "recommended", "single": "single option", "cheapest": "cheapest"}
"""What further pipelines of the test are called in a chart."""


def verdicts(comparisons: Sequence[Comparison]) -> ForestPlot | None:
    """The winner's differences from what it has to beat, with their intervals; None where nothing was compared."""
    compared = [(c, found) for c in comparisons if (found := c.difference) is not None]
    if not compared:
        return None
    rows = tuple(
        ForestRow(
            TITLES.get(comparison.name, comparison.against),
            found.mean_difference,
            found.low,
            found.high,
            said=f"{numbers.signed(found.mean_difference)} {numbers.interval(found.low, found.high, sign=True)}",
            kind=str(comparison.verdict) if comparison.verdict in ("better", "worse") else "open",
        )
        for comparison, found in compared
    )
    title = "Winner minus the other, with the 95 % interval of each by itself"
    return forest(title, rows, ("other better", "winner better"))


def parts(found: Ablation) -> ForestPlot | None:
    """What each part of the winner is worth, what is worth most first; None where none could be taken out."""
    worth = [(one, one.worth["fitness"]) for one in found.outs if "fitness" in one.worth]
    if not worth:
        return None
    rows = tuple(
        effect_row(
            f"{one.family} {one.option}",
            gained.mean,
            gained.low,
            gained.high,
            f"{numbers.signed(gained.mean)} {numbers.by_group(gained.low, gained.high)}"
            f", {numbers.plain(abs(one.calls or 0.0), 1)} calls",
        )
        for one, gained in sorted(worth, key=lambda pair: -pair[1].mean)
    )
    title = "F that each part adds to the winner, and the calls a question that it takes"
    return forest(title, rows, ("better without", "worth having"))


def convergence(report: RunReport) -> Steps:
    """Best fitness against pipelines evaluated, with the baselines as lines."""
    series = [Series(f"search ({report.about.record.strategy})", report.search_curve, "one")]
    if report.random_curve:
        series.append(Series("random search, same budget", report.random_curve, "four"))
    levels = tuple(
        ReferenceLine(row.scores["fitness"].mean, TITLES[name])
        for name, row in report.baselines.items()
        if "fitness" in row.scores and name in KINDS
    )
    return Steps("Best fitness F so far, by pipelines evaluated", tuple(series), "pipelines evaluated", levels)


def options(probed: Sequence[SpaceOption]) -> ForestPlot:
    """Change in fitness of each option alone, with its interval: the largest gains first, then the largest losses."""
    ordered = sorted(probed, key=lambda option: -_change(option))
    moved = [option for option in ordered if _change(option)]
    gains = [option for option in moved if _change(option) > 0][:MOST_OPTIONS]
    losses = [option for option in moved if _change(option) < 0][-MOST_OPTIONS:]
    rows = tuple(map(_effect, gains + losses))
    return forest("Change in F of one option alone, with its 95 % interval", rows, ("worse", "better"))


def types(report: RunReport) -> Dots:
    """Fitness by question type of the winner, naive RAG and BM25."""
    groups = list(dict.fromkeys((scores.group, scores.n) for scores in report.types))
    shown = [name for name in KINDS if any(scores.pipeline == name for scores in report.types)]
    rows = []
    for group, n in groups:
        found = {scores.pipeline: scores.scores.get("fitness") for scores in report.types if scores.group == group}
        marks = tuple(
            DotMark(KINDS[name], score.mean, f"{TITLES[name]}: {numbers.mean(score)}")
            for name in shown
            if (score := found.get(name))
        )
        if marks:
            rows.append((f"{group or '(none)'}, {n} questions", marks))
    keys = tuple((KINDS[name], TITLES[name]) for name in shown)
    return Dots("Fitness F by question type", tuple(rows), keys)


def fronts(report: RunReport) -> list[Cloud]:
    """Quality against model calls, and against seconds and money where the search weighed them."""
    settings = report.about.record.settings
    found = [_front(report, "model calls per question", lambda row: row.usage.get("calls"))]
    if settings.timed:
        found.append(_front(report, "seconds per question", lambda row: row.latency_seconds))
    if "money" in settings.objectives:

        def paid(row: PipelineRow) -> float | None:
            known = costs(settings, row.usage, row.latency_seconds)
            return 1000 * known[-1] if known else None

        found.append(_front(report, "money for 1,000 questions", paid))
    return found


def _front(report: RunReport, across: str, cost: Callable[[PipelineRow], float | None]) -> Cloud:
    """Every pipeline by a cost and its fitness; those that nothing beats in what was weighed are joined and named."""
    named = names(report)
    called = _called(report)
    points = []
    for row in {row.key: row for row in (*report.baselines.values(), *report.ranking)}.values():
        if row.scores and (x := cost(row)) is not None:
            role = called.get(row.key, "")
            name = " ".join(part for part in (named.get(row.key, ""), SHORT.get(role) or TITLES.get(role, "")) if part)
            kind = KINDS.get(role, "front" if row.key in named else "")
            said = f"{name or 'another'}: {row.label}, F {numbers.plain(row.level)}, {x:.3g} {across}"
            points.append(CloudPoint(x, row.level, said, name, kind))
    line = _rising(sorted((x, row.level) for row in report.front if (x := cost(row)) is not None))
    title = f"Quality against {across.partition(' per')[0]}: each point is a pipeline"
    return Cloud(title, tuple(points), line, across, "F on the search questions")


def names(report: RunReport) -> dict[str, str]:
    """A letter for each pipeline of the front, by key: A is the best."""
    return {row.key: _letter(place) for place, row in enumerate(report.front)}


def _letter(place: int) -> str:
    rounds, letter = divmod(place, len(ascii_uppercase))
    return ascii_uppercase[letter] * (rounds + 1)


def _called(report: RunReport) -> dict[str, str]:
    """What pipelines are called, by key; where one has several names the first in `TITLES` counts."""
    named = {finalist.test.key: finalist.name for finalist in report.finalists if finalist.name in SHORT}
    named |= {row.key: name for name, row in report.baselines.items()}
    return named | ({report.winner.key: "winner"} if report.winner else {})


def _rising(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Points by rising cost that are worth more than all before; where more than calls was weighed, not all are."""
    found: list[tuple[float, float]] = []
    for point in points:
        if not found or point[1] > found[-1][1]:
            found.append(point)
    return tuple(found)


def _effect(option: SpaceOption) -> ForestRow:
    assert option.probe is not None
    change = option.probe.change
    assert change is not None
    name, said = f"{option.family} {option.name}", numbers.signed(change.mean)
    return effect_row(name, change.mean, change.low, change.high, said)


def effect_row(name: str, mean: float, low: float | None, high: float | None, said: str) -> ForestRow:
    """A difference, which is better or worse where its interval is clear of 0, else open."""
    clear = low is not None and high is not None and (low > 0 or high < 0)
    kind = ("better" if mean > 0 else "worse") if clear else "open"
    return ForestRow(name, mean, low, high, said=said, kind=kind)


def _change(option: SpaceOption) -> float:
    return option.probe.change.mean if option.probe and option.probe.change else 0.0


def forest(title: str, rows: Sequence[ForestRow], ends: tuple[str, str]) -> ForestPlot:
    """Differences around 0, as wide as any interval reaches; ``ends`` says what either side means."""
    reached = [abs(end) for row in rows for end in (row.value, row.low, row.high) if end is not None]
    most = max([*reached, 1e-3]) if rows else 0.1
    return ForestPlot(title, tuple(rows), least=-most, most=most, ends=ends)
