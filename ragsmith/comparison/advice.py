"""Advice on the next step after a test, in one sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import stdev

from ragsmith.comparison.questions import MIN_GROUPS, Clusters, HoldoutUse, format_times
from ragsmith.comparison.verdicts import Comparison, can_be_significant
from ragsmith.evaluation.statistics import Verdict

MIN_TEST_QUESTIONS = 20
"""Minimum number of questions in a data set for a held-out test."""

SIMPLE_RIVALS = ("bm25", "naive", "recommended", "single", "cheapest")
"""Names of alternatives to the winner; those with most evidence on other data sets come first."""

MAX_MORE_FACTOR = 3.0
"""Maximum factor of the number of questions for which writing more is advised."""

MIN_UNFOUND_SHARE = 0.5
"""Minimum share of the loss on questions without retrieved evidence for advice on the embedder."""

CALL_TOLERANCE = 0.05
"""Differences in model calls per question up to this one are ignored: calls are shown with one digit."""


@dataclass(frozen=True, slots=True)
class ComparisonFacts:
    """The results of a test.

    ``calls`` are the model calls per question of the ``winner`` and its rivals, and ``parts`` the numbers of their
    techniques. ``by_type`` has the score differences from the first compared alternative of `SIMPLE_RIVALS`, by type of
    question. ``unfound`` is the share of the loss of the winner, against the best possible score, on questions for
    which nothing relevant was found.
    If a machine ``drafted`` test questions, the recommended pipeline is advised; ``recommended`` is its name in the
    comparison, or ``winner``, and "" if it is unknown.
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
    """Advice: ``kind`` is one of write, groups, fresh, untested, take, keep, simplify, questions or embedder.

    ``take`` is the role of the pipeline to take, such as ``winner`` or ``bm25``, and ``reason`` says why.
    """

    kind: str
    sentence: str
    take: str = "winner"
    reason: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether the test was able to show something about the pipeline to take."""
        return self.kind not in ("write", "groups", "fresh", "untested")


def role_to_take(step: NextStep | None) -> str:
    """Return the role of the pipeline to take: the winner, unless the next step takes another."""
    return step.take if step else "winner"


def recommend(facts: ComparisonFacts) -> NextStep | None:
    """Return the next step; None if nothing was compared.

    Without a test, more questions are advised; with too few groups, other documents; on spent questions, fresh ones.
    Until then the recommended pipeline is to be taken, as it is learned from more questions, of other data sets, unless
    the interval of the winner's lead over it is above 0.
    Drafted questions are no evidence for the best pipeline: the recommended one is advised unless it is shown to be
    behind. Then a rival that is shown to be better, or a winner better than all, is advised. A simpler pipeline is
    advised if the winner is not shown to be better, unless a few more questions would show it.
    """
    if not facts.clusters.questions:
        missing = max(1, MIN_TEST_QUESTIONS - facts.questions)
        return NextStep(
            "write",
            f"Write {_format_more(missing, 'question')}: with {MIN_TEST_QUESTIONS}, some are held out.",
            *_take_learned(facts, "no question is held out to show that the winner is better"),
        )
    compared = [one for one in facts.comparisons if one.difference is not None]
    if not compared:
        return None
    return (
        _advise_without_power(facts, compared)
        or _advise_recommended(facts, compared)
        or _advise_significant(facts, compared)
        or _advise_inconclusive(facts, compared)
    )


def _advise_without_power(facts: ComparisonFacts, compared: Sequence[Comparison]) -> NextStep | None:
    groups = max(one.difference.groups for one in compared if one.difference)
    if groups < MIN_GROUPS:
        places = "documents" if facts.clusters.unit == "document" else "documents or sections"
        return NextStep(
            "groups",
            f"Ask about other {places}: questions in {_format_more(MIN_GROUPS - groups, 'group')} are the least with "
            "which anything can be shown.",
            *_take_learned(facts, "so few questions cannot show that the winner is better"),
        )
    if facts.look and not can_be_significant(groups, len(facts.comparisons), facts.look.number):
        return NextStep(
            "fresh",
            f"Take fresh test questions: these were looked at {format_times(facts.look.earlier)} before, and nothing "
            "could be shown on them any more.",
            *_take_learned(facts, "these questions cannot show any more that the winner is better"),
        )
    return None


def _take_learned(facts: ComparisonFacts, lacks: str) -> tuple[str, str]:
    """Return the role to take where the test shows nothing, and why.

    It is that of the recommended pipeline, unless that is unknown or the interval of the winner's lead is above 0.
    """
    if facts.recommended in ("", "winner"):
        also = ", and is the best by effects learned on other data sets" if facts.recommended else ""
        return "winner", f"it was chosen on the search questions{also}, but {lacks}"
    rival = next((one.difference for one in facts.comparisons if one.name == facts.recommended), None)
    if rival and rival.low > 0:
        return (
            "winner",
            f"its lead over the recommended pipeline, {rival.mean_difference:.3f}, is above 0 in its 95 % "
            f"interval, but {lacks}",
        )
    return facts.recommended, f"{lacks}, and this one is the best by effects learned on other data sets"


def _advise_recommended(facts: ComparisonFacts, compared: Sequence[Comparison]) -> NextStep | None:
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
        f"Use {named}: a machine drafted test questions, and it is not shown to be behind on them.",
        rival.name,
    )


def _advise_significant(facts: ComparisonFacts, compared: Sequence[Comparison]) -> NextStep | None:
    for one in compared:
        if one.verdict is Verdict.WORSE:
            return NextStep("take", f"Take {one.against}: the winner is shown to be worse.", one.name)
    if all(one.verdict is Verdict.BETTER for one in compared):
        return NextStep("take", "Take the winner: it is better than everything that it was compared with.")
    return None


def _advise_inconclusive(facts: ComparisonFacts, compared: Sequence[Comparison]) -> NextStep:
    simple = [
        one for name in SIMPLE_RIVALS for one in compared if one.name == name and one.verdict is not Verdict.BETTER
    ]
    if not simple:
        named = " and ".join(one.against for one in compared if one.verdict is Verdict.BETTER)
        return NextStep("take", f"Take the winner: it is better than {named}.")
    rival = _first_alternative(simple, facts)
    assert rival.difference is not None
    ahead = rival.difference.mean_difference > 0
    if ahead and rival.more_questions is not None and rival.more_questions <= MAX_MORE_FACTOR * rival.difference.n:
        places = _format_more(rival.more_groups or 1, "group")
        return NextStep(
            "questions",
            f"Write {_format_more(rival.more_questions, 'question')}{_describe_type(facts)}, in {places} of documents "
            f"or sections: they would show what was seen over {rival.against}, if it is true.",
            reason=f"it is {rival.difference.mean_difference:.3f} ahead of {rival.against}, which is not shown yet",
        )
    limit = _advise_embedder(facts)
    saved = facts.calls.get("winner", 0.0) - facts.calls.get(rival.name, 0.0)
    more_or_fewer = "more" if saved > 0 else "fewer"
    saves = f", and asks {abs(saved):.1f} {more_or_fewer} model calls a question" if abs(saved) > CALL_TOLERANCE else ""
    assert rival.excluded is not None
    same = "scores the same on each question" if rival.difference.nonzero == 0 else ""
    behind = f"is not shown to be better (its lead is {rival.excluded[1]:.3f} at most, 95 %)"
    loses = f"the winner {same or behind}{saves}"
    if limit and rival.name in ("bm25", "naive"):
        return NextStep("embedder", f"Use {rival.against} ({loses}), and {limit}.", rival.name, loses)
    if rival.name in ("bm25", "naive"):
        kind, verb = "keep", "Use"
    else:
        kind, verb = ("simplify", "Simplify: take") if _is_simpler(rival.name, saved, facts) else ("take", "Take")
    return NextStep(kind, f"{verb} {rival.against}: {loses}.", rival.name)


def _first_alternative(simple: Sequence[Comparison], facts: ComparisonFacts) -> Comparison:
    """Return the first alternative, or the recommended pipeline if it is ahead of it with no more model calls."""
    first = simple[0]
    other = next((one for one in simple if one.name == "recommended"), first)
    assert first.difference is not None
    assert other.difference is not None
    is_ahead = other.difference.mean_difference < first.difference.mean_difference  # differences are winner minus rival
    asks_more = facts.calls.get(other.name, 0.0) > facts.calls.get(first.name, 0.0) + CALL_TOLERANCE
    return other if is_ahead and not asks_more else first


def _is_simpler(name: str, saved: float, facts: ComparisonFacts) -> bool:
    """Return whether a rival has fewer model calls, or fewer parts and no more calls."""
    fewer = facts.parts.get(name, 0) < facts.parts.get("winner", 0)
    return saved > CALL_TOLERANCE or (fewer and saved >= -CALL_TOLERANCE)


def _advise_embedder(facts: ComparisonFacts) -> str:
    """Advise another embedder if most of the loss is on questions for which nothing relevant is found."""
    if facts.unfound is None or facts.unfound <= MIN_UNFOUND_SHARE:
        return ""
    what = "a better embedder than the embedded one" if facts.embedded else "another embedder"
    return f"try {what}: most of what is missing is missing where nothing relevant is found"


def _describe_type(facts: ComparisonFacts) -> str:
    """Return the type that adds most to the error, by number times standard deviation (Neyman 1934)."""
    able = {kind: each for kind, each in facts.by_type.items() if len(each) > 1}
    if len(able) < 2:
        return ""
    widest = max(sorted(able), key=lambda kind: len(able[kind]) * stdev(able[kind]))
    return f", most of type {widest}" if stdev(able[widest]) else ""


def _format_more(number: int, noun: str) -> str:
    return f"{number:,} more {noun}{'' if number == 1 else 's'}"
