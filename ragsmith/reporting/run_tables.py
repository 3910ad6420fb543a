"""The tables of the report of a run; the page, the Markdown file and the terminal show the same cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragsmith.comparison.verdicts import Comparison
from ragsmith.diagnosis.ablation import AblatedOption, Ablation, Interaction
from ragsmith.diagnosis.causes import MEANINGS, REMEDIES, Cause
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.measures.registry import measures
from ragsmith.records.objectives import costs
from ragsmith.records.record import CROSSFIT, RunRecord
from ragsmith.reporting.plots import names
from ragsmith.reporting.values import (
    SHOWN,
    TITLES,
    CauseCounts,
    GroupScores,
    PipelineRow,
    RunReport,
    Score,
    SpaceOption,
)
from ragsmith.reporting.wording import (
    NAIVE,
    WORDS,
    against_random,
    besides_in_words,
    chosen,
    fitted,
    identifier,
    questions_in_words,
)
from ragsmith.text import numbers
from ragsmith.text.table import Column, Table, counts, figures, prose, texts

COSTS: dict[str, tuple[tuple[str, ...], int]] = {
    "Calls": (("calls",), 1),
    "Tokens": (("input_tokens", "output_tokens"), 0),
    "Texts embedded": (("texts_embedded",), 1),
    "Pairs scored": (("pairs_scored",), 1),
    "Prompt, characters": (("context_chars",), 0),
}
"""Costs of a group of questions: the counts that each adds up, and its decimals."""

# --- what was found --------------------------------------------------------------------------------------------------


def ranking(report: RunReport) -> Table:
    """The best pipelines on the search questions, with what they are compared to."""
    listed = _listed(report)
    rows = [
        (
            title,
            row.label,
            *_headline(row),
            str(row.coverage),
            row.usage.get("calls"),
            row.shared if title.isdigit() else None,
        )
        for title, row in listed
    ]
    columns = (
        *(*texts("Rank"), *prose("Pipeline"), *figures(numbers.mean, "F", "R", "G")),
        *counts("Attempted = scored + failed"),
        *(*figures(numbers.tenths, "Calls per question"), *counts("Genomes")),
    )
    if any(row.ranked_by is not None for _, row in listed):
        columns += (*figures(numbers.plain, "F, ranked by"), *counts("Winner ahead by"))
        levels = ((row.level if row.scores else None, _lead(report, row)) for _, row in listed)
        rows = [(*row, *level) for row, level in zip(rows, levels, strict=True)]
    marks = [
        "baseline" if not title.isdigit() else "winner" if title == "1" and report.winner else "" for title, _ in listed
    ]
    return Table("Search questions: mean and 95 % interval", columns, rows, marks)


def measured(report: RunReport) -> Table:
    """Every measure of the same pipelines; those that are not registered any more go by their names."""
    listed = _listed(report)
    known, found = measures(), {name for _, row in listed for name in row.scores}
    shown = [name for name in known if name in found] + sorted(found - {*known, *HEADLINE})
    rows = [(title, row.label, *(_measure(row, name) for name in shown)) for title, row in listed]
    heads = (known[name].heading if name in known else name for name in shown)
    columns = (*texts("Rank"), *prose("Pipeline"), *counts(*heads))
    marks = ["" if title.isdigit() else "baseline" for title, _ in listed]
    return Table("Search questions: means of every measure", columns, rows, marks)


def front(report: RunReport) -> Table:
    """The pipelines of which no other is as good in everything that was weighed."""
    settings, named = report.about.record.settings, names(report)
    timed, money = settings.timed, "money" in settings.objectives
    columns = (
        *(*texts("Name"), *prose("Pipeline"), *figures(numbers.mean, "F", "R", "G")),
        *figures(numbers.tenths, "Calls per question"),
        *figures(numbers.plain, *["Latency, seconds"] * timed, *["Money for 1,000 questions"] * money),
    )
    rows = []
    for row in report.front:
        paid = (costs(settings, row.usage, row.latency_seconds) or (0.0,))[-1]
        further = [row.latency_seconds] * timed + [1000 * paid] * money
        rows.append((named[row.key], row.label, *_headline(row), row.usage["calls"], *further))
    return Table("Search questions: no other pipeline is as good in everything", columns, rows)


def winner(report: RunReport) -> Table:
    """The winner's option in each family, and the numbers that were fitted, if any were."""
    row = report.winner
    if row is None or not row.fitted:
        return Table("The winning pipeline", texts("Family", "Option"), list(row.genes.items()) if row else [])
    rows = [(family, option, fitted(row.fitted.get(family))) for family, option in row.genes.items()]
    columns = (*texts("Family", "Option"), *prose("Fitted numbers"))
    return Table("The winning pipeline; numbers as fitted on all calibration questions", columns, rows)


