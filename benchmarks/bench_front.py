"""NSGA-II against random search at equal budget, replayed on landscapes: how much of the front each finds.

    python benchmarks/bench_front.py law.npz workshop.npz --seeds 20

Both are told the baselines and single options first, and what behaves as something known costs no evaluation, as in a
run. The front weighs the fitness on the search questions against calls of a language model a question; test questions
are never read. Its hypervolume is measured from naive RAG's fitness and the most calls that any pipeline asks, in % of
that of the whole landscape.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from bench_strategies import World

from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.statistics import paired
from ragsmith.strategies import PRESETS, Genome, make_strategy

MARKS = (25, 50, 100)

Point = tuple[float, float]
"""Fitness, and calls a question."""


def hypervolume(points: Iterable[Point], reference: Point) -> float:
    """The area above ``reference`` in fitness and below it in calls that any of ``points`` reaches.

    Two rectangles, 0.1 by 8 and 0.2 by 4:

    >>> round(hypervolume([(0.5, 2.0), (0.7, 6.0), (0.6, 7.0), (0.3, 1.0)], (0.4, 10.0)), 12)
    1.6
    """
    area, highest = 0.0, reference[0]
    for fitness, calls in sorted(set(points), key=lambda point: (point[1], -point[0])):
        if fitness > highest and calls < reference[1]:
            area += (fitness - highest) * (reference[1] - calls)
            highest = fitness
    return area


class Trades(World):
    """A landscape with what its pipelines ask of language models."""

    @cached_property
    def points(self) -> dict[Genome, Point]:
        """The fitness and the calls of every pipeline."""
        landscape = self._landscape
        calls = landscape.calls[:, landscape.search].mean(axis=1, dtype=np.float64)
        return {genome: (self.scores[genome], float(calls[row])) for genome, row in landscape.row.items()}

    @cached_property
    def reference(self) -> Point:
        """The fitness of naive RAG, and the most calls."""
        naive = self._landscape.space.genome(baseline("naive"))
        return self.scores[naive], max(calls for _, calls in self.points.values())

    def share(self, found: Iterable[Genome]) -> float:
        """The hypervolume of what was found, in % of that of the landscape."""
        whole = hypervolume(self.points.values(), self.reference)
        return 100 * hypervolume((self.points[genome] for genome in found), self.reference) / whole

    def shares(self, name: str, seed: int) -> list[float]:
        """What a strategy has found at each of `MARKS`; at the end where it ends before."""
        strategy = make_strategy(
            name,
            self._landscape.space.sizes,
            PRESETS["default"],
            seed=seed,
            feasible=self.scores.__contains__,
            max_evaluations=MARKS[-1],
        )
        found: list[Genome] = []
        counted: list[int] = []  # how many had been found when each evaluation was counted
        behaviours: set[int] = set()
        batch: Sequence[Genome] = self.first
        while batch or (batch := strategy.propose()):
            repeats = []
            for genome in batch:
                found.append(genome)
                if self.behaviour[genome] in behaviours:
                    repeats.append(genome)
                elif len(found) > len(self.first):
                    counted.append(len(found))
                behaviours.add(self.behaviour[genome])
            costs = {genome: self.points[genome][1:] for genome in batch}
            strategy.tell({genome: self.scores[genome] for genome in batch}, repeats, costs)
            batch = ()
        return [self.share(found[: counted[min(mark, len(counted)) - 1]]) for mark in MARKS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("landscapes", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    asked = parser.parse_args()
    for path in asked.landscapes:
        compare(Trades(path), asked.seeds)


def compare(world: Trades, seeds: int) -> None:
    """Print the table of one landscape, and the paired test at the end."""
    print(f"\n{world.name}: {len(world.points):,} pipelines; told {len(world.first)}, {world.share(world.first):.1f} %")
    print(f"mean (least) hypervolume in % after {', '.join(map(str, MARKS))} evaluations, {seeds} seeds")
    final = {}
    for name in ("random", "nsga2"):
        runs = [world.shares(name, seed) for seed in range(seeds)]
        cells = [f"{statistics.fmean(at):.2f} ({min(at):.2f})" for at in zip(*runs, strict=True)]
        final[name] = [run[-1] for run in runs]
        print(f"{name:<10}" + "".join(f"{cell:>16}" for cell in cells), flush=True)
    found = paired(final["nsga2"], final["random"])
    print(f"nsga2 above random: {found.mean_difference:+.2f} [{found.low:+.2f}, {found.high:+.2f}], p {found.p:.2g}")


if __name__ == "__main__":
    main()
