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

    python benchmarks/bench_strategies.py law finance ../shared/data/hotpotqa_100 --simplify

``--simplify`` asks what simplification costs on unseen questions; arguments are then data sets. Each is searched once
(40 candidates, no race) on its search questions; test questions are never read. These are divided ten times by section:
on one part, of half of them, of 25 or of 10, a pipeline is chosen and simplified, and on the other part it is scored,
simplified and not. One row a rule: the losses that simplification may accept, and the rule of one standard error, which
was the default before. Differences of a question are averaged over divisions. Means and their intervals (95 %, by
group) are over questions with gold; those without are shown apart.

    python benchmarks/bench_strategies.py law finance --rankings-first

``--rankings-first`` searches data sets twice, as whole pipelines and with rankings first, and shows the fitness of both
winners on the test questions, and the answers that were computed. Embedded models answer, and options that ask a
language model count as costly, as they are with a chat model.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
from landscapes import Landscape
from published import read as read_data

import ragsmith
from ragsmith.comparison.difference import cluster_interval
from ragsmith.comparison.questions import Clusters
from ragsmith.datasets.bundled import bundled_names
from ragsmith.datasets.groups import group_by_section
from ragsmith.datasets.overlap import sample_shingles
from ragsmith.datasets.splits import Split, split
from ragsmith.effects import ModelClasses, prior_for, profile_corpus, read_effects, recommend_pipeline
from ragsmith.errors import SpaceError
from ragsmith.evaluation.baselines import BASELINES, baseline, list_probes
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import RETRIEVAL, Fitness
from ragsmith.evaluation.racing import PartialScores, RaceState, Racing
from ragsmith.evaluation.ranking import Terms, rank_evaluations
from ragsmith.evaluation.statistics import holm, paired_test
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.runs import choice, rankings
from ragsmith.runs.run import Run
from ragsmith.store.store import Store
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


DIVISIONS = 10
SIZES = (None, 25, 10)
"""Questions to choose and to simplify by; None is half of all."""
LIMITS = (0.002, 0.01, 0.015, 0.02)
ONE_ERROR = "one standard error"


