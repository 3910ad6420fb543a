"""How often a verdict claims what is not so, and how often it shows what is.

    python benchmarks/bench_verdicts.py                  # level, power, null, looks
    python benchmarks/bench_verdicts.py level power --worlds 2000        # about an hour on two cores
    python benchmarks/bench_verdicts.py null looks       # some of: level power null looks detectable

level   the share of families of comparisons of equal pipelines in which any is called better or worse, and how often
        the 95 % interval holds the true difference, by number and sizes of groups, kind of differences, and size of the
        family; in the layouts of the bundled tests too, where differences of real pipelines are a further kind (cache:
        verdicts.sqlite). Some worlds also go through `compare_pipelines`, with 0 and 16 unanswerable questions
power   in the same worlds, how often a true difference is shown, beside what `Power` predicts from what is seen in each
        world; and how often the difference is shown that `Power.smallest` names, which should be in four of five
null    200 searches through the real loop of a run, on tables of records in which no pipeline is better than another:
        records drawn at random, real rankings and answers marked by the gold of other questions, and options that do
        nothing but now and then by chance
looks   100 worlds of one data set each, searched 20 times from other folders and caches, with the user's ledger, and
        without: worlds in which any search calls its winner better, though nothing is
detectable  the smallest difference between two pipelines that the test questions of each domain show. Each is searched
        as `ragsmith search` does (cache: detectable.sqlite). Differences of the winner and its rivals, less their mean,
        are how pipelines differ where none is better; a world draws as many groups of them anew, with replacement, and
        adds a true difference. The smallest at which four worlds in five call the winner better is *simulated*; what a
        report prints is *predicted*
declining  how often a pipeline that was calibrated by `search --max-risk` keeps the stated risk. On made-up pipelines
        with independent questions: thresholds chosen by fixed sequences that start at 0 to 50 % of the answers, and by
        the search of Geifman and El-Yaniv (SGR). On made-up groups of questions that are wrong together: the bound that
        takes questions as independent, and the one by group. With naive RAG and the recommended pipeline, on five
        random divisions of each bundled domain and of each published data set with answers in the folder --data: by the
        score of the passages alone and questions as independent, by that score and groups, and as `search` does (cache:
        declining.sqlite)
pleasing  100 worlds, each searched over two prompts of a simulated model that make it right equally often; with one it
        flatters, which pleases the judge of the search: how often the flattering pipeline wins, and is called better
        than naive RAG, if another judge scores the test, and if the same does
few     24 questions drawn from each bundled domain that the recommended pipeline was not learned on, twice: the winner
        of a search with them alone beside the recommended pipeline, on all other questions (cache: few.sqlite)
wordings  20 searches on law over two prompts of a simulated model: how often the better one wins and is called better
        than the same pipeline with the built-in prompt, and how often either is where both are equally good
marks   worlds of people's marks and a judge's scores of the answers of two pipelines, where the judge is too kind by
        0.1 to 0.3, and to the first by up to 0.2 more: how often the intervals of the mean and of the
        difference by `estimate_powered_mean` hold the true values, and their mean width beside that of marks alone, by
        number of marked questions and sizes of groups

The tables stand in the place of what pipelines are made to do, and of nothing else: search, races, choice, simplifying,
test, ledger and verdict are those of `ragsmith search`.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import cycle, islice
from pathlib import Path
from statistics import NormalDist, fmean, median

import numpy as np
from numpy.typing import NDArray
from published import CRANFIELD, read

import ragsmith
from ragsmith.api.result import Result
from ragsmith.comparison.difference import POWER, RESAMPLES, Power, cluster_interval, compute_difference
from ragsmith.comparison.marked_answers import MarkableAnswer, draw_answers
from ragsmith.comparison.prediction_powered import estimate_powered_mean
from ragsmith.comparison.questions import ALPHA, Clusters
from ragsmith.comparison.verdicts import Comparison, compare_pipelines
from ragsmith.datasets.bundled import bundled_domains
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.splits import split
from ragsmith.diagnosis.causes import good_score_threshold
from ragsmith.effects.knowledge import read_effects
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation, Record
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import REFUSAL, Fitness
from ragsmith.evaluation.ranking import MAX_FAILURE_RATE, Terms
from ragsmith.evaluation.selective import AnswerCounts, binomial_cdf, calibrate_threshold, find_wrong
from ragsmith.evaluation.statistics import MAX_EXACT_DIFFERENCES, Verdict, holm
from ragsmith.evaluation.threads import RANKING
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, label, make_gene
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.pipelines.trace import StageOutput, Trace
from ragsmith.records.record import RunSettings
from ragsmith.reporting.facts import compare_finalists, drop_duplicates
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.runs.calibration import SupportScorer
from ragsmith.runs.run import Run
from ragsmith.store.store import ResultRow, Store
from ragsmith.techniques.registry import load_techniques
from ragsmith.types import Answer, Dataset, Document, Example, Span

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests/support")]

from judges import Flatterer, Judge, search_flattered  # noqa: E402
from wordings import claimed, race, winning_wording  # noqa: E402

RANKED = ("recall", "map", "ndcg", "mrr")
ANSWERED = ("judge", "similarity")
SPACE = """\
name: replayed
description: Pipelines whose records are in a table.
families:
  pre_embedding: [none]
  query_expansion: [none, hyde]
  retrieval: [vector, bm25, hybrid]
  reranking: [none, cross_encoder]
  passage_filter:
    - top_k: {k: [3, 5]}
  passage_augment: [none, prev_next]
  passage_compress: [none]
  prompt_maker: [listing]
  post_generation: [none]
