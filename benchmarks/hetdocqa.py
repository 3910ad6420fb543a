"""The protocol of HetDocQA (Singh et al., "Beyond the Reranker"): what a full system owes to each of its parts.

The full system is compared with systems that lack a part of it, question by question, on a dev and on a test split.
Differences are full minus other; their interval is a percentile bootstrap of 10,000 resamples, their p that of the same
resamples re-centred. A difference is claimed where, on the test split, its p passes Benjamini and Hochberg's rule among
all that is compared there by the same measure, the interval does not hold 0, and the sign is the same on dev. A
difference of exactly 0 has no sign: the part is inert, which is consistent with nothing.

The study does not say which comparisons make a family, nor how a difference of 0 is to be read: both are decided here.
Beside the study's p stands that of sign flips, which is exact where few questions differ and the study's is not.

    python benchmarks/hetdocqa.py reports/law/winner.yaml                       # a pipeline without each of its parts
    python benchmarks/hetdocqa.py full.yaml --against plain.yaml                # or other pipelines
    python benchmarks/hetdocqa.py --numbers numbers.csv --full full             # or measures by question of any systems

The search questions of a pipeline are the dev split, on which it was chosen; its test questions are the test split.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from per_query import SPLITS, PerQuery, read_per_query

from ragsmith.errors import RagsmithError, UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.statistics import paired_differences, paired_test, resampled_means
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.requirements import refuse_missing_answers
from ragsmith.pipelines.genes import Candidate, label
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
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


def recentred_bootstrap(a: ArrayLike, b: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> float:
    """Return the two-sided p of a paired bootstrap: how often re-centred resampled means are as far from 0 as ours.

    The means are those of `bootstrap_interval`, less their own mean; p is never below ``1 / resamples``. With few
    differences that are not zero it is too small, where `sign_flip` is exact: this is for comparing with studies that
    tested so.
    """
    differences = paired_differences(a, b, "recentred_bootstrap")
    if not differences.any():
        return 1.0
    means = resampled_means(differences, resamples, seed)
    as_far = np.abs(means - means.mean()) >= abs(differences.mean())
    return max(float(as_far.mean()), 1 / resamples)


def benjamini_hochberg(pvalues: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted by Benjamini and Hochberg (1995), in the order given; ``<= q`` bounds false claims."""
    raw = np.array(pvalues, dtype=np.float64)
    order = np.argsort(raw, kind="stable")[::-1]  # the largest i with p_(i) <= q * i / m, and all below it
    factors = len(raw) / np.arange(len(raw), 0, -1)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.minimum.accumulate(raw[order] * factors), 1.0)
    return tuple(adjusted.tolist())


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
    found = paired_test(*pair, resamples=resamples, seed=seed)
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


FULL = "full"
"""What the pipeline that the others are compared with is called."""


def measured(pipeline: Pipeline, others: Mapping[str, Pipeline], store: Store, *, workers: int = 1) -> PerQuery:
    """The study's measures of ``pipeline`` and of ``others``, by question, through the store.

    Without others it is compared with itself without each of its parts.

    Raises:
        UsageError: the questions are not split, a pipeline is on other ones, or a question failed.
    """
    for name, one in {"the pipeline": pipeline, **others}.items():
        one.refuse_test(name)
    split = pipeline.setup.split
    if not split.search or not split.test:
        raise UsageError(
            f"{pipeline.setup.dataset.name!r} has no test questions apart, and the protocol needs two splits: mark "
            'some lines of questions.jsonl with "split": "test", or write 20 questions or more'
        )
    refuse_missing_answers([*split.search, *split.test])
    strangers = [name for name, other in others.items() if _questions(other) != _questions(pipeline)]
    if strangers:
        raise UsageError(
            f"{', '.join(strangers)}: not on the same questions and splits as the pipeline itself: name one data set "
            "for all with --dataset"
        )
    systems = {FULL: pipeline, **others} if others else {FULL: pipeline, **dict(_without_each(pipeline))}
    if len(systems) == 1:
        raise UsageError(
            "the pipeline has no part to leave out, and there is no other to compare it with: give --against"
        )
    values: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for name, system in systems.items():
        with Evaluator(system.setup, store, workers) as evaluator:
            for part, examples in (("dev", split.search), ("test", split.test)):
                [found] = evaluator.evaluate([system.candidate], examples)
                values[name, part] = _values(name, found)
    return PerQuery(values, MEASURES)


