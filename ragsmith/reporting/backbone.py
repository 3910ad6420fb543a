"""Several domains side by side: what won where, and which options the best pipelines have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragsmith.reporting import across_tables, numbers
from ragsmith.reporting.across import Across
from ragsmith.reporting.sections import Block, Folded, Section
from ragsmith.reporting.tables import Column, Table, columns
from ragsmith.reporting.values import SHOWN, TITLES, Domain, Row
from ragsmith.reporting.wording import SELECTED, WORDS
from ragsmith.techniques.families import FAMILIES

OTHERS = ("naive", "bm25")

EXPLAINED = (
    "Options that the best pipelines of each data set have, on its search questions. What stands in many of them is "
    "the common backbone; a count says how often an option was chosen, not how much it adds."
)


@dataclass(frozen=True, slots=True)
class Shared:
    """An option: the data sets whose winner uses it, and how many of the best pipelines of each do."""

    family: str
    option: str
    winners: tuple[str, ...]
    top: Mapping[str, int]


def sections(domains: Sequence[Domain], found: Across) -> list[Section]:
    """The sections of the report across data sets."""
    said = [sentence for one in found.tested if (sentence := across_tables.in_words(one))]
    together: list[Block] = [*said, across_tables.POOLED, across_tables.tested(found, domains)] if said else []
    listed = [
        Section("test", "Test", "Test", (*together, verdicts_table(domains), scores_table(domains, "test"))),
        Section("effects", "What options gain", "Effects", tuple(_effects(domains, found))),
        Section("transfer", "Winners on other data sets", "Transfer", tuple(_transfers(domains, found))),
        Section("ranking", "On the search questions", "Ranking", (SELECTED, scores_table(domains, "search"))),
        Section("backbone", "Backbone", "Backbone", (EXPLAINED, backbone_table(domains))),
    ]
    return [one for one in listed if one.blocks]


def _effects(domains: Sequence[Domain], found: Across) -> Iterator[Block]:
    if found.effects:
        yield across_tables.EFFECTS
        shown = across_tables.LISTED
        yield across_tables.effects(found.effects[:shown], domains)
        if rest := found.effects[shown:]:
            yield Folded("All other options", (across_tables.effects(rest, domains, rest=True),))


def _transfers(domains: Sequence[Domain], found: Across) -> Iterator[Block]:
    for part, explained in across_tables.TRANSFERS.items():
        if any(one.part == part and one.source != one.target for one in found.transfers):
            yield explained
            yield across_tables.transfers(found, domains, part)
    if all(one.source == one.target for one in found.transfers):
        yield across_tables.ASK


def backbone(domains: Sequence[Domain]) -> tuple[Shared, ...]:
    """Options that occur among the best `SHOWN` pipelines of any domain; in each family the most common first."""
    found = []
    for family in FAMILIES:
        best = {domain.about.dataset: domain.ranking[:SHOWN] for domain in domains}
        names = {row.genes[family.name] for rows in best.values() for row in rows}
        shared = [_shared(family.name, name, best) for name in sorted(names)]
        found += sorted(shared, key=lambda s: (-len(s.winners), -sum(s.top.values()), s.option))
    return tuple(found)


def backbone_table(domains: Sequence[Domain]) -> Table:
    """The backbone, a column for each domain."""
    sizes = {domain.about.dataset: len(domain.ranking[:SHOWN]) for domain in domains}
    rows = tuple(
        (
            shared.family,
            shared.option,
            ", ".join(shared.winners) or numbers.MISSING,
            *(f"{shared.top[name]} of {size}" for name, size in sizes.items()),
        )
        for shared in backbone(domains)
    )
    marks = tuple("winner" if row[2] != numbers.MISSING else "" for row in rows)
    shown = columns(["Family", "Option", "In the winner of"], [f"{name}: best {size}" for name, size in sizes.items()])
    return Table("Options of the best pipelines", shown, rows, marks)


def notes(domains: Sequence[Domain]) -> tuple[str, ...]:
    """What limits the reports, each with the data sets it is about."""
    about: dict[str, list[str]] = {}
    for domain in domains:
        for note in domain.notes:
            about.setdefault(note, []).append(domain.about.dataset)
    return tuple(f"{', '.join(names)}: {note}" for note, names in about.items())


def scores_table(domains: Sequence[Domain], split: str) -> Table:
    """Fitness of winner, naive RAG and BM25 on the ``search`` or ``test`` questions."""
    rows = tuple(
        (
            domain.about.dataset,
            domain.winner.label if domain.winner else numbers.MISSING,
            f"{len(domain.about.record.tested if split == 'test' else domain.about.record.split.search)}",
            *(numbers.mean(row.scores.get("fitness") if row else None) for row in _rows(domain, split)),
        )
        for domain in domains
    )
    figures = ["Questions", "F, winner", "F, naive RAG", "F, BM25"]
    caption = "Test questions: mean and 95 % interval"
    if split == "search":
        caption = "Search questions, which chose the winner: mean and 95 % interval"
    return Table(caption, columns(["Data set", "Winner"], figures), rows)


def verdicts_table(domains: Sequence[Domain]) -> Table:
    """The verdicts of each domain."""
    rows = []
    for domain in domains:
        found = {c.name: c for c in domain.comparisons}
        cells = []
        for name in (*OTHERS, "recommended", "single", "cheapest", "random"):
            comparison = found.get(name)
            if other := domain.same.get(name):
                none_within = "none is within the margin" if name == "cheapest" else "is the winner"
                cells.append(none_within if other == "winner" else f"is {TITLES[other]}")
            elif comparison is None or comparison.verdict is None or comparison.difference is None:
                cells.append("no claim")
            else:
                difference = numbers.signed(comparison.difference.mean_difference)
                p = numbers.probability(comparison.adjusted_p)
                cells.append(f"{WORDS[comparison.verdict]}: {difference}, p {p}")
        rows.append((domain.about.dataset, *cells))
    rivals = (
        *("naive RAG", "BM25", "the recommended pipeline", "the best single option"),
        *("the cheapest within the margin", "random search"),
    )
    heads = ["Data set", *(f"Against {rival}" for rival in rivals)]
    shown = tuple(Column(name, number=False) for name in heads)
    return Table("Test questions: difference in F, p adjusted by Holm within each data set", shown, tuple(rows))


def _shared(family: str, option: str, best: Mapping[str, Sequence[Row]]) -> Shared:
    return Shared(
        family,
        option,
        tuple(name for name, rows in best.items() if rows and rows[0].genes[family] == option),
        {name: sum(row.genes[family] == option for row in rows) for name, rows in best.items()},
    )


def _rows(domain: Domain, split: str) -> list[Row | None]:
    if split == "search":
        return [domain.winner, *(domain.baselines.get(name) for name in OTHERS)]
    tested = {finalist.name: finalist.test for finalist in domain.finalists}
    return [tested.get(name) for name in ("winner", *OTHERS)]