"""
DOCUMENTS, EACH = 18, 3  # questions of a document; ten documents are the test

Table = Callable[[Candidate, str], tuple[float, float]]
"""R and G of a pipeline on a question."""


class Replayed(Evaluator):
    """An evaluator that reads what comes of a pipeline on a question from a table."""

    table: Table

    def _compute(self, distinct, jobs, part, *, counts):  # type: ignore[no-untyped-def]
        rows = []
        for position, question in jobs:
            key, candidate = distinct[position]
            rows.append(ResultRow(key, question, "ok", record(candidate, *self.table(candidate, question), part)))
        if counts:
            self.computed += len(rows)
        self._put(rows)


def record(candidate: Candidate, found: float, answered: float, part: str) -> Record:
    """What would be stored; a ranking alone has no answer."""
    measures = dict.fromkeys(RANKED, found)
    said = f"{found} {answered} {label(candidate)}"
    calls = 1 + sum(gene.technique.name in ("hyde", "cross_encoder") for gene in candidate)
    usage = {"calls": calls, "texts_embedded": 1, "pairs_scored": 0, "input_tokens": 1, "output_tokens": 1}
    value: Record = {"measures": measures, "retrieved": [said], "usage": usage, "stages": {}, "cited": []}
    if part == RANKING:
        return {**value, "part": "ranking"}
    return {**value, "measures": measures | dict.fromkeys(ANSWERED, answered), "answer": said}


def replayed(
    setup: Experiment, space: Space, table: Table, folder: Path, settings: RunSettings
) -> tuple[tuple[Comparison, ...], int]:
    """Search and pass the verdict, with a fresh cache in ``folder``; and the number of the look."""
    with Store.open(folder / "cache.sqlite") as store:
        run = Run(setup, space, store, settings)
        evaluator = Replayed(setup, store, 1)
        evaluator.table = table
        run._evaluator = evaluator
        run._diagnose = lambda: None  # why questions fail is looked up by running pipelines, and decides nothing
        outcome = run.go()
        about = choose_run(store, setup.dataset.name)
        material = RunData(store, about, outcome.evaluations, whole=True)
        kept = about.record
        tested = {name: found for name, key in kept.test.items() if (found := material.on_test(key))}
        look = kept.look.number if kept.look else 1
        terms = material.terms_of_test
        return compare_finalists(
            drop_duplicates(tested), terms, len(kept.random), clusters=kept.split.groups, look=look
        ), look


def made_up(seed: int) -> Dataset:
    """Documents with three questions each; those of ten documents are the test."""
    documents, examples = [], []
    for number in range(DOCUMENTS):
        texts = [f"Fact {seed} {number} {place} is known in the town.\n\n" for place in range(EACH)]
        documents.append(Document(f"d{number}", f"d{number}", "".join(texts)))
        start = 0
        for place, text in enumerate(texts):
            span = Span(f"d{number}", start, start + len(text.strip()))
            question = f"What is fact {seed} {number} {place}?"
            part = "test" if number < 10 else "search"
            examples.append(Example(f"q{number:02}-{place}", question, f"{number}", "factual", (span,), split=part))
            start += len(text)
    return Dataset(f"world{seed}", "made up", "", "CC0", "en", tuple(documents), tuple(examples), f"world {seed}")


def stable(*parts: object) -> random.Random:
    """A generator that depends on nothing but its parts."""
    return random.Random("\0".join(map(str, parts)))


def drawn(world: int) -> Table:
    """Scores at random; those of a pipeline on the questions of a document are alike. Nobody is better."""

    @cache
    def score(pipeline: str, question: str) -> tuple[float, float]:
        hard = stable(world, "question", question).gauss(0, 0.2)
        lift = stable(world, pipeline, question.partition("-")[0]).gauss(0, 0.15)
        draw = stable(world, pipeline, question)
        worth = 0.6 + hard + lift + draw.gauss(0, 0.2)
        return (min(1.0, max(0.0, round(worth, 2))), min(1.0, max(0.0, round(worth + draw.gauss(0, 0.1), 2))))

    return lambda candidate, question: score(label(candidate), question)


def inert(world: int) -> Table:
    """All pipelines do the same, but for one question in ten, on which chance does something to each."""

    @cache
    def score(pipeline: str, question: str) -> tuple[float, float]:
        base = stable(world, question).choice([0.0, 0.3, 0.5, 1.0, 1.0])
        draw = stable(world, pipeline, question)
        if draw.random() < 0.1:
            base = stable(world, pipeline, "other", question).choice([0.0, 0.3, 0.5, 1.0, 1.0])
        return base, base

    return lambda candidate, question: score(label(candidate), question)


class Shuffled:
    """What real pipelines found and answered on ``law``, marked by the gold of other questions."""

    def __init__(self, folder: Path) -> None:
        self.setup = Experiment(load_dataset("law"))
        self.questions = [example.id for example in self.setup.dataset.examples]
        self._evaluator = Evaluator(self.setup, Store.open(folder / "real.sqlite"), 1)
        self._known: dict[str, Evaluation] = {}

    def found(self, candidate: Candidate) -> Evaluation:
        """A real pipeline on all questions; it is run when it is first asked for."""
        name = label(candidate)
        if name not in self._known:
            [self._known[name]] = self._evaluator.evaluate([candidate], self.setup.dataset.examples)
        return self._known[name]

    def table(self, world: int) -> Table:
        gold = list(self.questions)
        stable("gold", world).shuffle(gold)
        whose = dict(zip(self.questions, gold, strict=True))
        relevant = {question: self.setup.relevance[other].relevant for question, other in whose.items()}
        reference = {
            question: Counter(self.setup.examples[other].answer.casefold().split()) for question, other in whose.items()
        }

        def score(candidate: Candidate, question: str) -> tuple[float, float]:
            real = self.found(candidate).records[question]
            hits = real["retrieved"]
            good = [place for place, hit in enumerate(hits[:5], 1) if hit in relevant[question]]
            rank = 1 / good[0] if good else 0.0
            said, wanted = Counter(real["answer"].casefold().split()), reference[question]
            shared = (said & wanted).total()
            overlap = 2 * shared / max(1, said.total() + wanted.total())
            return (rank + len(good) / max(1, len(relevant[question]))) / 2, overlap

        return score


GROUPS = (8, 9, 12, 16, 30)
SIZES: Mapping[str, Sequence[int]] = {"equal": (4,), "unlike": (1, 1, 2, 2, 3, 6)}
"""Questions of the groups, again and again."""
KINDS = ("normal", "skewed", "sparse", "far ahead")
REAL = "real"
REAL_PIPELINES = 8
"""Random pipelines of the space `quick`, beside naive RAG, BM25 and the recommended one."""
FAMILIES = (1, 5)
UNANSWERABLE = 16
THROUGH = 1
"""Worlds of each cell that also go through `compare_pipelines`."""
PREDICTED, NAMED = 300, 60
"""Most worlds of a cell in which `Power.at`, and `Power.smallest`, are asked; at most every other one."""
CELLS = 8_000_000

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """A layout, a kind of differences and a number of rivals of the winner, with its simulated worlds.

    ``each`` has the differences on the questions, shape (worlds, rivals, questions), whose true mean is 0. Half of
    their variance is the winner's, and common to all rivals. Groups differ as questions do in *normal* and *skewed*
    (exponential) ones. In *sparse* ones three questions in ten differ, alone. In *far ahead* a group is far ahead with
    probability 1/8, which is nine tenths of the variance between groups. *Real* ones are those of pipelines on the test
    of a bundled domain: for each group another group is drawn, and from it as many questions.
    """

    groups: int
    sizes: str
    kind: str
    rivals: int
    worlds: int

    @property
    def layout(self) -> list[int]:
        """The number of questions of each group."""
        if self.sizes in SIZES:
            return list(islice(cycle(SIZES[self.sizes]), self.groups))
        return list(tested_layout(self.sizes))

    @property
    def numbers(self) -> list[int]:
        """The group of each question."""
        return np.repeat(np.arange(self.groups), self.layout).tolist()

    def each(self) -> Array:
        """Draw the worlds; one is the same whatever the number of worlds."""
        if self.kind == REAL:
            return np.array([self._real_world(number) for number in range(self.worlds)])
        found = [self._world(number) for number in range(self.worlds)]
        return np.array([(world[:1] + world[1:]) / np.sqrt(2) if self.rivals > 1 else world[:1] for world in found])

    def _world(self, number: int) -> Array:
        """Draw the part of the winner, and that of each rival."""
        layouts = [*SIZES, *bundled_domains()]
        rng = np.random.default_rng([self.groups, layouts.index(self.sizes), KINDS.index(self.kind), number])
        shape, questions = (1 + max(FAMILIES), self.groups), len(self.numbers)
        noise = rng.standard_normal((shape[0], questions))
        match self.kind:
            case "normal":
                lifts = rng.standard_normal(shape)
            case "skewed":
                lifts = rng.standard_exponential(shape) - 1
            case "sparse":
                lifts, differ = np.zeros(shape), rng.random(noise.shape) < 0.3
                noise = np.where(differ, np.sign(noise), 0.0)
            case _:
                ahead = (rng.random(shape) < 1 / 8) - 1 / 8
                lifts = np.sqrt(0.9 * 64 / 7) * ahead + np.sqrt(0.1) * rng.standard_normal(shape)
                noise /= 2
        return lifts[:, self.numbers] + noise

    def _real_world(self, number: int) -> Array:
        """Draw pipelines and questions; differences are less the mean that they have over such draws."""
        rng = np.random.default_rng([list(bundled_domains()).index(self.sizes), number])
        of_groups = real_scores(self.sizes)
        winner, *rivals = rng.permutation(len(of_groups[0]))[: 1 + self.rivals]
        drawn = [rng.integers(len(of_groups), size=self.groups), self.layout]
        ahead = [scores[winner] - scores[rivals] for scores in of_groups]
        true = np.mean([group.mean(axis=1) for group in ahead], axis=0)
        picked = [
            ahead[group][:, rng.integers(ahead[group].shape[1], size=size)] for group, size in zip(*drawn, strict=True)
        ]
        return np.concatenate(picked, axis=1) - true[:, None]

    def __str__(self) -> str:
        return f"| {self.groups} | {self.sizes} | {self.kind} | {self.rivals} |"


def cells(worlds: int) -> Iterator[Cell]:
    for groups in GROUPS:
        for sizes in SIZES:
            for kind in KINDS:
                for rivals in FAMILIES:
                    yield Cell(groups, sizes, kind, rivals, worlds)
    for name in bundled_domains():
        for kind in (*KINDS, REAL):
            for rivals in FAMILIES:
                yield Cell(len(tested_layout(name)), name, kind, rivals, worlds)


@cache
def tested_layout(name: str) -> tuple[int, ...]:
    """The sizes of the groups of the test questions of a bundled domain."""
    return tuple(map(len, tested_groups(Experiment(load_dataset(name))).groups))


def tested_groups(setup: Experiment) -> Clusters:
    return Clusters.from_examples(setup.dataset, setup.split.test)


@cache
def real_scores(name: str) -> list[Array]:
    """The fitness of pipelines on the questions of each group of a test, shape (pipelines, questions)."""
    setup = Experiment(load_dataset(name))
    space, draw = load_space("quick"), random.Random(REAL_PIPELINES)
    genomes = iter(lambda: tuple(draw.randrange(size) for size in space.sizes), None)
    others = islice((space.candidate(genome) for genome in genomes if space.is_feasible(genome)), REAL_PIPELINES)
    wanted = [baseline("naive"), baseline("bm25"), ragsmith.recommend(name).chosen.candidate, *others]
    with Store.open(Path("verdicts.sqlite")) as store, Evaluator(setup, store, 1) as evaluator:
        found = evaluator.evaluate(wanted, setup.split.test)
    each = [one.by_question(Fitness()) for one in found]
    return [
        np.array([[known[question] for question in group] for known in each]) for group in tested_groups(setup).groups
    ]


@cache
def patterns(groups: int) -> Array:
    """The sign patterns of the test of a verdict: all, or those that it draws for more than 20 groups."""
    if groups <= MAX_EXACT_DIFFERENCES:
        half = (np.arange(2 ** (groups - 1))[:, None] >> np.arange(groups - 1)) & 1
        return np.hstack([np.ones((len(half), 1)), half * 2.0 - 1.0])
    return np.random.default_rng(0).integers(0, 2, (RESAMPLES, groups), dtype=np.int8) * 2.0 - 1.0


def flip_p(sums: Array, sizes: Array, shifts: Sequence[float] = (0.0,)) -> Array:
    """The p of sign flips of rows of ``sums`` at each true difference, as `sign_flip_p`; shape (rows, shifts)."""
    signs = patterns(sums.shape[1])
    found: list[Array] = []
    extra = int(sums.shape[1] > MAX_EXACT_DIFFERENCES)
    by_shift = signs @ sizes
    for begin in range(0, len(sums), rows := max(1, CELLS // len(signs))):
        part = sums[begin : begin + rows]
        fixed = part @ signs.T
        total = part.sum(axis=1)[:, None] + np.outer(np.ones(len(part)), shifts) * sizes.sum()
        hits = [
            (np.abs(fixed + shift * by_shift) >= np.abs(total[:, place, None]) - 1e-9).sum(axis=1)
            for place, shift in enumerate(shifts)
        ]
        found.append((np.stack(hits, axis=1) + extra) / (len(signs) + extra))
    return np.concatenate(found)


def sums_of(each: Array, cell: Cell) -> Array:
    starts = np.concatenate([[0], np.cumsum(cell.layout)[:-1]])
    return np.add.reduceat(each, starts, axis=-1)


def raw_p(sums: Array, cell: Cell) -> Array:
    """The p of each world and rival where no pipeline is better, shape (worlds, rivals)."""
    flat = flip_p(sums.reshape(-1, cell.groups), np.array(cell.layout, dtype=float))
    return flat.reshape(sums.shape[:2])


def evaluations(cell: Cell, world: Array, unanswerable: int) -> tuple[list[Evaluation], Clusters]:
    """The winner and its rivals with the differences of a world, and their groups."""
    asked = [f"q{place:03}" for place in range(world.shape[1])]
    apart = tuple(f"u{place:02}" for place in range(unanswerable))
    members: dict[int, list[str]] = {}
    for question, number in zip(asked, cell.numbers, strict=True):
        members.setdefault(number, []).append(question)
    gene, measures = (make_gene("retrieval", "vector"),), (*RANKED, *ANSWERED)

    def made(name: str, behind: Array) -> Evaluation:
        records = {
            question: {"measures": dict.fromkeys(measures, -value), "retrieved": [], "usage": {"calls": 1}}
            for question, value in zip(asked, behind.tolist(), strict=True)
        }
        declined = {**dict.fromkeys(measures), REFUSAL: 0.0}
        records |= {question: {"measures": declined, "retrieved": [], "usage": {"calls": 1}} for question in apart}
        return Evaluation(name, gene, (*asked, *apart), records, {})

    found = [made("winner", np.zeros(len(asked))), *(made(f"rival{n}", row) for n, row in enumerate(world))]
    groups = tuple(tuple(group) for group in members.values())
    return found, Clusters(groups, "document", cell.groups, apart)


def same_verdicts(cell: Cell, each: Array, p: Array) -> bool:
    """Whether `compare_pipelines` says the same with and without unanswerable questions, and as is counted here."""
    for world, raw in zip(each[:THROUGH], p, strict=False):
        told = []
        for unanswerable in (0, UNANSWERABLE):
            found, clusters = evaluations(cell, world, unanswerable)
            terms = Terms.from_evaluations(found, Fitness(), MAX_FAILURE_RATE)
            compared = compare_pipelines(found[0], {one.key: one for one in found[1:]}, terms, clusters)
            told.append([(one.verdict, one.adjusted_p, one.detectable) for one in compared])
            claims = [one.verdict in (Verdict.BETTER, Verdict.WORSE) for one in compared]
            if claims != [adjusted <= ALPHA for adjusted in holm(raw.tolist())]:
                return False
        if told[0] != told[1]:
            return False
    return True


def level(worlds: int = 300) -> None:
    """How often equal pipelines are told apart, and how often the interval holds what is true."""
    print("| groups | sizes | differences | family | level | coverage |\n| ---: | --- | --- | ---: | ---: | ---: |")
    alike = 0
    worst: dict[tuple[int, str], list[tuple[float, float | None]]] = {}
    every = list(cells(worlds))
    for cell in every:
        each = cell.each()
        p = raw_p(sums_of(each, cell), cell)
        claimed = float((p.min(axis=1) * cell.rivals <= ALPHA).mean())
        covered = None
        if cell.rivals == 1:
            bounds = [cluster_interval(world[0], cell.numbers) for world in each]
            covered = fmean(low <= 0 <= high for low, high in bounds)
        print(cell, f"{claimed:.3f} | {'' if covered is None else f'{covered:.3f}'} |", flush=True)
        worst.setdefault((cell.groups, cell.kind), []).append((claimed, covered))
        alike += same_verdicts(cell, each, p)
    print("\n| groups | differences | level, at most | coverage, at least |\n| ---: | --- | ---: | ---: |")
    for (groups, kind), found in worst.items():
        held = min(covered for _, covered in found if covered is not None)
        print(f"| {groups} | {kind} | {max(claimed for claimed, _ in found):.3f} | {held:.3f} |")
    print(
        f"\n{worlds} worlds a cell; with {UNANSWERABLE} unanswerable questions {alike} of {len(every)} cells are equal"
    )


def power(worlds: int = 300) -> None:
    """How often a true difference over a rival is shown, beside what is predicted; the other rivals are as good."""
    print("| groups | sizes | differences | family | predicted | simulated | at the smallest |")
    print("| ---: | --- | --- | ---: | ---: | ---: | ---: |")
    apart: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
    for cell in cells(worlds):
        each, sizes = cell.each(), np.array(cell.layout, dtype=float)
        sums = sums_of(each, cell)
        others = raw_p(sums[:, 1:], cell) if cell.rivals > 1 else np.empty((worlds, 0))
        shifts = np.linspace(0, 10, 41) * float(sums[:, 0].std()) * np.sqrt(cell.groups) / sizes.sum()
        p = flip_p(sums[:, 0], sizes, shifts)
        ahead = sums[:, 0].sum(axis=1)[:, None] + shifts * sizes.sum() > 0
        adjusted = [[holm([one, *rest])[0] for one in row] for row, rest in zip(p, others.tolist(), strict=True)]
        curve = ((np.array(adjusted) <= ALPHA) & ahead).mean(axis=0)
        place = int(np.abs(curve - 0.6).argmin())
        guesses: list[float] = []
        named: list[float | None] = []
        for number, world in enumerate(each[: min(PREDICTED, max(1, worlds // 2))]):
            known = Power(world[0], cell.numbers, ALPHA / cell.rivals)  # a hundred of them would fill the memory
            guesses.append(known.at(shifts[place]))
            if number < NAMED:
                named.append(known.smallest())
        predicted = fmean(guesses)
        reached = fmean(0.0 if one is None else float(np.interp(one, shifts, curve)) for one in named)
        print(cell, f"{predicted:.2f} | {curve[place]:.2f} | {reached:.2f} |", flush=True)
        apart.setdefault((cell.groups, cell.kind), []).append((predicted, float(curve[place]), reached))
    print("\n| groups | differences | predicted less simulated | shown at the smallest |\n| ---: | --- | ---: | ---: |")
    for (groups, kind), found in apart.items():
        off = [guess - true for guess, true, _ in found]
        shown = [reached for _, _, reached in found]
        print(f"| {groups} | {kind} | {min(off):+.2f} to {max(off):+.2f} | {min(shown):.2f} to {max(shown):.2f} |")
    print(f"\n{worlds} worlds a cell")


def _searching(seed: int, most: int = 12) -> RunSettings:
    return RunSettings(seed=seed, max_evaluations=most, warm_start=False, strategy="random")


def null(searches: int = 200) -> None:
    """How many searches in which nothing is better call their winner better than anything."""
    with tempfile.TemporaryDirectory(dir=_fast()) as folder, _quiet():
        place = Path(folder)
        space = _space(place)
        shuffled = Shuffled(place)
        setup = Experiment(made_up(0))
        kinds: list[tuple[str, Experiment, Callable[[int], Table]]] = [
            ("records drawn at random", setup, drawn),
            ("gold of other questions", shuffled.setup, shuffled.table),
            ("options that do nothing", setup, inert),
        ]
        claims: Counter[str] = Counter()
        for number in range(searches):
            name, made, table = kinds[number % 3]
            os.environ["RAGSMITH_LEDGER"] = str(place / f"ledger-{number}.sqlite")
            found, _ = _in_new_folder(
                made, space, table(number), place, replace(_searching(number), strategy="genetic")
            )
            claims[name] += any(one.verdict is Verdict.BETTER for one in found)
        said = ", ".join(f"{name} {claims[name]}" for name, _, _ in kinds)
        print(f"null: {claims.total()} of {searches} searches call their winner better ({said})", flush=True)


def looks(worlds: int = 100, searches: int = 20, first: int = 0) -> None:
    """In how many worlds any of many searches calls its winner better."""
    with tempfile.TemporaryDirectory(dir=_fast()) as folder, _quiet():
        place = Path(folder)
        space = _space(place)
        setup = Experiment(made_up(1))
        counted, uncounted, most = 0, 0, 0
        for world in range(first, first + worlds):
            os.environ["RAGSMITH_LEDGER"] = str(place / f"world-{world}.sqlite")
            table, claims, forgetful = drawn(world), False, False
            for search in range(searches):
                settings = replace(_searching(search, 6), probes=False, racing=None, simplify=False, test=True)
                found, look = _in_new_folder(setup, space, table, place, settings)
                most = max(most, look)
                for one in found:
                    claims |= one.verdict is Verdict.BETTER
                    ahead = one.difference is not None and one.difference.mean_difference > 0
                    once = 1.0 if one.adjusted_p is None or one.adjusted_p >= 1 else one.adjusted_p / 2.0 ** (look - 1)
                    forgetful |= ahead and once <= ALPHA
            counted += claims
            uncounted += forgetful
        print(
            f"looks: in {counted} of {worlds} worlds any of {searches} searches calls its winner better; p would have "
            f"said so in {uncounted} at least if looks were not counted; there were up to {most} looks in a world",
            flush=True,
        )


def _in_new_folder(
    setup: Experiment, space: Space, table: Table, place: Path, settings: RunSettings
) -> tuple[tuple[Comparison, ...], int]:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        return replayed(setup, space, table, Path(folder), settings)


def _space(place: Path) -> Space:
    (place / "space.yaml").write_text(SPACE)
    return load_space(place / "space.yaml")


def _fast() -> str | None:
    """Where files are kept in memory, if anywhere: 2,000 caches are written, and none is needed."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _quiet() -> warnings.catch_warnings[None]:
    quiet = warnings.catch_warnings()
    warnings.simplefilter("ignore")
    return quiet


