"""Gates of shortcuts: evidence and answers are not found without reading the text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from math import asin, exp, fsum, lgamma, log, log1p, pi, sin, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ragsmith.datasets.relevance import Relevance
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, judged, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import MIN_COUNT, DatasetView
from ragsmith.reporting.charts import Columns, ForestPlot, ForestRow, histogram
from ragsmith.text.languages import ENGLISH, UNKNOWN
from ragsmith.text.words import normalise_answer
from ragsmith.types import Chunk, Span

MEDIUM_H = 0.5
"""Difference of two shares p and q as h = 2 asin(sqrt(p)) - 2 asin(sqrt(q))."""

MEDIUM_AUC = 0.14
"""What a shift of half a standard deviation (d = 0.5) adds to the 0.50 that a pair is in order by chance."""


def shifted(share: float, h: float) -> float:
    """The share that is ``h`` above ``share``, at most 1."""
    angle = min(pi / 2, asin(sqrt(share)) + h / 2)
    return sin(angle) ** 2


EARLY = 0.2
"""The part of a document that counts as its beginning."""

LEVEL = 0.01


def tenths(title: str, shares: Sequence[float], across: str, expected: tuple[float, ...] = ()) -> Columns:
    """A chart of how many of ``shares``, from 0 to 1, are in each tenth."""
    counts = tuple(float(count) for count in histogram(shares, 10))
    return Columns(title, tuple(f"{10 * tenth}" for tenth in range(10)), counts, expected, across)


@gate("Does the evidence lie all over the documents?", paper="arXiv 2004.14602")
def position(view: DatasetView) -> GateFinding:
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
    if len(asking) < MIN_COUNT:
        return not_judged(
            f"{len(asking)} passages lie in documents of more than {long:,} characters, and {MIN_COUNT} are needed"
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
    chart = tenths(
        "Evidence by where in its document it lies, and what chance gives",
        list(middles.values()),
        "percent of the document before it",
        (len(asking) / 10,) * 10,
    )
    advice = "ask for what stands further down: open each document in its middle and at its end"
    passed = limit.holds(figure) or p >= LEVEL
    return judged(said, figure, limit, advice, offenders, (chart,), passed=passed)


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


FEWEST_CHUNKS = 3
"""Chunks of a document from which on one of them can be the longest."""


@gate("Does evidence lie in short chunks as well as in long ones?", paper="arXiv 1803.02324")
def length(view: DatasetView) -> GateFinding:
    """Fail where gold chunks are longer than the others of their document by a medium effect.

    The figure is the AUC of "the longer chunk is gold" within a document: how often a gold chunk is longer than another
    one, ties counted half. Text that is put down anywhere lies in a long chunk more often than in a short one, so that
    chance gives more than 0.50: the mean with chunks drawn in proportion to their length. What is found may exceed that
    by 0.14, which is d = 0.5 of Cohen (1988), and has to be beyond chance (one-sided, p < 0.01, normal approximation).
    Gururangan et al. (2018) find length among what gives the labels of annotated sets away.
    """
    gold: dict[str, str] = {}
    for example in view.located:
        for relevant in view.relevant(example):
            gold.setdefault(relevant, example.id)
    found: list[tuple[float, Chunk]] = []
    mean = spread = 0.0
    for chunks in view.chunks_of.values():
        if len(chunks) < FEWEST_CHUNKS:
            continue
        lengths = [len(chunk.text) for chunk in chunks]
        ordered = sorted(lengths)
        above = [_rank(one, ordered) for one in lengths]
        weights = [one / sum(lengths) for one in lengths]
        expected = sum(w * r for w, r in zip(weights, above, strict=True))
        variance = sum(w * (r - expected) ** 2 for w, r in zip(weights, above, strict=True))
        for chunk, rank in zip(chunks, above, strict=True):
            if chunk.id in gold:
                found.append((rank, chunk))
                mean += expected
                spread += variance
    places = [rank for rank, _ in found]
    if len(places) < MIN_COUNT:
        return not_judged(
            f"{len(places)} gold chunks lie in documents of {FEWEST_CHUNKS} chunks or more, and {MIN_COUNT} are needed"
        )
    figure, chance = sum(places) / len(places), mean / len(places)
    limit = Limit(high=round(chance + MEDIUM_AUC, 3))
    p = 1 - NormalDist().cdf((figure - chance) * len(places) / sqrt(spread)) if spread else 1.0
    said = f"a gold chunk is longer than another of its document in {figure:.0%} of pairs; chance gives {chance:.0%}"
    chart = tenths(
        "Gold chunks by the share of their document's chunks that are shorter",
        places,
        "percent of the other chunks that are shorter",
    )
    longest = sorted(found, key=lambda pair: (-pair[0], pair[1].id))
    offenders = tuple(
        Offender(gold[chunk.id], f"{chunk.id}, {len(chunk.text)} characters, is longer than {rank:.0%}")
        for rank, chunk in longest
        if rank > chance
    )
    advice = "ask for what stands in short paragraphs, lists and tables, too"
    passed = limit.holds(figure) or p >= LEVEL
    return judged(said, figure, limit, advice, offenders, (chart,), passed=passed)


def _rank(one: int, ordered: list[int]) -> float:
    """The share of the other lengths that are below ``one``, equals counted half."""
    below, equal = bisect_left(ordered, one), bisect_right(ordered, one) - bisect_left(ordered, one) - 1
    return (below + equal / 2) / (len(ordered) - 1)


K = 5
SHARE = 0.8


@gate("Does it take the text to find the evidence, more than titles and headings?", paper="arXiv 1808.04926")
def titles(view: DatasetView) -> GateFinding:
    """Fail where a ranker that sees titles and headings only reaches four fifths of what one of the texts reaches.

    Questions made from headings ask for headings: they rank pipelines by how these treat titles, and say nothing of the
    text. It is what partial-input baselines test (Gururangan et al. 2018, Kaushik and Lipton 2018), the part being the
    name of the place. Both rankers are BM25; chunks under one heading tie, and the mean over all orders of a tie
    counts. Above four fifths less than a fifth of what search by words can show is left for the text.
    """
    if len(view.ranked) < MIN_COUNT:
        return not_judged(f"{len(view.ranked)} questions have evidence, and {MIN_COUNT} are needed")
    names = [" ".join(dict.fromkeys((chunk.title, *chunk.headings))) for chunk in view.chunks]
    by_title = view.build_bm25(names)
    ids = [chunk.id for chunk in view.chunks]
    titled, texted = {}, {}
    for example in view.ranked:
        gold = view.relevance(example)
        titled[example.id] = recall_of_units(np.round(by_title.scores(example.question), 6), ids, gold, K)
        texted[example.id] = recall_of_units(np.round(view.bm25.scores(example.question), 6), ids, gold, K)
    title, text = sum(titled.values()) / len(titled), sum(texted.values()) / len(texted)
    if not text:
        return not_judged("BM25 over the texts finds nothing either, so there is nothing to compare with")
    figure, limit = title / text, Limit(high=SHARE)
    said = f"Recall@5 of titles and headings alone is {title:.2f}, of the texts {text:.2f}: {figure:.0%} of it"
    chart = ForestPlot(
        "Recall@5 by BM25 of what is read",
        (ForestRow("titles and headings", title, marked=not limit.holds(figure)), ForestRow("texts", text)),
    )
    given = sorted((e for e in view.ranked if titled[e.id] > 0.5), key=lambda e: (texted[e.id] - titled[e.id], e.id))
    offenders = tuple(Offender(e.id, f"titles find it: {e.question}") for e in given)
    advice = "ask for what the text says, in words that its title and headings do not have"
    return judged(said, figure, limit, advice, offenders, (chart,))


def recall_of_units(scores: NDArray[np.float64], ids: Sequence[str], gold: Relevance, k: int) -> float:
    """Recall@k over ties of what the chunks ``ids`` count as (see `Relevance.unit`), each by its best chunk.

    ``scores`` are those of the chunks. No unit is looked at that comes behind the ``k`` best and what ties with them.
    """
    best: dict[str, float] = {}
    last = 0.0
    for place in np.argsort(-scores, kind="stable"):
        score = float(scores[place])
        if score <= 0 or (len(best) >= k and score < last):
            break
        if (unit := gold.unit(ids[place])) not in best:
            best[unit] = last = score
    held = [best.pop(unit, 0.0) for unit in gold.units]
    return recall_over_ties(np.array([*held, *best.values()]), range(len(held)), k)


def recall_over_ties(scores: NDArray[np.float64], gold: Collection[int], k: int) -> float:
    """Mean Recall@k over all orders of equal scores; what scores 0 is not found."""
    held = scores[list(gold)]
    total = 0.0
    for score in held[held > 0]:
        above, level = int((scores > score).sum()), int((scores == score).sum())
        total += min(1.0, max(0.0, (k - above) / level))
    return total / len(gold)


MOST_SHARED = Limit(high=0.85)


@gate("Are questions worded otherwise than their evidence?", paper="arXiv 2104.08663")
def overlap(view: DatasetView) -> GateFinding:
    """Fail where, on average, more than 85 % of the words of a question stand in its evidence.

    Whoever writes a question with the passage before their eyes uses its words, and search by words wins: Thakur et al.
    (2021, BEIR) warn of it, Sugawara et al. (2018) find that many questions of reading comprehension are answered by
    matching words, and questions of people who had not seen the text (Kwiatkowski et al. 2019) share fewer with it.
    Counted are distinct words that mean something, by their stem. In four published sets (RAGSmith's law and finance,
    HotpotQA, TAT-QA) the mean is 0.59 to 0.73, and for questions cut out of sentences it is 1; the limit lies in the
    middle of the gap.

    Beside it stands the mean for the best chunk by BM25 that is no evidence: words that a whole corpus is about are
    in both.
    """
    shares, others = {}, []
    for example in view.ranked:
        asked = set(view.terms(example.question))
        if not asked:
            continue
        gold = {term for span in example.evidence for term in view.terms(view.text(span))}
        shares[example.id] = len(asked & gold) / len(asked)
        relevant = view.relevant(example)
        beside = [view.chunks[int(c)] for c in view.bm25_top[example.id] if view.chunks[int(c)].id not in relevant]
        others += [len(asked & set(view.terms(beside[0].text))) / len(asked)] if beside else []
    if len(shares) < MIN_COUNT:
        return not_judged(f"{len(shares)} questions have words and evidence, and {MIN_COUNT} are needed")
    figure = sum(shares.values()) / len(shares)
    other = sum(others) / len(others) if others else 0.0
    said = f"{figure:.0%} of the words of a question stand in its evidence, {other:.0%} in the best other chunk"
    charts = (
        tenths(
            "Questions by the share of their words that stand in their evidence",
            list(shares.values()),
            "percent of the question's words, from",
        ),
        ForestPlot(
            "Share of a question's words, on average",
            (
                ForestRow("in its evidence", figure, marked=not MOST_SHARED.holds(figure)),
                ForestRow("in the best other chunk", other),
            ),
            band=(0.0, 0.85),
        ),
    )
    asked_by = {example.id: example.question for example in view.ranked}
    worst = sorted((one for one in shares if shares[one] > figure - 1e-9), key=lambda one: (-shares[one], one))
    offenders = tuple(Offender(one, f"{shares[one]:.0%} of its words: {asked_by[one]}") for one in worst)
    advice = "word questions as somebody would who has not read the documents"
    return judged(said, figure, MOST_SHARED, advice, offenders, charts)


MOST_GUESSED = Limit(high=0.1)

_CHOICE = re.compile(r"\bor\b", re.IGNORECASE)


@gate("Does it take the documents to answer the questions?", paper="arXiv 1808.04926")
def closed_book(view: DatasetView) -> GateFinding:
    """Fail where guesses that read no document are right on more than 10 % of the questions.

    Two guesses are tried, those of the question-only baselines of Kaushik and Lipton (2018): what the question says
    itself (all words of the answer stand in it; counted half where it offers a choice with "or"), and the answer that
    most other questions of the type have. A guess of "yes" or "no" is the matter of a gate of its own.

    Whatever is right without documents is right for every pipeline, and shrinks each difference between two of them in
    proportion: at 10 % a true difference of 0.030 shows as 0.027. Of SNLI two thirds fall to a classifier that never
    sees the premise (Gururangan et al. 2018): such a set measures something else.
    """
    if len(view.answered) < MIN_COUNT:
        return not_judged(f"{len(view.answered)} questions have an answer, and {MIN_COUNT} are needed")
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
    advice = "take the answer out of the question, and ask for different things"
    return judged(said, figure, MOST_GUESSED, advice, offenders, listed=True)


MOST_ALIKE = Limit(high=0.8)
FEWEST_VERDICTS = 10
RARE = 0.05
VERDICT_LEVEL = 0.05

_VERDICT = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


@gate("Are yes and no both answers?", paper="arXiv 1905.10044")
def yes_no(view: DatasetView) -> GateFinding:
    """Fail where more than four in five of the answers that are yes or no are the same, and that is no chance.

    Questions are asked about what a text says, so that most answers are yes: 62 % in BoolQ (Clark et al. 2019), which
    its authors report as the baseline to beat. Above 80 % a model that always agrees is right as often as good ones
    are; the share has to be above one half beyond chance, too (one-sided binomial test, p < 0.05). Fewer than 10 such
    answers, or than 5 % of all, do not matter.
    """
    if not view.answered:
        return not_judged("no question has an answer")
    if view.original.language not in (ENGLISH, UNKNOWN):
        return not_judged(f"yes and no are known in English alone, and the documents are in {view.original.language!r}")
    verdicts = {e.id: found[1].lower() for e in view.answered if (found := _VERDICT.match(e.answer))}
    if len(verdicts) < max(FEWEST_VERDICTS, RARE * len(view.answered)):
        said = f"{len(verdicts)} of {len(view.answered)} answers are yes or no, too few to matter"
        return GateFinding(GateState.PASSED, said, None, MOST_ALIKE)
    yes = sum(verdict == "yes" for verdict in verdicts.values())
    often = "yes" if 2 * yes >= len(verdicts) else "no"
    count = max(yes, len(verdicts) - yes)
    figure = count / len(verdicts)
    said = f"{count} of {len(verdicts)} answers that are yes or no are {often} ({figure:.0%})"
    other = "no" if often == "yes" else "yes"
    offenders = tuple(Offender(id_, f"is answered with {often}") for id_, v in sorted(verdicts.items()) if v == often)
    advice = f"turn some of them round, so that their answer is {other}"
    passed = MOST_ALIKE.holds(figure) or 2 * binomial_tail(count, len(verdicts), 0.5) >= VERDICT_LEVEL
    return judged(said, figure, MOST_ALIKE, advice, offenders, passed=passed)
