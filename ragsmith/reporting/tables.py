"""The tables of a report, as text: the page and the Markdown file show the same cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragsmith.comparison.verdicts import Comparison
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.measures.registry import measures
from ragsmith.records.objectives import costs
from ragsmith.reporting import numbers
from ragsmith.reporting.plots import names
from ragsmith.reporting.values import SHOWN, TITLES, Domain, Option, Row, Score
from ragsmith.reporting.wording import NAIVE, WORDS, against_random, chosen, fitted

WIDE = (
    "Pipeline",
    "Winner",
    "What it is",
    "First message",
    "Fitted numbers",
    "What it changes",
    "That is",
    "What may help",
)


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; numbers are aligned to the right, wide columns hold long text."""

    name: str
    number: bool = True

    @property
    def wide(self) -> bool:
        """Whether its cells should not be squeezed."""
        return self.name in WIDE


@dataclass(frozen=True, slots=True)
class Table:
    """Cells by row. ``marks`` says for each row what kind it is: winner, baseline, inert or nothing."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[str, ...] = ()

    def mark(self, place: int) -> str:
        """The kind of a row."""
        return self.marks[place] if place < len(self.marks) else ""


def columns(texts: Sequence[str], figures: Sequence[str] = ()) -> tuple[Column, ...]:
    """Columns of text, then columns of numbers."""
    return (*(Column(name, number=False) for name in texts), *(Column(name) for name in figures))


def ranking(domain: Domain) -> Table:
    """The best pipelines on the search questions, with what they are compared to."""
    rows, marks = [], []
    for place, row in enumerate(domain.ranking[:SHOWN], 1):
        rows.append(_ranked(f"{place}", row))
        marks.append("winner" if place == 1 and domain.winner else "")
    for title, row in _references(domain):
        rows.append(_ranked(title, row))
        marks.append("baseline")
    figures = ["F", "R", "G", "Attempted = scored + failed", "Calls per question", "Genomes"]
    held = [*domain.ranking[:SHOWN], *(row for _, row in _references(domain))]
    if any(row.ranked_by is not None for row in held):
        figures += ["F, ranked by", "Winner ahead by"]
        rows = [
            (*cells, numbers.plain(row.level) if row.scores else numbers.MISSING, _lead(domain, row))
            for cells, row in zip(rows, held, strict=True)
        ]
    shown = columns(["Rank", "Pipeline"], figures)
    return Table("Search questions: mean and 95 % interval", shown, tuple(rows), tuple(marks))


def front(domain: Domain) -> Table:
    """The pipelines of which no other is as good in everything that was weighed."""
    settings = domain.about.record.settings
    money, named = "money" in settings.objectives, names(domain)
    rows = []
    for row in domain.front:
        timed = [numbers.plain(row.latency_seconds)] if settings.timed else []
        known = costs(settings, row.usage, row.latency_seconds) or (0.0,)
        paid = [numbers.plain(1000 * known[-1])] if money else []
        scores = (numbers.mean(row.scores.get(name)) for name in HEADLINE)
        rows.append((named[row.key], row.label, *scores, numbers.plain(row.usage["calls"], 1), *timed, *paid))
    further = ["Latency, seconds"] * settings.timed + ["Money for 1,000 questions"] * money
    figures = ["F", "R", "G", "Calls per question", *further]
    caption = "Search questions: no other pipeline is as good in everything"
    return Table(caption, columns(["Name", "Pipeline"], figures), tuple(rows))


def removals(domain: Domain) -> Table:
    """What was left out of the pipeline that was chosen, and what would have been lost without the rest."""
    rows, marks = [], []
    for removal in domain.about.record.removals:
        loss = f"{numbers.signed(-removal.loss)} ± {numbers.plain(removal.error)}"
        gone = f"{removal.instead} instead" if removal.instead else "left out"
        became = gone if removal.left_out else "stays"
        rows.append((removal.family, removal.option, became, loss, numbers.signed(-removal.calls, 1)))
        marks.append("inert" if removal.left_out else "")
    shown = columns(
        ["Family", "Option left out", "What became of it"], ["F, with standard error", "Calls per question"]
    )
    return Table(f"Without one option, against the {chosen(domain)}", shown, tuple(rows), tuple(marks))


def measured(domain: Domain) -> Table:
    """Every measure of the same pipelines; those that are not registered any more go by their names."""
    listed = [(f"{place}", row) for place, row in enumerate(domain.ranking[:SHOWN], 1)] + _references(domain)
    known, found = measures(), {name for _, row in listed for name in row.scores}
    names = [name for name in known if name in found] + sorted(found - {*known, *HEADLINE})
    rows = [(title, row.label, *(_measure(row, name) for name in names)) for title, row in listed]
    marks = ["" if title.isdigit() else "baseline" for title, _ in listed]
    shown = columns(["Rank", "Pipeline"], [known[name].heading if name in known else name for name in names])
    return Table("Search questions: means of every measure", shown, tuple(rows), tuple(marks))


def winner(domain: Domain) -> Table:
    """The winner's option in each family, and the numbers that were fitted, if any were."""
    row = domain.winner
    if row is None or not row.fitted:
        return Table("The winning pipeline", columns(["Family", "Option"]), tuple(row.genes.items()) if row else ())
    shown = columns(["Family", "Option", "Fitted numbers"])
    rows = ((family, option, fitted(row.fitted.get(family))) for family, option in row.genes.items())
    return Table("The winning pipeline; numbers as fitted on all calibration questions", shown, tuple(rows))