RIVALS = {"naive": "naive RAG", "bm25": "BM25", "single": "best single option", "recommended": "recommended pipeline"}
WORLD_SEED = 15
WORLDS = 200
"""Drawn for each pair of pipelines."""
STEPS = 9
"""Halvings of the range from 0 to `MOST` in which the smallest difference is looked for: to 0.001."""
MOST = 0.512

Groups = Sequence[Sequence[float]]
"""Differences on questions, by group."""


def by_question(result: Result, name: str) -> dict[str, float]:
    """Fitness of the pipeline ``name`` of a run, on each test question."""
    rows = result.run_report.answered
    return {
        one.question: one.measures["fitness"]
        for one in rows
        if one.pipeline == name and one.split == "test" and one.state == "ok"
    }


def grouped(differences: Mapping[str, float], clusters: Clusters) -> Groups:
    """Differences less their mean, in the groups of their questions."""
    mean = fmean(differences.values())
    found: dict[int, list[float]] = {}
    for question, number in zip(differences, clusters.group_numbers(list(differences)), strict=True):
        found.setdefault(number, []).append(differences[question] - mean)
    return list(found.values())


def drawn_world(groups: Groups, draw: random.Random) -> tuple[list[float], list[int]]:
    """Differences on the questions of as many groups, drawn with replacement, and the group of each question."""
    drawn = [draw.choice(groups) for _ in groups]
    numbers = [number for number, group in enumerate(drawn) for _ in group]
    return [value for group in drawn for value in group], numbers