class Divided:
    """A data set that was searched, whose search questions are divided to choose on one part and score on the other."""

    def __init__(self, name: str, store: Store) -> None:
        self.dataset, answers = read_data(name)
        self.fitness = Fitness() if answers else Fitness().with_objective(RETRIEVAL)
        found = split(self.dataset).search
        self.searched = tuple(example for example in found if answers or example.evidence)
        setup = Experiment(self.dataset, fixed_split=Split(self.searched, (), "search questions alone"))
        settings = RunSettings(max_evaluations=40, racing=None, simplify=False, fitness=self.fitness)
        run = Run(setup, load_space("default"), store, settings)
        run._diagnose = lambda: None  # type: ignore[method-assign]  # decides nothing
        context, questions = run._context, len(self.searched)
        self.known = [one for one in run.go().evaluations.values() if one.complete and len(one.questions) == questions]
        self.space = context.space
        only = self.fitness.ranking_only
        self._evaluator = Evaluator(context.setup, store, 1, ranking_only=only).__enter__()
        self.examples = {example.id: example for example in self.searched}
        self.clusters = Clusters.from_examples(self.dataset, self.searched)

    def divisions(self, size: int | None) -> Iterable[tuple[list[str], list[str]]]:
        """Questions to choose by, and the others; questions with gold in the same section stay together."""
        groups = [[example.id for example in group.examples] for group in group_by_section(self.dataset, self.searched)]
        for seed in range(DIVISIONS):
            random.Random(seed).shuffle(groups)
            seen: list[str] = []
            for group in groups:
                if len(seen) < (size or len(self.examples) // 2):
                    seen += group
            yield seen, [question for question in self.examples if question not in set(seen)]

    def on(self, candidates: Sequence[Candidate], questions: Sequence[str]) -> list[Evaluation]:
        """Evaluations on some of the questions; those that were stored before are read."""
        return self._evaluator.evaluate(candidates, [self.examples[question] for question in questions])

    def replay(self, seen: Sequence[str]) -> dict[str, Candidate]:
        """The pipeline with the highest mean on ``seen``, and what each rule makes of it."""
        known = [one.restrict(tuple(seen)) for one in self.known]
        terms = Terms.from_evaluations(known, self.fitness)
        leader = rank_evaluations(known, terms)[0]
        clusters = Clusters.from_examples(self.dataset, [self.examples[question] for question in seen])

        def alike(candidate: Candidate, other: Evaluation) -> Evaluation | None:
            for count in (1, 4, len(seen)):
                [found] = self.on([candidate], seen[:count])
                if found.phenotype != other.restrict(found.questions).phenotype:
                    return None
            return found

        rules = {"untouched": leader.candidate, ONE_ERROR: self.within_one_error(leader, seen, terms)}
        for limit in LIMITS:
            found, _ = choice.simplify(
                leader,
                self.space,
                lambda some: self.on(some, seen),
                alike,
                lambda: terms,
                clusters=clusters,
                max_loss=limit,
            )
            rules[f"at most {limit}"] = found.candidate
        return rules

    def within_one_error(self, leader: Evaluation, seen: Sequence[str], terms: Terms) -> Candidate:
        """Without what stays within a standard error over questions: what saves most calls goes first."""
        current = leader
        while True:
            able = []
            off = [choice._switch_off(place, current.candidate, self.space) for place in range(9)]
            for simpler in self.on([one for one in off if one], seen):
                ours, theirs = (np.array(list(one.by_question(self.fitness).values())) for one in (leader, simpler))
                behind = ours - theirs
                error = behind.std(ddof=1) / math.sqrt(len(behind))
                saved = statistics.fmean(current.values("calls")) - statistics.fmean(simpler.values("calls"))
                falls = terms.score(current) > terms.score(simpler)  # type: ignore[operator]
                if behind.mean() <= error and (saved > 0 or not falls):
                    able.append((saved, -behind.mean(), simpler))
            if not able:
                return current.candidate
            current = max(able, key=lambda one: one[:2])[2]


def compare_simplified(names: Sequence[str]) -> None:
    """Print, for each number of questions, what every rule costs on unseen questions and saves in calls."""
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "cache.sqlite") as store:
        means: dict[tuple[int | None, str], list[float]] = defaultdict(list)
        for name in names:
            start = time.process_time()
            world = Divided(name, store)
            for size in SIZES:
                changes: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
                saved: dict[str, list[float]] = defaultdict(list)
                for seen, unseen in world.divisions(size):
                    made = world.replay(seen)
                    scored = dict(zip(made, world.on(list(made.values()), unseen), strict=True))
                    base = scored.pop("untouched")
                    before = base.by_question(world.fitness)
                    for rule, one in scored.items():
                        calls = (statistics.fmean(each.values("calls")) for each in (base, one))
                        saved[rule].append(next(calls) - next(calls))
                        for question, value in one.by_question(world.fitness).items():
                            changes[rule][question].append(value - before[question])
                for rule, of_rule in changes.items():
                    each = {question: statistics.fmean(values) for question, values in of_rule.items()}
                    tested = world.clusters.tested(each)
                    low, high = cluster_interval([each[one] for one in tested], world.clusters.group_numbers(tested))
                    means[size, rule].append(mean := statistics.fmean(each[one] for one in tested))
                    apart = [value for question, value in each.items() if question not in set(tested)]
                    said = f", without gold {statistics.fmean(apart):+.4f}" if apart else ""
                    print(
                        f"{world.dataset.name:<22}{size or 'half':>5} {rule:<20}{mean:+.4f} [{low:+.4f}, {high:+.4f}]"
                        f"  saves {statistics.fmean(saved[rule]):.2f} calls{said}",
                        flush=True,
                    )
            print(f"{world.dataset.name}: {len(world.searched)} questions, {time.process_time() - start:.0f} CPU s")
        print("\nmean over data sets, and the lowest")
        for (size, rule), values in means.items():
            print(f"{size or 'half':>5} {rule:<20}{statistics.fmean(values):+.4f}  {min(values):+.4f}")


def compare_rankings_first(names: Sequence[str]) -> None:
    """Print what a search of rankings first loses on the test questions, and how many answers it needs."""
    rankings.list_costly_tools = lambda models: frozenset({"language_model"})  # type: ignore[assignment]
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            found = {}
            for first in (False, True):
                result = ragsmith.search(
                    name, cache=Path(folder) / f"{first}.sqlite", rankings_first=first, test=True, seed=1, workers=1
                )
                report = result.run_report
                [won] = [one.test.scores["fitness"].mean for one in report.finalists if one.name == "winner"]
                found[first] = won, report.about.record.account.computed
            losses.append(found[True][0] - found[False][0])
            said = (f"{won:.4f} ({answers:,} answers)" for won, answers in found.values())
            print(f"{name:<22}whole {next(said)}, rankings first {next(said)}: {losses[-1]:+.4f}", flush=True)
    print(f"mean {statistics.fmean(losses):+.4f}")


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
    parser.add_argument("landscapes", nargs="+", type=Path, help="or data sets, with --simplify")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where published data sets lie")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--front", action="store_true", help="NSGA-II against random search, by hypervolume")
    parser.add_argument("--rankings-first", action="store_true", help="what a search of rankings first loses")
    parser.add_argument("--simplify", action="store_true", help="what simplification costs on unseen questions")
    asked = parser.parse_args()
    if asked.rankings_first:
        os.environ["RAGSMITH_LEDGER"] = "off"
        compare_rankings_first([str(path) for path in asked.landscapes])
        return
    if asked.simplify:
        compare_simplified([str(path) for path in asked.landscapes])
        return
    for path in asked.landscapes:
        if asked.front:
            compare_fronts(Trades(path, asked.data), asked.seeds)
        else:
            compare(World(path, asked.data), asked.seeds)


if __name__ == "__main__":
    main()
