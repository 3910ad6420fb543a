"""The tables of the report of a run, shared by the page, the Markdown file and the terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragsmith.comparison.marked_answers import MarkedAnswers
from ragsmith.comparison.verdicts import Comparison
from ragsmith.diagnosis.ablation import AblatedOption, Ablation, Interaction
from ragsmith.diagnosis.causes import MEANINGS, Cause, name_remedy
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.grouping import group_values
from ragsmith.measures.registry import measures
from ragsmith.records.objectives import compute_costs
from ragsmith.records.record import CROSSFIT, RunRecord
from ragsmith.reporting.plots import front_letters
from ragsmith.reporting.values import (
    SHOWN,
    TITLES,
    GroupScores,
    PipelineRow,
    RunReport,
    Score,
    SpaceOption,
)
from ragsmith.reporting.wording import (
    NAIVE,
    VERDICT_WORDS,
    describe_choice,
    describe_extra_evaluations,
    describe_questions,
    format_fitted,
    shorten_model_id,
    title_of_random,
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
"""Costs of a group of questions: the counts that each one sums, and its number of decimals."""

# --- what was found --------------------------------------------------------------------------------------------------


def ranking_table(report: RunReport) -> Table:
    """Return the best pipelines and the baselines on the search questions."""
    listed = _listed_pipelines(report)
    rows = [
        (
            title,
            row.label,
            *_headline_scores(row),
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
        levels = ((row.level if row.scores else None, _lead_cell(report, row)) for _, row in listed)
        rows = [(*row, *level) for row, level in zip(rows, levels, strict=True)]
    marks = [
        "baseline" if not title.isdigit() else "winner" if title == "1" and report.winner else "" for title, _ in listed
    ]
    return Table("All search questions: mean and 95 % interval", columns, rows, marks)


def measures_table(report: RunReport) -> Table:
    """Return all measures of the same pipelines; measures that are not registered any more have their plain names."""
    listed = _listed_pipelines(report)
    known, found = measures(), {name for _, row in listed for name in row.scores}
    shown = [name for name in known if name in found] + sorted(found - {*known, *HEADLINE})
    rows = [(title, row.label, *(_measure_cell(row, name) for name in shown)) for title, row in listed]
    heads = (known[name].heading if name in known else name for name in shown)
    columns = (*texts("Rank"), *prose("Pipeline"), *counts(*heads))
    marks = ["" if title.isdigit() else "baseline" for title, _ in listed]
    return Table("Search questions: means of every measure", columns, rows, marks)


def front_table(report: RunReport) -> Table:
    """Return the Pareto front of the objectives of the search."""
    settings, named = report.about.record.settings, front_letters(report)
    timed, money = settings.timed, "money" in settings.objectives
    columns = (
        *(*texts("Name"), *prose("Pipeline"), *figures(numbers.mean, "F", "R", "G")),
        *figures(numbers.tenths, "Calls per question"),
        *figures(numbers.plain, *["Latency, seconds"] * timed, *["Money for 1,000 questions"] * money),
    )
    rows = []
    for row in report.front:
        paid = (compute_costs(settings, row.usage, row.latency_seconds) or (0.0,))[-1]
        further = [row.latency_seconds] * timed + [1000 * paid] * money
        rows.append((named[row.key], row.label, *_headline_scores(row), row.usage["calls"], *further))
    return Table("Search questions: Pareto front of quality and cost", columns, rows)


def fitted_table(row: PipelineRow) -> Table:
    """Return the option of a pipeline in each family, with its fitted numbers."""
    rows = [(family, option, format_fitted(row.fitted.get(family))) for family, option in row.genes.items()]
    columns = (*texts("Family", "Option"), *prose("Fitted numbers"))
    return Table("The options, and their numbers as fitted on all calibration questions", columns, rows)


def removals_table(report: RunReport) -> Table:
    """Return the steps of the simplification of the chosen pipeline, with the loss by each removal."""
    rows = []
    for removal in report.about.record.removals:
        loss = f"{numbers.signed(-removal.loss)} ± {numbers.plain(removal.error)}"
        gone = f"{removal.instead} instead" if removal.instead else "left out"
        rows.append((removal.family, removal.option, gone if removal.left_out else "stays", loss, -removal.calls))
    columns = (
        *texts("Family", "Option left out", "Result"),
        *counts("F, with standard error"),
        *figures(numbers.signed_tenths, "Calls per question"),
    )
    marks = ["inert" if removal.left_out else "" for removal in report.about.record.removals]
    return Table(f"Without one option, against the {describe_choice(report)}", columns, rows, marks)


def _listed_pipelines(report: RunReport) -> list[tuple[str, PipelineRow]]:
    """Return the first rows of the ranking by rank, and the baselines by title."""
    listed = [(f"{place}", row) for place, row in enumerate(report.ranking[:SHOWN], 1)]
    listed += [(TITLES[name], row) for name, row in report.baselines.items()]
    return [*listed, (title_of_random(report), report.random)] if report.random else listed


def _headline_scores(row: PipelineRow) -> Iterator[Score | None]:
    return (row.scores.get(name) for name in HEADLINE)


def _lead_cell(report: RunReport, row: PipelineRow) -> str:
    lead = report.leads.get(row.key)
    return numbers.mean(replace(lead, low=None, high=None), sign=True) if lead else ""


def _measure_cell(row: PipelineRow, name: str) -> str:
    found = row.scores.get(name)
    mean = numbers.plain(found.mean if found else None, 3 if found is None or abs(found.mean) < 100 else 0)
    return f"{mean} (n {found.n})" if found and found.n not in (None, row.coverage.questions) else mean


# --- the test --------------------------------------------------------------------------------------------------------


def verdicts_table(report: RunReport) -> Table:
    """Return the comparisons on the test questions."""
    of = HEADLINE[report.comparisons[0].of] if report.comparisons else HEADLINE["fitness"]
    columns = (
        *(*prose("Winner against"), *texts("Verdict"), *counts(f"Difference in {of}")),
        *figures(numbers.probability, "p", "p, adjusted"),
        *counts("Questions", "That differ", "Groups"),
        *figures(numbers.plain, "Detectable difference"),
    )
    caption = f"Test questions with gold: paired differences; one family of {len(report.comparisons)} comparisons"
    return Table(caption, columns, [_comparison_cells(comparison) for comparison in report.comparisons])


def _comparison_cells(comparison: Comparison) -> tuple[object, ...]:
    found = comparison.difference
    if found is None or comparison.verdict is None:
        return (comparison.against, "not compared", *([numbers.MISSING] * 7))
    difference = f"{numbers.signed(found.mean_difference)} {numbers.interval(found.low, found.high, sign=True)}"
    verdict = "questions looked at too often" if comparison.spent else VERDICT_WORDS[comparison.verdict]
    counted = found.n, found.nonzero, found.groups, comparison.detectable
    return (comparison.against, verdict, difference, found.p, comparison.adjusted_p, *counted)


def finalists_table(report: RunReport) -> Table:
    """Return the scores of the finalists on search and test questions."""
    rows = [
        (
            finalist.title,
            finalist.test.label,
            finalist.search.scores.get("fitness") if finalist.search else None,
            *_headline_scores(finalist.test),
            str(finalist.test.coverage),
        )
        for finalist in report.finalists
    ]
    columns = (
        *(*texts("Role"), *prose("Pipeline")),
        *figures(numbers.mean, "F, all search questions", "F, all test", "R, test", "G, test"),
        *counts("Test: attempted = scored + failed"),
    )
    return Table("The finalists on both kinds of questions", columns, rows)


def division_table(report: RunReport) -> Table | None:
    """Return the split of the questions: numbers of questions, documents and groups, and what links a group."""
    split = report.about.record.split
    if split.groups is None or split.search_groups is None or not split.test:
        return None
    rows: list[tuple[object, ...]] = [
        (name, found.linked_by, found.questions, found.documents, len(found.groups))
        for name, found in (("search", split.search_groups), ("test", split.groups))
    ]
    if split.unused:
        rows.append(("neither", "gold near both parts", len(split.unused), None, None))
    columns = (*texts("Part", "What links a group"), *counts("Questions", "Documents", "Groups"))
    return Table(f"Questions of the search and of the test; divided {split.rule}", columns, rows)


def folds_table(report: RunReport) -> Table:
    """Return the folds of a crossfit, each with its winner and the scores on its held-out questions."""
    roles = [name for name in TITLES if any(name in fold.fitness for fold in report.folds)]
    rows = [
        (fold.winner or "none", fold.searched, fold.unused, fold.tested, *(fold.fitness.get(name) for name in roles))
        for fold in report.folds
    ]
    columns = (
        *(*texts("Winner of the fold"), *counts("Searched on", "Left out", "Tested")),
        *figures(numbers.plain, *(f"F, {TITLES[name]}" for name in roles)),
    )
    return Table("Folds: the winner of each search, and scores on the questions of its fold", columns, rows)


# --- options and parts -----------------------------------------------------------------------------------------------


def options_table(report: RunReport) -> Table:
    """Return the effect of each option alone, and the means of the proposals with and without it.

    The columns of what it changes, and in which pipeline, are omitted if they are empty.
    """
    probes = [option.probe for option in report.options if option.probe]
    changes, elsewhere = any(probe.difference for probe in probes), any(probe.against for probe in probes)
    columns = (
        *(*texts("Family", "Option"), *prose(*["What it changes"] * changes), *texts(*["Switched on in"] * elsewhere)),
        *(*figures(numbers.share, "Activity"), *figures(numbers.signed_tenths, "Calls added")),
        *figures(numbers.change, "Change in F, alone", "Change in R, alone"),
        *(*figures(numbers.plain, "F with", "F without"), *counts("Proposed with")),
    )
    ordered = sorted(report.options, key=_option_order)
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


def _option_order(option: SpaceOption) -> tuple[bool, float]:
    """Return a sort key: largest gains first, options that were not probed last."""
    change = option.probe.change if option.probe else None
    return (True, 0.0) if change is None else (False, -change.mean)


def effects_table(report: RunReport) -> Table:
    """Return the effects of options over all pairs of pipelines of the run, largest first."""
    listed = sorted(report.effects, key=lambda one: -one.gain.mean)
    rows = [(one.family, one.option, one.instead, one.gain, one.pairs, one.gain.n) for one in listed]
    columns = (
        *(*texts("Family", "Option", "Over"), *figures(numbers.estimate, "F gained")),
        *counts("Pairs of pipelines", "Questions"),
    )
    marks = ["" if one.gain.excludes_zero else "inert" for one in listed]
    return Table("Gain by option over the run, with 95 % intervals by group of questions", columns, rows, marks)


def parts_table(found: Ablation) -> Table:
    """Return the contribution of each part against naive RAG's option."""
    return _parts_table("Contribution of each part", "Without it", found, found.outs)