def shows(values: Sequence[float], numbers: Sequence[int], true: float) -> bool:
    """Whether a test calls a pipeline better that is so by ``true`` on each question."""
    found = compute_difference([value + true for value in values], [0.0] * len(values), numbers)
    return found.mean_difference > 0 and found.p <= ALPHA


def simulated(groups: Groups, worlds: int, seed: int) -> float | None:
    """The smallest difference that four worlds in five show; None where not even `MOST` is."""
    draw = random.Random(seed)
    each = [drawn_world(groups, draw) for _ in range(worlds)]

    def share_at(true: float) -> float:
        return sum(shows(values, numbers, true) for values, numbers in each) / worlds

    if share_at(MOST) < POWER:
        return None
    low, high = 0.0, MOST
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if share_at(middle) >= POWER else (middle, high)
    return high


def detectable_in(name: str, cache: str, worlds: int) -> list[tuple[str, float | None, float | None]]:
    """Search a domain, and print and return what its test could show, by rival: predicted, and simulated."""
    result = ragsmith.search(name, cache=cache, test=True)
    tested = set(result.run_report.about.record.tested)
    clusters = Clusters.from_examples(
        result.setup.dataset, [one for one in result.setup.dataset.examples if one.id in tested]
    )
    won, found = by_question(result, "winner"), []
    for rival, title in RIVALS.items():
        other = by_question(result, rival)
        both = [question for question in won if question in other]
        differences = {question: won[question] - other[question] for question in both}
        if not any(differences.values()):
            continue  # it is the winner, or answers alike
        groups = grouped(differences, clusters)
        seen = compute_difference(list(differences.values()), [0.0] * len(both), clusters.group_numbers(both))
        predicted = Power(list(differences.values()), clusters.group_numbers(both), ALPHA).smallest()
        of_worlds = simulated(groups, worlds, WORLD_SEED)
        print(
            f"| {name} | {title} | {len(both)} | {len(groups)} | {seen.mean_difference:+.3f} | "
            f"{_shown(predicted)} | {_shown(of_worlds)} |",
            flush=True,
        )
        found.append((rival, predicted, of_worlds))
    return found


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def detectable(cache: str = "detectable.sqlite", wanted: Sequence[str] = ()) -> None:
    """The smallest difference that the test questions of each domain show, predicted and by simulation."""
    wanted = wanted or list(bundled_domains())
    os.environ.setdefault("RAGSMITH_LEDGER", f"{cache}.looks.sqlite")
    print("| domain | winner less | questions | groups | seen | predicted | simulated |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    every = [(name, *row) for name in wanted for row in detectable_in(name, cache, WORLDS)]
    for rival, title in RIVALS.items():
        of = [(guess, of_worlds) for _, name, guess, of_worlds in every if name == rival]
        known = [(guess, of_worlds) for guess, of_worlds in of if guess is not None and of_worlds is not None]
        if known:
            print(
                f"{title}: median predicted {median(guess for guess, _ in known):.3f}, "
                f"simulated {median(of_worlds for _, of_worlds in known):.3f}, {len(known)} of {len(of)} domains"
            )


def sgr(scored: Sequence[tuple[float, bool]], risk: float, confidence: float) -> float | None:
    """The threshold of algorithm 1 of Geifman and El-Yaniv (2017), with a share of the error for each of its steps."""
    ordered = sorted(scored, reverse=True)
    steps = math.ceil(math.log2(len(ordered)))
    low, high, best = 0, len(ordered), 0
    for _ in range(steps):
        middle = math.ceil((low + high) / 2)
        wrong = sum(is_wrong for _, is_wrong in ordered[:middle])
        kept = binomial_cdf(wrong, middle, risk) <= (1 - confidence) / steps
        best, low, high = (max(best, middle), middle, high) if kept else (best, low, middle)
    return ordered[best - 1][0] if best else None


def made_up_errors(base: float, slope: float) -> Callable[[float], float]:
    """The probability of a wrong answer by a standard normal score, of mean ``base``."""
    nodes = [NormalDist().inv_cdf((place + 0.5) / 400) for place in range(400)]
    low, high = -20.0, 20.0
    for _ in range(50):
        level = (low + high) / 2
        mean = fmean(1 / (1 + math.exp(level + slope * node)) for node in nodes)
        low, high = (level, high) if mean > base else (low, level)
    return lambda score: 1 / (1 + math.exp(low + slope * score))


def declining_made_up(worlds: int) -> None:
    """Share of questions answered, and of worlds whose true risk exceeds the stated one, by method."""
    fixed = {f"start {start}": partial(calibrate_threshold, start=start) for start in (0.0, 0.1, 0.25, 0.5)}
    methods: dict[str, Callable[..., float | None]] = {**fixed, "SGR": sgr}
    print(f"| questions | {' | '.join(methods)} |\n| ---: | {' | '.join('---:' for _ in methods)} |")
    for questions in (50, 100, 200, 400):
        answered: Counter[str] = Counter()
        broken: dict[float, Counter[str]] = {0.2: Counter(), 0.5: Counter(), 0.8: Counter()}
        grid = itertools.product((0.3, 0.5, 0.75, 0.9), (0.5, 1.5, 3), broken)
        cells = [(base, slope, risk) for base, slope, risk in grid if base > risk]
        for base, slope, risk in cells:
            error = made_up_errors(base, slope)
            nodes = [NormalDist().inv_cdf((place + 0.5) / 2_000) for place in range(2_000)]
            for world in range(worlds):
                draw = stable("declining", base, slope, risk, questions, world)
                scores = [draw.gauss(0, 1) for _ in range(questions)]
                scored = [(score, draw.random() < error(score)) for score in scores]
                for name, method in methods.items():
                    found = method(scored, risk, 0.9)
                    above = [error(node) for node in nodes if found is not None and node >= found]
                    answered[name] += len(above)
                    broken[risk][name] += bool(above) and fmean(above) > risk
        total = len(cells) * worlds
        of = {risk: worlds * sum(one[2] == risk for one in cells) for risk in broken}
        cell = (
            f"{answered[name] / total / 2_000:.3f}, {max(count[name] / of[risk] for risk, count in broken.items()):.3f}"
            for name in methods
        )
        print(f"| {questions} | {' | '.join(cell)} |", flush=True)


SHAPES: Mapping[str, Sequence[int]] = {
    "16 of 4": (4,) * 16,
    "30 of 4": (4,) * 30,
    "8 of 8": (8,) * 8,
    "30 of 1 to 6": (1, 1, 2, 2, 3, 6) * 5,
    "16, a quarter of 20": (1, 1, 1, 20) * 4,
}
"""Sizes of made-up groups."""


def declining_by_groups(worlds: int) -> None:
    """Share of worlds whose true risk in new groups exceeds the stated one, and of questions answered, by bound.

    The log odds of a wrong answer have a part that the questions of a group share, of this standard deviation. Where
    it is not 0, 0.3 of the variance of the score is common to a group as well.
    """
    nodes = np.array([NormalDist().inv_cdf((place + 0.5) / 1_000) for place in range(1_000)])
    print("| groups | shared sd | independent: exceeded, worst cell, answered | by group: the same |")
    print("| --- | ---: | ---: | ---: |")
    for (shape, sizes), spread in itertools.product(SHAPES.items(), (0.0, 0.7, 1.5)):
        groups = np.repeat(np.arange(len(sizes)), sizes)
        exceeded: dict[bool, list[float]] = {False: [], True: []}
        answered: dict[bool, list[float]] = {False: [], True: []}
        for base, slope, risk in itertools.product((0.3, 0.5, 0.75, 0.9), (1.5, 3.0), (0.2, 0.5, 0.8)):
            if base <= risk:
                continue
            shifts = slope * nodes[:, None] + spread * nodes[None, ::20]
            low, high = -20.0, 20.0
            for _ in range(40):
                level = (low + high) / 2
                low, high = (level, high) if (1 / (1 + np.exp(level + shifts))).mean() > base else (low, level)
            errors = (1 / (1 + np.exp(low + shifts))).mean(axis=1)
            above = np.cumsum(errors[::-1])[::-1] / np.arange(len(nodes), 0, -1)
            count: Counter[bool] = Counter()
            given = dict.fromkeys(exceeded, 0.0)
            for world in range(worlds):
                seeds = (list(SHAPES).index(shape), *(int(10 * of) for of in (base, slope, risk, spread)), world)
                rng = np.random.default_rng(seeds)
                common, lifts = rng.standard_normal((2, len(sizes)))
                alike = 0.3 if spread else 0.0
                scores = math.sqrt(alike) * common[groups] + math.sqrt(1 - alike) * rng.standard_normal(len(groups))
                odds = low + slope * scores + spread * lifts[groups]
                wrong = rng.random(len(groups)) < 1 / (1 + np.exp(odds))
                scored = list(zip(scores.tolist(), wrong.tolist(), strict=True))
                for grouped in exceeded:
                    least = calibrate_threshold(scored, risk, 0.9, groups=groups.tolist() if grouped else None)
                    place = len(nodes) if least is None else int(np.searchsorted(nodes, least))
                    if place < len(nodes):
                        count[grouped] += bool(above[place] > risk)
                        given[grouped] += 1 - place / len(nodes)
            for grouped, shares in exceeded.items():
                shares.append(count[grouped] / worlds)
                answered[grouped].append(given[grouped] / worlds)
        cell = (
            f"{fmean(shares):.3f}, {max(shares):.3f}, {fmean(answered[grouped]):.3f}"
            for grouped, shares in exceeded.items()
        )
        print(f"| {shape} | {spread} | {' | '.join(cell)} |", flush=True)


class BothScores:
    """Scores the passages alone, by an empty answer, and passages and answer as `abstain` does."""

    answers = True

    def __call__(
        self, engine: Engine, setup: Experiment, candidate: Candidate, trace: Trace, example: Example
    ) -> tuple[float, float] | None:
        """Return both scores; None without passages."""
        alone = Trace({**trace.outputs, "post_generation": StageOutput(Answer(""), 0)})
        scores = [SupportScorer()(engine, setup, candidate, each, example) for each in (alone, trace)]
        return None if scores[0] is None or scores[1] is None else (scores[0], scores[1])


RULES = {"before": (0, False), "by group": (0, True), "as searched": (1, True)}
"""The score, and whether the bound counts groups."""
STATED = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9)
"""Stated risks; most answers of the embedded model are wrong."""

