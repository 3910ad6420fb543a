"""The summary of a report for the terminal: the decision first, then its basis."""

import re
from collections.abc import Iterator

from ragsmith.comparison.verdicts import Comparison
from ragsmith.evaluation.fitness import COMPOSITES, HEADLINE
from ragsmith.evaluation.latency import TIMED_QUESTIONS
from ragsmith.reporting.decision import Decision, decide
from ragsmith.reporting.values import TITLES, PipelineRow, RunReport
from ragsmith.reporting.wording import (
    count_earlier_looks,
    count_groups,
    count_questions,
    describe_cheapest,
    describe_choice,
    describe_duplicates,
    describe_estimate,
    describe_extra_evaluations,
    describe_forecast,
    describe_loss,
    describe_questions,
    explain_first_place,
    join_names,
    name_verdict,
    sort_rivals,
    summarize_verdicts,
    title_of_random,
)
from ragsmith.text import numbers
from ragsmith.text.terminal import COLUMNS, aligned, folded

PIPELINES_LISTED = 5
"""Number of pipelines of the ranking that are listed."""

EXCLUDED_LISTED = 10
"""Number of excluded questions that are listed; the report lists all."""

SEARCH_DEFINED_RIVALS = ("recommended", "single")
"""Roles whose pipelines are listed by their labels, as the titles do not identify them."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def summary_lines(report: RunReport, columns: int = COLUMNS) -> list[str]:
    """Return the decision and its basis, then ranking and baselines; control characters are escaped.

    Lines are wrapped at ``columns``, except within words.
    """
    record = report.about.record
    lines = [
        f"{report.about.dataset}: {report.proposed:,} of {record.space.feasible:,} pipelines searched "
        f"({record.strategy}), {describe_questions(record)}",
        "",
        *_decision_lines(report, decide(report)),
    ]
    lines += ["", *(f"! {note}" for note in report.notes)] if report.notes else []
    if report.ranking:
        parts = ", ".join(part for part in COMPOSITES if part in report.ranking[0].scores)
        asked = "calls and seconds per question" if record.settings.timed else "calls per question"
        lines += ["", f"all search questions: fitness with 95 % interval, {parts}, {asked}"]
        lines += [_format_pipeline(place, row) for place, row in enumerate(report.ranking[:PIPELINES_LISTED], 1)]
        lines += [f"  ({said[:1].lower()}{said[1:-1]})"] if (said := explain_first_place(report)) else []
    lines += [_format_pipeline(None, row, TITLES[name]) for name, row in report.baselines.items()]
    if report.random:
        lines.append(_format_pipeline(None, report.random, title_of_random(report)))
    shown = [
        *report.ranking[:PIPELINES_LISTED],
        *report.baselines.values(),
        *([report.random] if report.random else []),
    ]
    if any(row.ranked_by is not None for row in shown):
        lowest = numbers.plain(report.lowest)
        lines.append(f"  (n: questions that it finished; failures are ranked as scores of {lowest})")
    if record.settings.is_multiobjective:
        lines += ["", f"front of {', '.join(record.settings.objectives)}, the best first"]
        if record.settings.timed:
            lines[-1] += f" (latency: the median of {TIMED_QUESTIONS} questions, on {record.settings.machine})"
        lines += [_format_pipeline(None, row) for row in report.front]
    lines += [*_simplification_lines(report), *_failure_lines(report)]
    for said in filter(None, (describe_extra_evaluations(report), describe_forecast(report))):
        lines += ["", said]
    printable = (_CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", line) for line in lines)
    return [part for line in printable for part in folded(line, columns)]


def _decision_lines(report: RunReport, decision: Decision | None) -> Iterator[str]:
    """Yield the pipeline to take, how well it answers, the verdict with its comparisons, and the next step."""
    if decision:
        yield from decision.lines()
    yield f"verdict: {summarize_verdicts(report)}"
    yield from _comparison_lines(report)
    yield from (f"  {describe_estimate(one)}" for one in report.estimates)
    if decision:
        yield from (f"  {said}" for said in (decision.limits, decision.levels) if said)
    cheaper = describe_cheapest(report)
    yield from (f"  {said}" for said in describe_duplicates(report) if said != cheaper)
    if cheaper:
        yield f"cheaper: {cheaper}"
    if decision and decision.next:
        yield f"next: {decision.next}"


def _comparison_lines(report: RunReport) -> Iterator[str]:
    """Yield a line per rival: difference, interval, p and verdict."""
    found = [one.difference for one in report.comparisons if one.difference]
    if not found:
        return  # the headline states it
    asked = f"{found[0].n} {'questions' if report.folds else 'test questions'} in {count_groups(found[0].groups)}"
    yield f"  {report.comparisons[0].of} of the winner minus that of each, on {asked}:"
    rows = [
        (
            _rival_title(one, report),
            numbers.signed(its.mean_difference) if its else "",
            numbers.interval(its.low, its.high, sign=True) if its else "",
            numbers.probability(one.adjusted_p) if its else "",
            name_verdict(one),
        )
        for one in sort_rivals(report.comparisons)
        for its in (one.difference,)
    ]
    head = ("", "mean", "95 % interval", "p", "")
    yield from (f"    {line}" for line in aligned([head, *rows], {1, 2, 3}))
    yield f"  ({_fine_print(report)})"
    if made := [f"{TITLES[one.name]}: {one.label}" for one in report.comparisons if one.name in SEARCH_DEFINED_RIVALS]:
        yield f"  ({'; '.join(made)})"


def _rival_title(one: Comparison, report: RunReport) -> str:
    return title_of_random(report) if one.name == "random" else TITLES.get(one.name, one.against)


def _fine_print(report: RunReport) -> str:
    """Explain the adjustment of p and of the intervals."""
    count, look = len(report.comparisons), report.comparisons[0].look
    family = [f"{'both' if count == 2 else f'all {count}'} comparisons"] if count > 1 else []
    counted = join_names([*family, *([count_earlier_looks(look)] if look > 1 else [])], "and")
    decides = f"p, adjusted for {counted}, decides" if counted else "p decides"
    said = f"{decides}; each interval is an unadjusted 95 % interval"
    if any(one.imputed for one in report.comparisons):
        said += "; p also has to hold if failures of the leader are scored as the lowest score"
    if any(one.difference is None for one in report.comparisons):
        said += "; not compared: one of the two failed on more questions than allowed"
    return said


def _simplification_lines(report: RunReport) -> list[str]:
    """Return the options removed from the winner, or its selection criterion if it has not the highest mean."""
    record = report.about.record
    gone = [removal for removal in record.removals if removal.left_out]
    if not report.winner or not gone:
        led = not report.winner or record.leader in (None, record.winner)
        return [] if led else ["", f"the winner has the {describe_choice(report)}, and not the {TITLES['leader']}"]
    last = gone[-1]
    saved = sum(removal.calls for removal in gone)
    without = join_names([f"{removal.family} {removal.option}" for removal in gone if not removal.instead], "and")
    back = join_names([f"{removal.instead} for {removal.option}" for removal in gone if removal.instead], "and")
    changes = " and ".join(f"{how} {named}" for how, named in (("without", without), ("with", back)) if named)
    leads = f", and has the {TITLES['leader']}" if record.winner == record.leader else ""
    return [
        "",
        f"the winner is the {describe_choice(report)} {changes}{leads}, saving {saved:.1f} calls a question: "
        f"{describe_loss(last, report.simplified)}",
    ]


def _failure_lines(report: RunReport) -> list[str]:
    """Return the number of failures and the first excluded questions."""
    if not report.failed:
        return []
    lines = [
        "",
        f"{report.failed:,} answers failed: see Failures in the report; {report.about.repeat('--retry-failed')} "
        "retries them",
    ]
    if report.excluded:
        lines.append(f"excluded, as every pipeline failed on them: {len(report.excluded)} of the questions")
        lines += [f"  {one.question} ({one.split}), {one.why}" for one in report.excluded[:EXCLUDED_LISTED]]
        if len(report.excluded) > EXCLUDED_LISTED:
            lines.append(f"  and {len(report.excluded) - EXCLUDED_LISTED} more")
    return lines


def _format_pipeline(place: int | None, row: PipelineRow, title: str = "") -> str:
    name = f"{title}: {row.label}" if title else row.label
    number = f"{place:>2}" if place else "  "
    if not row.scores:
        return f" {number}  not scored: {row.coverage.failed} of {row.coverage.questions} questions failed  {name}"
    parts = [_format_part(row, part) for part in COMPOSITES if part in row.scores]
    fitness = numbers.mean(row.scores["fitness"])
    timed = "" if row.latency_seconds is None else f"  {numbers.plain(row.latency_seconds)} s"
    return f" {number}  {fitness}  {'  '.join(parts)}  {row.usage['calls']:5.1f}{timed}  {name}"


def _format_part(row: PipelineRow, part: str) -> str:
    """Return R or G, with the number of questions if it is not defined for all scored ones."""
    counted = count_questions(row, part)
    said = "" if counted == row.coverage.scored else f" (n {counted})"
    return f"{HEADLINE[part]} {numbers.plain(row.scores[part].mean)}{said}"
