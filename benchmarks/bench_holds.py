"""What holds: which way to choose a pipeline gains on questions that nobody saw, over all data sets at hand.

    python benchmarks/bench_holds.py LANDSCAPES [--strategy genetic] [--prior package|simple]

LANDSCAPES is a folder of files by `landscape.py`, one for each data set, of one space and one embedder: nothing is
evaluated here, searches are replayed on what is stored. A sample of a space will do, but where it lacks a pipeline
nobody can choose it; a landscape of the whole space is fairer to what simplifies.

Each data set is the target in turn, and the others are what is known. Of the others only their search questions are
used. Of a bundled target, too: its test questions are for no choice, and what is the default is chosen here. Of another
target all questions are. They are divided `--resamples` times into a search side and a test side by the rule of
`ragsmith.datasets.splits`: groups of questions that share documents stay together, or, where these cannot be
separated, sections with 900 characters between the sides; every division is one random draw. Nothing of the test side
is used to learn, to search, to estimate or to choose. The two sides are smaller than in a real search (that of `law`
has about 40 questions, not 65), so what rests on evidence looks a little worse than it is.

Both the prior and what is recommended by it alone come from `ragsmith.effects`, learned from 150 pipelines of each
other data set; or, with `--prior simple`, from all, by the ridge regression of `simple_rules.py`. Searches are by the
package's strategy, at its defaults but for the budget and the prior; in a sample of a space, in which it cannot move
about, by that of `simple_rules.py`, where the estimate without a prior is, too; that with a prior is the package's.

The rules. With N evaluations, besides BM25 and naive RAG, which every search is told:

    random       the best of N pipelines drawn at random, on the search side, on average over 20 draws
    raw          the best on the search side of those that a search without a prior evaluated
    raw, prior   the same of a search that begins with what is known
    estimate     of those of `raw`, the best by an estimate that knows nothing of other data sets
    with prior   of those of `raw, prior`, and of what is recommended, the best by an estimate with the prior
    simplified   `raw`, `raw, prior` or `with prior` without what does not pay, by the rule of one standard error
    or recom.    `raw, prior` or `with prior` where it is ahead of what is recommended by more than one standard error
                 of their difference on the search side, else what is recommended
    recommended  what is named by the prior alone, for any number of model calls and for one a question; nothing is
                 evaluated
    expected     what the prior expects most of, whatever it costs
    oracle       the best on the test side itself: a ceiling that no rule can reach

Gains are those on the test side, over BM25, over `random` and `raw` with as many evaluations, and over `recommended`.
For each question of a target they are averaged over the divisions that tested it, then over questions, then over data
sets, which count alike. Intervals hold 95 % of 4,000 bootstrap draws on two levels: data sets, and groups of questions
in them (those that share gold documents; where more than half hang together, those with the same document of most
gold). With few data sets such an interval is too short rather than too long.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

from effect_model import design_of, sampling_noise
from landscapes import Landscape
from learning import deviations, group_by_main_document, groups_of
from numpy.typing import NDArray
from published import read
from simple_rules import SPREADS, Coding, Estimate, Floats, Labels, Prior, flat, learned, searched, simplified

from ragsmith.datasets.bundled import bundled_names
from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.groups import group_by_document
from ragsmith.datasets.overlap import sample_shingles
from ragsmith.datasets.splits import split, split_with_exclusions
from ragsmith.effects import ModelClasses, profile_corpus, recommend_pipeline
from ragsmith.effects.beliefs import FitnessPart
from ragsmith.effects.knowledge import Knowledge, ObservedDataset
from ragsmith.effects.terms import GROUPS, option_labels, pipeline_terms, usual_pipeline
from ragsmith.errors import UsageError
from ragsmith.evaluation.baselines import BASELINES
from ragsmith.evaluation.fitness import Weights
from ragsmith.pipelines.space import Genome, Space
from ragsmith.runs.choice import shrink_means
from ragsmith.strategies import Prior as Expects
from ragsmith.strategies import make_strategy
from ragsmith.techniques.families import FAMILIES
from ragsmith.types import Dataset, Example

NEUTRAL, NAIVE = (tuple(BASELINES[name].get(family.name, "none") for family in FAMILIES) for name in ("bm25", "naive"))
RANDOM_DRAWS = 20
BOOTSTRAP = 4_000
LEARNED_FROM = 150
"""Pipelines of another data set that the package's effects are learned from."""
BEGIN = 12
"""Pipelines drawn at random that a search without a prior begins with."""
TOLERANCE = 1e-9
RIVALS = ("BM25", "random", "raw", "recommended")


