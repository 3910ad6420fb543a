"""The report in a few lines for a terminal: first what is decided by, then how it was come by."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragsmith.comparison.verdicts import Comparison
from ragsmith.evaluation.fitness import COMPOSITES, HEADLINE
from ragsmith.evaluation.latency import TIMED
from ragsmith.evaluation.statistics import Verdict
from ragsmith.reporting.values import TITLES, PipelineRow, RunReport
from ragsmith.reporting.wording import (
    RIVAL_ORDER,
    VERDICT_WORDS,
    against_random,
    count_earlier_looks,
    count_groups,
    count_questions,
    describe_cheapest,
    describe_choice,
    describe_duplicates,
    describe_extra_evaluations,
    describe_questions,
    first_place_explained,
    headline,
    join_names,
)
from ragsmith.text import numbers
from ragsmith.text.terminal import COLUMNS, aligned, folded

PIPELINES_LISTED = 5
"""Pipelines that are listed."""

EXCLUDED_LISTED = 10
"""Questions that were excluded which are named; the report has them all."""

SEARCH_DEFINED_RIVALS = ("recommended", "single")
"""Rivals whose title does not say which pipeline they are; what is said of the cheapest does."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def summary_lines(report: RunReport, columns: int = COLUMNS) -> list[str]:
    """Winner, verdict, cost and next step, then ranking and baselines. Control characters are shown, not sent.

    No line is longer than ``columns``, unless a single word is.
    """
    record = report.about.record
    lines = [
        f"{report.about.dataset}: {report.proposed:,} of {record.space.feasible:,} pipelines searched "
        f"({record.strategy}), {describe_questions(record)}",
        "",
        *_decision_lines(report),
    ]
    lines += ["", *(f"! {note}" for note in report.notes)] if report.notes else []
    if report.ranking:
        parts = ", ".join(part for part in COMPOSITES if part in report.ranking[0].scores)
        asked = "calls and seconds per question" if record.settings.timed else "calls per question"
        lines += ["", f"search questions: fitness with 95 % interval, {parts}, {asked}"]
        lines += [_format_pipeline(place, row) for place, row in enumerate(report.ranking[:PIPELINES_LISTED], 1)]
        lines += [f"  ({said[:1].lower()}{said[1:-1]})"] if (said := first_place_explained(report)) else []
    lines += [_format_pipeline(None, row, TITLES[name]) for name, row in report.baselines.items()]
    if report.random:
        lines.append(_format_pipeline(None, report.random, against_random(report)))
    shown = [
        *report.ranking[:PIPELINES_LISTED],
        *report.baselines.values(),
        *([report.random] if report.random else []),
    ]
    if any(row.ranked_by is not None for row in shown):
        lowest = numbers.plain(report.lowest)
        lines.append(f"  (n: questions that it finished; it is ranked as if each of its failures had scored {lowest})")
    if record.settings.weighs:
        lines += ["", f"front of {', '.join(record.settings.objectives)}, the best first"]
        if record.settings.timed:
            lines[-1] += f" (latency: the median of {TIMED} questions, on {record.settings.machine})"
        lines += [_format_pipeline(None, row) for row in report.front]
    lines += [*_simplification_lines(report), *_failure_lines(report)]
    if besides := describe_extra_evaluations(report):
        lines += ["", besides]
    printable = (_CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", line) for line in lines)
    return [part for line in printable for part in folded(line, columns)]


def _decision_lines(report: RunReport) -> Iterator[str]:
    """Which pipeline, whether it is better than what and by how much, what it costs, and what to do next."""
    if winner := report.winner:
        yield f"winner: {winner.label or 'naive RAG'}"
        seconds = "" if winner.latency_seconds is None else f", {numbers.plain(winner.latency_seconds)} s"
        yield f"  {winner.usage['calls']:.1f} model calls a question{seconds}{_format_naive_calls(report)}"
    yield f"verdict: {headline(report)}"
    yield from _comparison_lines(report)
    cheaper = describe_cheapest(report)
    yield from (f"  {said}" for said in describe_duplicates(report) if said != cheaper)
    if cheaper:
        yield f"cheaper: {cheaper}"
    if report.next_step:
        yield f"next: {report.next_step.sentence}"


def _format_naive_calls(report: RunReport) -> str:
    naive = report.baselines.get("naive")
    return f" (naive RAG: {naive.usage['calls']:.1f})" if naive and "calls" in naive.usage else ""


def _comparison_lines(report: RunReport) -> Iterator[str]:
    """A line for each rival: the difference, its interval, p and the word for it."""
    found = [one.difference for one in report.comparisons if one.difference]
    if not found:
        return  # the headline says so
    asked = f"{found[0].n} {'questions' if report.folds else 'test questions'} in {count_groups(found[0].groups)}"
    yield f"  {report.comparisons[0].of} of the winner less that of each, on {asked}:"
    rows = [
        (
            _rival_title(one, report),
            numbers.signed(its.mean_difference) if its else "",
            numbers.interval(its.low, its.high, sign=True) if its else "",
            numbers.probability(one.adjusted_p) if its else "",
            _verdict_word(one),
        )
        for one in sorted(
            report.comparisons, key=lambda one: RIVAL_ORDER.index(one.name) if one.name in RIVAL_ORDER else 99
        )
        for its in (one.difference,)
    ]
    head = ("", "mean", "95 % interval", "p", "")
    yield from (f"    {line}" for line in aligned([head, *rows], {1, 2, 3}))
    yield f"  ({_fine_print(report)})"
    if made := [f"{TITLES[one.name]}: {one.label}" for one in report.comparisons if one.name in SEARCH_DEFINED_RIVALS]:
        yield f"  ({'; '.join(made)})"


def _rival_title(one: Comparison, report: RunReport) -> str:
    return against_random(report) if one.name == "random" else TITLES.get(one.name, one.against)


def _verdict_word(one: Comparison) -> str:
    if one.difference is None or one.verdict is None:
        return "not compared"
    if one.difference.nonzero == 0:
        return "always the same"
    if one.spent:
        return "looked at too often"
    if one.verdict is Verdict.NOT_WORSE:
        return f"not worse by {numbers.plain(one.margin)}"
    return VERDICT_WORDS[one.verdict]


def _fine_print(report: RunReport) -> str:
    """What p and the intervals count."""
    count, look = len(report.comparisons), report.comparisons[0].look
    family = [f"{'both' if count == 2 else f'all {count}'} comparisons"] if count > 1 else []
    counted = join_names([*family, *([count_earlier_looks(look)] if look > 1 else [])], "and")
    decides = f"p, adjusted for {counted}, decides" if counted else "p decides"
    said = f"{decides}; each interval is a 95 % one by itself"
    tested = len(report.about.record.tested)
    if any(one.difference and one.difference.n < tested for one in report.comparisons):
        said += "; p also has to hold with the failures of the leader as the lowest score"
    if any(one.difference is None for one in report.comparisons):
        said += "; not compared: one of the two failed on more questions than it may"
    return said


def _simplification_lines(report: RunReport) -> list[str]:
    """What was left out of the winner, or what it is where it has not the highest mean."""
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
    side = "ahead of" if last.loss < 0 else "behind"
    return [
        "",
        f"the winner is the {describe_choice(report)} {changes}{leads}: {numbers.plain(abs(last.loss))} ± "
        f"{numbers.plain(last.error)} {side} it, {saved:.1f} calls a question saved",
    ]


def _failure_lines(report: RunReport) -> list[str]:
    """What failed, in a few lines."""
    if not report.failed:
        return []
    lines = ["", f"{report.failed:,} answers failed: see Failures in the report; --retry-failed asks again"]
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
    """R or G, and of how many questions it is where not all that were scored have it."""
    counted = count_questions(row, part)
    said = "" if counted == row.coverage.scored else f" (n {counted})"
    return f"{HEADLINE[part]} {numbers.plain(row.scores[part].mean)}{said}"
