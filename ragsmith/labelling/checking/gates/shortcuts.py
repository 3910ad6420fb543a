"""Gates of shortcuts: evidence and answers cannot be found without reading the text."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from math import asin, pi, sin, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ragsmith.datasets.relevance import Relevance
from ragsmith.evaluation.selective import binomial_cdf
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, judged, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import MIN_COUNT, DatasetView, K
from ragsmith.reporting.charts import Columns, ForestPlot, ForestRow, histogram
from ragsmith.text.languages import ENGLISH, UNKNOWN
from ragsmith.text.words import normalise_answer
from ragsmith.types import Chunk, Span

MEDIUM_H = 0.5
"""Medium effect for two shares p and q, as Cohen's h = 2 asin(sqrt(p)) - 2 asin(sqrt(q))."""

MEDIUM_AUC = 0.14
"""Difference in AUC from 0.50 that corresponds to a shift of half a standard deviation (d = 0.5)."""


def add_effect(share: float, h: float) -> float:
    """Return the share whose effect size relative to ``share`` is ``h``, at most 1."""
    angle = min(pi / 2, asin(sqrt(share)) + h / 2)
    return sin(angle) ** 2


EARLY_SHARE = 0.2
"""Share of a document that counts as its beginning."""

SIGNIFICANCE_LEVEL = 0.01
"""Significance level of one-sided tests."""


def make_histogram(title: str, shares: Sequence[float], across: str, expected: tuple[float, ...] = ()) -> Columns:
    """Return a histogram of ``shares``, from 0 to 1, with ten bins."""
    counts = tuple(float(count) for count in histogram(shares, 10))
    return Columns(title, tuple(f"{10 * tenth}" for tenth in range(10)), counts, expected, across)