def removals(report: RunReport) -> Table:
    """What was left out of the pipeline that was chosen, and what would have been lost without the rest."""
    rows = []
    for removal in report.about.record.removals:
        loss = f"{numbers.signed(-removal.loss)} ± {numbers.plain(removal.error)}"
        gone = f"{removal.instead} instead" if removal.instead else "left out"
        rows.append((removal.family, removal.option, gone if removal.left_out else "stays", loss, -removal.calls))
    columns = (
        *texts("Family", "Option left out", "What became of it"),
        *counts("F, with standard error"),
        *figures(numbers.signed_tenths, "Calls per question"),
    )
    marks = ["inert" if removal.left_out else "" for removal in report.about.record.removals]
    return Table(f"Without one option, against the {chosen(report)}", columns, rows, marks)


def _listed(report: RunReport) -> list[tuple[str, PipelineRow]]:
    """The first of the ranking by place, and what they are compared to by title."""
    listed = [(f"{place}", row) for place, row in enumerate(report.ranking[:SHOWN], 1)]
    listed += [(TITLES[name], row) for name, row in report.baselines.items()]
    return [*listed, (against_random(report), report.random)] if report.random else listed


def _headline(row: PipelineRow) -> Iterator[Score | None]:
    return (row.scores.get(name) for name in HEADLINE)


def _lead(report: RunReport, row: PipelineRow) -> str:
    lead = report.leads.get(row.key)
    return numbers.mean(replace(lead, low=None, high=None), sign=True) if lead else ""


def _measure(row: PipelineRow, name: str) -> str:
    found = row.scores.get(name)
    mean = numbers.plain(found.mean if found else None, 3 if found is None or abs(found.mean) < 100 else 0)
    return f"{mean} (n {found.n})" if found and found.n not in (None, row.coverage.questions) else mean


# --- the test --------------------------------------------------------------------------------------------------------


def verdicts(report: RunReport) -> Table:
    """The comparisons on the test questions."""
    of = HEADLINE[report.comparisons[0].of] if report.comparisons else HEADLINE["fitness"]
    columns = (
        *(*prose("Winner against"), *texts("Verdict"), *counts(f"Difference in {of}")),
        *figures(numbers.probability, "p", "p, adjusted"),
        *counts("Questions", "That differ", "Groups"),
        *figures(numbers.plain, "Would have been shown"),
    )
    caption = f"Test questions: paired differences; one family of {len(report.comparisons)} comparisons"
    return Table(caption, columns, [_compared(comparison) for comparison in report.comparisons])


def _compared(comparison: Comparison) -> tuple[object, ...]:
    found = comparison.difference
    if found is None or comparison.verdict is None:
        return (comparison.against, "not compared", *([numbers.MISSING] * 7))
    difference = f"{numbers.signed(found.mean_difference)} {numbers.interval(found.low, found.high, sign=True)}"
    verdict = "questions looked at too often" if comparison.spent else WORDS[comparison.verdict]
    counted = found.n, found.nonzero, found.groups, comparison.detectable
    return (comparison.against, verdict, difference, found.p, comparison.adjusted_p, *counted)


def finalists(report: RunReport) -> Table:
    """What the finalists score on questions that chose them, and on questions that did not."""
    rows = [
        (
            finalist.title,
            finalist.test.label,
            finalist.search.scores.get("fitness") if finalist.search else None,
            *_headline(finalist.test),
            str(finalist.test.coverage),
        )
        for finalist in report.finalists
    ]
    columns = (
        *(*texts("Role"), *prose("Pipeline")),
        *figures(numbers.mean, "F, search questions", "F, test", "R, test", "G, test"),
        *counts("Test: attempted = scored + failed"),
    )
    return Table("The finalists on both kinds of questions", columns, rows)


def division(report: RunReport) -> Table | None:
    """How the questions were divided: how many, in how many groups, of how many documents, and what links a group."""
    split = report.about.record.split
    if split.groups is None or split.search_groups is None or not split.test:
        return None
    rows: list[tuple[object, ...]] = [
        (name, found.linked_by, found.questions, found.documents, len(found.groups))
        for name, found in (("search", split.search_groups), ("test", split.groups))
    ]
    if split.unused:
        rows.append(("neither", "their gold lies between the two", len(split.unused), None, None))
    columns = (*texts("Part", "What links a group"), *counts("Questions", "Documents", "Groups"))
    return Table(f"Questions of the search and of the test; divided {split.rule}", columns, rows)


