"""No question is asked twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from math import ceil

from ragsmith.datasets.relevance import overlap
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import View
from ragsmith.text.words import normalise_answer
from ragsmith.types import Example

ALIKE = 0.8
"""Jaccard coefficient of two questions' words from which on they are the same question."""

LIMIT = Limit(high=0.05)


@gate("Is each question asked once?", paper="arXiv 2107.06499")
def duplicates(view: View) -> GateFinding:
    """Fail where more than 5 % of the questions repeat an earlier one.

    Two questions are one if they have the same wording, or if the sets of their words have a Jaccard coefficient of 0.8
    or more (the threshold of Lee et al. 2022, "Deduplicating training data makes language models better") and they
    share gold, or their answer. The same wording with other gold counts, too: such a question has two right answers,
    and none of them is marked in full.

    A repeated question is no second observation, but every interval and test takes it for one: a share r of repeats
    narrows intervals by about r, as the variance of the mean is 1 + 2r times what it seems. At 5 % that is less than
    what is rounded off where intervals are shown.
    """
    examples = view.given.examples
    if not examples:
        return not_judged("there are no questions")
    repeats = list(_repeats(view, examples))
    figure = len(repeats) / len(examples)
    said = f"{len(repeats)} of {len(examples)} questions repeat an earlier one"
    if LIMIT.holds(figure):
        return GateFinding(GateState.PASSED, said, figure, LIMIT, offenders=tuple(repeats))
    advice = "keep one of each, or make the wording say which document it asks of"
    return GateFinding(GateState.FAILED, said, figure, LIMIT, advice, tuple(repeats))


def _repeats(view: View, examples: tuple[Example, ...]) -> Iterator[Offender]:
    """Each question that repeats an earlier one, and that one.

    Only the rarest words of a question are looked up: two sets of n words with a Jaccard coefficient of 0.8 share one
    of the n - 0.8 n + 1 rarest (prefix filtering, Chaudhuri et al. 2006).
    """
    asked = [frozenset(view.terms(example.question)) for example in examples]
    count = Counter(term for terms in asked for term in terms)
    first: dict[str, Example] = {}
    holding: defaultdict[str, list[int]] = defaultdict(list)
    for place, (example, terms) in enumerate(zip(examples, asked, strict=True)):
        wording = " ".join(example.question.casefold().split())
        rarest = sorted(terms, key=lambda term: (count[term], term))[: len(terms) - ceil(ALIKE * len(terms)) + 1]
        if wording in first:
            yield Offender(example.id, f"is worded as {first[wording].id} is")
        else:
            near = sorted({other for term in rarest for other in holding[term]})
            same = (o for o in near if _jaccard(terms, asked[o]) >= ALIKE and _same(example, examples[o]))
            if (found := next(same, None)) is not None:
                yield Offender(example.id, f"asks what {examples[found].id} asks: {example.question}")
        first.setdefault(wording, example)
        for term in rarest:
            holding[term].append(place)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0


def _same(one: Example, other: Example) -> bool:
    """Whether two questions share gold, or their answer where there is none."""
    if one.evidence and other.evidence:
        return any(overlap(a, b) for a in one.evidence for b in other.evidence)
    return bool(one.answer) and normalise_answer(one.answer) == normalise_answer(other.answer)