@dataclass(frozen=True, eq=False)
class Target:
    """A data set with the scores of its pipelines: those that failed on no question, a column for each question."""

    name: str
    dataset: Dataset
    pipelines: list[Labels]
    genomes: list[Genome]
    scores: Floats
    parts: dict[str, Floats]
    calls: Floats
    questions: tuple[str, ...]
    known: NDArray[np.bool_]
    """Which questions others may learn from."""
    space: Space
    models: ModelClasses

    @classmethod
    def read(cls, path: Path, data: Path) -> "Target":
        """Read a landscape, and the data set that it was made of.

        Raises:
            UsageError: that has changed since.
        """
        landscape = Landscape.load(path)
        name = landscape.about["dataset"]
        place = name if name in bundled_names("datasets") else str(data / name.replace(" ", "_"))
        dataset, _ = read(place)
        if dataset.digest != landscape.about["digest"]:
            raise UsageError(f"{path} is of another state of {name!r} than {place} has: make it again")
        families = [[str(gene) for gene in genes] for genes in landscape.space.options]
        whole = ~np.isnan(landscape.F).any(axis=1)
        genomes = landscape.genomes[whole].tolist()
        pipelines = [tuple(options[i] for options, i in zip(families, genome, strict=True)) for genome in genomes]
        parts = (
            {"retrieval": landscape.R, "generation": landscape.G}
            if landscape.about["answers"]
            else {"retrieval": landscape.R}
        )
        static = landscape.about["models"]["embedder"].startswith("wordllama")
        return cls(
            name,
            dataset,
            pipelines,
            [tuple(genome) for genome in genomes],
            landscape.F[whole].astype(np.float64),
            {part: scores[whole].astype(np.float64) for part, scores in parts.items()},
            landscape.calls[whole].mean(axis=1),
            landscape.questions,
            landscape.search,
            landscape.space,
            ModelClasses(embedder="static" if static else "transformer"),
        )

    @cached_property
    def whole(self) -> bool:
        """Whether nearly all of the space was scored, so that a strategy can move about in it."""
        return len(self.pipelines) > 0.9 * self.space.feasible_size

    @property
    def answers(self) -> bool:
        """Whether generation is scored, too."""
        return len(self.parts) > 1

    @cached_property
    def observed(self) -> ObservedDataset:
        """What is known of it where another is the target: some pipelines on the search questions."""
        draw = np.random.default_rng(0)
        alone = [row for row, labels in enumerate(self.pipelines) if _is_near(labels)]
        rows = list(dict.fromkeys([*alone, *draw.permutation(len(self.pipelines)).tolist()]))[:LEARNED_FROM]
        labels = tuple(self.pipelines[row] for row in rows)
        asked = [example for example in self.dataset.examples if example.id in self._known]
        together = groups_of(self.dataset, asked)
        means, noise = {}, {}
        for part, scores in self.parts.items():
            its = scores[rows][:, self.known]
            means[part] = tuple(its.mean(axis=1).tolist())
            design, columns = design_of(labels, part, self.models)
            noise[part] = tuple(sampling_noise(design, columns, len(GROUPS), deviations(its, together)).tolist())
        return ObservedDataset(
            self.name,
            self.dataset.digest,
            sample_shingles(self.dataset.documents),
            profile_corpus(self.dataset.documents, asked),
            self.models,
            len(asked),
            len(together),
            labels,
            means,
            noise,
            tuple(self.calls[rows].tolist()),
        )

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(question for question, known in zip(self.questions, self.known, strict=True) if known)

    @cached_property
    def row(self) -> dict[Labels, int]:
        """The row of each pipeline."""
        return {labels: row for row, labels in enumerate(self.pipelines)}

    @cached_property
    def told(self) -> list[int]:
        """BM25, and naive RAG where it is there."""
        return [self.row[labels] for labels in (NEUTRAL, NAIVE) if labels in self.row]

    @cached_property
    def examples(self) -> tuple[Example, ...]:
        """The questions that may be divided: of a bundled data set those of the search alone."""
        bundled = self.name in bundled_names("datasets")
        allowed = {q for q, known in zip(self.questions, self.known, strict=True) if known or not bundled}
        return tuple(replace(e, split=None) for e in self.dataset.examples if e.id in allowed)

    def divisions(self, wanted: int) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """Different search and test sides, as columns; fewer than ``wanted`` where no more are found."""
        restricted = make_dataset({"name": self.name}, self.dataset.documents, self.examples)
        largest = max(len(group.examples) for group in group_by_document(self.examples))
        found: set[tuple[str, ...]] = set()
        for seed in range(10 * wanted):
            drawn = split_with_exclusions(restricted, seed=seed, draws=1) if 2 * largest > len(self.examples) else None
            drawn = drawn or split(restricted, seed=seed, draws=1)
            test = tuple(example.id for example in drawn.test)
            if test and test not in found:
                found.add(test)
                search = {example.id for example in drawn.search}
                yield np.isin(self.questions, sorted(search)), np.isin(self.questions, test)
            if len(found) == wanted:
                return

    @cached_property
    def clusters(self) -> NDArray[np.int64]:
        """A number for the group of each question."""
        groups = group_by_document(self.examples)
        if 2 * max(len(group.examples) for group in groups) > len(self.examples):
            groups = group_by_main_document(self.examples)
        of = {example.id: number for number, group in enumerate(groups) for example in group.examples}
        return np.array([of.get(question, -1) for question in self.questions])