def folds(report: RunReport) -> Table:
    """The searches of a crossfit, each with its winner and what that came to on questions that it was not chosen on."""
    roles = [name for name in TITLES if any(name in fold.fitness for fold in report.folds)]
    rows = [
        (fold.winner or "none", fold.searched, fold.unused, fold.tested, *(fold.fitness.get(name) for name in roles))
        for fold in report.folds
    ]
    columns = (
        *(*texts("Winner of the fold"), *counts("Searched on", "Left out", "Tested")),
        *figures(numbers.plain, *(f"F, {TITLES[name]}" for name in roles)),
    )
    return Table("Folds: what each search found, and what it scored on the questions of its fold", columns, rows)


# --- options and parts -----------------------------------------------------------------------------------------------


def options(report: RunReport) -> Table:
    """What each option does alone, and where the search met it.

    What it changes, and in which pipeline, is shown where any option says so.
    """
    probes = [option.probe for option in report.options if option.probe]
    changes, elsewhere = any(probe.difference for probe in probes), any(probe.against for probe in probes)
    columns = (
        *(*texts("Family", "Option"), *prose(*["What it changes"] * changes), *texts(*["Switched on in"] * elsewhere)),
        *(*figures(numbers.share, "Activity"), *figures(numbers.signed_tenths, "Calls added")),
        *figures(numbers.change, "Change in F, alone", "Change in R, alone"),
        *(*figures(numbers.plain, "F with", "F without"), *counts("Proposed with")),
    )
    ordered = sorted(report.options, key=_worth)
    rows = []
    for option in ordered:
        probe, effect = option.probe, option.effect
        said = [probe.difference if probe else ""] * changes + [(probe.against or NAIVE) if probe else ""] * elsewhere
        alone: tuple[object, ...] = ("in naive RAG", "", "", "")
        if probe:
            alone = ("inert" if probe.inert else probe.activity, probe.calls, probe.change, probe.retrieval)
        means = effect.with_mean, effect.without_mean, effect.with_n
        rows.append((option.family, option.name, *said, *alone, *means))
    marks = ["inert" if option.probe and option.probe.inert else "" for option in ordered]
    return Table("Options, by what they add alone", columns, rows, marks)


def _worth(option: SpaceOption) -> tuple[bool, float]:
    """What adds most comes first, and what was not tried last."""
    change = option.probe.change if option.probe else None
    return (True, 0.0) if change is None else (False, -change.mean)


def effects(report: RunReport) -> Table:
    """What options gained over the run, the largest first."""
    listed = sorted(report.effects, key=lambda one: -one.gain.mean)
    rows = [(one.family, one.option, one.instead, one.gain, one.pairs, one.gain.n) for one in listed]
    columns = (
        *(*texts("Family", "Option", "Over"), *figures(numbers.estimate, "F gained")),
        *counts("Pairs of pipelines", "Questions"),
    )
    marks = ["" if one.gain.shown else "inert" for one in listed]
    return Table("What options gained over the run, with 95 % intervals by group of questions", columns, rows, marks)


def parts(found: Ablation) -> Table:
    """What each part is worth against naive RAG's option."""
    return _parts("What each part is worth", "Without it", found, found.outs)


def swaps(found: Ablation) -> Table:
    """What each part is worth against other options, those that would do best first."""
    order = sorted(found.swaps, key=lambda one: one.worth["fitness"].mean if "fitness" in one.worth else 1.0)
    return _parts("Against other options of the space, those that do best first", "Instead of it", found, order)


def signals(found: Ablation) -> Table:
    """What each signal of a learned ranking is worth, the most first; all other weights were learned anew."""
    order = sorted(found.signals, key=lambda one: -one.worth["retrieval"].mean if "retrieval" in one.worth else 0.0)
    caption = "What each signal of a learned ranking is worth, where the others are weighed anew without it"
    return _parts(caption, "Without the signal", found, order)


def together(found: Ablation) -> Table:
    """What parts gain over naive RAG together, and what that would be if each added what it gains alone."""
    rows = [(_named(one, found), one.expected, one.observed, one.beyond) for one in found.interactions]
    columns = (*texts("Parts"), *figures(numbers.estimate, "F gained, if it adds up", "F gained", "Beyond that"))
    return Table("Parts together, over naive RAG", columns, rows)


