"""Single questions as the report shows them: why they fail, examples in full, and every question in a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragsmith.diagnosis.causes import MEANINGS, REMEDIES, Cause
from ragsmith.reporting import numbers
from ragsmith.reporting.tables import Table, columns
from ragsmith.reporting.values import TITLES, Asked, CauseCounts, Domain, Replied, Shown, Treated

WHY: Mapping[str, str] = {
    "gained": "Gained most against naive RAG",
    "lost": "Lost most against naive RAG",
    "wrong": "Where the winner is worst",
}

EXPLAIN = "`ragsmith explain winner.yaml {id}` prints the whole way of one question; each stands here with its id."

LISTED = 100
"""Questions of the list that are shown at once."""

EXPLAINED = (
    "Every question with the fitness that winner and naive RAG have on it, and what first went wrong on the winner's "
    "way. Those that the winner changed most stand first."
)


@dataclass(frozen=True, slots=True)
class Example:
    """A question in full: what was asked, what is right, and what two pipelines read and answered."""

    asked: Asked
    shown: Shown

    @property
    def sides(self) -> tuple[tuple[str, Treated | None, Replied], ...]:
        """Winner and naive RAG."""
        return (
            (TITLES["winner"], self.asked.winner, self.shown.winner),
            (TITLES["naive"], self.asked.naive, self.shown.naive),
        )


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples of one kind."""

    title: str
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True)
class QuestionList:
    """Every question, those that the winner changed most first; ``listed`` of them are shown at once."""

    asked: tuple[Asked, ...]
    listed: int = LISTED

    @property
    def types(self) -> list[str]:
        """The types of question, by the alphabet."""
        return sorted({one.type for one in self.asked if one.type})

    @property
    def splits(self) -> list[str]:
        """The parts of the questions that there are."""
        return list(dict.fromkeys(one.split for one in self.asked))

    @property
    def causes(self) -> list[str]:
        """What became of questions in the winner, in the order of `Cause`."""
        found = {one.winner.cause for one in self.asked if one.winner}
        return [cause.value for cause in Cause if cause.value in found]

    @property
    def table(self) -> Table:
        """The first of them, for forms without filters."""
        rows = tuple(cells(one) for one in self.asked[: self.listed])
        said = f"The {len(rows)} questions that the winner changed most" if len(rows) < len(self.asked) else "Questions"
        return Table(said, columns(HEAD, FIGURES), rows)


HEAD = ("Question", "Type", "Split", "In the winner")
FIGURES = ("F, winner", "F, naive RAG", "Change")


def cells(asked: Asked) -> tuple[str, ...]:
    """A question as a row of the list."""
    winner, naive = (
        numbers.plain(one.scores.get("fitness") if one else None, 2) for one in (asked.winner, asked.naive)
    )
    cause = asked.winner.cause if asked.winner else ""
    said = asked.text or asked.question
    return said, asked.type, asked.split, cause, winner, naive, numbers.signed(asked.gain, 2)


def examples(domain: Domain) -> tuple[Examples, ...]:
    """The questions that are shown in full: those that gained most, those that lost most, and the worst."""
    asked = {one.question: one for one in domain.questions.asked}
    found = []
    for why, title in WHY.items():
        chosen = [Example(asked[one.question], one) for one in domain.questions.shown if one.why == why]
        if chosen:
            found.append(Examples(title, tuple(chosen)))
    return tuple(found)


def question_list(domain: Domain) -> QuestionList | None:
    """Every question, if anything is known of one."""
    known = [one for one in domain.questions.asked if one.winner or one.naive]
    ordered = sorted(known, key=lambda one: (-abs(one.gain or 0.0), one.split, one.question))
    return QuestionList(tuple(ordered)) if ordered else None


def causes(domain: Domain) -> Table:
    """What became of the questions, by pipeline and split; what may help stands beside each cause."""
    by_pipeline: dict[str, list[CauseCounts]] = {}
    for counts in domain.questions.causes:
        by_pipeline.setdefault(counts.pipeline, []).append(counts)
    shown = [cause for cause in Cause if any(cause.value in counts.counts for counts in domain.questions.causes)]
    rows = tuple(
        (
            cause.value,
            *(" + ".join(f"{counts.counts.get(cause.value, 0)}" for counts in each) for each in by_pipeline.values()),
            MEANINGS[cause],
            REMEDIES.get(cause, ""),
        )
        for cause in shown
    )
    figures = [f"{TITLES[name]}, {' + '.join(str(counts.n) for counts in each)}" for name, each in by_pipeline.items()]
    heads = (*columns(["What became of it"], figures), *columns(["That is", "What may help"]))
    splits = " + ".join(dict.fromkeys(counts.split for counts in domain.questions.causes))
    return Table(f"Questions ({splits}) by what first went wrong on their way", heads, rows)


def repairs(domain: Domain) -> Table:
    """Which option turned how many questions from wrong to right, and from right to wrong."""
    rows = []
    for one in domain.questions.repairs:
        what = {
            "whole": "naive RAG to the winner",
            "alone": f"{one.family} {one.option} alone in naive RAG",
            "out": f"{one.family} {one.option} put into the winner",
        }[one.view]
        gone = ", ".join(f"{n} {cause}" for cause, n in one.repaired.items()) or numbers.MISSING
        rows.append((what, gone, f"{sum(one.repaired.values())}", f"{sum(one.broken.values())}", f"{one.compared}"))
    shown = columns(["What changed", "What was wrong before"], ["Repaired", "Broken", "Questions"])
    return Table("Search questions that a change repaired or broke", shown, tuple(rows))


def interventions(domain: Domain) -> Table:
    """What the scores would be with the gold passages put in, or everything else taken out."""
    rows = tuple(
        (
            TITLES[one.pipeline],
            one.what,
            *(numbers.plain(value) for value in (one.fitness, one.retrieval, one.generation)),
            f"{one.changed}",
            f"{one.n} {one.split}",
        )
        for one in domain.questions.interventions
    )
    shown = columns(["Pipeline", "Passages"], ["F", "R", "G", "Changed", "Questions"])
    return Table("With the gold passages put in or the others taken out: what the generator could do", shown, rows)