def swaps_table(found: Ablation) -> Table:
    """Return the contribution of each part against other options, best replacements first."""
    order = sorted(found.swaps, key=lambda one: one.worth["fitness"].mean if "fitness" in one.worth else 1.0)
    return _parts_table("Against other options of the space, best first", "Instead of it", found, order)


def signals_table(found: Ablation) -> Table:
    """Return the contribution of each signal of a learned ranking, refitted without it; largest first."""
    order = sorted(found.signals, key=lambda one: -one.worth["retrieval"].mean if "retrieval" in one.worth else 0.0)
    caption = "Contribution of each signal of a learned ranking, refitted without it"
    return _parts_table(caption, "Without the signal", found, order)


def interactions_table(found: Ablation) -> Table:
    """Return the joint gains of parts over naive RAG, and the sums of their single gains."""
    rows = [(_interaction_title(one, found), one.expected, one.observed, one.beyond) for one in found.interactions]
    columns = (
        *texts("Parts"),
        *figures(numbers.estimate, "F gained, sum of parts", "F gained, together", "Interaction"),
    )
    return Table("Parts together, over naive RAG", columns, rows)


def _interaction_title(one: Interaction, found: Ablation) -> str:
    whole = max((len(other.options) for other in found.interactions), default=0)
    every = "all parts: " if len(one.options) == whole and one is found.interactions[0] else ""
    return every + ", ".join(one.options)