Tested = tuple[float, str, AnswerCounts | None]
"""Stated risk, rule, and the counts on test questions; None without a threshold."""


def declining_on(name: str, store: Store) -> tuple[list[Tested], list[tuple[float, float]]]:
    """Return counts for divisions and pipelines, and on their search halves the areas under ROC of both scores.

    An area compares the questions of a fifth of the groups, and is averaged over the fifths.
    """
    setup = Experiment(read(name)[0])
    examples = setup.dataset.examples
    unmarked = replace(setup.dataset, examples=tuple(replace(one, split=None) for one in examples))
    pipelines = (baseline("naive"), ragsmith.recommend(setup.dataset).chosen.candidate)
    well = good_score_threshold(setup)
    found: list[Tested] = []
    areas = []
    with Evaluator(setup, store, 1) as evaluator:
        for candidate in pipelines:
            [whole] = evaluator.evaluate([candidate], examples)
            wrong = find_wrong(whole, well)
            observed = evaluator.observe([(whole.candidate, list(whole.questions))], BothScores())
            scores = {question: both for _, question, both in observed if both and wrong.get(question) is not None}
            for seed in range(5):
                halves = split(unmarked, test_share=0.5, seed=seed)
                search, test = ([one.id for one in half if one.id in scores] for half in (halves.search, halves.test))
                groups = Clusters.from_examples(setup.dataset, halves.search).group_numbers(search)
                areas.append(
                    tuple(roc_area([(scores[q][at], bool(wrong[q])) for q in search], groups) for at in (0, 1))
                )
                for risk, (rule, (at, grouped)) in itertools.product(STATED, RULES.items()):
                    scored = [(scores[question][at], bool(wrong[question])) for question in search]
                    least = calibrate_threshold(scored, risk, 0.9, groups=groups if grouped else None)
                    kept = [bool(wrong[one]) for one in test if least is not None and scores[one][at] >= least]
                    counts = AnswerCounts(len(halves.test), len(kept), sum(kept))
                    found.append((risk, rule, None if least is None else counts))
    return found, areas


