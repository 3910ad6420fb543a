"""Advice on the next step after a test, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import stdev

from ragsmith.comparison.questions import FEWEST_GROUPS, Clusters, HoldoutUse, times
from ragsmith.comparison.verdicts import Comparison, could_show
from ragsmith.evaluation.statistics import Verdict

FEWEST_QUESTIONS = 20
"""Minimum number of questions in a data set for a held-out test."""

SIMPLE = ("bm25", "naive", "recommended", "single", "cheapest")
"""Names of alternatives to the winner; those with most evidence on other data sets come first."""

WORTH_ASKING = 3.0
"""Maximum factor of the number of questions for which writing more is advised."""

MOSTLY = 0.5
"""Minimum share of the loss on questions without retrieved evidence for advice on the embedder."""

ALIKE = 0.05
"""Differences in model calls per question up to this one are ignored: calls are shown with one digit."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The results of a test.

    ``calls`` are the model calls per question of the ``winner`` and its rivals, and ``parts`` the numbers of their
    techniques. ``by_type`` has the score differences from the first compared alternative of `SIMPLE`, by type of
    question. ``unfound`` is the share of the loss of the winner, against the best possible score, on questions for
    which nothing relevant was found.
    If a machine ``drafted`` test questions, the recommended pipeline is advised; ``recommended`` is its name in the
    comparison, or ``winner``.
    """

    comparisons: Sequence[Comparison]
    clusters: Clusters
    look: HoldoutUse | None = None
    questions: int = 0
    calls: Mapping[str, float] = field(default_factory=dict)
    by_type: Mapping[str, Sequence[float]] = field(default_factory=dict)
    unfound: float | None = None
    embedded: bool = False
    parts: Mapping[str, int] = field(default_factory=dict)
    drafted: bool = False
    recommended: str = "recommended"


@dataclass(frozen=True, slots=True)
class NextStep:
    """Advice: ``kind`` is one of write, groups, fresh, take, keep, simplify, questions or embedder."""

    kind: str
    sentence: str


def next_step(facts: Facts) -> NextStep | None:
    """Return the next step; None if nothing was compared.

    Without a test, more questions are advised; with too few groups, other documents; on spent questions, fresh ones.
    Drafted questions are no evidence for the best pipeline: the recommended one is advised unless it is shown to be
    behind. Then a rival that is shown to be better, or a winner better than all, is advised. A simpler pipeline is
    advised if the winner is not shown to be better, unless a few more questions would show it.
    """
    if not facts.clusters.questions:
        missing = max(1, FEWEST_QUESTIONS - facts.questions)
        return NextStep("write", f"Write {_more(missing, 'question')}: with {FEWEST_QUESTIONS}, some are held out.")
    compared = [one for one in facts.comparisons if one.difference is not None]
    if not compared:
        return None
    return (
        _without_power(facts, compared)
        or _by_effects(facts, compared)
        or _shown(facts, compared)
        or _open(facts, compared)
    )


def _without_power(facts: Facts, compared: Sequence[Comparison]) -> NextStep | None:
    groups = max(one.difference.groups for one in compared if one.difference)
    if groups < FEWEST_GROUPS:
        places = "documents" if facts.clusters.unit == "document" else "documents or sections"
        return NextStep(
            "groups",
            f"Ask about other {places}: questions in {_more(FEWEST_GROUPS - groups, 'group')} are the least with which "
            "anything can be shown.",
        )
    if facts.look and not could_show(groups, len(facts.comparisons), facts.look.number):
        return NextStep(
            "fresh",
            f"Take fresh test questions: these were looked at {times(facts.look.earlier)} before, and nothing could "
            "be shown on them any more.",
        )
    return None


def _by_effects(facts: Facts, compared: Sequence[Comparison]) -> NextStep | None:
    """Advise the recommended pipeline if a machine drafted questions, unless the winner is shown to be better."""
    if not facts.drafted:
        return None
    if facts.recommended == "winner":
        return NextStep("take", "Use the winner: it is the recommended pipeline, and a machine drafted test questions.")
    rival = next((one for one in compared if one.name == facts.recommended), None)
    if rival is None or rival.verdict is Verdict.BETTER:
        return None
    named = "the recommended pipeline" + f", {rival.against}" * (rival.name != "recommended")
    return NextStep(
        "take",
        f"Use {named}: a machine drafted test questions, and it is not shown to be behind on them. `ragsmith "
        "export --pick recommended` writes it.",
    )


def _shown(facts: Facts, compared: Sequence[Comparison]) -> NextStep | None:
    for one in compared:
        if one.verdict is Verdict.WORSE:
            return NextStep("take", f"Take {one.against}: the winner is shown to be worse.")
    if all(one.verdict is Verdict.BETTER for one in compared):
        return NextStep("take", "Take the winner: it is better than everything that it was compared with.")
    return None


def _open(facts: Facts, compared: Sequence[Comparison]) -> NextStep:
    simple = [one for name in SIMPLE for one in compared if one.name == name and one.verdict is not Verdict.BETTER]
    if not simple:
        named = " and ".join(one.against for one in compared if one.verdict is Verdict.BETTER)
        return NextStep("take", f"Take the winner: it is better than {named}.")
    rival = _first(simple, facts)
    assert rival.difference is not None
    ahead = rival.difference.mean_difference > 0
    if ahead and rival.more_questions is not None and rival.more_questions <= WORTH_ASKING * rival.difference.n:
        places = _more(rival.more_groups or 1, "group")
        return NextStep(
            "questions",
            f"Write {_more(rival.more_questions, 'question')}{_of_type(facts)}, in {places} of documents or sections: "
            f"they would show what was seen over {rival.against}, if it is true.",
        )
    limit = _limit(facts)
    saved = facts.calls.get("winner", 0.0) - facts.calls.get(rival.name, 0.0)
    more_or_fewer = "more" if saved > 0 else "fewer"
    saves = f", and asks {abs(saved):.1f} {more_or_fewer} model calls a question" if abs(saved) > ALIKE else ""
    assert rival.excluded is not None
    same = "scores the same on each question" if rival.difference.nonzero == 0 else ""
    loses = f"the winner {same or f'is at most {rival.excluded[1]:.3f} better (95 %, by itself)'}{saves}"
    if limit and rival.name in ("bm25", "naive"):
        return NextStep("embedder", f"Use {rival.against} ({loses}), and {limit}.")
    if rival.name in ("bm25", "naive"):
        kind, verb = "keep", "Use"
    else:
        kind, verb = ("simplify", "Simplify: take") if _simpler(rival.name, saved, facts) else ("take", "Take")
    return NextStep(kind, f"{verb} {rival.against}: {loses}.")


def _first(simple: Sequence[Comparison], facts: Facts) -> Comparison:
    """Return the first alternative, or the recommended pipeline if it is ahead of it with no more model calls."""
    first = simple[0]
    other = next((one for one in simple if one.name == "recommended"), first)
    assert first.difference is not None
    assert other.difference is not None
    is_ahead = other.difference.mean_difference < first.difference.mean_difference  # differences are winner minus rival
    asks_more = facts.calls.get(other.name, 0.0) > facts.calls.get(first.name, 0.0) + ALIKE
    return other if is_ahead and not asks_more else first


def _simpler(name: str, saved: float, facts: Facts) -> bool:
    """Return whether a rival has fewer model calls, or fewer parts and no more calls."""
    fewer = facts.parts.get(name, 0) < facts.parts.get("winner", 0)
    return saved > ALIKE or (fewer and saved >= -ALIKE)


def _limit(facts: Facts) -> str:
    """Advise another embedder if most of the loss is on questions for which nothing relevant is found."""
    if facts.unfound is None or facts.unfound <= MOSTLY:
        return ""
    what = "a better embedder than the embedded one" if facts.embedded else "another embedder"
    return f"try {what}: most of what is missing is missing where nothing relevant is found"


def _of_type(facts: Facts) -> str:
    """Return the type that adds most to the error, by number times standard deviation (Neyman 1934)."""
    able = {kind: each for kind, each in facts.by_type.items() if len(each) > 1}
    if len(able) < 2:
        return ""
    widest = max(sorted(able), key=lambda kind: len(able[kind]) * stdev(able[kind]))
    return f", most of type {widest}" if stdev(able[widest]) else ""


def _more(number: int, noun: str) -> str:
    return f"{number:,} more {noun}{'' if number == 1 else 's'}"