def verdicts(domain: Domain) -> Table:
    """The comparisons on the test questions."""
    of = HEADLINE[domain.comparisons[0].of] if domain.comparisons else HEADLINE["fitness"]
    figures = [f"Difference in {of}", "p", "p, adjusted", "Questions", "That differ", "Groups", "Would have been shown"]
    shown = columns(["Winner against", "Verdict"], figures)
    caption = f"Test questions: paired differences; one family of {len(domain.comparisons)} comparisons"
    return Table(caption, shown, tuple(_compared(comparison) for comparison in domain.comparisons))


def division(domain: Domain) -> Table | None:
    """How the questions were divided: how many, in how many groups, of how many documents, and what links a group."""
    split = domain.about.record.split
    if split.groups is None or split.search_groups is None or not split.test:
        return None
    parts = (("search", split.search_groups), ("test", split.groups))
    rows = [
        (name, found.linked_by, f"{found.questions}", f"{found.documents}", f"{len(found.groups)}")
        for name, found in parts
    ]
    left_out = [("neither", "their gold lies between the two", f"{len(split.unused)}", "", "")] if split.unused else []
    shown = columns(["Part", "What links a group"], ["Questions", "Documents", "Groups"])
    return Table(f"Questions of the search and of the test; divided {split.rule}", shown, (*rows, *left_out))


def folds(domain: Domain) -> Table:
    """The searches of a crossfit, each with its winner and what that came to on questions that it was not chosen on."""
    roles = [name for name in TITLES if any(name in fold.fitness for fold in domain.folds)]
    counts = ["Searched on", "Left out", "Tested"]
    shown = columns(["Winner of the fold"], [*counts, *(f"F, {TITLES[name]}" for name in roles)])
    rows = tuple(
        (
            fold.winner or "none",
            *(f"{count}" for count in (fold.searched, fold.unused, fold.tested)),
            *(numbers.plain(fold.fitness.get(name)) for name in roles),
        )
        for fold in domain.folds
    )
    return Table("Folds: what each search found, and what it scored on the questions of its fold", shown, rows)


def finalists(domain: Domain) -> Table:
    """What the finalists score on questions that chose them, and on questions that did not."""
    rows = [
        (
            finalist.title,
            finalist.test.label,
            numbers.mean(finalist.search.scores.get("fitness") if finalist.search else None),
            *(numbers.mean(finalist.test.scores.get(name)) for name in HEADLINE),
            numbers.coverage(finalist.test.coverage),
        )
        for finalist in domain.finalists
    ]
    figures = ["F, search questions", "F, test", "R, test", "G, test", "Test: attempted = scored + failed"]
    return Table("The finalists on both kinds of questions", columns(["Role", "Pipeline"], figures), tuple(rows))