def _named(one: Interaction, found: Ablation) -> str:
    whole = max((len(other.options) for other in found.interactions), default=0)
    every = "all parts: " if len(one.options) == whole and one is found.interactions[0] else ""
    return every + ", ".join(one.options)


def _parts(caption: str, instead: str, found: Ablation, listed: Sequence[AblatedOption]) -> Table:
    timed = any(one.seconds is not None for one in found.parts)
    shown = [name for name in HEADLINE if any(name in one.worth for one in listed)] or ["fitness"]
    columns = (
        *(
            *texts("Family", "Option", instead),
            *figures(numbers.estimate, *(f"{HEADLINE[n]} it is worth" for n in shown)),
        ),
        *figures(numbers.signed_tenths, "Calls saved without it"),
        *figures(lambda value: numbers.signed(value, 4), *["Seconds saved without it"] * timed),
    )
    rows = []
    for one in listed:
        left = ", ".join([one.instead, *(f"with {other}" for other in one.together)])
        left += f" ({one.why_not})" if one.why_not else ""
        figured = (*(one.worth.get(name) for name in shown), one.calls, *[one.seconds] * timed)
        rows.append((one.family, one.option, left, *([None] * len(figured) if one.why_not else figured)))
    marks = ["" if "fitness" in one.worth and one.worth["fitness"].shown else "inert" for one in listed]
    return Table(caption, columns, rows, marks)


# --- questions -------------------------------------------------------------------------------------------------------


def types(report: RunReport) -> Table:
    """Scores and costs by question type."""
    return _groups("Type", "type", report, report.types)


def modalities(report: RunReport) -> Table:
    """Scores and costs by the type of the document with the gold."""
    return _groups("Kind of document", "kind of document", report, report.modalities)


def _groups(head: str, by: str, report: RunReport, groups: Sequence[GroupScores]) -> Table:
    def cost(group: GroupScores, title: str) -> float:
        return sum(group.costs.get(name, 0.0) for name in COSTS[title][0])

    incurred = [title for title in COSTS if any(cost(group, title) for group in groups)]
    columns = (
        *(*texts(head), *prose("Pipeline"), *counts("Questions"), *figures(numbers.mean, "F", "R", "G")),
        *(Column(title, numbers.tenths if COSTS[title][1] else numbers.whole, number=True) for title in incurred),
    )
    rows = [
        (
            *(group.group or "(none)", TITLES[group.pipeline], group.n),
            *(group.scores.get(name) for name in HEADLINE),
            *(cost(group, title) for title in incurred),
        )
        for group in groups
    ]
    caption = f"{report.groups_split.capitalize()} questions by {by}: mean and 95 % interval; costs per question"
    return Table(caption, columns, rows)


def causes(report: RunReport) -> Table:
    """Causes of the questions by pipeline and split, with what may help."""
    by_pipeline: dict[str, list[CauseCounts]] = {}
    for found in report.questions.causes:
        by_pipeline.setdefault(found.pipeline, []).append(found)
    rows = [
        (
            cause.value,
            *(" + ".join(f"{found.counts.get(cause.value, 0)}" for found in each) for each in by_pipeline.values()),
            MEANINGS[cause],
            REMEDIES.get(cause, ""),
        )
        for cause in Cause
        if any(cause.value in found.counts for found in report.questions.causes)
    ]
    heads = (f"{TITLES[name]}, {' + '.join(str(found.n) for found in each)}" for name, each in by_pipeline.items())
    columns = (*texts("What became of it"), *counts(*heads), *prose("That is", "What may help"))
    splits = " + ".join(dict.fromkeys(found.split for found in report.questions.causes))
    return Table(f"Questions ({splits}) by what first went wrong on their way", columns, rows)


def repairs(report: RunReport) -> Table:
    """Which option turned how many questions from wrong to right, and from right to wrong."""
    changed = {
        "whole": "naive RAG to the winner",
        "alone": "{0.family} {0.option} alone in naive RAG",
        "out": "{0.family} {0.option} put into the winner",
    }
    rows = [
        (
            changed[one.view].format(one),
            ", ".join(f"{n} {cause}" for cause, n in one.repaired.items()) or numbers.MISSING,
            *(sum(one.repaired.values()), sum(one.broken.values()), one.compared),
        )
        for one in report.questions.repairs
    ]
    columns = (*texts("What changed", "What was wrong before"), *counts("Repaired", "Broken", "Questions"))
    return Table("Search questions that a change repaired or broke", columns, rows)


