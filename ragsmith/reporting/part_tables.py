"""What each part of a winner is worth, as tables and sentences: taken out, swapped, and together with others."""

from __future__ import annotations

from ragsmith.diagnosis.ablation import Ablation, Part
from ragsmith.diagnosis.contrasts import Estimate
from ragsmith.diagnosis.interaction import Interaction
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.reporting import numbers
from ragsmith.reporting.tables import Table, columns
from ragsmith.reporting.values import Domain
from ragsmith.reporting.wording import in_groups

ALL_TOGETHER = "all parts"

EFFECTS = (
    "Every two pipelines of the search that differ in one option alone, of which one has naive RAG's, question by "
    "question: the mean over all such pairs, the option alone in naive RAG among them. What a race dropped early "
    "counts on the questions that it answered, so large losses look a little larger than they are."
)


def explained(found: Ablation, named: str = "the winner", *, chosen: bool = True) -> str:
    """What the numbers are, and what they are not; ``chosen`` says whether search questions chose the pipeline."""
    groups = next((one.worth["fitness"].groups for one in found.outs if "fitness" in one.worth), 0)
    linked = f" in {in_groups(groups)} that hang together" if groups else ""
    asked = "" if found.part == "all" else f"{found.part} "
    biased = f" These questions chose {named}, so each part looks a little better than it is."
    return (
        f"Each part of {named} was taken out in turn, which leaves naive RAG's option there, on {found.questions} "
        f"{asked}questions{linked}. Worth is {named} less what is left, question by question: above 0 the part is "
        "worth having, and an interval that holds 0 shows nothing. Intervals are of one part by itself, not adjusted "
        f"for how many parts there are.{biased if chosen and found.part == 'search' else ''}"
    )


def outs(found: Ablation) -> Table:
    """What each part is worth against naive RAG's option."""
    return _table("What each part is worth", "Without it", found, found.outs)


def swaps(found: Ablation) -> Table:
    """What each part is worth against other options, those that would do best first."""
    order = sorted(found.swaps, key=lambda one: one.worth["fitness"].mean if "fitness" in one.worth else 1.0)
    return _table("Against other options of the space, those that do best first", "Instead of it", found, order)


def signals(found: Ablation) -> Table:
    """What each signal of a learned ranking is worth, the most first; all other weights were learned anew."""
    order = sorted(found.signals, key=lambda one: -one.worth["retrieval"].mean if "retrieval" in one.worth else 0.0)
    return _table(
        "What each signal of a learned ranking is worth, where the others are weighed anew without it",
        "Without the signal",
        found,
        order,
    )


def together(found: Ablation) -> Table:
    """What parts gain over naive RAG together, and what that would be if each added what it gains alone."""
    rows = [
        (_named(one, found), estimate(one.expected), estimate(one.observed), estimate(one.beyond))
        for one in found.interactions
    ]
    figures = ["F gained, if it adds up", "F gained", "Beyond that"]
    return Table("Parts together, over naive RAG", columns(["Parts"], figures), tuple(rows))


def effects(domain: Domain) -> Table:
    """What options gained over the run, the largest first."""
    listed = sorted(domain.effects, key=lambda one: -one.gain.mean)
    rows = tuple(
        (one.family, one.option, one.instead, estimate(one.gain), f"{one.pairs}", f"{one.gain.n}") for one in listed
    )
    marks = tuple("" if one.gain.shown else "inert" for one in listed)
    shown = columns(["Family", "Option", "Over"], ["F gained", "Pairs of pipelines", "Questions"])
    return Table("What options gained over the run, with 95 % intervals by group of questions", shown, rows, marks)


def in_words(one: Interaction) -> str:
    """Whether all parts gain what they gain alone."""
    less = "less" if one.beyond.mean < 0 else "more"
    far = numbers.plain(abs(one.beyond.mean))
    bounds = numbers.by_group(one.beyond.low, one.beyond.high)
    added = (
        f"Alone in naive RAG the parts gain {numbers.signed(one.expected.mean)} fitness, added up; together they gain "
        f"{numbers.signed(one.observed.mean)}. "
    )
    if one.beyond.shown:
        return f"{added}That is {far} {less} than they add up to {bounds}: they do not add up."
    return (
        f"{added}The difference of {numbers.signed(one.beyond.mean)} {bounds} may be chance: no interaction is shown."
    )


def estimate(found: Estimate | None) -> str:
    """A mean with its interval."""
    if found is None:
        return numbers.MISSING
    return f"{numbers.signed(found.mean)} {numbers.by_group(found.low, found.high)}"


def _named(one: Interaction, found: Ablation) -> str:
    whole = max((len(other.options) for other in found.interactions), default=0)
    if len(one.options) == whole and one is found.interactions[0]:
        return f"{ALL_TOGETHER}: {', '.join(one.options)}"
    return ", ".join(one.options)


def _table(caption: str, instead: str, found: Ablation, parts: tuple[Part, ...] | list[Part]) -> Table:
    timed = any(one.seconds is not None for one in found.parts)
    shown = [name for name in HEADLINE if any(name in one.worth for one in parts)] or ["fitness"]
    rows = []
    for one in parts:
        left = ", ".join([one.instead, *(f"with {other}" for other in one.together)])
        if one.why_not:
            blank = [numbers.MISSING] * (len(shown) + timed)
            rows.append((one.family, one.option, f"{left} ({one.why_not})", *blank, numbers.MISSING))
            continue
        saved = [numbers.signed(one.seconds, 4)] * timed
        worth = (estimate(one.worth.get(name)) for name in shown)
        rows.append((one.family, one.option, left, *worth, numbers.signed(one.calls, 1), *saved))
    marks = tuple("" if "fitness" in one.worth and one.worth["fitness"].shown else "inert" for one in parts)
    figures = [f"{HEADLINE[name]} it is worth" for name in shown]
    figures += ["Calls saved without it"] + ["Seconds saved without it"] * timed
    return Table(caption, columns(["Family", "Option", instead], figures), tuple(rows), marks)
