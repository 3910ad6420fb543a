"""The tables across data sets: the test pooled, what options gain and whether the sign is the same, and transfers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragsmith.diagnosis.pooling import Pooled
from ragsmith.diagnosis.transfer import Transferred
from ragsmith.reporting import numbers
from ragsmith.reporting.across import Across, PooledEffect, Tested
from ragsmith.reporting.part_tables import estimate
from ragsmith.reporting.tables import Table, columns
from ragsmith.reporting.values import TITLES, Domain

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

TRANSFERS = {
    "search": (
        "What the winner of each data set, a row, does on the search questions of another, a column: its F, what the "
        "winner there is ahead by, and its place among the pipelines of the search there. These questions chose the "
        "winner that is at home, so it looks a little further ahead than it is."
    ),
    "test": (
        "The same on test questions, which chose nobody. They were answered by pipelines from elsewhere for this, and "
        "nothing is claimed of it."
    ),
}

LISTED = 15
"""Effects that are shown at once; the others are folded."""

ASK = "Nobody has asked for transfers: `ragsmith transfer DATASET...` evaluates each winner on the other data sets."


def tested(found: Across, domains: Sequence[Domain]) -> Table:
    """The winners against each rival, data set by data set and pooled."""
    names = [domain.about.dataset for domain in domains]
    rows = []
    for one in found.tested:
        cells = (estimate(one.each.get(name)) for name in names)
        rows.append((f"against {one.against}", *cells, pooled(one.pooled), _signs(one.pooled)))
    figures = [*names, "Pooled", "Same sign"]
    return Table("Test questions: difference in F, with 95 % interval", columns(["Winner"], figures), tuple(rows))


def in_words(one: Tested) -> str:
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


def effects(found: Sequence[PooledEffect], domains: Sequence[Domain], *, rest: bool = False) -> Table:
    """What options gain, data set by data set and pooled."""
    names = [domain.about.dataset for domain in domains]
    rows = []
    for one in found:
        gains = (numbers.signed(its.gain.mean) if (its := one.each.get(name)) else numbers.MISSING for name in names)
        between = numbers.plain(one.pooled.between if one.pooled else None)
        rows.append((one.family, one.option, pooled(one.pooled), _signs(one.pooled), between, *gains))
    marks = tuple("" if one.pooled is not None and one.pooled.shown else "inert" for one in found)
    shown = columns(["Family", "Option"], ["Pooled", "Same sign", "Between sets, sd", *names])
    caption = "What the other options gain in F" if rest else "What options gain in F, the largest first"
    return Table(caption, shown, tuple(rows), marks)


def transfers(found: Across, domains: Sequence[Domain], part: str) -> Table:
    """A row for the winner of each data set, and for the baselines; a column for each data set it is asked on."""
    names = [domain.about.dataset for domain in domains]
    known = {(one.source, one.target): one for one in found.transfers if one.part == part}
    rows = []
    for name in names:
        rows.append((f"winner of {name}", *(_cell(known.get((name, target))) for target in names)))
    for baseline in ("naive", "bm25"):
        rows.append((TITLES[baseline], *_baseline(domains, baseline, part)))
    caption = f"{part.capitalize()} questions: F (behind the winner there), place in the search there"
    marks = (*("" for _ in names), "baseline", "baseline")
    return Table(caption, columns(["Pipeline"], [f"on {name}" for name in names]), tuple(rows), marks)


def pooled(found: Pooled | None) -> str:
    """A pooled mean with its interval."""
    if found is None:
        return numbers.MISSING
    return f"{numbers.signed(found.mean)} {numbers.interval(found.low, found.high, sign=True)}"


def _signs(found: Pooled | None) -> str:
    if found is None:
        return numbers.MISSING
    unchanged = f", {found.unchanged} unchanged" if found.unchanged else ""
    return f"{found.agree} of {found.datasets}{unchanged}"


def _cell(one: Transferred | None) -> str:
    if one is None:
        return numbers.MISSING
    place = "" if one.place is None else f", {one.place} of {one.of}"
    behind = "at home" if one.source == one.target else numbers.signed(-one.regret)
    return f"{numbers.plain(one.fitness)} ({behind}){place}"


def _baseline(domains: Sequence[Domain], name: str, part: str) -> Iterator[str]:
    for domain in domains:
        row = domain.baselines.get(name)
        own = domain.winner
        if part == "test":
            tests = {finalist.name: finalist.test for finalist in domain.finalists if not domain.folds}
            row, own = tests.get(name), tests.get("winner")
        if row is None or own is None or "fitness" not in row.scores or "fitness" not in own.scores:
            yield numbers.MISSING
            continue
        fitness = row.scores["fitness"].mean
        yield f"{numbers.plain(fitness)} ({numbers.signed(fitness - own.scores['fitness'].mean)})"