def interventions(report: RunReport) -> Table:
    """What the scores would be with the gold passages put in, or everything else taken out."""
    rows = [
        (
            TITLES[one.pipeline],
            one.what,
            one.fitness,
            one.retrieval,
            one.generation,
            one.changed,
            f"{one.n} {one.split}",
        )
        for one in report.questions.interventions
    ]
    columns = (
        *(*prose("Pipeline"), *texts("Passages"), *figures(numbers.plain, "F", "R", "G")),
        *counts("Changed", "Questions"),
    )
    return Table("With the gold passages put in or the others taken out: what the generator could do", columns, rows)


# --- the run ---------------------------------------------------------------------------------------------------------


def history(report: RunReport) -> Table:
    """The steps of the strategy."""
    rows = [
        (
            *(step.by, step.number, step.evaluations, step.best, step.mean),
            *(step.diversity, step.mutation_rate, step.stagnant),
        )
        for step in report.about.record.history
    ]
    columns = (
        *(*texts("By"), *counts("Step", "New pipelines"), *figures(numbers.plain, "Best F", "Mean F")),
        *(*figures(numbers.share, "Distinct"), *figures(numbers.plain, "Mutation rate")),
        *counts("Steps without gain"),
    )
    return Table("Steps of the search", columns, rows)


def latencies(report: RunReport) -> Table:
    """Percentiles by pipeline and station."""
    rows = [
        (TITLES.get(timed.name, timed.name), its.state, its.station, its.n, its.p50_ms, its.p90_ms, its.p99_ms)
        for timed in report.timed
        for its in timed.latencies
    ]
    machines = "; ".join(dict.fromkeys(timed.machine for timed in report.timed))
    columns = (
        *(*prose("Pipeline"), *texts("State", "Station"), *counts("Questions")),
        *figures(numbers.tenths, "p50, ms", "p90, ms", "p99, ms"),
    )
    return Table(f"Latency by station, on {machines}", columns, rows)


def failures(report: RunReport) -> Table:
    """What failed, by stage, class and exception."""
    rows = [(one.stage, one.kind, one.exception, one.example, one.count) for one in report.failures]
    columns = (*texts("Stage", "Class", "Exception"), *prose("First message"), *counts("Count"))
    return Table("Failed answers, over all pipelines", columns, rows)


def excluded(report: RunReport) -> Table:
    """The questions that failed for every pipeline."""
    rows = [(one.question, one.split, one.why.stage, one.why.kind, one.why.error) for one in report.excluded]
    columns = (*texts("Question", "Split", "Stage", "Class"), *prose("First message"))
    return Table("Excluded questions: every pipeline failed on them", columns, rows)


def calls(report: RunReport) -> Table:
    """Model calls of the last command."""
    rows = [
        (kind.replace("_", " "), found.asked, found.distinct, found.stored, found.made, found.cut)
        for kind, found in sorted(report.about.record.account.calls.items())
    ]
    columns = (*texts("Kind"), *counts("Asked for", "Distinct", "From the cache", "Made", "Prompts cut"))
    return Table("Model calls", columns, rows)


def models(report: RunReport) -> Table:
    """Which models worked."""
    rows = [(model.role.replace("_", " "), model.description, identifier(model.id)) for model in report.models]
    return Table("Models", (*texts("Role"), *prose("What it is"), *texts("Identifier")), rows)


def run(report: RunReport) -> Table:
    """How the run was asked for."""
    about, record, space = report.about, report.about.record, report.about.record.space
    first = ", the first size that was searched" if "chunk_size" in space.options else ""
    dropped = f", {report.dropped:,} of them dropped before the last question" if report.dropped else ""
    rows = {
        "Data set": f"{about.data.documents:,} documents, {about.data.chunks:,} chunks "
        f"of at most {record.chunk_size:,} characters{first}",
        "Questions": _division(record),
        "Space": f"{space.name}: {space.size:,} pipelines, {space.feasible:,} feasible, "
        f"{report.proposed:,} proposed and evaluated{dropped}",
        "Evaluated": besides_in_words(report),
        "Strategy": f"{record.strategy}, seed {record.settings.seed}",
        "Run": f"{about.run}, {about.state}",
    }
    return Table("The run", texts("", ""), [(name, said) for name, said in rows.items() if said])


def _division(record: RunRecord) -> str:
    split = record.split
    if record.settings.verdict == CROSSFIT:
        return f"{questions_in_words(record)}; {split.rule}"
    unused = f", {len(split.unused)} in neither part" if split.unused else ""
    checked = f"; {split.leaks}" if split.leaks and split.test else ""
    return f"{len(split.search)} search, {len(split.test)} test{unused}; split {split.rule}{checked}"
