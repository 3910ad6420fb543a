"""Strategies replayed on landscapes (`landscape.py`): how far the best they find is below the best there is.

    python benchmarks/bench_strategies.py law.npz workshop.npz --seeds 50
    python benchmarks/bench_strategies.py law.npz workshop.npz --seeds 20 --front

Regret is in % of the best pipeline's fitness, on the search questions; test questions are never read. As in a run, a
strategy is told the baselines and single options first (the paper's preset is not), and what behaves as something known
costs no evaluation. ``informed`` rows are as in a run by default: they begin with the pipeline that other data sets
recommend, and are told what these let one expect; what was learned on the data set itself is left out. ``raced`` rows
go on estimates of what a race drops, and say how many answers were asked for.

``--front`` compares NSGA-II with random search at equal budget instead, by how much of the front each finds. The front
weighs the fitness on the search questions against calls of a language model a question. Its hypervolume is measured
from naive RAG's fitness and the most calls that any pipeline asks, in % of that of the whole landscape.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
from landscapes import Landscape
from published import read as read_data

from ragsmith.datasets.bundled import bundled_names
from ragsmith.datasets.overlap import sample_shingles
from ragsmith.datasets.splits import split
from ragsmith.effects import ModelClasses, prior_for, profile_corpus, read_effects, recommend_pipeline
from ragsmith.errors import SpaceError
from ragsmith.evaluation.baselines import BASELINES, baseline, list_probes
from ragsmith.evaluation.racing import PartialScores, RaceState, Racing
from ragsmith.evaluation.statistics import holm, paired_test
from ragsmith.strategies import PRESETS, Genome, Observation, Prior, SteppedSearch, make_strategy

MARKS = (25, 50, 100, 200)
BUDGET = 100
FRONT_MARKS = (25, 50, 100)


@dataclass(frozen=True)
class Entrant:
    """A row of the table: a strategy that ends after so many evaluations."""

    name: str
    strategy: str
    preset: str = "default"
    raced: bool = False
    informed: bool = False
    ends: int = MARKS[-1]


ENTRANTS = (
    Entrant("random", "random"),
    Entrant("genetic, the paper's", "genetic", "paper"),
    Entrant("greedy", "greedy"),
    Entrant("TPE", "tpe", ends=BUDGET),
    Entrant("default", "genetic", ends=BUDGET),
    Entrant("default, raced", "genetic", raced=True, ends=BUDGET),
    Entrant("default, informed", "genetic", informed=True, ends=BUDGET),
    Entrant("default, informed, raced", "genetic", raced=True, informed=True, ends=BUDGET),
    Entrant("model", "model", ends=BUDGET),
)


class World:
    """A landscape as a run sees it."""

    def __init__(self, path: Path, data: Path) -> None:
        self._data = data
        self.name = path.stem
        self._landscape = landscape = Landscape.load(path)
        self.scores = {genome: landscape.evaluate(genome) for genome in landscape.row}
        self.best = max(self.scores.values())
        self.behaviour = {genome: int(landscape.phenotypes[row]) for genome, row in landscape.row.items()}

    @cached_property
    def first(self) -> list[Genome]:
        """The baselines and single options that are in the space, as a run evaluates them."""
        space = self._landscape.space
        probes = (candidate for probe in list_probes(space) for candidate in (probe.candidate, probe.reference))
        found: dict[Genome, None] = {}
        for candidate in (*map(baseline, BASELINES), *probes):
            try:
                found[space.genome(candidate)] = None
            except SpaceError:
                continue
        return [genome for genome in found if genome in self.scores]

    @cached_property
    def informed(self) -> tuple[Genome | None, Prior]:
        """The pipeline that other data sets recommend, where it is in the landscape, and what they let one expect."""
        landscape = self._landscape
        name = landscape.about["dataset"]
        dataset, _ = read_data(name if name in bundled_names("datasets") else str(self._data / name.replace(" ", "_")))
        knowledge = read_effects().without(sample_shingles(dataset.documents))
        corpus = profile_corpus(dataset.documents)
        found = recommend_pipeline(landscape.space, knowledge, corpus, ModelClasses(), most_calls=None)
        genome = landscape.space.genome(found.candidate)
        asked = profile_corpus(dataset.documents, split(dataset).search)
        prior = prior_for(landscape.space, knowledge, asked, ModelClasses()).predict_genomes
        return genome if genome in self.scores else None, prior

    @cached_property
    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """What R and G add to the fitness, by pipeline and search question, in a random order of the questions."""
        columns = np.random.default_rng(0).permutation(np.flatnonzero(self._landscape.search))
        return self._landscape.R[:, columns].astype(float) / 2, self._landscape.G[:, columns].astype(float) / 2

    def strategy(self, entrant: Entrant, seed: int) -> SteppedSearch:
        """The strategy of a row of the table."""
        preset = PRESETS[entrant.preset]
        sizes = self._landscape.space.sizes
        return make_strategy(
            entrant.strategy,
            sizes,
            preset,
            seed=seed,
            feasible=self.scores.__contains__,
            max_evaluations=entrant.ends,
            prior=self.informed[1] if entrant.informed else None,
        )

    def replay(self, entrant: Entrant, seed: int) -> tuple[list[float], int]:
        """The regret after each evaluation, and the answers that were asked for."""
        strategy, race = self.strategy(entrant, seed), Race(self) if entrant.raced else None
        told = list(self.first) if entrant.preset != "paper" else []
        if entrant.informed and (begin := self.informed[0]) and begin not in told:
            told.append(begin)
        answers, regrets, behaviours = 0, [], set[int]()
        batch: Sequence[Genome] = told
        while batch or (batch := strategy.propose()):
            results, asked = race.run(batch) if race else ({genome: self.scores[genome] for genome in batch}, 0)
            repeats = [genome for genome in batch if self.behaviour[genome] in behaviours]
            behaviours.update(self.behaviour[genome] for genome in batch)
            answers += asked
            before = strategy.best()
            strategy.tell(results, repeats)
            if batch is not told:
                regrets += self._regrets(before, batch, results, repeats)
            batch = ()
        return regrets, answers

    def _regrets(
        self,
        before: tuple[Genome, float] | None,
        batch: Sequence[Genome],
        results: Mapping[Genome, Observation],
        repeats: Sequence[Genome],
    ) -> list[float]:
        scores = [score if isinstance(score := results[genome], float) else 0.0 for genome in batch]
        best = list(accumulate(scores, max, initial=before[1] if before else 0.0))[1:]
        return [
            100 * (self.best - found) / self.best
            for genome, found in zip(batch, best, strict=True)
            if genome not in repeats
        ]


class Race:
    """Races as in a run, whose answers are looked up."""

    def __init__(self, world: World) -> None:
        self._world, self._racing = world, Racing()
        self._questions = world.shares[0].shape[1]
        self._track = RaceState(self._questions, self._racing)
        self._rows = {genome: row for row, genome in enumerate(world.scores)}

    def run(self, batch: Sequence[Genome]) -> tuple[dict[Genome, Observation], int]:
        """What each came to, and how many answers that took."""
        told: dict[Genome, Observation] = {}
        asked = 0
        running = {number: self._standing(genome, 0) for number, genome in enumerate(batch)}
        for number in self._track.find_futile(running):
            told[batch[number]] = self._track.estimate_pruned(running.pop(number), 0)
        for answered in self._racing.looks(self._questions):
            running = {number: self._standing(batch[number], answered) for number in running}
            for number in self._track.find_behind(answered, running):
                told[batch[number]] = self._track.estimate_pruned(running.pop(number), answered)
                asked += answered
        for number, standing in running.items():
            self._track.add(standing)
            told[batch[number]] = standing.value()
            asked += self._questions
        return told, asked

    def _standing(self, genome: Genome, answered: int) -> PartialScores:
        exact, sampled = (share[self._rows[genome]] for share in self._world.shares)
        return PartialScores(exact, np.where(np.arange(self._questions) < answered, sampled, np.nan))


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
        """What a strategy has found at each of `FRONT_MARKS`; at the end where it ends before."""
        strategy = make_strategy(
            name,
            self._landscape.space.sizes,
            PRESETS["default"],
            seed=seed,
            feasible=self.scores.__contains__,
            max_evaluations=FRONT_MARKS[-1],
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
        return [self.share(found[: counted[min(mark, len(counted)) - 1]]) for mark in FRONT_MARKS]


def compare_fronts(world: Trades, seeds: int) -> None:
    """Print the table of one landscape, and the paired test at the end."""
    print(f"\n{world.name}: {len(world.points):,} pipelines; told {len(world.first)}, {world.share(world.first):.1f} %")
    print(f"mean (least) hypervolume in % after {', '.join(map(str, FRONT_MARKS))} evaluations, {seeds} seeds")
    final = {}
    for name in ("random", "nsga2"):
        runs = [world.shares(name, seed) for seed in range(seeds)]
        cells = [f"{statistics.fmean(at):.2f} ({min(at):.2f})" for at in zip(*runs, strict=True)]
        final[name] = [run[-1] for run in runs]
        print(f"{name:<10}" + "".join(f"{cell:>16}" for cell in cells), flush=True)
    found = paired_test(final["nsga2"], final["random"])
    print(f"nsga2 above random: {found.mean_difference:+.2f} [{found.low:+.2f}, {found.high:+.2f}], p {found.p:.2g}")


def compare(world: World, seeds: int) -> None:
    """Print the table of one landscape, and the tests at the default's budget."""
    pipelines, behaviours = len(world.scores), len(set(world.behaviour.values()))
    print(
        f"\n{world.name}: {pipelines:,} pipelines, {behaviours:,} that differ; {seeds} seeds; told {len(world.first)}"
    )
    print(f"median (mean) regret in % after {', '.join(map(str, MARKS))} evaluations; evaluations; answers; CPU s")
    final: dict[str, list[float]] = {}
    for entrant in ENTRANTS:
        start = time.process_time()
        runs = [world.replay(entrant, seed) for seed in range(seeds)]
        seconds = (time.process_time() - start) / seeds
        cells = []
        for mark in MARKS:
            at_mark = [regrets[min(mark, len(regrets)) - 1] for regrets, _ in runs]
            shown = f"{statistics.median(at_mark):.2f} ({statistics.fmean(at_mark):.2f})"
            cells.append(shown if mark <= entrant.ends else "-")
            if mark == BUDGET:
                final[entrant.name] = at_mark
        used = statistics.median(len(regrets) for regrets, _ in runs)
        answers = statistics.fmean(answers for _, answers in runs)
        row = " ".join(f"{cell:>12}" for cell in cells)
        asked = f"{answers:,.0f}" if entrant.raced else "-"
        print(f"{entrant.name:<26}{row} {used:6.0f} {asked:>7} {seconds:6.2f}", flush=True)
    rivals = [name for name in final if not name.startswith("default")]
    comparisons = [paired_test(final[rival], final["default"]) for rival in rivals]
    adjusted = holm([comparison.p for comparison in comparisons])
    print(f"regret above the default's after {BUDGET}, 95 % interval, p by Holm")
    for rival, found, p in zip(rivals, comparisons, adjusted, strict=True):
        print(f"{rival:<26}{found.mean_difference:+.2f} [{found.low:+.2f}, {found.high:+.2f}]  p {p:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("landscapes", nargs="+", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where published data sets lie")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--front", action="store_true", help="NSGA-II against random search, by hypervolume")
    asked = parser.parse_args()
    for path in asked.landscapes:
        if asked.front:
            compare_fronts(Trades(path, asked.data), asked.seeds)
        else:
            compare(World(path, asked.data), asked.seeds)


if __name__ == "__main__":
    main()
