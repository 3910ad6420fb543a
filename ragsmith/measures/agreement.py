"""Lexical agreement of an answer with a reference: the offline judge."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ragsmith.models.tasks import OfflineModel
from ragsmith.text.content_words import END, NUMBER, ContentWords, analyse
from ragsmith.text.words import normalise_answer

QUESTION_WORD_WEIGHT = 0.25
"""Weight of a word that occurs in the question, relative to other words."""

CONTRADICTION_FACTOR = 0.05
"""Factor on the score of an answer with a contradiction of degree 1."""

MIN_CONTEXT_OVERLAP = 0.4
"""Overlap of the contexts of two numbers or negations up to which they do not count as a contradiction."""

WordContext = tuple[str, str, str, str]
"""The context of a number or of a gap between words: the two items before it and the two after it."""


def score_agreement(model: OfflineModel, question: str, reference: str, answer: str) -> float:
    """Return the word overlap with the reference, less for missing numbers and contradictions; in [0, 1].

    Overlap is SQuAD's token F1 (Rajpurkar et al. 2016) over stemmed content words and values of numbers, weighted by
    inverse document frequency; words of the question have a quarter of their weight, as repeating them is no answer.
    The overlap is multiplied by a factor from 1/2 to 1 that increases with the share of the reference's numbers in the
    answer, and by a factor from 1 to 1/20 for the worst contradiction (`score_contradiction`): contradictions are
    penalised more than additions and paraphrases.

    The method is lexical: it does not recognise paraphrases, swapped numbers, antonyms ("before" for "after"), or
    negations in a different context than in the reference.
    """
    wanted, given = analyse(reference), analyse(answer)
    if not wanted.counts or not given.counts:  # answers such as "It is not." have no content words
        return float(normalise_answer(reference) == normalise_answer(answer))
    overlap = _weighted_f1(model, analyse(question).counts, wanted.counts, given.counts)
    if not overlap:
        return 0.0
    return (
        overlap * _number_factor(wanted, given) * (1 - (1 - CONTRADICTION_FACTOR) * score_contradiction(wanted, given))
    )


def _weighted_f1(model: OfflineModel, question: Counter[str], wanted: Counter[str], given: Counter[str]) -> float:
    common, both = [], []
    for counts, others in ((wanted, given), (given, wanted)):
        for item, n in counts.items():
            weight = model.idf(item) * (QUESTION_WORD_WEIGHT if item in question else 1.0)
            both.append(n * weight)
            if item in others:
                common.append(min(n, others[item]) * weight)
    # F1 = 2 P R / (P + R) = 2 |common| / (|wanted| + |given|); sums are exact in any order
    return math.fsum(common) / math.fsum(both)


def _number_factor(reference: ContentWords, answer: ContentWords) -> float:
    wanted = reference.values - {"1"}  # "one" is rarely a quantity
    return 0.5 + 0.5 * len(wanted & answer.values) / len(wanted) if wanted else 1.0


# --- contradictions --------------------------------------------------------------------------------------------------


def score_contradiction(reference: ContentWords, answer: ContentWords) -> float:
    """Return the degree of contradiction between the answer and the reference, from 0 to 1.

    Contradictions are opposite verdicts (yes and no), and different numbers or a negation in only one of the texts in
    the same context. A context consists of the two words on each side. The degree increases with the overlap of the
    contexts, as numbers in different contexts may refer to different things, and a negation may be cancelled by
    another one.
    """
    if reference.verdict and answer.verdict and reference.verdict != answer.verdict:
        return 1.0
    worst = max(
        _score_number_conflict(reference, answer),
        _score_negation_conflict(reference, answer),
        _score_negation_conflict(answer, reference),
    )
    return max(0.0, worst - MIN_CONTEXT_OVERLAP) / (1 - MIN_CONTEXT_OVERLAP)


def _score_number_conflict(reference: ContentWords, answer: ContentWords) -> float:
    """Return the maximum context overlap of two different numbers of which one replaces the other."""
    wanted = _number_contexts(reference)
    matched = set(wanted)
    others = [occurrence for occurrence in _number_contexts(answer) if occurrence not in matched]
    worst = 0.0
    for number, context in wanted:
        missing = answer.counts[number] < reference.counts[number]
        for other, other_context in others:
            overlap = _context_overlap(context, other_context)
            if overlap <= worst or number == other:
                continue
            added = answer.counts[other] > reference.counts[other]
            # a common number may occur elsewhere, and a number close to the right one may be additional
            if (missing and added) or ((missing or added) and overlap == 1 and _has_words(context)):
                worst = overlap
    return worst


def _number_contexts(text: ContentWords) -> list[tuple[str, WordContext]]:
    return [(text.items[at], _word_context(text.shapes, at - 1, at + 1)) for at in text.numbers]


def _score_negation_conflict(denying: ContentWords, other: ContentWords) -> float:
    """Return the maximum context overlap of a negation in ``denying`` that is missing in ``other``."""
    worst = 0.0
    for gap in dict.fromkeys(denying.denied):
        context = _word_context(denying.shapes, gap - 1, gap)
        closest, gaps = _find_closest(context, other.shapes)
        if closest > worst and all(_count_negations(other, at) < _count_negations(denying, gap) for at in gaps):
            worst = closest
    return worst


def _find_closest(context: WordContext, shapes: Sequence[str]) -> tuple[float, list[int]]:
    """Return the maximum overlap of ``context`` with the contexts of gaps in ``shapes``, and the gaps that have it."""
    _, before, after, _ = context
    overlaps: dict[int, float] = {}
    for at, (left, right) in enumerate(pairwise(shapes), start=1):
        if left == before or right == after:  # otherwise the overlap is too small
            overlaps[at] = _context_overlap(context, _word_context(shapes, at - 1, at))
    closest = max(overlaps.values(), default=0.0)
    return closest, [at for at, overlap in overlaps.items() if overlap == closest]


def _count_negations(text: ContentWords, gap: int) -> int:
    """Return the number of negations at a gap or one word away, as in "need not hurry" and "not need to hurry"."""
    return sum(abs(at - gap) <= 1 for at in text.denied)


def _word_context(shapes: Sequence[str], left: int, right: int) -> WordContext:
    before = shapes[left - 1] if left else END
    after = shapes[right + 1] if right + 1 < len(shapes) else END
    return before, shapes[left], shapes[right], after


def _context_overlap(a: WordContext, b: WordContext) -> float:
    """Return the share of equal words in two contexts; adjacent words have double weight."""
    return ((a[0] == b[0]) + 2 * (a[1] == b[1]) + 2 * (a[2] == b[2]) + (a[3] == b[3])) / 6


def _has_words(context: Iterable[str]) -> bool:
    return any(item not in (END, NUMBER) for item in context)
