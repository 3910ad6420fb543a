"""What is marked as gold stands nowhere else, unmarked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import View
from ragsmith.text.words import words

SHINGLE = 5
"""Words in a row that are compared."""

FEWEST_WORDS = 8
"""Words of a span below which it may well stand elsewhere by chance."""

CONTAINED = 0.8
"""Share of a span's shingles from which on a chunk holds a copy of it."""

LIMIT = Limit(high=0.05)

Shingle = tuple[str, ...]


@gate(
    "Is every copy of the evidence marked?",
    paper="Zobel (1998), How reliable are the results of large-scale information retrieval experiments?",
)
def copies(view: View) -> GateFinding:
    """Fail where the evidence of more than 5 % of the questions stands in a chunk that is not marked, too.

    Whoever finds the other copy is right, and is scored as wrong: relevant text that nobody judged (Zobel 1998; for
    sparse labels Arabzadeh et al. 2022), of the kind that a program can see. A chunk holds a copy if it contains four
    fifths of the runs of five words of a span (Broder's containment, 1997). With 5 % of the questions the largest
    difference between two pipelines that copies can feign is 0.05, and only if each finds another copy for every one
    of them.
    """
    asked = [
        (example, [shingles(view.text(span)) for span in example.evidence]) for example in view.located
    ]  # one set for each span
    asked = [(example, [found for found in sets if found]) for example, sets in asked]
    judged = [(example, sets) for example, sets in asked if sets]
    if not judged:
        return not_judged(f"no evidence has {FEWEST_WORDS} words or more, so that a copy could be told from chance")
    holding = _holding(view, {one for _, sets in judged for found in sets for one in found})
    offenders = []
    for example, sets in judged:
        relevant = view.relevant(example)
        elsewhere = [c for found in sets for c in _containing(found, holding) if view.chunks[c].id not in relevant]
        if elsewhere:
            offenders.append(Offender(example.id, f"its evidence stands in {view.chunks[elsewhere[0]].id}, too"))
    figure = len(offenders) / len(judged)
    said = f"the evidence of {len(offenders)} of {len(judged)} questions stands in a chunk that is not marked, too"
    if LIMIT.holds(figure):
        return GateFinding(GateState.PASSED, said, figure, LIMIT, offenders=tuple(offenders))
    advice = "take out the copies of documents, or mark each copy as evidence"
    return GateFinding(GateState.FAILED, said, figure, LIMIT, advice, tuple(offenders))


def shingles(text: str) -> frozenset[Shingle]:
    """The runs of five words of a text; none of a text with fewer than eight."""
    listed = words(text)
    if len(listed) < FEWEST_WORDS:
        return frozenset()
    return frozenset(tuple(listed[at : at + SHINGLE]) for at in range(len(listed) - SHINGLE + 1))


def _holding(view: View, wanted: set[Shingle]) -> dict[Shingle, list[int]]:
    """The places of the chunks that hold each of the ``wanted`` shingles."""
    found: defaultdict[Shingle, list[int]] = defaultdict(list)
    for place, chunk in enumerate(view.chunks):
        for one in shingles(chunk.text) & wanted:
            found[one].append(place)
    return found


def _containing(found: frozenset[Shingle], holding: dict[Shingle, list[int]]) -> Sequence[int]:
    count: defaultdict[int, int] = defaultdict(int)
    for one in found:
        for place in holding.get(one, ()):
            count[place] += 1
    return sorted(place for place, shared in count.items() if shared >= CONTAINED * len(found))