def _is_near(labels: Labels) -> bool:
    """Whether at most one option sets a pipeline apart from one that the package learns from by single options."""
    bases = (NAIVE, NEUTRAL, option_labels(usual_pipeline()))
    return any(sum(one != other for one, other in zip(labels, base, strict=True)) < 2 for base in bases)


@dataclass(frozen=True, eq=False)
class Believed:
    """What other data sets tell of a target: the prior, and the pipelines that are recommended by it alone."""

    prior: Prior
    recommended: int
    cheap: int
    replaced: int = 0
    """How many of the two were not scored, so that the best expected of those that were stands for them."""


def simply_believed(target: Target, others: Sequence[Target], coding: Coding) -> Believed:
    """By `simple_rules`: what is recommended is expected most of, among all and among those of one call a question."""
    known = [(coding.features(other.pipelines), other.scores[:, other.known].mean(axis=1)) for other in others]
    prior = learned(coding, known, coding.features(target.pipelines))
    cheap = np.where(target.calls <= 1 + TOLERANCE, prior.expected, -np.inf)
    return Believed(prior, int(prior.expected.argmax()), int(cheap.argmax()))


def believed_by_package(target: Target, others: Sequence[Target]) -> Believed:
    """By `ragsmith.effects`: what it recommends, or where that was not scored the one it expects most of."""
    knowledge = Knowledge.of([other.observed for other in others])
    corpus = profile_corpus(target.dataset.documents)
    weights = Weights() if target.answers else Weights(1, 0)
    beliefs = knowledge.beliefs(corpus, target.models, weights)
    expected = np.zeros(len(target.pipelines))
    loadings, rest = [], 0.0
    for part in beliefs.parts:
        if part.share:
            design = _design(part, target.pipelines)
            values, vectors = np.linalg.eigh(part.learned.covariance)
            expected += part.share * (design @ part.learned.mean)
            loadings.append((part.share * design @ (vectors * np.sqrt(np.maximum(values, 0)))).astype(np.float32))
            rest += part.share**2 * knowledge.variances[part.name].rest
    named = []
    replaced = 0
    for most in (None, 1):
        allowed = target.calls <= (most or np.inf) + TOLERANCE
        found = recommend_pipeline(target.space, knowledge, corpus, target.models, most_calls=most, weights=weights)
        best = int(np.where(allowed, expected, -np.inf).argmax())
        labels = option_labels(found.candidate)
        named.append(target.row.get(labels, best))
        replaced += labels not in target.row
    return Believed(Prior(expected, np.hstack(loadings), float(np.sqrt(rest))), *named, replaced)


