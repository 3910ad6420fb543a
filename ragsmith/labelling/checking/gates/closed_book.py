"""Answers cannot be given without the documents."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import FEWEST, View
from ragsmith.text.words import normalise_answer

LIMIT = Limit(high=0.1)

_CHOICE = re.compile(r"\bor\b", re.IGNORECASE)


@gate("Does it take the documents to answer the questions?", paper="arXiv 1808.04926")
def closed_book(view: View) -> GateFinding:
    """Fail where guesses that read no document are right on more than 10 % of the questions.

    Two guesses are tried, those of the question-only baselines of Kaushik and Lipton (2018): what the question says
    itself (all words of the answer stand in it; counted half where it offers a choice with "or"), and the answer that
    most other questions of the type have. A guess of "yes" or "no" is the matter of a gate of its own.

    Whatever is right without documents is right for every pipeline, and shrinks each difference between two of them in
    proportion: at 10 % a true difference of 0.030 shows as 0.027. Of SNLI two thirds fall to a classifier that never
    sees the premise (Gururangan et al. 2018): such a set measures something else.
    """
    if len(view.answered) < FEWEST:
        return not_judged(f"{len(view.answered)} questions have an answer, and {FEWEST} are needed")
    by_type: defaultdict[str, Counter[str]] = defaultdict(Counter)
    given = {example.id: normalise_answer(example.answer) for example in view.answered}
    for example in view.answered:
        by_type[example.type][given[example.id]] += 1
    right: dict[str, tuple[float, str]] = {}
    for example in view.answered:
        words = set(view.terms(example.answer))
        if words and words <= set(view.terms(example.question)) and given[example.id] not in ("yes", "no"):
            share = 0.5 if _CHOICE.search(example.question) else 1.0
            right[example.id] = share, f"the question says it: {example.answer}"
        elif given[example.id] not in ("yes", "no"):
            others = by_type[example.type] - Counter([given[example.id]])
            guess, count = max(others.items(), key=lambda pair: (pair[1], pair[0]), default=("", 0))
            if count > 1 and guess == given[example.id]:
                right[example.id] = 1.0, f"{count} other answers of type {example.type!r} are the same: {guess}"
    figure = sum(share for share, _ in right.values()) / len(view.answered)
    said = f"{figure:.0%} of {len(view.answered)} questions are answered by a guess that reads no document"
    offenders = tuple(Offender(id_, why) for id_, (_, why) in sorted(right.items(), key=lambda i: (-i[1][0], i[0])))
    if LIMIT.holds(figure):
        return GateFinding(GateState.PASSED, said, figure, LIMIT, offenders=offenders)
    advice = "take the answer out of the question, and ask for different things"
    return GateFinding(GateState.FAILED, said, figure, LIMIT, advice, offenders)
