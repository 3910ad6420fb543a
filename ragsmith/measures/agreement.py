"""How far an answer agrees with a reference, by words: what stands in for a judge that reads."""

from __future__ import annotations

import re
from collections import Counter

from ragsmith.models.tasks import OfflineModel
from ragsmith.text.words import normalise_answer, sentences, words

ASKED = 0.25
"""Weight of a word that the question already has."""

_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_NUMBER_WORDS = frozenset(
    (
        *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty", "thirty"),
        *("forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "thousand", "half", "third"),
        *("quarter", "twice"),
    )
)
_DENIALS = frozenset(
    ("no", "not", "never", "nor", "neither", "none", "nobody", "nothing", "cannot", "without", "unless")
)


def agreement(model: OfflineModel, question: str, reference: str, answer: str) -> float:
    """Word overlap with the reference, less where numbers or a denial disagree; continuous in [0, 1].

    Overlap is SQuAD's token F1 (Rajpurkar et al. 2016) over stemmed content words, each weighted by its inverse
    document frequency, so that the words which tell answers apart count most; those of the question count a quarter,
    for repeating it answers nothing. What is left is multiplied by 1/2 to 1 for the share of the reference's numbers
    that the answer has, and by 3/4 if only one of reference and answer denies something and the reference is one
    sentence. It compares words: it does not understand a paraphrase, nor notice words put in another order.
    """
    overlap = _weighted_f1(model, question, reference, answer)
    return overlap * _numbers_agree(reference, answer) * _denials_agree(reference, answer)


def _weighted_f1(model: OfflineModel, question: str, reference: str, answer: str) -> float:
    wanted, given = Counter(model.terms(reference)), Counter(model.terms(answer))
    if not wanted or not given:  # answers such as "No." hold no content word
        return float(normalise_answer(reference) == normalise_answer(answer))
    asked = frozenset(model.terms(question))
    common = _weight(model, asked, wanted & given)
    # F1 = 2 P R / (P + R) = 2 |common| / (|wanted| + |given|)
    return 2 * common / (_weight(model, asked, wanted) + _weight(model, asked, given))


def _weight(model: OfflineModel, asked: frozenset[str], counts: Counter[str]) -> float:
    return sum(count * model.idf(term) * (ASKED if term in asked else 1.0) for term, count in sorted(counts.items()))


def _numbers_agree(reference: str, answer: str) -> float:
    wanted = numbers(reference)
    return 0.5 + 0.5 * len(wanted & numbers(answer)) / len(wanted) if wanted else 1.0


def numbers(text: str) -> frozenset[str]:
    """Numbers in figures, without separators of thousands, and in words."""
    figures = (figure.replace(",", "") for figure in _FIGURE.findall(text))
    return frozenset([*figures, *(word for word in words(text) if word in _NUMBER_WORDS)])


def _denials_agree(reference: str, answer: str) -> float:
    if len(sentences(reference)) > 1:  # among several sentences some denial is nearly always found
        return 1.0
    return 1.0 if denies(reference) == denies(answer) else 0.75


def denies(text: str) -> bool:
    """Whether a text denies something."""
    return not _DENIALS.isdisjoint(words(text))