def _design(part: FitnessPart, pipelines: Sequence[Labels]) -> Floats:
    """The terms of pipelines that something is known of, by weight."""
    design = np.zeros((len(pipelines), len(part.places)))
    for row, labels in zip(design, pipelines, strict=True):
        for term in pipeline_terms(labels, part.name, part.models):
            if (place := part.places.get(term.name)) is not None:
                row[place] += term.weight
    return design


def proposed(
    target: Target, name: str, means: Floats, told: Sequence[int], budget: int, seed: int, prior: Prior | None
) -> list[int]:
    """The pipelines that a strategy of the package evaluates after ``told``, whose means on the search side it sees."""
    rows = {genome: row for row, genome in enumerate(target.genomes)}
    expects = _expects(target, prior, rows, float(means[told[0]])) if prior else None
    search = make_strategy(
        name, target.space.sizes, seed=seed, feasible=rows.__contains__, max_evaluations=max(1, budget), prior=expects
    )
    found = list(dict.fromkeys(told))
    search.tell({target.genomes[row]: float(means[row]) for row in found})
    while batch := search.propose():
        found += [rows[genome] for genome in batch]
        search.tell({genome: float(means[rows[genome]]) for genome in batch})
    return list(dict.fromkeys(found))[: len(set(told)) + budget]


def _expects(target: Target, prior: Prior, rows: dict[Genome, int], level: float) -> Expects:
    """A prior as strategies ask for it: the fitness of genomes, where BM25 has ``level``, and its deviation."""
    means = prior.expected - prior.expected[target.row[NEUTRAL]] + level
    spreads = np.sqrt((prior.loadings.astype(np.float64) ** 2).sum(axis=1) + prior.rest**2)

    def expected(genomes: Sequence[Genome]) -> tuple[Floats, Floats]:
        places = [rows[genome] for genome in genomes]
        return means[places], spreads[places]

    return expected


@dataclass
class Sums:
    """What a rule scored on each question of a target when that was tested, and how often it was."""

    score: Floats
    rivals: dict[str, Floats]
    times: Floats
    calls: list[float] = field(default_factory=list)


