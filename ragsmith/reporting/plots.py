"""The charts of a report, with their labels and tooltips."""

from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase

from ragsmith.comparison.verdicts import Comparison
from ragsmith.diagnosis.ablation import Ablation
from ragsmith.diagnosis.estimates import Estimate, OptionEffect
from ragsmith.grouping import group_values
from ragsmith.records.objectives import compute_costs
from ragsmith.reporting.charts import (
    DotMark,
    DotPlot,
    ForestPlot,
    ForestRow,
    ReferenceLine,
    ScatterPlot,
    ScatterPoint,
    Series,
    StepPlot,
)
from ragsmith.reporting.values import TITLES, PipelineRow, RunReport, SpaceOption
from ragsmith.reporting.wording import count_groups
from ragsmith.text import numbers

MARK_CLASSES: Mapping[str, str] = {"winner": "one", "naive": "two", "bm25": "three"}
"""CSS classes (colour and shape) of the marks of pipelines, the same in all charts."""

MAX_OPTIONS = 12
"""Maximum number of gains, and of losses, in a chart of options; the table has all options."""

SHORT_TITLES: Mapping[str, str] = {"recommended": "recommended", "single": "single option", "cheapest": "cheapest"}
"""Short titles of other roles, for labels of charts."""


def plot_verdicts(comparisons: Sequence[Comparison]) -> ForestPlot | None:
    """Plot the differences between the winner and its rivals; None if there are none."""
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
    first = compared[0][1]
    title = (
        f"Winner minus rival on {first.n:,} questions in {count_groups(first.groups)}, with unadjusted 95 % intervals"
    )
    return forest_plot(title, rows, ("other better", "winner better"))


def plot_parts(found: Ablation) -> ForestPlot | None:
    """Plot the contribution of each part of the winner, largest first; None if no part was ablated."""
    worth = [(one, one.worth["fitness"]) for one in found.outs if "fitness" in one.worth]
    if not worth:
        return None
    rows = tuple(
        effect_row(
            f"{one.family} {one.option}",
            gained.mean,
            gained.low,
            gained.high,
            f"{_say(gained)}, {numbers.plain(abs(one.calls or 0.0), 1)} calls",
        )
        for one, gained in sorted(worth, key=lambda pair: -pair[1].mean)
    )
    title = f"F that each part adds to the winner on {found.questions:,} questions, and its calls per question"
    return forest_plot(title, rows, ("better without", "contributes"))


def plot_effects(effects: Sequence[OptionEffect]) -> ForestPlot | None:
    """Plot the largest gains and losses of options over all pairs of pipelines; None if there are no pairs."""
    ordered = sorted(effects, key=lambda one: -one.gain.mean)
    shown = ordered if len(ordered) <= 2 * MAX_OPTIONS else ordered[:MAX_OPTIONS] + ordered[-MAX_OPTIONS:]
    rows = tuple(
        effect_row(
            f"{one.family} {one.option}",
            one.gain.mean,
            one.gain.low,
            one.gain.high,
            f"{_say(one.gain)}, {one.pairs} pairs",
        )
        for one in shown
    )
    title = "Gain in F of each option over that of naive RAG, over all pairs of pipelines, with 95 % intervals"
    return forest_plot(title, rows, ("worse", "better")) if rows else None


def plot_interactions(found: Ablation | None) -> ForestPlot | None:
    """Plot what parts of the winner gain together beyond the sum of their single gains; None if it is not known."""
    rows = tuple(
        effect_row(", ".join(one.options), one.beyond.mean, one.beyond.low, one.beyond.high, _say(one.beyond))
        for one in (found.interactions if found else ())
    )
    title = "Gain in F of parts together minus the sum of their single gains, with 95 % intervals"
    return forest_plot(title, rows, ("less than the sum", "more")) if rows else None


def _say(gain: Estimate) -> str:
    return f"{numbers.signed(gain.mean)} {numbers.by_group(gain.low, gain.high)}"


def plot_convergence(report: RunReport) -> StepPlot:
    """Plot the best fitness by number of evaluated pipelines, with the baselines as reference lines."""
    series = [Series(f"search ({report.about.record.strategy})", report.search_curve, "one")]
    if report.random_curve:
        series.append(Series("random search, same budget", report.random_curve, "four"))
    levels = tuple(
        ReferenceLine(row.scores["fitness"].mean, TITLES[name])
        for name, row in report.baselines.items()
        if "fitness" in row.scores and name in MARK_CLASSES
    )
    title = f"Best F so far on {len(report.about.record.split.search):,} search questions, by pipelines evaluated"
    return StepPlot(title, tuple(series), "pipelines evaluated", levels)


def plot_options(probed: Sequence[SpaceOption]) -> list[ForestPlot]:
    """Plot the change in fitness by each option alone: the largest gains and the largest losses.

    Options that were compared on different numbers of questions are in different charts, the most questions first.
    """
    by_number = group_values((one.probe.compared, one) for one in probed if one.probe and _change(one))
    return [_plot_options(by_number[number], number) for number in sorted(by_number, reverse=True)]


def _plot_options(probed: Sequence[SpaceOption], questions: int) -> ForestPlot:
    ordered = sorted(probed, key=lambda option: -_change(option))
    gains = [option for option in ordered if _change(option) > 0][:MAX_OPTIONS]
    losses = [option for option in ordered if _change(option) < 0][-MAX_OPTIONS:]
    rows = tuple(map(_probe_row, gains + losses))
    title = f"Change in F of one option alone on {questions:,} questions, with its 95 % interval"
    return forest_plot(title, rows, ("worse", "better"))