def options(domain: Domain) -> Table:
    """What each option does alone, and where the search met it.

    What it changes, and in which pipeline, is shown where any option says so.
    """
    probes = [option.probe for option in domain.options if option.probe]
    texts = ["What it changes"] * any(probe.difference for probe in probes)
    texts += ["Switched on in"] * any(probe.against for probe in probes)
    shown = columns(
        ["Family", "Option", *texts],
        [
            *("Activity", "Calls added", "Change in F, alone", "Change in R, alone"),
            *("F with", "F without", "Proposed with"),
        ],
    )
    ordered = sorted(domain.options, key=_worth)
    marks = tuple("inert" if option.probe and option.probe.inert else "" for option in ordered)
    return Table("Options, by what they add alone", shown, tuple(_option(option, texts) for option in ordered), marks)


def _worth(option: Option) -> tuple[bool, float]:
    """What adds most comes first, and what was not tried last."""
    change = option.probe.change if option.probe else None
    return (True, 0.0) if change is None else (False, -change.mean)


def inert(domain: Domain) -> tuple[str, ...]:
    """Options that changed nothing, as ``family: option``."""
    return tuple(f"{o.family}: {o.name}" for o in domain.options if o.probe and o.probe.inert)


def _references(domain: Domain) -> list[tuple[str, Row]]:
    listed = [(TITLES[name], row) for name, row in domain.baselines.items()]
    return [*listed, (against_random(domain), domain.random)] if domain.random else listed


def _ranked(title: str, row: Row) -> tuple[str, ...]:
    calls = numbers.plain(row.usage.get("calls"), 1)
    shared = f"{row.shared}" if title.isdigit() else ""
    scores = (numbers.mean(row.scores.get(name)) for name in HEADLINE)
    return (title, row.label, *scores, numbers.coverage(row.coverage), calls, shared)


def _lead(domain: Domain, row: Row) -> str:
    lead = domain.leads.get(row.key)
    return numbers.mean(replace(lead, low=None, high=None), sign=True) if lead else ""


def _measure(row: Row, name: str) -> str:
    found = row.scores.get(name)
    mean = numbers.plain(found.mean if found else None, 3 if found is None or abs(found.mean) < 100 else 0)
    return f"{mean} (n {found.n})" if found and found.n not in (None, row.coverage.questions) else mean


def _compared(comparison: Comparison) -> tuple[str, ...]:
    found = comparison.difference
    if found is None or comparison.verdict is None:
        return (comparison.against, "not compared", *([numbers.MISSING] * 7))
    difference = f"{numbers.signed(found.mean_difference)} {numbers.interval(found.low, found.high, sign=True)}"
    adjusted = numbers.probability(comparison.adjusted_p)
    counted = (f"{found.n}", f"{found.nonzero}", f"{found.groups}", numbers.plain(comparison.detectable))
    verdict = "questions looked at too often" if comparison.spent else WORDS[comparison.verdict]
    return (comparison.against, verdict, difference, numbers.probability(found.p), adjusted, *counted)


def _changed(change: Score | None) -> str:
    few = change is not None and change.low is None
    return f"{numbers.mean(change, sign=True)}{' (too few groups)' * few}"


def _option(option: Option, texts: Sequence[str]) -> tuple[str, ...]:
    probe, effect = option.probe, option.effect
    said: dict[str, str] = {}
    alone: tuple[str, ...] = ("in naive RAG", "", "", "")
    if probe:
        said = {"What it changes": probe.difference, "Switched on in": probe.against or NAIVE}
        activity = "inert" if probe.inert else numbers.share(probe.activity)
        changes = map(_changed, (probe.change, probe.retrieval))
        alone = (activity, numbers.signed(probe.calls, 1), *changes)
    means = (numbers.plain(effect.with_mean), numbers.plain(effect.without_mean))
    return (option.family, option.name, *(said.get(text, "") for text in texts), *alone, *means, f"{effect.with_n}")