class Study:
    """One target: each rule's gains, question by question."""

    def __init__(
        self, target: Target, coding: Coding, believed: Believed, budgets: Sequence[int], strategy: str | None
    ) -> None:
        self.target = target
        self.strategy = strategy
        self.prior = believed.prior
        self.budgets = budgets
        self.recommended, self.cheap, self.replaced = believed.recommended, believed.cheap, believed.replaced
        features = coding.features(target.pipelines)
        self.informed = Estimate([believed.prior])
        self.blind = Estimate([flat(features, coding.pairs, spreads) for spreads in SPREADS])
        width = len(target.questions)
        self.sums: defaultdict[tuple[str, int], Sums] = defaultdict(
            lambda: Sums(np.zeros(width), {rival: np.zeros(width) for rival in RIVALS}, np.zeros(width))
        )

    def divide(self, search: NDArray[np.bool_], test: NDArray[np.bool_], seed: int) -> None:
        """Let every rule choose on the search side, and add what it scores on the test side."""
        target = self.target
        scores = target.scores[:, search]
        draw = np.random.default_rng(seed)
        drawn = [draw.permutation(len(scores)) for _ in range(RANDOM_DRAWS)]
        for budget in self.budgets:
            best_drawn = [self._raw([*target.told, *order[:budget].tolist()], scores) for order in drawn]
            at_random = target.scores[best_drawn].mean(axis=0)
            chosen = {
                "recommended": self.recommended,
                "recommended, one call": self.cheap,
                "expected": int(self.prior.expected.argmax()),
                "oracle": int(np.argmax(target.scores[:, test].mean(axis=1))),
                **self._chosen(scores, self._seen(scores, budget, seed)),
            }
            rivals = {
                "BM25": target.scores[target.row[NEUTRAL]],
                "random": at_random,
                "raw": target.scores[chosen["raw"]],
                "recommended": target.scores[self.recommended],
            }
            for rule, row in chosen.items():
                self._add(rule, budget, target.scores[row], float(target.calls[row]), rivals, test)
            self._add("random", budget, at_random, float(target.calls[best_drawn].mean()), rivals, test)

    def _seen(self, scores: Floats, budget: int, seed: int) -> dict[str, list[int]]:
        """The pipelines that a search of ``budget`` evaluations meets, without a prior and with one, the told first."""
        target = self.target
        begin = np.random.default_rng(seed).permutation(len(scores))[: min(BEGIN, budget)].tolist()
        begin_informed = [self.recommended][:budget]
        if self.strategy and target.whole and budget:
            means = scores.mean(axis=1)
            told = [*target.told, *begin_informed]
            return {
                "flat": proposed(target, self.strategy, means, target.told, budget, seed, None),
                "prior": proposed(target, self.strategy, means, told, budget - 1, seed, self.prior),
            }
        return {
            "flat": searched(self.blind, scores, target.told, budget, begin),
            "prior": searched(self.informed, scores, target.told, budget, begin_informed),
        }

    def _chosen(self, scores: Floats, seen: dict[str, list[int]]) -> dict[str, int]:
        """What each rule that looks at scores makes of what its search evaluated."""
        target = self.target
        blind = self.blind.of_all(seen["flat"], scores[seen["flat"]])[0]
        with_prior = self._estimated(list(dict.fromkeys([*seen["prior"], self.recommended])), scores)
        raw = self._raw(seen["flat"], scores)

        def simple(leader: int) -> int:
            return simplified(leader, scores, target.calls, target.pipelines, target.row, NAIVE)

        def or_recommended(row: int) -> int:
            ahead = scores[row] - scores[self.recommended]
            return row if ahead.mean() > ahead.std(ddof=1) / np.sqrt(len(ahead)) else self.recommended

        raw_prior = self._raw(seen["prior"], scores)
        return {
            "raw": raw,
            "raw, simplified": simple(raw),
            "raw, prior": raw_prior,
            "raw, prior, simplified": simple(raw_prior),
            "raw, prior, or recom.": or_recommended(raw_prior),
            "estimate": max(seen["flat"], key=lambda row: blind[row]),
            "with prior": with_prior,
            "with prior, simplified": simple(with_prior),
            "with prior, or recom.": or_recommended(with_prior),
        }

    def _estimated(self, rows: list[int], scores: Floats) -> int:
        """The one that the package's estimate says is worth most."""
        loadings = self.prior.loadings[rows].astype(np.float64)
        worth, _ = shrink_means(scores[rows], self.prior.expected[rows], loadings @ loadings.T, self.prior.rest)
        return rows[int(worth.argmax())]

    def _raw(self, rows: Sequence[int], scores: Floats) -> int:
        return max(rows, key=lambda row: scores[row].mean())

    def _add(
        self,
        rule: str,
        budget: int,
        score: Floats,
        calls: float,
        rivals: dict[str, Floats],
        test: NDArray[np.bool_],
    ) -> None:
        sums = self.sums[rule, budget]
        sums.score[test] += score[test]
        sums.times[test] += 1
        sums.calls.append(calls)
        for rival, its in rivals.items():
            sums.rivals[rival][test] += its[test]

    def gain(self, rule: str, budget: int, rival: str) -> tuple[Floats, Floats]:
        """By group of questions: the sum over questions of the mean gain of a question, and how many there are."""
        sums = self.sums[rule, budget]
        tested = sums.times > 0
        gains = (sums.score - sums.rivals[rival])[tested] / sums.times[tested]
        groups = np.unique(self.target.clusters[tested], return_inverse=True)[1].ravel()
        return np.bincount(groups, weights=gains), np.bincount(groups).astype(float)


