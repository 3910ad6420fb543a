"""Neither "yes" nor "no" is the answer to nearly all that can be answered with one of them."""

from __future__ import annotations

import re

from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.gates.position import binomial_tail
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import View
from ragsmith.text.languages import ENGLISH, UNKNOWN

LIMIT = Limit(high=0.8)
FEWEST_VERDICTS = 10
RARE = 0.05
LEVEL = 0.05

_VERDICT = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


@gate("Are yes and no both answers?", paper="arXiv 1905.10044")
def yes_no(view: View) -> GateFinding:
    """Fail where more than four in five of the answers that are yes or no are the same, and that is no chance.

    Questions are asked about what a text says, so that most answers are yes: 62 % in BoolQ (Clark et al. 2019), which
    its authors report as the baseline to beat. Above 80 % a model that always agrees is right as often as good ones
    are; the share has to be above one half beyond chance, too (one-sided binomial test, p < 0.05). Fewer than 10 such
    answers, or than 5 % of all, do not matter.
    """
    if not view.answered:
        return not_judged("no question has an answer")
    if view.given.language not in (ENGLISH, UNKNOWN):
        return not_judged(f"yes and no are known in English alone, and the documents are in {view.given.language!r}")
    verdicts = {e.id: found[1].lower() for e in view.answered if (found := _VERDICT.match(e.answer))}
    if len(verdicts) < max(FEWEST_VERDICTS, RARE * len(view.answered)):
        said = f"{len(verdicts)} of {len(view.answered)} answers are yes or no, too few to matter"
        return GateFinding(GateState.PASSED, said, None, LIMIT)
    yes = sum(verdict == "yes" for verdict in verdicts.values())
    often = "yes" if 2 * yes >= len(verdicts) else "no"
    count = max(yes, len(verdicts) - yes)
    figure = count / len(verdicts)
    said = f"{count} of {len(verdicts)} answers that are yes or no are {often} ({figure:.0%})"
    if LIMIT.holds(figure) or 2 * binomial_tail(count, len(verdicts), 0.5) >= LEVEL:
        return GateFinding(GateState.PASSED, said, figure, LIMIT)
    other = "no" if often == "yes" else "yes"
    offenders = tuple(Offender(id_, f"is answered with {often}") for id_, v in sorted(verdicts.items()) if v == often)
    advice = f"turn some of them round, so that their answer is {other}"
    return GateFinding(GateState.FAILED, said, figure, LIMIT, advice, offenders)
