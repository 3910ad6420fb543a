"""Several reports together: the test pooled, effects of options, transfers, and the tables and sections of these."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragsmith.comparison.questions import FEWEST_GROUPS
from ragsmith.diagnosis.estimates import Estimate, OptionEffect, PooledEstimate, TransferEstimate, pooled
from ragsmith.evaluation.statistics import Verdict
from ragsmith.records.record import RunRecord
from ragsmith.reporting.blocks import Block, Collapsed, ReportSection
from ragsmith.reporting.values import SHOWN, TITLES, PipelineRow, RunReport
from ragsmith.reporting.wording import SELECTED, WORDS
from ragsmith.techniques.families import FAMILIES
from ragsmith.text import numbers
from ragsmith.text.table import Table, counts, figures, prose, texts

POOLED_RIVALS = ("naive", "bm25", "recommended")
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
    transfers: tuple[TransferEstimate, ...]


def across(reports: Sequence[RunReport], kept: Sequence[TransferEstimate] = ()) -> Across:
    """Combine reports; ``kept`` are transfers that were computed, in addition to those that searches met by chance."""
    known = {(one.source, one.target, one.part) for one in kept}
    met = (_met(source, target) for source in reports for target in reports if source is not target)
    more = [one for one in met if one is not None and (one.source, one.target, one.part) not in known]
    own = [one for report in reports for one in _own(report)]
    return Across(
        tuple(found for name in POOLED_RIVALS if (found := _tested(name, reports)).each),
        _pooled_effects(reports),
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


def _pooled_effects(reports: Sequence[RunReport]) -> tuple[PooledEffect, ...]:
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


def _own(report: RunReport) -> list[TransferEstimate]:
    """The winner at home, on both kinds of questions."""
    name, found = report.about.dataset, []
    tested = None if report.folds else report.winner_on_test  # folds test a search, and not this winner
    for part, row, place in (("search", report.winner, (1, len(report.ranking))), ("test", tested, (None, None))):
        if row is not None and "fitness" in row.scores:
            fitness, asked = row.scores["fitness"].mean, row.coverage.questions
            scored = asked, fitness, row.usage["calls"], fitness, None
            found.append(TransferEstimate(name, name, part, row.label, row.key, *scored, *place))
    return found


def _met(source: RunReport, target: RunReport) -> TransferEstimate | None:
    """The winner of ``source`` in the ranking of ``target``, whose search happened to evaluate it, too."""
    winner, own = source.winner, target.winner
    ours, theirs = source.about.record, target.about.record
    if winner is None or own is None or any(getattr(ours, name) != getattr(theirs, name) for name in SETTINGS_ALIKE):
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
"""What the winners are compared with, data set by data set."""

POOLED = (
    "A data set counts as a draw of what there could be: the mean over data sets is weighted by how sure each is and "
    "how far they differ (DerSimonian and Laird), its interval is by data set (Hartung and Knapp), and with few data "
    "sets it is wide. Intervals of a data set are by groups of its questions."
)

EFFECTS = (
    "What an option gains in F over naive RAG's option of its family, on search questions: the mean over all pairs of "
    "pipelines of a search that differ in nothing else, the option alone in naive RAG among them. Same sign counts the "
    "data sets on the side of the pooled mean. Searches evaluate what looks good, and many options are listed: some "
    "of these look good by chance."
)

TRANSFERS: Mapping[str, str] = {
    "search": (
        "What the winner of each data set, a row, does on the search questions of another, a column: its F, what the "
        "winner there is ahead by, and its place among the pipelines of the search there. These questions chose the "
        "winner that is at home, so it looks a little further ahead than it is."
    ),
    "test": (
        "The same on test questions, which chose no pipeline. Pipelines of other data sets answered them for this, and "
        "nothing is claimed of it."
    ),
}

LISTED = 15
"""Effects that are shown at once; the others are folded."""

ASK = "No transfers were computed: `ragsmith transfer DATASET...` evaluates each winner on the other data sets."

BACKBONE = (
    "Options that the best pipelines of each data set have, on its search questions. What many of them share is "
    "the common backbone; a count says how often an option was chosen, not how much it adds."
)

SUMMARY = "F of the winner and differences on n test questions, with 95 % intervals; * is shown, by p of the verdict."


def overview_sections(reports: Sequence[RunReport], found: Across) -> list[ReportSection]:
    """The sections of the report across data sets."""
    said = [sentence for one in found.tested if (sentence := describe_pooled(one))]
    together: list[Block] = [*said, POOLED, pooled_table(found, reports)] if said else []
    listed = [
        ReportSection("test", "Test", "Test", (*together, verdicts_table(reports), scores_table(reports, "test"))),
        ReportSection("effects", "What options gain", "Effects", tuple(_effects(reports, found))),
        ReportSection("transfer", "Winners on other data sets", "Transfer", tuple(_transfers(reports, found))),
        ReportSection("ranking", "On the search questions", "Ranking", (SELECTED, scores_table(reports, "search"))),
        ReportSection("backbone", "Backbone", "Backbone", (BACKBONE, options_table(reports))),
    ]
    return [one for one in listed if one.blocks]


def _effects(reports: Sequence[RunReport], found: Across) -> Iterator[Block]:
    if found.effects:
        yield EFFECTS
        yield effects_table("What options gain in F, the largest first", found.effects[:LISTED], reports)
        if rest := found.effects[LISTED:]:
            yield Collapsed("All other options", (effects_table("What the other options gain in F", rest, reports),))


def _transfers(reports: Sequence[RunReport], found: Across) -> Iterator[Block]:
    for part, explained in TRANSFERS.items():
        if any(one.part == part and one.source != one.target for one in found.transfers):
            yield explained
            yield transfers_table(found, reports, part)
    if all(one.source == one.target for one in found.transfers):
        yield ASK


def notes(reports: Sequence[RunReport]) -> tuple[str, ...]:
    """What limits the reports, each with the data sets it is about."""
    about: dict[str, list[str]] = {}
    for report in reports:
        for note in report.notes:
            about.setdefault(note, []).append(report.about.dataset)
    return tuple(f"{', '.join(names)}: {note}" for note, names in about.items())


# --- the test --------------------------------------------------------------------------------------------------------


def summary_table(reports: Sequence[RunReport], unfinished: Mapping[str, str]) -> Table:
    """What the test questions of each data set say of its winner; ``unfinished`` data sets have no report."""
    rows: list[tuple[object, ...]] = []
    for report in reports:
        tests = {finalist.name: finalist.test for finalist in report.finalists if not report.folds}
        fitness = tests["winner"].scores.get("fitness") if "winner" in tests else None
        tested = max((one.difference.n for one in report.comparisons if one.difference), default=numbers.MISSING)
        score = fitness.mean if fitness else None
        rows.append((report.about.dataset, tested, score, *(_lead(report, name) for name in BASELINES)))
    rows += [(name, state, "", "", "") for name, state in unfinished.items()]
    columns = (*texts("data set"), *counts("n"), *figures(numbers.plain, "F"))
    return Table(SUMMARY, (*columns, *texts(*(f"winner − {TITLES[name]}" for name in BASELINES))), rows)


def _lead(report: RunReport, name: str) -> str:
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
    """What the winners gain over a rival, in a sentence."""
    its = one.pooled
    if its is None:
        return ""
    side = "ahead of" if its.mean >= 0 else "behind"
    shown = "" if its.shown else ", which may be chance"
    return (
        f"Over {its.datasets} data sets the winners are {numbers.plain(abs(its.mean))} {side} {one.against} "
        f"{numbers.interval(its.low, its.high, sign=True)}{shown}; {_signs(its)} have this sign."
    )


def pooled_table(found: Across, reports: Sequence[RunReport]) -> Table:
    """The winners against each rival, data set by data set and pooled."""
    names = [report.about.dataset for report in reports]
    rows = [
        (f"against {one.against}", *(one.each.get(name) for name in names), one.pooled, _signs(one.pooled))
        for one in found.tested
    ]
    columns = (*prose("Winner"), *figures(numbers.estimate, *names, "Pooled"), *counts("Same sign"))
    return Table("Test questions: difference in F, with 95 % interval", columns, rows)


def verdicts_table(reports: Sequence[RunReport]) -> Table:
    """The verdicts of each data set."""
    rows = [(report.about.dataset, *(_verdict(report, name) for name in RIVALS)) for report in reports]
    columns = texts("Data set", *(f"Against {rival}" for rival in RIVALS.values()))
    return Table("Test questions: difference in F, p adjusted by Holm within each data set", columns, rows)


def _verdict(report: RunReport, name: str) -> str:
    if other := report.same.get(name):
        none_within = "none is within the margin" if name == "cheapest" else "is the winner"
        return none_within if other == "winner" else f"is {TITLES[other]}"
    found = next((one for one in report.comparisons if one.name == name), None)
    if found is None or found.verdict is None or found.difference is None:
        return "no claim"
    difference = numbers.signed(found.difference.mean_difference)
    return f"{WORDS[found.verdict]}: {difference}, p {numbers.probability(found.adjusted_p)}"


def scores_table(reports: Sequence[RunReport], split: str) -> Table:
    """Fitness of winner, naive RAG and BM25 on the ``search`` or ``test`` questions."""
    rows = []
    for report in reports:
        questions = report.about.record.tested if split == "test" else report.about.record.split.search
        scores = (row.scores.get("fitness") if row else None for row in _rows(report, split))
        named = report.winner.label if report.winner else numbers.MISSING
        rows.append((report.about.dataset, named, len(questions), *scores))
    caption = "Test questions: mean and 95 % interval"
    if split == "search":
        caption = "Search questions, which chose the winner: mean and 95 % interval"
    columns = (*texts("Data set"), *prose("Winner"), *counts("Questions"))
    return Table(caption, (*columns, *figures(numbers.mean, "F, winner", "F, naive RAG", "F, BM25")), rows)


def _rows(report: RunReport, split: str) -> list[PipelineRow | None]:
    if split == "search":
        return [report.winner, *(report.baselines.get(name) for name in BASELINES)]
    tested = {finalist.name: finalist.test for finalist in report.finalists}
    return [tested.get(name) for name in ("winner", *BASELINES)]


def _signs(found: PooledEstimate | None) -> str:
    if found is None:
        return numbers.MISSING
    unchanged = f", {found.unchanged} unchanged" if found.unchanged else ""
    return f"{found.agree} of {found.datasets}{unchanged}"


# --- options and transfers -------------------------------------------------------------------------------------------


def effects_table(caption: str, found: Sequence[PooledEffect], reports: Sequence[RunReport]) -> Table:
    """What options gain, data set by data set and pooled."""
    names = [report.about.dataset for report in reports]
    rows = []
    for one in found:
        gains = (one.each[name].gain.mean if name in one.each else None for name in names)
        between = one.pooled.between if one.pooled else None
        rows.append((one.family, one.option, one.pooled, _signs(one.pooled), between, *gains))
    columns = (
        *(*texts("Family", "Option"), *figures(numbers.estimate, "Pooled"), *counts("Same sign")),
        *(*figures(numbers.plain, "Between sets, sd"), *figures(numbers.signed, *names)),
    )
    return Table(caption, columns, rows, ["" if one.pooled and one.pooled.shown else "inert" for one in found])


def transfers_table(found: Across, reports: Sequence[RunReport], part: str) -> Table:
    """A row for the winner of each data set, and for the baselines; a column for each data set it is asked on."""
    names = [report.about.dataset for report in reports]
    known = {(one.source, one.target): one for one in found.transfers if one.part == part}
    rows = [(f"winner of {name}", *(_cell(known.get((name, target))) for target in names)) for name in names]
    rows += [(TITLES[name], *(_baseline(report, name, part) for report in reports)) for name in BASELINES]
    caption = f"{part.capitalize()} questions: F (behind the winner there), place in the search there"
    columns = (*prose("Pipeline"), *counts(*(f"on {name}" for name in names)))
    return Table(caption, columns, rows, [*[""] * len(names), *["baseline"] * len(BASELINES)])


def _cell(one: TransferEstimate | None) -> str:
    if one is None:
        return numbers.MISSING
    place = "" if one.place is None else f", {one.place} of {one.of}"
    behind = "at home" if one.source == one.target else numbers.signed(-one.regret)
    return f"{numbers.plain(one.fitness)} ({behind}){place}"


def _baseline(report: RunReport, name: str, part: str) -> str:
    row, own = report.baselines.get(name), report.winner
    if part == "test":
        tests = {finalist.name: finalist.test for finalist in report.finalists if not report.folds}
        row, own = tests.get(name), tests.get("winner")
    if row is None or own is None or "fitness" not in row.scores or "fitness" not in own.scores:
        return numbers.MISSING
    fitness = row.scores["fitness"].mean
    return f"{numbers.plain(fitness)} ({numbers.signed(fitness - own.scores['fitness'].mean)})"


def options_table(reports: Sequence[RunReport]) -> Table:
    """Options among the best pipelines, a column for each data set; in each family the most common first."""
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