def pooled(gains: Sequence[tuple[Floats, Floats]], seed: int = 0) -> tuple[float, float, float]:
    """The mean over data sets of the mean gain of a question, and its interval: data sets and groups drawn anew."""
    draw = np.random.default_rng(seed)
    again = []
    for sums, counts in gains:
        times = draw.multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=BOOTSTRAP)
        again.append(times @ sums / (times @ counts))
    sets = draw.integers(len(gains), size=(BOOTSTRAP, len(gains)))
    within = draw.integers(BOOTSTRAP, size=(BOOTSTRAP, len(gains)))
    means = np.array(again)[sets, within].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(np.mean([sums.sum() / counts.sum() for sums, counts in gains])), float(low), float(high)


FIXED = ("recommended", "recommended, one call", "expected", "oracle")
SEARCHED = (
    *("random", "raw", "raw, simplified", "raw, prior", "raw, prior, simplified", "raw, prior, or recom."),
    *("estimate", "with prior", "with prior, simplified", "with prior, or recom."),
)
RULES = (*FIXED[:3], *SEARCHED, "oracle")


def say(studies: Sequence[Study], budgets: Sequence[int]) -> None:
    """Print what is pooled, then the gains over BM25 of each data set."""
    print(f"{'rule':<24}{'N':>4}  " + "".join(f"{f'over {rival}':<28}" for rival in RIVALS) + "calls")
    for rule in RULES:
        for budget in budgets[-1:] if rule in FIXED else budgets:
            cells = [
                "{:+.4f} [{:+.4f}, {:+.4f}]".format(*pooled([study.gain(rule, budget, rival) for study in studies]))
                for rival in RIVALS
            ]
            calls = np.mean([np.mean(study.sums[rule, budget].calls) for study in studies])
            print(f"{rule:<24}{budget:>4}  " + "".join(f"{cell:<28}" for cell in cells) + f"{calls:.1f}")
    most = budgets[-1]
    print(f"\ngain over BM25 at N = {most}\n{'':<24}" + "".join(f"{rule[-15:]:>17}" for rule in RULES))
    for study in studies:
        means = [pooled([study.gain(rule, most, "BM25")])[0] for rule in RULES]
        print(f"{study.target.name:<24}" + "".join(f"{mean:>+17.4f}" for mean in means))


def described(study: Study, divisions: Sequence[tuple[NDArray[np.bool_], NDArray[np.bool_]]]) -> str:
    """What was measured on a target, in a line."""
    target = study.target
    sizes = np.mean([(search.sum(), test.sum()) for search, test in divisions], axis=0)
    _, tested = study.gain("random", study.budgets[0], "BM25")
    options = [label for label in target.pipelines[study.recommended] if label != "none"]
    return (
        f"{target.name}: {len(target.pipelines):,} pipelines; {len(target.examples)} questions divided in "
        f"{len(divisions)} ways, {sizes[0]:.0f} to search and {sizes[1]:.0f} to test on average; {tested.sum():.0f} of "
        f"them tested, in {len(tested)} groups; recommended: {' + '.join(options)}"
        f"{f' ({study.replaced} of 2 recommended were not scored)' if study.replaced else ''}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("landscapes", type=Path)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where published data sets lie")
    parser.add_argument("--prior", choices=["package", "simple"], default="package", help="who learns from the others")
    parser.add_argument("--strategy", default="genetic", help="one of the package, or pool: that of simple_rules.py")
    parser.add_argument("--resamples", type=int, default=20)
    parser.add_argument("--budgets", type=int, nargs="+", default=[0, 25, 50, 100])
    given = parser.parse_args()
    targets = [Target.read(path, given.data) for path in sorted(given.landscapes.glob("*.npz"))]
    if len(targets) < 3:
        raise UsageError(f"{given.landscapes} has {len(targets)} landscapes: at least 3 are needed, one to leave out")
    coding = Coding.of(NEUTRAL, [target.pipelines for target in targets])
    studies = []
    for target in targets:
        others = [other for other in targets if other is not target]
        simple = given.prior == "simple"
        believed = simply_believed(target, others, coding) if simple else believed_by_package(target, others)
        study = Study(target, coding, believed, given.budgets, None if given.strategy == "pool" else given.strategy)
        divisions = list(target.divisions(given.resamples))
        for seed, (search, test) in enumerate(divisions):
            study.divide(search, test, seed)
        print(described(study, divisions), flush=True)
        studies.append(study)
    print()
    say(studies, given.budgets)


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