def _questions(pipeline: Pipeline) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """What makes two pipelines comparable: documents and questions, and how these are split."""
    split = pipeline.setup.split
    search, test = (tuple(sorted(example.id for example in part)) for part in (split.search, split.test))
    return pipeline.setup.dataset.digest, search, test


def _without_each(pipeline: Pipeline) -> Iterator[tuple[str, Pipeline]]:
    """The pipeline with naive RAG's option in the place of each of its own, where that is one and can stand there."""
    plain = baseline("naive")
    unfitted = tuple(replace(gene, fit=None) for gene in pipeline.candidate)
    for place, family in enumerate(FAMILIES):
        if unfitted[place].technique == plain[place].technique:
            continue
        candidate = (*unfitted[:place], plain[place], *unfitted[place + 1 :])
        if _stands(candidate):
            name = f"without {family.name} {unfitted[place]}"
            yield name, Pipeline(candidate, pipeline.setup, fitness=pipeline.fitness)


def _stands(candidate: Candidate) -> bool:
    """Whether every technique has before it what it must come after."""
    names = {gene.technique.family: gene.technique.name for gene in candidate}
    return all(names[family] in needed for gene in candidate for family, needed in gene.technique.after.items())


def _values(name: str, found: Evaluation) -> dict[str, dict[str, float]]:
    """The measures of an evaluation by question, those left out that a question has no value of."""
    if found.failures:
        question, failure = next(iter(found.failures.items()))
        raise UsageError(
            f"{name} ({label(found.candidate) or 'naive RAG'}) failed on {len(found.failures)} questions, the first is "
            f"{question}, in {failure['stage']}: {failure['error']}; a failure is no score, so run the command again"
        )
    records = {question: found.records[question]["measures"] for question in found.questions}
    return {
        measure: {q: float(its[measure]) for q, its in records.items() if its.get(measure) is not None}
        for measure in MEASURES
    }


def print_findings(found: Findings) -> None:
    """Print a Markdown table for each measure."""
    for measure in dict.fromkeys(effect.measure for effect in found.effects):
        print(f"\n{measure}: {found.full} minus the other\n")
        print("| against | dev | test | 95 % interval | p | p (BH) | p (signs) | differ | left out | claim |")
        print("| --- |" + " ---: |" * 8 + " --- |")
        for effect in (effect for effect in found.effects if effect.measure == measure):
            dev, test = effect.dev, effect.test
            print(
                f"| {effect.system} | {dev.difference:+.4f} | {test.difference:+.4f} | "
                f"{test.low:+.4f} to {test.high:+.4f} | {test.p:.4f} | {effect.adjusted_p:.4f} | "
                f"{test.sign_flip_p:.4f} | {test.nonzero} of {test.n} | {max(dev.left_out, test.left_out)} | "
                f"{effect.claim} |"
            )


def main() -> None:
    """Run or read what is compared, and print the findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipeline", nargs="?", type=Path, help="an exported pipeline (winner.yaml)")
    parser.add_argument("--against", type=Path, action="append", default=[], help="an exported pipeline; repeatable")
    parser.add_argument("--numbers", type=Path, help="measures by query, system and split (.csv, .jsonl)")
    parser.add_argument("--full", help="with --numbers: the system that others are compared with [default: the first]")
    parser.add_argument("--cache", type=Path, default=Path("ragsmith-cache.sqlite"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if (given.pipeline is None) == (given.numbers is None):
        parser.error("name either the file of a pipeline or --numbers FILE")
    if (given.numbers and given.against) or (given.pipeline and given.full):
        parser.error("--against belongs to a pipeline, --full to --numbers")
    try:
        if given.numbers:
            found = judge(read_per_query(given.numbers), given.full)
        else:
            others = {str(file): Pipeline.load(file) for file in given.against}
            with Store.open(given.cache) as store:
                found = judge(measured(Pipeline.load(given.pipeline), others, store, workers=given.workers))
    except RagsmithError as error:
        sys.exit(str(error))
    if given.json:
        print(json.dumps(asdict(found)))
    else:
        print_findings(found)


if __name__ == "__main__":
    main()
