"""The agreement of an answer with a reference by their words: the offline judge."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from ragsmith.models.tasks import OfflineModel
from ragsmith.text.content_words import END, NUMBER, ContentWords, analyse
from ragsmith.text.words import normalise_answer

ASKED = 0.25
"""Weight of a word that the question already has."""

CONTRADICTED = 0.05
"""The factor of a mark if another number, or one denial more or less, is among the same words."""

UNSURE = 0.4
"""Closeness of the words around two numbers, or around a denial, up to which no contradiction is seen."""

Place = tuple[str, str, str, str]
"""The context of a number or a gap: two items before it and two after it."""


def agreement(model: OfflineModel, question: str, reference: str, answer: str) -> float:
    """Return the word overlap with the reference, less for missing numbers and contradictions; in [0, 1].

    Overlap is SQuAD's token F1 (Rajpurkar et al. 2016) over stemmed content words and values of numbers, each weighted
    by its inverse document frequency, so that the words which tell answers apart count most; those of the question
    count a quarter, for repeating it answers nothing. What is left is multiplied by 1/2 to 1 for the share of the
    reference's numbers that the answer has, and by 1 to 1/20 for the worst contradiction (`contradiction`): answers
    that a reader cannot trust are marked lower than those that only say more, or say it in other words.

    It compares words: it does not understand a paraphrase, nor notice numbers that changed places, an opposite
    ("before" for "after"), or a denial among other words than the reference's.
    """
    wanted, given = analyse(reference), analyse(answer)
    if not wanted.counts or not given.counts:  # answers such as "It is not." hold no content word
        return float(normalise_answer(reference) == normalise_answer(answer))
    overlap = _weighted_f1(model, analyse(question).counts, wanted.counts, given.counts)
    if not overlap:
        return 0.0
    return overlap * _numbers_told(wanted, given) * (1 - (1 - CONTRADICTED) * contradiction(wanted, given))


def _weighted_f1(model: OfflineModel, asked: Counter[str], wanted: Counter[str], given: Counter[str]) -> float:
    common, both = [], []
    for counts, others in ((wanted, given), (given, wanted)):
        for item, n in counts.items():
            weight = model.idf(item) * (ASKED if item in asked else 1.0)
            both.append(n * weight)
            if item in others:
                common.append(min(n, others[item]) * weight)
    # F1 = 2 P R / (P + R) = 2 |common| / (|wanted| + |given|); sums are exact, in whatever order
    return math.fsum(common) / math.fsum(both)


def _numbers_told(reference: ContentWords, answer: ContentWords) -> float:
    wanted = reference.values - {"1"}  # "one" is hardly ever a number that matters
    return 0.5 + 0.5 * len(wanted & answer.values) / len(wanted) if wanted else 1.0


# --- contradictions --------------------------------------------------------------------------------------------------


def contradiction(reference: ContentWords, answer: ContentWords) -> float:
    """Return how certainly the answer contradicts the reference, from 0 to 1.

    Opposite verdicts contradict each other, and so do different numbers, and a denial on one side alone, in the same
    place: between the same words, of which the two on each side are compared. The more of them are the same, the surer
    it is: among other words another number may be of something else, and a denial may be undone by what else is said.
    """
    if reference.verdict and answer.verdict and reference.verdict != answer.verdict:
        return 1.0
    worst = max(_other_number(reference, answer), _lone_denial(reference, answer), _lone_denial(answer, reference))
    return max(0.0, worst - UNSURE) / (1 - UNSURE)


def _other_number(reference: ContentWords, answer: ContentWords) -> float:
    """Return the closeness of the closest places of two numbers of which one should have been the other."""
    wanted = _number_places(reference)
    known = set(wanted)
    others = [place for place in _number_places(answer) if place not in known]
    worst = 0.0
    for number, place in wanted:
        missing = answer.counts[number] < reference.counts[number]
        for other, its_place in others:
            closeness = _closeness(place, its_place)
            if closeness <= worst or number == other:
                continue
            foreign = answer.counts[other] > reference.counts[other]
            # a number that both have may have moved, and one next to the right one may be additional
            if (missing and foreign) or ((missing or foreign) and closeness == 1 and _has_words(place)):
                worst = closeness
    return worst


def _number_places(reading: ContentWords) -> list[tuple[str, Place]]:
    return [(reading.items[at], _place(reading.shapes, at - 1, at + 1)) for at in reading.numbers]


def _lone_denial(denying: ContentWords, other: ContentWords) -> float:
    """Return the closeness of the closest places of which ``denying`` denies what ``other`` does not."""
    worst = 0.0
    for gap in dict.fromkeys(denying.denied):
        place = _place(denying.shapes, gap - 1, gap)
        closest, gaps = _closest(place, other.shapes)
        if closest > worst and all(_denials(other, at) < _denials(denying, gap) for at in gaps):
            worst = closest
    return worst


def _closest(place: Place, shapes: Sequence[str]) -> tuple[float, list[int]]:
    """Return the closeness of the surroundings in ``shapes`` to ``place``, and the gaps that are as close."""
    _, before, after, _ = place
    found: dict[int, float] = {}
    for at, (left, right) in enumerate(pairwise(shapes), start=1):
        if left == before or right == after:  # with neither they are not close enough
            found[at] = _closeness(place, _place(shapes, at - 1, at))
    closest = max(found.values(), default=0.0)
    return closest, [at for at, closeness in found.items() if closeness == closest]


def _denials(reading: ContentWords, gap: int) -> int:
    """Return the number of denials at a gap or one word away: "need not hurry" is "not need to hurry"."""
    return sum(abs(at - gap) <= 1 for at in reading.denied)


def _place(shapes: Sequence[str], left: int, right: int) -> Place:
    before = shapes[left - 1] if left else END
    after = shapes[right + 1] if right + 1 < len(shapes) else END
    return before, shapes[left], shapes[right], after


def _closeness(a: Place, b: Place) -> float:
    """Return the share of equal words in two contexts; the nearest words count twice."""
    return ((a[0] == b[0]) + 2 * (a[1] == b[1]) + 2 * (a[2] == b[2]) + (a[3] == b[3])) / 6


def _has_words(place: Iterable[str]) -> bool:
    return any(item not in (END, NUMBER) for item in place)
