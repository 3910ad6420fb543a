"""The protocol of HetDocQA (Singh et al., "Beyond the Reranker"): what a full system owes to each of its parts.

The full system is compared with systems that lack a part of it, question by question, on a dev and on a test split.
Differences are full minus other; their interval is a percentile bootstrap of 10,000 resamples, their p that of the same
resamples re-centred. A difference is claimed where, on the test split, its p passes Benjamini and Hochberg's rule among
all that is compared there by the same measure, the interval does not hold 0, and the sign is the same on dev. A
difference of exactly 0 has no sign: the part is inert, which is consistent with nothing.

The study does not say which comparisons make a family, nor how a difference of 0 is to be read: both are decided here.
Beside the study's p stands that of sign flips, which is exact where few questions differ and the study's is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ragsmith.comparison.per_query import SPLITS, PerQuery
from ragsmith.errors import UsageError
from ragsmith.evaluation.statistics import benjamini_hochberg, paired, recentred_bootstrap
from ragsmith.text.suggest import did_you_mean

MEASURES = ("ndcg_10", "success_10", "exact_match", "token_f1")
"""What the study measures, by our names: graded nDCG@10, Success@10, exact match and token F1."""

FALSE_SHARE = 0.05
"""Q of Benjamini and Hochberg: the share of false claims among all claims."""

RESAMPLES = 10_000


class Claim(StrEnum):
    """What may be said of a part by this protocol."""

    HELPS = "helps"
    HARMS = "harms"
    INERT = "inert"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, slots=True)
class Tested:
    """Full minus other on the ``n`` questions of a split that both have a value for.

    ``left_out`` counts the questions that one of them has no value for, ``nonzero`` those on which the two differ.
    ``p`` is the study's, of the re-centred bootstrap; ``sign_flip_p`` that of sign flips. Both are raw.
    """

    n: int
    left_out: int
    difference: float
    low: float
    high: float
    p: float
    sign_flip_p: float
    nonzero: int

    @property
    def sign(self) -> int:
        """1, -1, or 0 for a difference of nothing."""
        return 0 if self.nonzero == 0 or self.difference == 0 else int(math.copysign(1, self.difference))


@dataclass(frozen=True, slots=True)
class Effect:
    """The full system against another by one measure: ``adjusted_p`` is that of test, by Benjamini and Hochberg.

    ``why_not`` lists the rules that a difference does not pass.
    """

    system: str
    measure: str
    dev: Tested
    test: Tested
    adjusted_p: float
    claim: Claim
    why_not: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """Every comparison with ``full``, by measure and then system; each measure is a family of ``family`` tests."""

    full: str
    family: int
    effects: tuple[Effect, ...]


def judge(numbers: PerQuery, full: str | None = None, *, resamples: int = RESAMPLES, seed: int = 0) -> Findings:
    """Compare ``full``, or the first system of ``numbers``, with all others.

    Raises:
        UsageError: there is no such system, no other one, or one of them has not been measured on both splits.
    """
    systems = numbers.systems
    if not systems:
        raise UsageError("there are no numbers to compare")
    if full is None:
        full = systems[0]
    if full not in systems:
        raise UsageError(f"no system of the numbers is called {full!r}: {did_you_mean(full, systems)}")
    others = [system for system in systems if system != full]
    if not others:
        raise UsageError(f"the numbers are of {full!r} alone: the protocol compares it with systems that lack a part")
    _refuse_missing(numbers, full, others)
    effects: list[Effect] = []
    for measure in numbers.measures:
        tested = {
            system: [_tested(numbers, full, system, split, measure, resamples, seed) for split in SPLITS]
            for system in others
        }
        adjusted = benjamini_hochberg([test.p for _, test in tested.values()])
        effects += [
            _effect(system, measure, dev, test, p)
            for (system, (dev, test)), p in zip(tested.items(), adjusted, strict=True)
        ]
    return Findings(full, len(others), tuple(effects))


def _refuse_missing(numbers: PerQuery, full: str, others: Sequence[str]) -> None:
    """Every measure needs questions that both systems have a value for, on both splits."""
    missing = [
        f"{system} and {full} share no question of {split} with {measure}"
        for measure in numbers.measures
        for system in others
        for split in SPLITS
        if not numbers.of(system, split, measure).keys() & numbers.of(full, split, measure).keys()
    ]
    if missing:
        raise UsageError(
            "the protocol needs dev and test of every system, by the same questions and measures: " + "; ".join(missing)
        )


def _tested(numbers: PerQuery, full: str, other: str, split: str, measure: str, resamples: int, seed: int) -> Tested:
    ours, theirs = numbers.of(full, split, measure), numbers.of(other, split, measure)
    both, left_out = _shared(ours, theirs)
    pair = [ours[query] for query in both], [theirs[query] for query in both]
    found = paired(*pair, resamples=resamples, seed=seed)
    p = recentred_bootstrap(*pair, resamples=resamples, seed=seed)
    return Tested(found.n, left_out, found.mean_difference, found.low, found.high, p, found.p, found.nonzero)


def _shared(ours: Mapping[str, float], theirs: Mapping[str, float]) -> tuple[list[str], int]:
    """The questions that both have a value for, and how many not.

    They stay in the order of the full system's lines: resamples draw places, so intervals depend on it to the last
    digits, and those of a study are reproduced from its own order alone.
    """
    both = [query for query in ours if query in theirs]
    return both, len(ours.keys() | theirs.keys()) - len(both)


def _effect(system: str, measure: str, dev: Tested, test: Tested, adjusted: float) -> Effect:
    rules = {
        f"p is {adjusted:.3g} after Benjamini and Hochberg": adjusted <= FALSE_SHARE,
        "the interval on test holds 0": not test.low <= 0 <= test.high,
        "the signs on dev and test are not the same": dev.sign == test.sign != 0,
    }
    why_not = tuple(rule for rule, passed in rules.items() if not passed)
    if dev.nonzero == test.nonzero == 0:
        claim = Claim.INERT
    elif why_not:
        claim = Claim.NOT_SHOWN
    else:
        claim = Claim.HELPS if test.sign > 0 else Claim.HARMS
    return Effect(system, measure, dev, test, adjusted, claim, why_not)
