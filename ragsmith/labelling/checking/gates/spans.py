"""Evidence points at text, at its beginning and its end, and where chunks can find it."""

from __future__ import annotations

from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import View
from ragsmith.types import Span

CUT = Limit(high=0.05)
COARSE = 0.2


@gate("Does the evidence point at the text that it means?")
def spans(view: View) -> GateFinding:
    """Fail where a span points nowhere, or where more than 5 % of the spans begin or end inside a word.

    A person or a program that marks a passage marks whole words. Offsets that were counted in another text (before an
    edit, in bytes, with other line ends) still point somewhere, but mostly into words: with words of five letters two
    places in three lie inside one. So a few cut words are a matter of taste (a unit behind its number, a part of a
    compound), and many are a file whose offsets have moved. 5 % is far below what any shift makes. Only letters of
    alphabets with capitals are looked at, as other scripts may write words without a space.

    A warning says that gold is coarse: more than a fifth of the questions have a span that no chunk covers by half.
    """
    found = [(example, span) for example in view.given.examples for span in example.evidence]
    if not found:
        return not_judged("no question has evidence, so retrieval cannot be scored: mark the passages that answer")
    lost = [example.id for example in view.dataset.examples if example.evidence and not view.relevant(example)]
    sound = [(example, span) for example in view.dataset.examples for span in example.evidence]
    cut = [(example, span) for example, span in sound if _cuts(view.documents[span.doc].text, span)]
    offenders = (
        *view.broken,
        *(Offender(one, "all its evidence lies in headings, which are in no chunk") for one in lost),
        *(Offender(example.id, _shown(view.documents[span.doc].text, span)) for example, span in cut),
    )
    figure = (len(view.broken) + len(cut)) / len(found)
    said = f"{len(view.broken)} of {len(found)} spans point at no text, {len(cut)} begin or end inside a word"
    if lost:
        said += f", and all evidence of {len(lost)} questions lies in headings, which are in no chunk"
    if view.broken or lost or not CUT.holds(figure):
        advice = "offsets have moved: find the passages again; `ragsmith dataset validate` says where each text stands"
        if not view.broken and CUT.holds(figure):
            advice = "mark the text below the headings"
        return GateFinding(GateState.FAILED, said, figure, CUT, advice, offenders)
    coarse = [e.id for e in view.located if view.setup.relevance[e.id].partial]
    if len(coarse) > COARSE * len(view.located):
        said += f"; {len(coarse)} of {len(view.located)} questions have gold longer than two chunks"
        advice = "mark the sentences that answer: any part of long gold counts as found, so recall says less"
        long = tuple(Offender(one, "has a span that no chunk covers by half") for one in coarse)
        return GateFinding(GateState.WARNING, said, figure, CUT, advice, (*offenders, *long))
    return GateFinding(GateState.PASSED, said, figure, CUT, offenders=offenders)


def _cuts(text: str, span: Span) -> bool:
    return any(0 < at < len(text) and _letter(text[at - 1]) and _letter(text[at]) for at in (span.start, span.end))


def _letter(character: str) -> bool:
    return character.lower() != character.upper()


def _shown(text: str, span: Span) -> str:
    around = text[max(0, span.start - 12) : span.start], text[span.end : span.end + 12]
    begin, end = text[span.start : span.start + 20], text[max(span.start, span.end - 20) : span.end]
    return " ".join(f"cuts a word of {span.doc!r}: {around[0]}[{begin} ... {end}]{around[1]}".split())