@gate("Is the evidence spread over the documents?", paper="arXiv 2004.14602")
def position(view: DatasetView) -> GateFinding:
    """Warn if far more evidence than expected by chance is in the first fifth of its document.

    Annotators read documents from the beginning, and often stop early. A pipeline that prefers early passages then
    scores too high: models trained on such questions learn the position instead of the answer (Ko et al. 2020, "Look at
    the first sentence"), as summarisers learn the lead of news articles (Grenander et al. 2019).

    The probability that the middle of a span of length s is in the first fifth of a document of length L is
    (L/5 - s/2) / (L - s) for a uniformly distributed position. The share may exceed the mean of these by a medium
    effect of Cohen (1988), h = 0.5, which is 0.43 for an expected 0.20. The gate warns only if the excess is also
    significant (one-sided binomial test, p < 0.01, conservative for unequal probabilities: Hoeffding 1956). A passage
    that is evidence of several questions counts once, and documents of up to two chunks are left out.
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
            f"{len(asking)} passages are in documents of more than {long:,} characters, and {MIN_COUNT} are needed"
        )
    middles = {span: (span.start + span.end) / 2 / sizes[span.doc] for span in asking}
    early = sorted((span for span, middle in middles.items() if middle < EARLY_SHARE), key=lambda span: middles[span])
    chance = sum(_early_probability(span, sizes[span.doc]) for span in asking) / len(asking)
    figure, limit = len(early) / len(asking), Limit(high=round(add_effect(chance, MEDIUM_H), 3))
    p = binomial_tail(len(early), len(asking), chance)
    summary = (
        f"{len(early)} of {len(asking)} passages ({figure:.0%}) are in the first fifth of their document; "
        f"chance gives {chance:.0%}"
    )
    offenders = tuple(
        Offender(asking[span], f"at {middles[span]:.0%} of {span.doc!r}, from character {span.start}") for span in early
    )
    chart = make_histogram(
        "Evidence by its position in the document, and the expectation by chance",
        list(middles.values()),
        "percent of the document before it",
        (len(asking) / 10,) * 10,
    )
    advice = (
        "a pipeline that prefers beginnings gains by that: if users ask so, as of the first lines of encyclopedic "
        "articles or threads, nothing is wrong; else ask about the middle and the end of documents, too"
    )
    passed = limit.holds(figure) or p >= SIGNIFICANCE_LEVEL
    return judged(summary, figure, limit, advice, offenders, (chart,), passed=passed, otherwise=GateState.WARNING)


def _early_probability(span: Span, size: int) -> float:
    length = min(span.end - span.start, size)
    return 0.0 if length == size else min(1.0, max(0.0, (EARLY_SHARE * size - length / 2) / (size - length)))


def binomial_tail(hits: int, n: int, chance: float) -> float:
    """Return the probability of at least ``hits`` successes in ``n`` trials of probability ``chance``."""
    return binomial_cdf(n - hits, n, 1 - chance)  # the probability of so few failures


MIN_CHUNKS = 3
"""Minimum number of chunks of a document whose lengths are compared."""


@gate("Is evidence in short chunks as well as in long ones?", paper="arXiv 1803.02324")
def length(view: DatasetView) -> GateFinding:
    """Warn if gold chunks are longer than the other chunks of their document by a medium effect.

    The figure is the AUC of the rule "the longer chunk is gold" within a document: the share of pairs in which a gold
    chunk is longer than another one, with ties counted half. A uniformly distributed position is in a long chunk more
    often than in a short one, so the expected AUC is above 0.50: that of chunks drawn in proportion to their length.
    The figure may exceed it by 0.14, which is d = 0.5 of Cohen (1988); the gate warns only if the excess is also
    significant (one-sided, p < 0.01, normal approximation). Gururangan et al. (2018) report length among the artifacts
    that reveal the labels of annotated sets.
    """
    # a chunk is named by the first of its questions
    gold = {chunk: example.id for example in reversed(view.located) for chunk in view.relevant(example)}
    found: list[tuple[float, Chunk]] = []
    mean = spread = 0.0
    for chunks in view.chunks_of.values():
        if len(chunks) < MIN_CHUNKS:
            continue
        lengths = [len(chunk.text) for chunk in chunks]
        ordered = sorted(lengths)
        above = [_relative_rank(one, ordered) for one in lengths]
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
            f"{len(places)} gold chunks are in documents of {MIN_CHUNKS} chunks or more, and {MIN_COUNT} are needed"
        )
    figure, chance = sum(places) / len(places), mean / len(places)
    limit = Limit(high=round(chance + MEDIUM_AUC, 3))
    p = 1 - NormalDist().cdf((figure - chance) * len(places) / sqrt(spread)) if spread else 1.0
    summary = f"a gold chunk is longer than another of its document in {figure:.0%} of pairs; chance gives {chance:.0%}"
    chart = make_histogram(
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
    advice = "ask about short paragraphs, clauses, messages, lists and tables, too, if users do"
    passed = limit.holds(figure) or p >= SIGNIFICANCE_LEVEL
    return judged(summary, figure, limit, advice, offenders, (chart,), passed=passed, otherwise=GateState.WARNING)


def _relative_rank(length: int, ordered: list[int]) -> float:
    """Return the share of the other lengths that are less than ``length``, with ties counted half."""
    below, equal = bisect_left(ordered, length), bisect_right(ordered, length) - bisect_left(ordered, length) - 1
    return (below + equal / 2) / (len(ordered) - 1)


MAX_TITLE_SHARE = 0.8
"""Maximum ratio of the recall of titles and headings to that of texts."""


@gate("Does it take the text to find the evidence, more than titles and headings?", paper="arXiv 1808.04926")
def titles(view: DatasetView) -> GateFinding:
    """Warn if ranking by titles and headings alone reaches more than four fifths of the recall of ranking by texts.

    Questions made from headings rank pipelines by their treatment of titles, not of the text; so do questions that name
    the subject of an encyclopedic article, or the parties of a contract, as users do. The gate is a
    partial-input baseline (Gururangan et al. 2018, Kaushik and Lipton 2018) whose input is the title and the headings.
    Both rankers are BM25; chunks under one heading have equal scores, and recall is the mean over all orders of ties.
    Above four fifths, less than a fifth of the recall of lexical search depends on the text.
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
        return not_judged("BM25 over the texts finds no evidence either, so there is nothing to compare with")
    figure, limit = title / text, Limit(high=MAX_TITLE_SHARE)
    summary = f"Recall@5 of titles and headings alone is {title:.2f}, of the texts {text:.2f}: a ratio of {figure:.0%}"
    chart = ForestPlot(
        "Recall@5 of BM25 by indexed text",
        (ForestRow("titles and headings", title, marked=not limit.holds(figure)), ForestRow("texts", text)),
    )
    given = sorted((e for e in view.ranked if titled[e.id] > 0.5), key=lambda e: (texted[e.id] - titled[e.id], e.id))
    offenders = tuple(Offender(e.id, f"titles find it: {e.question}") for e in given)
    advice = (
        "if users name the article, contract or subject that they ask about, nothing is wrong, and techniques that "
        "read titles will gain; if the questions were made of headings, ask for what the text says below them"
    )
    return judged(summary, figure, limit, advice, offenders, (chart,), otherwise=GateState.WARNING)