def _parts_table(caption: str, instead: str, found: Ablation, listed: Sequence[AblatedOption]) -> Table:
    timed = any(one.seconds is not None for one in found.parts)
    shown = [name for name in HEADLINE if any(name in one.worth for one in listed)] or ["fitness"]
    columns = (
        *(
            *texts("Family", "Option", instead),
            *figures(numbers.estimate, *(f"Contribution to {HEADLINE[n]}" for n in shown)),
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
    marks = ["" if "fitness" in one.worth and one.worth["fitness"].excludes_zero else "inert" for one in listed]
    return Table(caption, columns, rows, marks)


def marks_table(found: MarkedAnswers) -> Table:
    """Return the mean score of each pipeline, and the difference, by the judge, by people, and by both."""
    rows = [
        (TITLES.get(role, role), *(numbers.mean(one, sign=role not in TITLES) for one in each.values()))
        for role, each in found.means.items()
    ]
    caption = "Mean score of answers, from 0 to 1, with 95 % interval (n: answers scored, or marked)"
    return Table(caption, texts("Answers of", "By the judge", "By marks", "By both"), rows)


# --- questions -------------------------------------------------------------------------------------------------------


def types_table(report: RunReport) -> Table:
    """Return scores and costs by question type."""
    return _groups_table("Type", "type", report, report.types)


def modalities_table(report: RunReport) -> Table:
    """Return scores and costs by the type of the gold document."""
    return _groups_table("Kind of document", "kind of document", report, report.modalities)


def _groups_table(head: str, by: str, report: RunReport, groups: Sequence[GroupScores]) -> Table:
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


def causes_table(report: RunReport) -> Table:
    """Return the counts of causes by pipeline and split."""
    by_pipeline = group_values((found.pipeline, found) for found in report.questions.causes)
    rows = [
        (
            cause.value,
            *(" + ".join(f"{found.counts.get(cause.value, 0)}" for found in each) for each in by_pipeline.values()),
            MEANINGS[cause],
            name_remedy(cause),
        )
        for cause in Cause
        if any(cause.value in found.counts for found in report.questions.causes)
    ]
    heads = (f"{TITLES[name]}, {' + '.join(str(found.n) for found in each)}" for name, each in by_pipeline.items())
    columns = (*texts("Cause"), *counts(*heads), *prose("Meaning", "What to try"))
    splits = " + ".join(dict.fromkeys(found.split for found in report.questions.causes))
    return Table(f"Questions ({splits}) by the first cause of failure", columns, rows)


def repairs_table(report: RunReport) -> Table:
    """Return the numbers of questions that each change repaired and broke."""
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
    columns = (*texts("Change", "Cause before"), *counts("Repaired", "Broken", "Questions"))
    return Table(
        "Search questions that a change on the way from naive RAG to the winner repaired or broke, of those that both "
        "pipelines answered",
        columns,
        rows,
    )


def interventions_table(report: RunReport) -> Table:
    """Return the scores with gold passages inserted, or with other passages removed."""
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
    return Table("Scores with gold passages inserted or others removed: the ceiling of the generator", columns, rows)


# --- the run ---------------------------------------------------------------------------------------------------------


def history_table(report: RunReport) -> Table:
    """Return the steps of the strategy."""
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


def latencies_table(report: RunReport) -> Table:
    """Return latency percentiles by pipeline and stage."""
    rows = [
        (TITLES.get(timed.name, timed.name), its.state, its.stage, its.n, its.p50_ms, its.p90_ms, its.p99_ms)
        for timed in report.timed
        for its in timed.latencies
    ]
    machines = "; ".join(dict.fromkeys(timed.machine for timed in report.timed))
    columns = (
        *(*prose("Pipeline"), *texts("State", "Stage"), *counts("Questions")),
        *figures(numbers.tenths, "p50, ms", "p90, ms", "p99, ms"),
    )
    return Table(f"Latency by stage, on {machines}", columns, rows)


def failures_table(report: RunReport) -> Table:
    """Return the failures by stage, class and exception."""
    rows = [(one.stage, one.kind, one.exception, one.example, one.count) for one in report.failures]
    columns = (*texts("Stage", "Class", "Exception"), *prose("First message"), *counts("Count"))
    return Table("Failed answers, over all pipelines", columns, rows)


def excluded_table(report: RunReport) -> Table:
    """Return the questions on which every pipeline failed."""
    rows = [(one.question, one.split, one.why.stage, one.why.kind, one.why.error) for one in report.excluded]
    columns = (*texts("Question", "Split", "Stage", "Class"), *prose("First message"))
    return Table("Excluded questions: every pipeline failed on them", columns, rows)


def calls_table(report: RunReport) -> Table:
    """Return the model calls of the last command."""
    rows = [
        (kind.replace("_", " "), found.asked, found.distinct, found.stored, found.made, found.cut)
        for kind, found in sorted(report.about.record.account.calls.items())
    ]
    columns = (*texts("Kind"), *counts("Requested", "Distinct", "From the cache", "Made", "Prompts truncated"))
    return Table("Model calls", columns, rows)


def models_table(report: RunReport) -> Table:
    """Return the models of the run."""
    rows = [(model.role.replace("_", " "), model.description, shorten_model_id(model.id)) for model in report.models]
    return Table("Models", (*texts("Role"), *prose("What it is"), *texts("Identifier")), rows)


def run_table(report: RunReport) -> Table:
    """Return the configuration of the run."""
    about, record, space = report.about, report.about.record, report.about.record.space
    first = ", the first size in the search space" if "chunk_size" in space.options else ""
    dropped = f", {report.dropped:,} of them pruned before the last question" if report.dropped else ""
    rows = {
        "Data set": f"{about.data.documents:,} documents, {about.data.chunks:,} chunks "
        f"of at most {record.chunk_size:,} characters{first}",
        "Questions": _describe_division(record),
        "Space": f"{space.name}: {space.size:,} pipelines, {space.feasible:,} feasible, "
        f"{report.proposed:,} proposed and evaluated{dropped}",
        "Evaluated": describe_extra_evaluations(report),
        "Strategy": f"{record.strategy}, seed {record.settings.seed}",
        "Run": f"{about.run}, {about.state}",
    }
    return Table("The run", texts("", ""), [(name, said) for name, said in rows.items() if said])


def _describe_division(record: RunRecord) -> str:
    split = record.split
    if record.settings.verdict == CROSSFIT:
        return f"{describe_questions(record)}; {split.rule}"
    unused = f", {len(split.unused)} in neither part" if split.unused else ""
    checked = f"; {split.leaks}" if split.leaks and split.test else ""
    return f"{len(split.search)} search, {len(split.test)} test{unused}; split {split.rule}{checked}"
