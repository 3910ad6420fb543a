"""The smallest difference between two pipelines that the test questions of a domain show, predicted and by simulation.

    python benchmarks/bench_detectable.py [--cache FILE] [--worlds N] [DOMAIN ...]

Each domain is searched as `ragsmith search` does, from the cache where that was done before. The differences of the
winner and its rivals on the test questions, less their mean, are how pipelines differ where none is better. A world
draws as many groups of them anew as there are, with replacement, and adds a true difference to each question. The
smallest at which four worlds in five call the winner better (two-sided at 0.05, the only comparison) is *simulated*.
What a report prints as detectable is *predicted*, from the standard error by group and Student's quantiles. The same
worlds judge all differences.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Mapping, Sequence
from statistics import fmean, median

import ragsmith
from ragsmith.api.result import Result
from ragsmith.comparison import power
from ragsmith.comparison.clusters import Clusters
from ragsmith.comparison.difference import difference
from ragsmith.comparison.looks import ALPHA
from ragsmith.datasets.bundled import domains

RIVALS = {"naive": "naive RAG", "bm25": "BM25", "single": "best single option", "recommended": "recommended pipeline"}
SEED = 15
STEPS = 9
"""Halvings of the range from 0 to `MOST` in which the smallest difference is looked for: to 0.001."""
MOST = 0.512

Groups = Sequence[Sequence[float]]
"""Differences on questions, by group."""


def by_question(result: Result, name: str) -> dict[str, float]:
    """Fitness of the pipeline ``name`` of a run, on each test question."""
    rows = result.domain.answered
    return {
        one.question: one.measures["fitness"]
        for one in rows
        if one.pipeline == name and one.split == "test" and one.state == "ok"
    }


def grouped(differences: Mapping[str, float], clusters: Clusters) -> Groups:
    """Differences less their mean, in the groups of their questions."""
    mean = fmean(differences.values())
    found: dict[int, list[float]] = {}
    for question, number in zip(differences, clusters.numbers(list(differences)), strict=True):
        found.setdefault(number, []).append(differences[question] - mean)
    return list(found.values())


def world(groups: Groups, draw: random.Random) -> tuple[list[float], list[int]]:
    """Differences on the questions of as many groups, drawn with replacement, and the group of each question."""
    drawn = [draw.choice(groups) for _ in groups]
    numbers = [number for number, group in enumerate(drawn) for _ in group]
    return [value for group in drawn for value in group], numbers


def shows(values: Sequence[float], numbers: Sequence[int], true: float) -> bool:
    """Whether a test calls a pipeline better that is so by ``true`` on each question."""
    found = difference([value + true for value in values], [0.0] * len(values), numbers)
    return found.mean_difference > 0 and found.p <= ALPHA


def simulated(groups: Groups, worlds: int, seed: int) -> float | None:
    """The smallest difference that four worlds in five show; None where not even `MOST` is."""
    draw = random.Random(seed)
    each = [world(groups, draw) for _ in range(worlds)]

    def power_at(true: float) -> float:
        return sum(shows(values, numbers, true) for values, numbers in each) / worlds

    if power_at(MOST) < power.POWER:
        return None
    low, high = 0.0, MOST
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power_at(middle) >= power.POWER else (middle, high)
    return high


def measure(name: str, cache: str, worlds: int) -> list[tuple[str, float | None, float | None]]:
    """Search a domain, and print and return what its test could show, by rival: predicted, and simulated."""
    result = ragsmith.search(name, cache=cache)
    tested = set(result.domain.about.record.tested)
    clusters = Clusters.of(result.setup.dataset, [one for one in result.setup.dataset.examples if one.id in tested])
    won, found = by_question(result, "winner"), []
    for rival, title in RIVALS.items():
        other = by_question(result, rival)
        both = [question for question in won if question in other]
        differences = {question: won[question] - other[question] for question in both}
        if not any(differences.values()):
            continue  # it is the winner, or answers alike
        groups = grouped(differences, clusters)
        seen = difference(list(differences.values()), [0.0] * len(both), clusters.numbers(both))
        predicted = power.smallest(seen.error, seen.groups, ALPHA, effective=seen.effective)
        of_worlds = simulated(groups, worlds, SEED)
        print(
            f"| {name} | {title} | {len(both)} | {len(groups)} | {seen.mean_difference:+.3f} | "
            f"{_shown(predicted)} | {_shown(of_worlds)} |",
            flush=True,
        )
        found.append((rival, predicted, of_worlds))
    return found


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def main() -> None:
    """Measure each domain, and say what is in the middle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("domain", nargs="*", default=list(domains()), help="bundled data sets [default: all domains]")
    parser.add_argument("--cache", default="detectable.sqlite", help="what searches found; it grows by what is missing")
    parser.add_argument("--worlds", type=int, default=200, help="for each pair of pipelines")
    given = parser.parse_args()
    os.environ.setdefault("RAGSMITH_LEDGER", f"{given.cache}.looks.sqlite")
    print("| domain | winner less | questions | groups | seen | predicted | simulated |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    every = [(name, *row) for name in given.domain for row in measure(name, given.cache, given.worlds)]
    for rival, title in RIVALS.items():
        of = [(guess, of_worlds) for _, name, guess, of_worlds in every if name == rival]
        known = [(guess, of_worlds) for guess, of_worlds in of if guess is not None and of_worlds is not None]
        if known:
            print(
                f"{title}: median predicted {median(guess for guess, _ in known):.3f}, "
                f"simulated {median(of_worlds for _, of_worlds in known):.3f}, {len(known)} of {len(of)} domains"
            )


if __name__ == "__main__":
    main()