def recall_of_units(scores: NDArray[np.float64], ids: Sequence[str], gold: Relevance, k: int) -> float:
    """Return the expected Recall@k over ties of the units of the chunks ``ids`` (see `Relevance.unit`).

    ``scores`` are those of the chunks; the score of a unit is the maximum of its chunks. Units that rank below the
    ``k`` best and their ties are ignored.
    """
    best: dict[str, float] = {}
    last = 0.0
    for place in np.argsort(-scores, kind="stable"):
        score = float(scores[place])
        if score <= 0 or (len(best) >= k and score < last):
            break
        for unit in gold.rank_units([ids[place]]):
            if unit not in best:
                best[unit] = last = score
    held = [best.pop(unit, 0.0) for unit in gold.units]
    return recall_over_ties(np.array([*held, *best.values()]), range(len(held)), k)


def recall_over_ties(scores: NDArray[np.float64], gold: Collection[int], k: int) -> float:
    """Return the mean Recall@k over all orders of equal scores; items with score 0 are not retrieved."""
    held = scores[list(gold)][:, None]
    above, level = (scores > held).sum(axis=1), (scores == held).sum(axis=1)
    shares = np.where(held[:, 0] > 0, np.clip((k - above) / level, 0.0, 1.0), 0.0)
    return float(shares.sum() / len(gold))


MAX_OVERLAP = Limit(high=0.85)


