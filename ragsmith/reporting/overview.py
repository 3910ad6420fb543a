"""Reports across data sets: pooled tests, effects of options, and transfer of winners."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragsmith.comparison.questions import MIN_GROUPS
from ragsmith.diagnosis.estimates import Estimate, OptionEffect, PooledEstimate, TransferEstimate, pool_estimates
from ragsmith.evaluation.statistics import Verdict
from ragsmith.grouping import group_values
from ragsmith.records.record import RunRecord
from ragsmith.reporting.blocks import Block, Collapsed, ReportSection
from ragsmith.reporting.values import SHOWN, TITLES, PipelineRow, RunReport
from ragsmith.reporting.wording import SELECTION_BIAS, VERDICT_WORDS
from ragsmith.techniques.families import FAMILIES
from ragsmith.text import numbers
from ragsmith.text.table import Table, counts, figures, prose, texts

POOLED_RIVALS = ("naive", "bm25", "recommended")
"""Rivals for which the differences of the winners are pooled."""

SHARED_SETTINGS = ("models", "chunk_size", "chunk_overlap")
"""Settings of a run that must agree for a pipeline to be the same on two data sets."""


@dataclass(frozen=True, slots=True)
class PooledTest:
    """The differences between the winners and a rival on test questions, by data set and ``pooled``.

    The difference is 0 if the winner is the rival. ``left_out`` are the data sets without a comparison of fitness.
    """

    name: str
    against: str
    each: Mapping[str, Estimate]
    pooled: PooledEstimate | None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PooledEffect:
    """The effect of an option against that of naive RAG, on ``each`` data set and pooled."""

    family: str
    option: str
    instead: str
    each: Mapping[str, OptionEffect]
    pooled: PooledEstimate | None


@dataclass(frozen=True, slots=True)
class CombinedReport:
    """The combined results of reports on several data sets."""

    tested: tuple[PooledTest, ...]
    effects: tuple[PooledEffect, ...]
    transfers: tuple[TransferEstimate, ...]


def combine_reports(reports: Sequence[RunReport], kept: Sequence[TransferEstimate] = ()) -> CombinedReport:
    """Combine reports; ``kept`` are stored transfers, which precede those that searches happened to evaluate."""
    known = {(one.source, one.target, one.part) for one in kept}
    met = (_transfer_in_search(source, target) for source in reports for target in reports if source is not target)
    more = [one for one in met if one is not None and (one.source, one.target, one.part) not in known]
    own = [one for report in reports for one in _home_transfers(report)]
    return CombinedReport(
        tuple(found for name in POOLED_RIVALS if (found := _pool_test(name, reports)).each),
        _pool_effects(reports),
        (*own, *kept, *more),
    )


def _pool_test(name: str, reports: Sequence[RunReport]) -> PooledTest:
    each, left_out = {}, []
    for report in reports:
        dataset, record = report.about.dataset, report.about.record
        same = _recommended_roles(record) if name == "recommended" else set()
        found = next((one for one in report.comparisons if one.name == name or one.name in same), None)
        if found is not None and found.difference is not None and found.of == "fitness":
            its = found.difference
            error, _ = its.corrected_error
            low, high = (its.low, its.high) if its.groups >= MIN_GROUPS else (None, None)
            each[dataset] = Estimate(its.mean_difference, low, high, its.n, its.groups, error)
        elif "winner" in same and all(one.of == "fitness" for one in report.comparisons):
            each[dataset] = Estimate(0.0, 0.0, 0.0, len(record.tested), 0, 0.0)
        else:
            left_out.append(dataset)
    return PooledTest(name, RIVALS[name], each, _pool_estimates(each), tuple(left_out))


def _recommended_roles(record: RunRecord) -> set[str]:
    """Return the roles of the recommended pipeline in the test, or in the tests of all folds."""
    if not record.recommended:
        return set()
    tests = [(fold.entrants, fold.entrants.get("recommended")) for fold in record.folds if fold.entrants]
    tests = tests or [(record.test, record.recommended)]
    return set.intersection(*({role for role, key in test.items() if key == its} for test, its in tests))


def _pool_effects(reports: Sequence[RunReport]) -> tuple[PooledEffect, ...]:
    """Return the effects that are known on at least two data sets, largest first."""
    by_option: dict[tuple[str, str, str], dict[str, OptionEffect]] = {}
    for report in reports:
        for one in report.effects:
            by_option.setdefault((one.family, one.option, one.instead), {})[report.about.dataset] = one
    found = [
        PooledEffect(*name, each, _pool_estimates({dataset: one.gain for dataset, one in each.items()}))
        for name, each in by_option.items()
        if len(each) > 1
    ]
    return tuple(sorted(found, key=lambda one: -one.pooled.mean if one.pooled else 0.0))


def _pool_estimates(each: Mapping[str, Estimate]) -> PooledEstimate | None:
    return pool_estimates([one.mean for one in each.values()], [math.sqrt(one.variance) for one in each.values()])


def _home_transfers(report: RunReport) -> Iterator[TransferEstimate]:
    """Yield the scores of the winner on its own search and test questions."""
    name = report.about.dataset
    tested = None if report.folds else report.winner_on_test  # a crossfit tests the search, not this winner
    for part, row, place in (("search", report.winner, (1, len(report.ranking))), ("test", tested, (None, None))):
        if row is not None and "fitness" in row.scores:
            fitness, asked = row.scores["fitness"].mean, row.coverage.questions
            scored = asked, fitness, row.usage["calls"], fitness, None
            yield TransferEstimate(name, name, part, row.label, row.key, *scored, *place)


def _transfer_in_search(source: RunReport, target: RunReport) -> TransferEstimate | None:
    """Return the transfer of the winner of ``source``, if the search of ``target`` evaluated it as well."""
    winner, own = source.winner, target.winner
    ours, theirs = source.about.record, target.about.record
    if winner is None or own is None or any(getattr(ours, name) != getattr(theirs, name) for name in SHARED_SETTINGS):
        return None
    for place, row in enumerate(target.ranking, 1):
        if row.genes == winner.genes and row.fitted == winner.fitted and "fitness" in row.scores:
            return TransferEstimate(
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


BASELINES = ("naive", "bm25")

RIVALS: Mapping[str, str] = {
    "naive": "naive RAG",
    "bm25": "BM25",
    "recommended": "the recommended pipeline",
    "single": "the best single option",
    "cheapest": "the cheapest within the margin",
    "random": "random search",
}
"""Titles of the rivals of the winners, by role."""

POOLING_EXPLAINED = (
    "Random-effects meta-analysis: the mean over data sets is weighted by the variances within and between data sets "
    "(DerSimonian and Laird), and its interval (Hartung and Knapp) is wide with few data sets. Intervals of single "
    "data sets are by groups of questions."
)

EFFECTS_EXPLAINED = (
    "The gain in F of an option over that of naive RAG, on search questions: the mean over all pairs of pipelines of a "
    "search that differ in this option only, including naive RAG itself. Same sign is the number of data sets with "
    "the sign of the pooled mean. Searches favour promising options, and many options are listed: some look good by "
    "chance."
)

TRANSFERS_EXPLAINED: Mapping[str, str] = {
    "search": (
        "Each winner (row) on the search questions of the other data sets (columns): F, the difference from the "
        "winner there, and its rank in the search there. The local winner was selected on these questions, so its lead "
        "is biased upwards."
    ),
    "test": (
        "The same on test questions, which were not used for selection. These comparisons are exploratory: there is no "
        "verdict."
    ),
}

MAX_EFFECTS = 15
"""Number of effects that are shown initially; the others are collapsed."""

BACKBONE_EXPLAINED = (
    "Options of the best pipelines of each data set, on its search questions. Options that many of them share are the "
    "common backbone; counts say how often an option was chosen, not how much it adds."
)

SUMMARY_CAPTION = (
    "F of the winner and differences on n test questions, with 95 % intervals; * is significant by adjusted p."
)


def overview_sections(reports: Sequence[RunReport], found: CombinedReport) -> list[ReportSection]:
    """Return the sections of the report across data sets."""
    said = [sentence for one in found.tested if (sentence := describe_pooled(one))]
    together: list[Block] = [*said, POOLING_EXPLAINED, pooled_table(found, reports)] if said else []
    listed = [
        ReportSection("test", "Test", "Test", (*together, verdicts_table(reports), scores_table(reports, "test"))),
        ReportSection("effects", "Effects of options", "Effects", tuple(_effect_blocks(reports, found))),
        ReportSection("transfer", "Winners on other data sets", "Transfer", tuple(_transfer_blocks(reports, found))),
        ReportSection(
            "ranking", "On the search questions", "Ranking", (SELECTION_BIAS, scores_table(reports, "search"))
        ),
        ReportSection("backbone", "Backbone", "Backbone", (BACKBONE_EXPLAINED, options_table(reports))),
    ]
    return [one for one in listed if one.blocks]


def _effect_blocks(reports: Sequence[RunReport], found: CombinedReport) -> Iterator[Block]:
    if found.effects:
        yield EFFECTS_EXPLAINED
        yield effects_table("Gain in F by option, largest first", found.effects[:MAX_EFFECTS], reports)
        if rest := found.effects[MAX_EFFECTS:]:
            yield Collapsed("All other options", (effects_table("Gain in F by the other options", rest, reports),))


def _transfer_blocks(reports: Sequence[RunReport], found: CombinedReport) -> Iterator[Block]:
    for part, explained in TRANSFERS_EXPLAINED.items():
        if any(one.part == part and one.source != one.target for one in found.transfers):
            yield explained
            yield transfers_table(found, reports, part)
    if all(one.source == one.target for one in found.transfers):
        command = reports[0].about.command("transfer", *(report.about.given for report in reports[1:]))
        yield f"No transfers were computed: `{command}` evaluates each winner on the other data sets."


def list_notes(reports: Sequence[RunReport]) -> tuple[str, ...]:
    """Return the limitations of the reports, each with its data sets."""
    about = group_values((note, report.about.dataset) for report in reports for note in report.notes)
    return tuple(f"{', '.join(names)}: {note}" for note, names in about.items())


# --- the test --------------------------------------------------------------------------------------------------------


def summary_table(reports: Sequence[RunReport], unfinished: Mapping[str, str]) -> Table:
    """Return the results of the winners on test questions; ``unfinished`` maps data sets without a report to states."""
    rows: list[tuple[object, ...]] = []
    for report in reports:
        tests = {finalist.name: finalist.test for finalist in report.finalists if not report.folds}
        fitness = tests["winner"].scores.get("fitness") if "winner" in tests else None
        tested = max((one.difference.n for one in report.comparisons if one.difference), default=numbers.MISSING)
        score = fitness.mean if fitness else None
        rows.append((report.about.dataset, tested, score, *(_format_lead(report, name) for name in BASELINES)))
    rows += [(name, state, "", "", "") for name, state in unfinished.items()]
    columns = (*texts("data set"), *counts("n"), *figures(numbers.plain, "F"))
    return Table(SUMMARY_CAPTION, (*columns, *texts(*(f"winner − {TITLES[name]}" for name in BASELINES))), rows)


def _format_lead(report: RunReport, name: str) -> str:
    same = report.same.get(name, name)
    if same == "winner":
        return "is the winner"
    one = next((one for one in report.comparisons if one.name in (name, same)), None)
    if one is None or one.difference is None:
        return numbers.MISSING
    mark = "*" if one.verdict in (Verdict.BETTER, Verdict.WORSE) else ""
    its = one.difference
    return f"{numbers.signed(its.mean_difference)}{mark} {numbers.interval(its.low, its.high, sign=True)}"


def describe_pooled(one: PooledTest) -> str:
    """Describe the pooled difference between the winners and a rival in a sentence."""
    its = one.pooled
    if its is None:
        return ""
    side = "ahead of" if its.mean >= 0 else "behind"
    shown = "" if its.excludes_zero else ", which may be chance"
    return (
        f"Over {its.datasets} data sets the winners are {numbers.plain(abs(its.mean))} {side} {one.against} "
        f"{numbers.interval(its.low, its.high, sign=True)}{shown}; {_format_signs(its)} have this sign."
    )


def pooled_table(found: CombinedReport, reports: Sequence[RunReport]) -> Table:
    """Return the differences between the winners and each rival, by data set and pooled."""
    names = [report.about.dataset for report in reports]
    rows = [
        (f"against {one.against}", *(one.each.get(name) for name in names), one.pooled, _format_signs(one.pooled))
        for one in found.tested
    ]
    columns = (*prose("Winner"), *figures(numbers.estimate, *names, "Pooled"), *counts("Same sign"))
    return Table("Test questions: difference in F, with 95 % interval", columns, rows)


def verdicts_table(reports: Sequence[RunReport]) -> Table:
    """Return the verdicts by data set."""
    rows = [(report.about.dataset, *(_format_verdict(report, name) for name in RIVALS)) for report in reports]
    columns = texts("Data set", *(f"Against {rival}" for rival in RIVALS.values()))
    return Table("Test questions: difference in F, p adjusted by Holm within each data set", columns, rows)


def _format_verdict(report: RunReport, name: str) -> str:
    if other := report.same.get(name):
        none_within = "none is within the margin" if name == "cheapest" else "is the winner"
        return none_within if other == "winner" else f"is {TITLES[other]}"
    found = next((one for one in report.comparisons if one.name == name), None)
    if found is None or found.verdict is None or found.difference is None:
        return "no claim"
    difference = numbers.signed(found.difference.mean_difference)
    return f"{VERDICT_WORDS[found.verdict]}: {difference}, p {numbers.probability(found.adjusted_p)}"


def scores_table(reports: Sequence[RunReport], split: str) -> Table:
    """Return the fitness of winner, naive RAG and BM25 on the ``search`` or ``test`` questions."""
    rows = []
    for report in reports:
        questions = report.about.record.tested if split == "test" else report.about.record.split.search
        scores = (row.scores.get("fitness") if row else None for row in _score_rows(report, split))
        named = report.winner.label if report.winner else numbers.MISSING
        rows.append((report.about.dataset, named, len(questions), *scores))
    caption = "Test questions: mean and 95 % interval"
    if split == "search":
        caption = "Search questions, used to select the winner: mean and 95 % interval"
    columns = (*texts("Data set"), *prose("Winner"), *counts("Questions"))
    return Table(caption, (*columns, *figures(numbers.mean, "F, winner", "F, naive RAG", "F, BM25")), rows)


def _score_rows(report: RunReport, split: str) -> list[PipelineRow | None]:
    if split == "search":
        return [report.winner, *(report.baselines.get(name) for name in BASELINES)]
    tested = {finalist.name: finalist.test for finalist in report.finalists}
    return [tested.get(name) for name in ("winner", *BASELINES)]


def _format_signs(found: PooledEstimate | None) -> str:
    if found is None:
        return numbers.MISSING
    unchanged = f", {found.unchanged} unchanged" if found.unchanged else ""
    return f"{found.agree} of {found.datasets}{unchanged}"


# --- options and transfers -------------------------------------------------------------------------------------------


def effects_table(caption: str, found: Sequence[PooledEffect], reports: Sequence[RunReport]) -> Table:
    """Return the gains by option, by data set and pooled."""
    names = [report.about.dataset for report in reports]
    rows = [
        (
            *(one.family, one.option, one.pooled, _format_signs(one.pooled)),
            one.pooled.between_sd if one.pooled else None,
            *(one.each[name].gain.mean if name in one.each else None for name in names),
        )
        for one in found
    ]
    columns = (
        *(*texts("Family", "Option"), *figures(numbers.estimate, "Pooled"), *counts("Same sign")),
        *(*figures(numbers.plain, "Between sets, sd"), *figures(numbers.signed, *names)),
    )
    return Table(caption, columns, rows, ["" if one.pooled and one.pooled.excludes_zero else "inert" for one in found])


def transfers_table(found: CombinedReport, reports: Sequence[RunReport], part: str) -> Table:
    """Return the transfers: a row per winner and baseline, a column per data set."""
    names = [report.about.dataset for report in reports]
    known = {(one.source, one.target): one for one in found.transfers if one.part == part}
    rows = [(f"winner of {name}", *(_format_transfer(known.get((name, target))) for target in names)) for name in names]
    rows += [(TITLES[name], *(_format_baseline(report, name, part) for report in reports)) for name in BASELINES]
    caption = f"{part.capitalize()} questions: F (behind the winner there), place in the search there"
    columns = (*prose("Pipeline"), *counts(*(f"on {name}" for name in names)))
    return Table(caption, columns, rows, [*[""] * len(names), *["baseline"] * len(BASELINES)])


def _format_transfer(one: TransferEstimate | None) -> str:
    if one is None:
        return numbers.MISSING
    place = "" if one.place is None else f", {one.place} of {one.of}"
    behind = "at home" if one.source == one.target else numbers.signed(-one.regret)
    return f"{numbers.plain(one.fitness)} ({behind}){place}"


def _format_baseline(report: RunReport, name: str, part: str) -> str:
    row, own = report.baselines.get(name), report.winner
    if part == "test":
        tests = {finalist.name: finalist.test for finalist in report.finalists if not report.folds}
        row, own = tests.get(name), tests.get("winner")
    if row is None or own is None or "fitness" not in row.scores or "fitness" not in own.scores:
        return numbers.MISSING
    fitness = row.scores["fitness"].mean
    return f"{numbers.plain(fitness)} ({numbers.signed(fitness - own.scores['fitness'].mean)})"


def options_table(reports: Sequence[RunReport]) -> Table:
    """Return how often options occur in the best pipelines by data set, in each family the most common first."""
    best = {report.about.dataset: report.ranking[:SHOWN] for report in reports}
    found: list[tuple[str, str, list[str], list[int]]] = []
    for family in (family.name for family in FAMILIES):
        shared = []
        for option in sorted({row.genes[family] for rows in best.values() for row in rows}):
            winners = [name for name, rows in best.items() if rows and rows[0].genes[family] == option]
            shared.append(
                (family, option, winners, [sum(r.genes[family] == option for r in rows) for rows in best.values()])
            )
        found += sorted(shared, key=lambda one: (-len(one[2]), -sum(one[3]), one[1]))
    sizes = [len(rows) for rows in best.values()]
    rows = [
        (
            *(family, option, ", ".join(winners) or numbers.MISSING),
            *(f"{n} of {size}" for n, size in zip(counted, sizes, strict=True)),
        )
        for family, option, winners, counted in found
    ]
    columns = texts("Family", "Option", "In the winner of")
    columns += counts(*(f"{name}: best {len(rows)}" for name, rows in best.items()))
    return Table("Options of the best pipelines", columns, rows, ["winner" if one[2] else "" for one in found])
