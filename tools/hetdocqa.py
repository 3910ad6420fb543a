"""Compare pipelines, or numbers of any systems, by the protocol of HetDocQA (Singh et al., "Beyond the Reranker").

python tools/hetdocqa.py reports/law/winner.yaml                       # the winner without each of its parts
python tools/hetdocqa.py full.yaml --against plain.yaml                # or other pipelines
python tools/hetdocqa.py --numbers numbers.csv --full full             # or numbers of any systems

The full system is compared with systems that lack a part of it, question by question, on a dev and on a test split.
Differences are full minus other; their interval is a percentile bootstrap of 10,000 resamples, their p that of the same
resamples re-centred. A difference is claimed where, on the test split, its p passes Benjamini and Hochberg's rule among
all that is compared there by the same measure, the interval does not hold 0, and the sign is the same on dev. A
difference of exactly 0 has no sign: the part is inert, which is consistent with nothing.

The study does not say which comparisons make a family, nor how a difference of 0 is to be read: both are decided here.
Beside the study's p stands that of sign flips, which is exact where few questions differ and the study's is not.

Our search questions are its dev split: pipelines were chosen on them. The test questions are its test split.

A JSONL line is ``{"query": "q1", "system": "full", "split": "test", "ndcg_10": 0.63, "success_10": 1}``; in a CSV file
the same names head the columns. What is not one of the first three is a measure. An empty cell, a null or a key that is
not there says that the question has no such value: never 0.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from ragsmith.errors import DatasetError, UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.statistics import benjamini_hochberg, paired, recentred_bootstrap
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.requirements import refuse_missing_answers
from ragsmith.pipelines.genes import Candidate, label
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.text.files import TextError
from ragsmith.text.jsonl import Record, kind, parse_record, text_problems
from ragsmith.text.suggest import did_you_mean

COLUMNS = ("query", "system", "split")
SPLITS = ("dev", "test")

MOST_MISTAKES = 20
"""Mistakes that are listed; of more their number is said."""

Line = tuple[int, Record]


@dataclass(frozen=True)
class PerQuery:
    """A value for each measure, system, split and question: ``values[system, split][measure][question]``.

    ``measures`` are in the order in which they first stand.
    """

    values: Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]
    measures: tuple[str, ...]

    @property
    def systems(self) -> tuple[str, ...]:
        """Their names, in the order in which they first stand."""
        return tuple(dict.fromkeys(system for system, _ in self.values))

    def of(self, system: str, split: str, measure: str) -> Mapping[str, float]:
        """What the questions of a split have, by question; empty where there is nothing."""
        return self.values.get((system, split), {}).get(measure, {})


def read_per_query(path: str | Path) -> PerQuery:
    """Read a ``.csv`` or ``.jsonl`` file.

    Raises:
        UsageError: there is no such file, or it is of another kind.
        DatasetError: it is wrong; every mistake is listed with its line.
    """
    path = Path(path)
    reader = {".csv": _csv_lines, ".jsonl": _jsonl_lines}.get(path.suffix.lower())
    if reader is None:
        raise UsageError(f"{path}: numbers by question are read from a .csv or a .jsonl file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 (byte {error.start}); save it as that") from None
    mistakes: list[str] = []
    found = _collected(reader(text, mistakes), mistakes)
    if not mistakes and not found.measures:
        mistakes.append(f"it has no values: give a line for each question with {', '.join(COLUMNS)} and measures")
    if mistakes:
        rest = len(mistakes) - MOST_MISTAKES
        shown = [*mistakes[:MOST_MISTAKES], *([f"and {rest:,} more mistakes"] if rest > 0 else [])]
        raise DatasetError([f"{path}: {mistake}" for mistake in shown])
    return found


def _jsonl_lines(text: str, mistakes: list[str]) -> Iterator[Line]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, parse_record(line)
        except TextError as error:
            mistakes.append(f"line {number}: {error.reason}")


def _csv_lines(text: str, mistakes: list[str]) -> Iterator[Line]:
    rows = csv.reader(text.splitlines(keepends=True))
    head = [name.strip() for name in next(rows, [])]
    missing = [name for name in COLUMNS if name not in head]
    twice = sorted({name for name in head if head.count(name) > 1})
    mistakes += [f"line 1: there is no column {name!r}" for name in missing]
    mistakes += [f"line 1: the column {name!r} is there twice" for name in twice]
    if missing or twice:
        return
    for cells in rows:
        if not any(cells):
            continue
        if len(cells) != len(head):
            mistakes.append(f"line {rows.line_num}: has {len(cells)} cells, and the head has {len(head)}")
            continue
        yield rows.line_num, {name: _cell(name, cell) for name, cell in zip(head, cells, strict=True)}


def _cell(name: str, cell: str) -> object:
    """A cell as JSON has it: a number where a measure is one, and nothing where it is empty."""
    if name in COLUMNS:
        return cell
    if not cell.strip():
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


def _collected(lines: Iterable[Line], mistakes: list[str]) -> PerQuery:
    values: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    measures: dict[str, None] = {}
    seen: dict[tuple[str, str, str], int] = {}
    for number, record in lines:
        problems = list(_problems(record))
        if not problems:
            query, system, split = (str(record[name]) for name in COLUMNS)
            if (first := seen.setdefault((query, system, split), number)) != number:
                problems.append(f"{query} of {system} on {split} stands in line {first} already")
        mistakes += [f"line {number}: {problem}" for problem in problems]
        if problems:
            continue
        for name, value in record.items():
            if name not in COLUMNS:
                measures[name] = None
                if value is not None:
                    values.setdefault((system, split), {}).setdefault(name, {})[query] = float(str(value))
    return PerQuery(values, tuple(measures))


def _problems(record: Record) -> Iterator[str]:
    yield from (f"{name!r} is missing" for name in COLUMNS if name not in record)
    yield from text_problems(record, COLUMNS)
    if isinstance(split := record.get("split"), str) and split.strip() and split not in SPLITS:
        yield f"the split is {split!r}: it is {' or '.join(SPLITS)}"
    for name, value in record.items():
        if name in COLUMNS or value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            said = repr(value) if isinstance(value, str) else kind(value)
            yield f"{name!r} is {said}: a measure is a number, or nothing"
        elif not math.isfinite(value):
            yield f"{name!r} is {value}: a measure is a finite number, or nothing"


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


def main() -> None:
    """Read the command line, and print the findings as JSON."""
    parser = argparse.ArgumentParser(description="Compare pipelines by the protocol of HetDocQA.")
    parser.add_argument("pipeline", nargs="?", help="an exported pipeline (winner.yaml)")
    parser.add_argument("--against", action="append", default=[], help="another; by default itself without each part")
    parser.add_argument("--numbers", help="instead of a pipeline: measures by query, system and split (.csv, .jsonl)")
    parser.add_argument("--full", help="with --numbers: the system that others are compared with")
    parser.add_argument("--dataset", help="other documents than the exported ones")
    parser.add_argument("--cache", default="cache.sqlite")
    given = parser.parse_args()
    if (given.pipeline is None) == (given.numbers is None):
        parser.error("name the file of a pipeline, or --numbers FILE, and not both")
    if given.numbers:
        numbers = read_per_query(given.numbers)
    else:
        loaded, *others = (Pipeline.load(name, dataset=given.dataset) for name in (given.pipeline, *given.against))
        with Store.open(given.cache) as store:
            named = dict(zip(given.against, others, strict=True))
            numbers = measured(loaded, named, store, workers=loaded.setup.models.workers())
    print(json.dumps(asdict(judge(numbers, given.full)), indent=2))


if __name__ == "__main__":
    main()