@gate("Are questions worded otherwise than their evidence?", paper="arXiv 2104.08663")
def overlap(view: DatasetView) -> GateFinding:
    """Warn if, on average, more than 85 % of the words of a question occur in its evidence.

    Annotators who see the passage use its words, which favours lexical search: Thakur et al. (2021, BEIR) describe this
    bias, Sugawara et al. (2018) show that many questions of reading comprehension are answered by matching words, and
    questions of users who had not seen the text (Kwiatkowski et al. 2019) share fewer words with it. The gate counts
    distinct stems of content words. In four published sets (RAGSmith's law and finance, HotpotQA, TAT-QA) the mean is
    0.59 to 0.73, and for questions cut out of sentences it is 1; the limit is in the middle of this range.

    For comparison, the gate reports the mean for the best chunk by BM25 that is not evidence: words that are frequent
    in the whole corpus occur in both.
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
    summary = f"{figure:.0%} of the words of a question occur in its evidence, {other:.0%} in the best other chunk"
    charts = (
        make_histogram(
            "Questions by the share of their words that occur in their evidence",
            list(shares.values()),
            "percent of the question's words, from",
        ),
        ForestPlot(
            "Share of a question's words, on average",
            (
                ForestRow("in its evidence", figure, marked=not MAX_OVERLAP.holds(figure)),
                ForestRow("in the best other chunk", other),
            ),
            band=(0.0, 0.85),
        ),
    )
    asked_by = {example.id: example.question for example in view.ranked}
    worst = sorted((one for one in shares if shares[one] > figure - 1e-9), key=lambda one: (-shares[one], one))
    offenders = tuple(Offender(one, f"{shares[one]:.0%} of its words: {asked_by[one]}") for one in worst)
    advice = "lexical search gains by that: word questions as a user would who has not read the documents"
    return judged(summary, figure, MAX_OVERLAP, advice, offenders, charts, otherwise=GateState.WARNING)


MAX_GUESSED = Limit(high=0.1)

_CHOICE = re.compile(r"\bor\b", re.IGNORECASE)


@gate("Does it take the documents to answer the questions?", paper="arXiv 1808.04926")
def closed_book(view: DatasetView) -> GateFinding:
    """Fail if more than 10 % of the questions say their answer; warn if other guesses are right on more than 10 %.

    Two question-only baselines (Kaushik and Lipton 2018) are evaluated: the question contains all words of the answer
    (counted half if it offers a choice with "or"), and the most frequent answer of the other questions of the type.
    The latter may be how things are: most contracts of a folder have one governing law. Answers "yes" and "no" are left
    to the gate yes_no.

    A question that is answered without documents is answered by every pipeline, and reduces the differences between
    pipelines in proportion: at 10 %, a true difference of 0.030 is measured as 0.027. In SNLI a classifier that never
    sees the premise is right in two thirds of the cases (Gururangan et al. 2018): such a set measures something else.
    """
    if len(view.answered) < MIN_COUNT:
        return not_judged(f"{len(view.answered)} questions have an answer, and {MIN_COUNT} are needed")
    by_type: defaultdict[str, Counter[str]] = defaultdict(Counter)
    given = {example.id: normalise_answer(example.answer) for example in view.answered}
    for example in view.answered:
        by_type[example.type][given[example.id]] += 1
    right: dict[str, tuple[float, str]] = {}
    told = 0.0
    for example in view.answered:
        words = set(view.terms(example.answer))
        if words and words <= set(view.terms(example.question)) and given[example.id] not in ("yes", "no"):
            share = 0.5 if _CHOICE.search(example.question) else 1.0
            right[example.id] = share, f"the question says it: {example.answer}"
            told += share
        elif given[example.id] not in ("yes", "no"):
            others = by_type[example.type] - Counter([given[example.id]])
            guess, count = max(others.items(), key=lambda pair: (pair[1], pair[0]), default=("", 0))
            if count > 1 and guess == given[example.id]:
                right[example.id] = 1.0, f"{count} other answers of type {example.type!r} are the same: {guess}"
    figure = sum(share for share, _ in right.values()) / len(view.answered)
    summary = f"{figure:.0%} of {len(view.answered)} questions are answered by a guess that reads no document"
    offenders = tuple(Offender(id_, why) for id_, (_, why) in sorted(right.items(), key=lambda i: (-i[1][0], i[0])))
    if MAX_GUESSED.holds(told / len(view.answered)):
        advice = "expect smaller differences between answers, or ask for what differs between documents"
        return judged(summary, figure, MAX_GUESSED, advice, offenders, listed=True, otherwise=GateState.WARNING)
    return judged(summary, figure, MAX_GUESSED, "remove the answer from the question", offenders)


MAX_MAJORITY = Limit(high=0.8)
MIN_YES_NO = 10
"""Minimum number of answers that are yes or no."""
MIN_YES_NO_SHARE = 0.05
"""Minimum share of the answers that are yes or no."""
YES_NO_LEVEL = 0.05
"""Significance level of the one-sided test that the shares of yes and no differ."""

_YES_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


@gate("Are yes and no both answers?", paper="arXiv 1905.10044")
def yes_no(view: DatasetView) -> GateFinding:
    """Warn if more than four in five of the answers that are yes or no are the same, and significantly so.

    Most questions ask about facts that a text states, so most answers are yes: 62 % in BoolQ (Clark et al. 2019), which
    its authors report as the majority baseline. Above 80 %, a model that always answers yes is right as often as good
    models are; the share must also be significantly above one half (one-sided binomial test, p < 0.05). The gate
    passes with fewer than 10 such answers, or less than 5 % of all.
    """
    if not view.answered:
        return not_judged("no question has an answer")
    if view.original.language not in (ENGLISH, UNKNOWN):
        return not_judged(f"yes and no are known in English alone, and the documents are in {view.original.language!r}")
    verdicts = {e.id: found[1].lower() for e in view.answered if (found := _YES_NO.match(e.answer))}
    if len(verdicts) < max(MIN_YES_NO, MIN_YES_NO_SHARE * len(view.answered)):
        summary = f"{len(verdicts)} of {len(view.answered)} answers are yes or no, too few to matter"
        return GateFinding(GateState.PASSED, summary, None, MAX_MAJORITY)
    often, count = max(Counter(verdicts.values()).items(), key=lambda item: (item[1], item[0]))
    figure = count / len(verdicts)
    summary = f"{count} of {len(verdicts)} answers that are yes or no are {often} ({figure:.0%})"
    other = "no" if often == "yes" else "yes"
    offenders = tuple(Offender(id_, f"is answered with {often}") for id_, v in sorted(verdicts.items()) if v == often)
    advice = (
        f"a pipeline that always says {often} does well on them: reword some so that their answer is {other}, or ask "
        "for the fact itself"
    )
    passed = MAX_MAJORITY.holds(figure) or 2 * binomial_tail(count, len(verdicts), 0.5) >= YES_NO_LEVEL
    return judged(summary, figure, MAX_MAJORITY, advice, offenders, passed=passed, otherwise=GateState.WARNING)