def roc_area(scored: Sequence[tuple[float, bool]], groups: Sequence[int]) -> float:
    """The share of pairs of a right and a wrong answer, of a fifth of the groups, in which the right scores higher."""
    above = pairs = 0.0
    for fifth in range(5):
        part = [one for one, group in zip(scored, groups, strict=True) if group % 5 == fifth]
        right, wrong = ([score for score, is_wrong in part if is_wrong == kind] for kind in (False, True))
        above += sum((a > b) + (a == b) / 2 for a in right for b in wrong)
        pairs += len(right) * len(wrong)
    return above / pairs if pairs else math.nan


def declining(worlds: int = 40, cache: str = "declining.sqlite", data: Path = Path("../shared/data")) -> None:
    """How often the stated risk is kept, and how many questions are then answered."""
    declining_made_up(worlds)
    declining_by_groups(5 * worlds)
    folders = sorted(folder for folder in data.glob("*") if folder.is_dir() and not (folder / CRANFIELD).exists())
    with Store.open(Path(cache)) as store, _quiet():
        every = [declining_on(name, store) for name in (*bundled_domains(), *map(str, folders))]
    areas = [pair for _, pairs in every for pair in pairs]
    print(
        f"{len(every)} data sets; area under ROC in {len(areas)} search halves: {fmean(a for a, _ in areas):.3f} by "
        f"the passages, {fmean(b for _, b in areas):.3f} by passages and answer, "
        f"better in {sum(b > a for a, b in areas)}"
    )
    print("| stated | rule | divisions | with a threshold | not contradicted | at most stated | answered | wrong |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    tested = [one for found, _ in every for one in found]
    for rule in RULES:
        sums: Counter[int] = Counter()
        for risk in STATED:
            rows = [counts for stated, name, counts in tested if (stated, name) == (risk, rule)]
            found = [one for one in rows if one is not None]
            wrong, given = sum(one.wrong for one in found), sum(one.answered for one in found)
            held = sum(binomial_cdf(one.answered - one.wrong, one.answered, 1 - risk) > 0.1 for one in found)
            kept = sum(one.wrong <= risk * one.answered for one in found)
            rate = fmean(one.answered / one.questions if one else 0.0 for one in rows)
            share = f"{wrong / given:.2f}" if given else "-"
            counts = (len(rows), len(found), held, kept)
            sums.update(dict(enumerate(counts)))
            print(f"| {risk} | {rule} | {' | '.join(map(str, counts))} | {rate:.3f} | {share} |")
        print(f"| all | {rule} | {' | '.join(str(sums[at]) for at in range(4))} | | |", flush=True)


def few(count: int = 24, draws: int = 2, cache: str = "few.sqlite") -> None:
    """Search with few questions, and compare the winner with the recommended pipeline on the others."""
    learned = {one.name for one in read_effects().observed}
    print("| domain | draw | questions | winner - recommended | 95 % interval |\n| --- | --- | ---: | ---: | --- |")
    behind = []
    for name in bundled_domains():
        if name in learned:
            continue
        whole = load_dataset(name)
        able = [replace(one, split=None) for one in whole.examples]
        for number in range(draws):
            picked = set(random.Random(f"{name}{number}").sample(range(len(able)), count))
            parts = ([one for at, one in enumerate(able) if (at in picked) is wanted] for wanted in (True, False))
            asked, others = (replace(whole, examples=tuple(part)) for part in parts)
            found = ragsmith.search(asked, cache=cache)
            winner = found.export(f"{name}-{number}.yaml")
            beside = ragsmith.compare(winner, "recommended", dataset=others, split="all", cache=cache)
            both = beside.comparison.difference
            assert both is not None
            behind.append(both.mean_difference)
            interval = f"[{both.low:+.3f}, {both.high:+.3f}]"
            print(f"| {name} | {number} | {both.n} | {both.mean_difference:+.3f} | {interval} |", flush=True)
    print(f"mean {fmean(behind):+.3f}, behind in {sum(one < 0 for one in behind)} of {len(behind)}")


def wordings(runs: int = 20) -> None:
    """How often the better of two prompts wins, and how often one of two equal ones is called better."""
    law = load_dataset("law")
    for default, other in ((0.4, 0.9), (0.6, 0.6)):
        won = called = 0
        with tempfile.TemporaryDirectory(dir=_fast()) as folder, _quiet():
            for seed in range(runs):
                place = Path(folder) / str(seed)
                os.environ["RAGSMITH_LEDGER"] = str(place / "ledger.sqlite")
                result = race(law, default, other, seed, place)
                won += winning_wording(result) == "other"
                called += claimed(result)
        print(
            f"wordings: right answers {default} and {other}: the second won {won} and was called better {called} "
            f"times in {runs}",
            flush=True,
        )


def town(seed: int, houses: int = 40) -> Dataset:
    """Documents with one question each, half of them for the test."""
    texts = [f"House {seed} {number} was built by mason {number}.\n" for number in range(houses)]
    documents = tuple(Document(f"d{number}", f"d{number}", text) for number, text in enumerate(texts))
    examples = tuple(
        Example(
            f"q{number:02}",
            f"Who built house {seed} {number}?",
            f"It was mason {number} of the guild.",
            "factual",
            (Span(f"d{number}", 0, len(text.strip())),),
            split="test" if number % 2 else "search",
        )
        for number, text in enumerate(texts)
    )
    return Dataset(f"town{seed}", "made up", "", "CC0", "en", documents, examples, f"town {seed}")


def pleasing(worlds: int = 100, share: float = 0.6) -> None:
    """How often a pipeline that pleases the judge of the search alone wins, and is called better."""
    vain, honest = Judge("vain", vain=True), Judge("honest")
    for judges in ({"judge": vain, "test_judge": honest}, {"judge": vain}):
        won = called = 0
        with tempfile.TemporaryDirectory(dir=_fast()) as folder, _quiet():
            for seed in range(worlds):
                place, data = Path(folder) / str(seed), town(seed)
                os.environ["RAGSMITH_LEDGER"] = str(place / "ledger.sqlite")
                models = {"language_model": Flatterer(data, share, seed), **judges}
                result = search_flattered(data, place, models, seed, max_evaluations=2, simplify=False, noise=0)
                won += winning_wording(result) == "other"
                called += claimed(result)
        decides = "another judge" if "test_judge" in judges else "the same judge"
        print(
            f"pleasing: with {decides} on the test, the flattering pipeline won {won} and was called better {called} "
            f"times in {worlds}",
            flush=True,
        )


MARKED_OF = ((30, 100), (50, 100), (100, 200))
"""Marked questions, and test questions in all."""

MARKED_GROUPS: Mapping[str, Sequence[int]] = {"1": (1,), "1 to 6": (1, 1, 2, 2, 3, 6)}
"""Sizes of groups, in turn."""

MARKED_CELLS = (((0.6, 0.5), (0.1, 0.1)), ((0.6, 0.5), (0.3, 0.1)), ((0.85, 0.8), (0.1, 0.05)))
"""Mean marks of both pipelines, and by how much the judge's mean score of each is too high."""

DRAWS = 100
"""Different samples of questions to mark."""


@cache
def _quantile_shift(mean: float, steps: tuple[float, ...]) -> float:
    """The shift of a normal score whose mean share of exceeded ``steps`` is ``mean``."""
    low, high = -6.0, 6.0
    for _ in range(60):
        shift = (low + high) / 2
        exceeded = fmean(NormalDist().cdf(shift - step) for step in steps)
        low, high = (low, shift) if exceeded > mean else (shift, high)
    return shift


def marked_world(
    rng: np.random.Generator, groups: NDArray[np.int64], means: Sequence[float], biases: Sequence[float]
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """Marks (0, 0.5, 1) and scores (0, 0.25 to 1) of two pipelines.

    Of the variance of the quality of an answer 0.15 is common to its group, and 0.3 more to both answers to a question.
    The judge sees the quality with a correlation of 0.75, and errs alike on both answers by 0.3 of its variance.
    """
    mark_steps, score_steps = (-0.25, 0.25), (-0.75, -0.25, 0.25, 0.75)
    count = len(groups)
    shared = math.sqrt(0.15) * rng.standard_normal(groups.max() + 1)[groups] + math.sqrt(0.3) * rng.standard_normal(
        count
    )
    alike = math.sqrt(0.3) * rng.standard_normal(count)
    marks, scores = [], []
    for mean, bias in zip(means, biases, strict=True):
        quality = shared + math.sqrt(0.55) * rng.standard_normal(count)
        seen = 0.75 * quality + math.sqrt(1 - 0.75**2) * (alike + math.sqrt(0.7) * rng.standard_normal(count))
        at, judged_at = _quantile_shift(mean, mark_steps), _quantile_shift(mean + bias, score_steps)
        marks.append(np.mean([quality + at > step for step in mark_steps], axis=0))
        scores.append(np.mean([seen + judged_at > step for step in score_steps], axis=0))
    return marks, scores


def marks(worlds: int = 1_000) -> None:
    """Coverage and width of prediction-powered intervals of a mean and of a difference, and width by marks alone."""
    print("| means | judge too high by | groups of | marked | mean: holds, width, alone | difference: the same |")
    print("| --- | --- | --- | --- | --- | --- |")
    every: dict[int, list[tuple[float, float]]] = {}
    for (means, biases), (title, sizes), (count, of) in itertools.product(
        MARKED_CELLS, MARKED_GROUPS.items(), MARKED_OF
    ):
        groups = np.repeat(np.arange(of), np.resize(sizes, of))[:of]
        clusters = Clusters(tuple(tuple(f"{at:03}" for at in np.flatnonzero(groups == one)) for one in set(groups)))
        judged = {"winner": {f"{at:03}": (MarkableAnswer(str(at), "", ""), 0.0) for at in range(of)}}
        samples = [
            [int(q) for q, _ in draw_answers(judged, clusters, count, seed)] for seed in range(min(DRAWS, worlds))
        ]
        found: list[list[tuple[bool, float, float]]] = [[], []]
        for world in range(worlds):
            rng = np.random.default_rng((world, count, len(title), int(100 * means[0]), int(100 * sum(biases))))
            values, scores = marked_world(rng, groups, means, biases)
            known = np.isin(np.arange(of), samples[world % DRAWS])
            pairs = (
                (values[0], scores[0], means[0]),
                (values[0] - values[1], scores[0] - scores[1], means[0] - means[1]),
            )
            for place, (value, score, true) in enumerate(pairs):
                marked = np.where(known, value, np.nan)
                both, alone = (
                    estimate_powered_mean(marked, each, groups.tolist(), lowest=float(-place))
                    for each in (score, 0 * score)
                )
                found[place].append((both.low <= true <= both.high, both.high - both.low, alone.high - alone.low))
        cells = [tuple(fmean(column) for column in zip(*each, strict=True)) for each in found]
        every.setdefault(count, []).extend((held, width / alone) for held, width, alone in cells)
        shown = " | ".join(f"{100 * held:.1f} %, {width:.3f}, {alone:.3f}" for held, width, alone in cells)
        print(f"| {means} | {biases} | {title} | {count} of {of} | {shown} |", flush=True)
    for count, each in every.items():
        held, ratios = zip(*each, strict=True)
        print(
            f"{count} marked: {100 * min(held):.1f} to {100 * max(held):.1f} % hold, {100 * fmean(held):.1f} % of all; "
            f"width {fmean(ratios):.2f} of that of marks alone"
        )


def main() -> None:
    """Run the parts that are named."""
    known: dict[str, Callable[[], None]] = {
        "level": level,
        "power": power,
        "null": null,
        "looks": looks,
        "detectable": detectable,
        "declining": declining,
        "pleasing": pleasing,
        "few": few,
        "wordings": wordings,
        "marks": marks,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(known)[:4], metavar="PART", help=", ".join(known))
    parser.add_argument(
        "--worlds", type=int, default=300, help="simulated worlds of each cell of level, power and marks"
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where published data sets lie")
    given = parser.parse_args()
    known |= {
        "level": partial(level, given.worlds),
        "power": partial(power, given.worlds),
        "marks": partial(marks, given.worlds),
    }
    known["declining"] = partial(declining, data=given.data)
    if unknown := [name for name in given.parts if name not in known]:
        parser.error(f"{', '.join(unknown)}: give {', '.join(known)}")
    load_techniques()
    for name in given.parts:
        began = time.process_time()
        known[name]()
        print(f"  {name}: {time.process_time() - began:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()
