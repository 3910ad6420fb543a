"""Planted answers: a check of a judge on the data set itself, with answers that are known to be right or wrong.

The right answer to a question is its reference, the wrong one the reference of another question that shares the fewest
of its words. A judge that does not score most right ones above the wrong ones cannot tell pipelines apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from ragsmith.digest import digest
from ragsmith.models.tasks import Input
from ragsmith.text.words import content_words
from ragsmith.types import Example

MAX_PLANTED = 4
"""Maximum number of questions with planted answers, each with two requests."""
MIN_ORDERED = 0.75
"""Share of the questions whose right answer has to score above the wrong one."""
MAX_COMMON_WORDS = 0.2
"""Maximum share of the words of a reference that a wrong answer may have."""

ScoreAnswers = Callable[[Sequence[tuple[int, Mapping[str, Input]]]], Sequence[float | None]]
"""Function that returns the scores of samples and inputs of the judge's task; None if a verdict failed."""


@dataclass(frozen=True, slots=True)
class PlantedCheck:
    """Of ``planted`` questions, the number whose right answer scored above the wrong one, and that of failed ones."""

    planted: int
    ordered: int
    unread: int = 0

    @property
    def is_trusted(self) -> bool:
        """Whether the judge orders enough answers."""
        return self.ordered >= MIN_ORDERED * self.planted

    def __str__(self) -> str:
        """Return the summary for output and reports."""
        unread = f", and gave no usable verdict on {self.unread}" if self.unread else ""
        return (
            f"scored the reference above the answer to another question for {self.ordered} of {self.planted} search "
            f"questions of this data set{unread}"
        )


def plant_answers(examples: Sequence[Example]) -> list[tuple[Example, str]]:
    """Return up to `MAX_PLANTED` questions with a wrong answer each, in an order that depends on their ids alone."""
    known = sorted(
        (one for one in examples if one.answerable and one.answer), key=lambda one: digest("planted", one.id)
    )
    words_of = {one.id: frozenset(content_words(one.answer)) for one in known}

    def share(example: Example, other: Example) -> float:
        own = words_of[example.id]
        return len(own & words_of[other.id]) / len(own) if own else float(other.answer == example.answer)

    pairs = ((one, min(known, key=partial(share, one))) for one in known)
    planted = ((one, other.answer) for one, other in pairs if share(one, other) <= MAX_COMMON_WORDS)
    return list(islice(planted, MAX_PLANTED))


def check_planted(planted: Sequence[tuple[Example, str]], score: ScoreAnswers) -> PlantedCheck:
    """Check a judge whose scores ``score`` returns on the answers of `plant_answers`."""
    found = score(
        [
            (0, {"question": example.question, "reference": example.answer, "answer": answer})
            for example, wrong in planted
            for answer in (example.answer, wrong)
        ]
    )
    pairs = list(zip(found[::2], found[1::2], strict=True))
    read = [(right, wrong) for right, wrong in pairs if right is not None and wrong is not None]
    return PlantedCheck(len(pairs), sum(right > wrong for right, wrong in read), len(pairs) - len(read))