def plot_types(report: RunReport) -> DotPlot:
    """Plot the fitness of the winner, naive RAG and BM25 by question type."""
    groups = list(dict.fromkeys((scores.group, scores.n) for scores in report.types))
    shown = [name for name in MARK_CLASSES if any(scores.pipeline == name for scores in report.types)]
    rows = []
    for group, n in groups:
        found = {scores.pipeline: scores.scores.get("fitness") for scores in report.types if scores.group == group}
        marks = tuple(
            DotMark(MARK_CLASSES[name], score.mean, f"{TITLES[name]}: {numbers.mean(score)}")
            for name in shown
            if (score := found.get(name))
        )
        if marks:
            rows.append((f"{group or '(none)'}, {n} questions", marks))
    keys = tuple((MARK_CLASSES[name], TITLES[name]) for name in shown)
    return DotPlot(f"F of the winner and the baselines by type, on {report.groups_split} questions", tuple(rows), keys)


def plot_fronts(report: RunReport) -> list[ScatterPlot]:
    """Plot fitness against model calls, and against seconds and money if these were objectives of the search."""
    settings = report.about.record.settings
    found = [_front_plot(report, "model calls per question", lambda row: row.usage.get("calls"))]
    if settings.timed:
        found.append(_front_plot(report, "seconds per question", lambda row: row.latency_seconds))
    if "money" in settings.objectives:

        def paid(row: PipelineRow) -> float | None:
            known = compute_costs(settings, row.usage, row.latency_seconds)
            return 1000 * known[-1] if known else None

        found.append(_front_plot(report, "money for 1,000 questions", paid))
    return found


def _front_plot(report: RunReport, across: str, cost: Callable[[PipelineRow], float | None]) -> ScatterPlot:
    """Plot all pipelines by a cost and fitness, with labels for the Pareto front."""
    named = front_letters(report)
    called = _roles_by_key(report)
    points = []
    for row in {row.key: row for row in (*report.baselines.values(), *report.ranking)}.values():
        if row.scores and (x := cost(row)) is not None:
            role = called.get(row.key, "")
            name = " ".join(
                part for part in (named.get(row.key, ""), SHORT_TITLES.get(role) or TITLES.get(role, "")) if part
            )
            kind = MARK_CLASSES.get(role, "front" if row.key in named else "")
            said = f"{name or 'another'}: {row.label}, F {numbers.plain(row.level)}, {x:.3g} {across}"
            points.append(ScatterPoint(x, row.level, said, name, kind))
    line = _increasing_points(sorted((x, row.level) for row in report.front if (x := cost(row)) is not None))
    title = f"Quality against {across.partition(' per')[0]}: each point is a pipeline"
    asked = f"F on {len(report.about.record.split.search):,} search questions"
    return ScatterPlot(title, tuple(points), line, across, asked)


def front_letters(report: RunReport) -> dict[str, str]:
    """Return a letter for each pipeline of the Pareto front by key; A is the best."""
    return {row.key: _letter(place) for place, row in enumerate(report.front)}


def _letter(place: int) -> str:
    rounds, letter = divmod(place, len(ascii_uppercase))
    return ascii_uppercase[letter] * (rounds + 1)


def _roles_by_key(report: RunReport) -> dict[str, str]:
    """Return the roles of pipelines by key; of several roles, the first in `TITLES`."""
    named = {finalist.test.key: finalist.name for finalist in report.finalists if finalist.name in SHORT_TITLES}
    named |= {row.key: name for name, row in report.baselines.items()}
    return named | ({report.winner.key: "winner"} if report.winner else {})


def _increasing_points(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return the points, sorted by cost, with a higher fitness than all cheaper ones.

    With more than two objectives, some points of the Pareto front are not among them.
    """
    found: list[tuple[float, float]] = []
    for point in points:
        if not found or point[1] > found[-1][1]:
            found.append(point)
    return tuple(found)


def _probe_row(option: SpaceOption) -> ForestRow:
    assert option.probe is not None
    change = option.probe.change
    assert change is not None
    name, said = f"{option.family} {option.name}", numbers.signed(change.mean)
    return effect_row(name, change.mean, change.low, change.high, said)


def effect_row(name: str, mean: float, low: float | None, high: float | None, said: str) -> ForestRow:
    """Return the row of a difference, whose class is better or worse if its interval excludes 0, else open."""
    clear = low is not None and high is not None and (low > 0 or high < 0)
    kind = ("better" if mean > 0 else "worse") if clear else "open"
    return ForestRow(name, mean, low, high, said=said, kind=kind)


def _change(option: SpaceOption) -> float:
    return option.probe.change.mean if option.probe and option.probe.change else 0.0


def forest_plot(title: str, rows: Sequence[ForestRow], ends: tuple[str, str]) -> ForestPlot:
    """Return a forest plot of differences, symmetric around 0; ``ends`` label both directions."""
    reached = [abs(end) for row in rows for end in (row.value, row.low, row.high) if end is not None]
    most = max([*reached, 1e-3]) if rows else 0.1
    return ForestPlot(title, tuple(rows), least=-most, most=most, ends=ends)
