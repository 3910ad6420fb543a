"""Evidence lies all over its documents, not at their beginning."""

from __future__ import annotations

from math import exp, fsum, lgamma, log, log1p

from ragsmith.labelling.checking.effects import MEDIUM_H, shifted
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import FEWEST, View
from ragsmith.reporting.charts import Columns, histogram
from ragsmith.types import Span

EARLY = 0.2
"""The part of a document that counts as its beginning."""

LEVEL = 0.01


@gate("Does the evidence lie all over the documents?", paper="arXiv 2004.14602")
def position(view: View) -> GateFinding:
    """Fail where far more evidence than chance gives lies in the first fifth of its document.

    Who writes questions reads from the top, and tires. A pipeline that prefers what comes first then looks good, and
    everybody who reads it is misled: models trained on such questions learn the position instead of the answer (Ko et
    al. 2020, "Look at the first sentence"), as summarisers learn the lead of the news (Grenander et al. 2019).

    The chance that the middle of a span of length s lies in the first fifth of a document of length L is
    (L/5 - s/2) / (L - s), if it is put down anywhere. The share may exceed the mean of these by a medium effect in the
    sense of Cohen (1988), h = 0.5, which is 0.43 where chance gives 0.20; and what exceeds it has to be beyond chance
    (one-sided binomial test, p < 0.01, which is careful where chances differ: Hoeffding 1956). A passage that many
    questions ask for counts once, and documents of up to two chunks have no beginning to speak of.
    """
    long = 2 * view.chunk_size
    sizes = {id_: len(document.text) for id_, document in view.documents.items() if len(document.text) > long}
    asking: dict[Span, str] = {}
    for example in view.located:
        for span in example.evidence:
            if span.doc in sizes:
                asking.setdefault(span, example.id)
    if len(asking) < FEWEST:
        return not_judged(
            f"{len(asking)} passages lie in documents of more than {long:,} characters, and {FEWEST} are needed"
        )
    middles = {span: (span.start + span.end) / 2 / sizes[span.doc] for span in asking}
    early = sorted((span for span, middle in middles.items() if middle < EARLY), key=lambda span: middles[span])
    chance = sum(_chance(span, sizes[span.doc]) for span in asking) / len(asking)
    figure, limit = len(early) / len(asking), Limit(high=round(shifted(chance, MEDIUM_H), 3))
    p = binomial_tail(len(early), len(asking), chance)
    said = (
        f"{len(early)} of {len(asking)} passages ({figure:.0%}) lie in the first fifth of their document; "
        f"chance gives {chance:.0%}"
    )
    offenders = tuple(
        Offender(asking[span], f"at {middles[span]:.0%} of {span.doc!r}, from character {span.start}") for span in early
    )
    counts = histogram(list(middles.values()), 10)
    chart = Columns(
        "Evidence by where in its document it lies, and what chance gives",
        tuple(f"{10 * tenth}" for tenth in range(10)),
        tuple(float(count) for count in counts),
        tuple([len(asking) / 10] * 10),
        "percent of the document before it",
    )
    if limit.holds(figure) or p >= LEVEL:
        return GateFinding(GateState.PASSED, said, figure, limit, charts=(chart,))
    advice = "ask for what stands further down: open each document in its middle and at its end"
    return GateFinding(GateState.FAILED, said, figure, limit, advice, offenders, (chart,))


def _chance(span: Span, size: int) -> float:
    length = min(span.end - span.start, size)
    if length == size:
        return 0.0
    return min(1.0, max(0.0, (EARLY * size - length / 2) / (size - length)))


def binomial_tail(hits: int, n: int, chance: float) -> float:
    """The probability of ``hits`` or more of ``n``, each with this ``chance``.

    Summed by logarithms: from a thousand passages on, the number of ways to choose them is more than a float holds.
    """
    if hits <= 0 or chance >= 1:
        return 1.0
    if hits > n or chance <= 0:
        return 0.0
    yes, no = log(chance), log1p(-chance)
    ways = (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * yes + (n - k) * no for k in range(hits, n + 1))
    return min(1.0, fsum(map(exp, ways)))
