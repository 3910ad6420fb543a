"""Whether drafted questions rank pipelines as written ones do.

    python benchmarks/bench_drafts.py [SET ...] [--cache drafts.sqlite] [--json drafts.json] [--answers]

Pipelines are drawn uniformly from the default space without `graph`, and scored on R, the part of the fitness that is
about what is found, on the questions that people wrote for a data set and on questions that are drafted from its
documents alone, without a model. Beside the rank correlation (Spearman) stands its ceiling, that of two halves of the
written questions, and beside the regret of the pipeline that the drafted questions put first (how much less it scores
on the written ones than the best of the drawn, in per cent of the best) that of the pipeline that one half of the
written questions puts first, scored on the other half, of the recommended pipeline, and of BM25.

The methods, filters and constants of drafting were chosen on the search questions of `law` and `workshop` and on
`finance`; of the bundled data sets only the search questions are looked at here. The other sets are for judging alone.
Sets that are not at hand are left out, with a line that says so.

Ablations share their questions: without a method, its drafts are left out; without a filter, drafts that it alone
refuses come in, in proportion; `plain` has the same drafts before they are reworded; `first drafts` takes what the
methods make in turn, without filters, rewording or selection; `keywords` asks with the words of a passage that tell
most (tf-idf), as naive generators do. Pipelines that are fitted learn from the questions that they are scored on, in
folds; for drafted ones these are all drafts of the set together.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from published import read
from scipy.stats import spearmanr

from ragsmith.datasets.bundled import names
from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.splits import split
from ragsmith.effects.knowledge import read as read_effects
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.testbed import Setup
from ragsmith.labelling.drafting.draft import Draft, Quote, Refused
from ragsmith.labelling.drafting.drafting import SPARE, by_methods, judge
from ragsmith.labelling.drafting.filters import FILTERS
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.passages import in_turns
from ragsmith.labelling.drafting.quotes import located
from ragsmith.labelling.drafting.rewording import reworded
from ragsmith.labelling.drafting.selection import chosen
from ragsmith.pipelines.genes import Candidate, label
from ragsmith.pipelines.space_file import load_space
from ragsmith.runs.recommended import recommend
from ragsmith.store.store import Store, opened
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.words import terms
from ragsmith.types import Dataset, Example

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS: Mapping[str, str] = {
    "law": "law",
    "workshop": "workshop",
    "finance": str(DATA / "ragsmith_finance_10"),
    "law articles": str(DATA / "ragsmith_law_10"),
    "hotpotqa": str(DATA / "hotpotqa_100"),
    "tatqa": str(DATA / "tatqa_dev"),
    "cranfield": str(DATA / "cranfield"),
}
DEVELOPED_ON = ("law", "workshop", "finance")

PIPELINES = 40
SEED = 0
WRITTEN = 100
"""Most written questions of a set; of a larger one so many are drawn."""
DRAFTED = 100
ALONE = 3
"""Most drafts that a filter alone refuses which are scored, for its ablation."""
PLAIN, FIRST, KEYWORDS = 30, 30, 30
HALVES = 200
"""Divisions of the written questions into halves."""

RETRIEVING = 5
"""Families that decide what is found."""
RIDGE = 5.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """Drafts by variant; ``alone`` holds those that a filter alone refuses, and the share that they are."""

    variants: Mapping[str, Sequence[Draft]]
    alone: Mapping[str, tuple[float, Sequence[Draft]]]

    @property
    def drafts(self) -> dict[str, Draft]:
        """Every answerable draft by its id."""
        groups = [*self.variants.values(), *(drafts for _, drafts in self.alone.values())]
        return {draft.id: draft for drafts in groups for draft in drafts if draft.answerable}


def drawn() -> list[Candidate]:
    """Pipelines, uniformly from what is feasible in the default space without entity graphs."""
    load_techniques()
    space = load_space("default").of_families().without(lambda gene: "graph" in gene.technique.name)
    draw = random.Random(SEED)
    found: dict[Candidate, None] = {}
    while len(found) < PIPELINES:
        genome = tuple(draw.randrange(size) for size in space.sizes)
        if space.is_feasible(genome):
            found.setdefault(space.candidate(genome))
    return list(found)


def candidates(dataset: Dataset) -> list[Candidate]:
    """The drawn pipelines, then BM25 and the recommended one."""
    known, space = read_effects(None), load_space("default").of_families()
    best = recommend(Setup(dataset), space, known, most_calls=None, fitness=Fitness.of(None))
    return [*drawn(), baseline("bm25"), best.chosen.candidate]


def written(name: str, dataset: Dataset) -> list[Example]:
    """The questions that people wrote: of a bundled set those of the search, and of no set more than `WRITTEN`."""
    examples = list(split(dataset).search if SETS[name] in names("datasets") else dataset.examples)
    return random.Random(SEED).sample(examples, WRITTEN) if len(examples) > WRITTEN else examples


def pool(dataset: Dataset) -> Pool:
    """Everything that is drafted from the documents of a set, by variant."""
    material = Material(dataset.documents)
    made = [
        draft
        for raw in by_methods()(islice(in_turns(material.passages, SEED), 8 * DRAFTED), material)
        if not isinstance(draft := located(raw, material), str)
    ]
    passed: list[Draft] = []
    only: dict[str, list[Draft]] = {filter_.__name__: [] for filter_ in FILTERS}
    for draft in made:
        if len(passed) == SPARE * DRAFTED:
            break
        kept = [other.question for other in passed]
        judged = judge(draft, material, kept, FILTERS)
        if not isinstance(judged, Refused):
            passed.append(judged)
        elif draft.answerable and all(
            filter_.__name__ == judged.filter or filter_(draft, material, kept) is None for filter_ in FILTERS
        ):
            only[judged.filter].append(draft)
    full = chosen([reworded(draft, material) for draft in passed], DRAFTED, material)
    same = {draft.keys[1] for draft in full}
    plain = [draft for draft in passed if draft.keys[1] in same and draft.answerable]
    first = [draft for draft in made if draft.answerable]
    alone = {}
    for name, drafts in only.items():
        share = len(drafts) / (len(drafts) + len(passed))
        taken = random.Random(SEED).sample(drafts, min(ALONE, len(drafts)))
        alone[name] = share, [reworded(draft, material) for draft in taken]
    print(f"  {len(made)} drafts, {len(passed)} passed; chosen {dict(Counter(draft.method for draft in full))}")
    return Pool(
        {"drafted": full, "plain": plain[:PLAIN], "first drafts": first[:FIRST], "keywords": keywords(material)}, alone
    )


def keywords(material: Material) -> list[Draft]:
    """The naive generator: the six words of a passage that tell most are the question, the passage is the evidence."""
    drafts = []
    for passage in islice(in_turns(material.passages, SEED), KEYWORDS):
        counts = Counter(terms(passage.text))
        best = sorted(counts, key=lambda term: (-counts[term] * material.lexicon.idf(term), term))[:6]
        question = " ".join(material.lexicon.surfaces[term] for term in best)
        quote = Quote(passage.doc, passage.text, passage.start)
        drafts.append(Draft(question, passage.text, (quote,), "keywords", "keywords", passage.span))
    return drafts


def scores(
    dataset: Dataset, examples: Sequence[Example], store: Store, asked: Sequence[Candidate], part: str
) -> Floats:
    """R or F of each pipeline on each question; a pipeline that failed on one has none."""
    found = np.full((len(asked), len(examples)), np.nan)
    ranks = part == "retrieval"
    with Evaluator(Setup(dataset), store, 1, ranks=ranks) as evaluator:
        evaluations = (evaluator.rank if ranks else evaluator.evaluate)(asked, examples)
    for row, one in enumerate(evaluations):
        if one.complete:
            values = one.values(part, None if ranks else Fitness.of(None))
            by_question = dict(zip(one.questions, values, strict=True))
            found[row] = [by_question[example.id] for example in examples]
    return found


def agreement(one: Floats, other: Floats) -> float:
    """Spearman's correlation over the drawn pipelines that have both scores."""
    able = ~np.isnan(one[:PIPELINES]) & ~np.isnan(other[:PIPELINES])
    return float(spearmanr(one[:PIPELINES][able], other[:PIPELINES][able]).statistic)


def regret(truth: Floats, chooser: Floats) -> float:
    """How far the pipeline that ``chooser`` puts first is behind the best of the drawn, in per cent of the best."""
    best = float(np.nanmax(truth[:PIPELINES]))
    first = int(np.nanargmax(np.where(np.isnan(truth), np.nan, chooser)[:PIPELINES]))
    return 100 * (best - float(truth[first])) / best


def halves(table: Floats) -> tuple[float, float]:
    """Mean Spearman of two halves of the written questions, and mean regret of one half's choice on the other."""
    draw = np.random.default_rng(SEED)
    found = []
    for _ in range(HALVES):
        order = draw.permutation(table.shape[1])
        one, other = (table[:, half].mean(axis=1) for half in np.array_split(order, 2))
        found.append((agreement(one, other), regret(other, one)))
    return float(np.mean([a for a, _ in found])), float(np.mean([r for _, r in found]))


def judged(name: str, cache: Path, part: str) -> dict[str, object]:
    """The numbers of a set."""
    began = time.perf_counter()
    dataset, _ = read(SETS[name])
    print(f"{name}: {len(dataset.documents)} documents", flush=True)
    asked, examples = candidates(dataset), written(name, dataset)
    made = pool(dataset)
    drafts = made.drafts
    drafted = make_dataset(
        {"name": "drafted", "language": dataset.language},
        dataset.documents,
        [Example(id_, d.question, d.answer, d.type, tuple(q.span for q in d.quotes)) for id_, d in drafts.items()],
    )
    with opened(cache) as store:
        truth = scores(dataset, examples, store, asked, part)
        known = scores(drafted, drafted.examples, store, asked, part)
    column = {example.id: known[:, number] for number, example in enumerate(drafted.examples)}

    def mean(its: Sequence[Draft]) -> Floats:
        return np.mean([column[draft.id] for draft in its if draft.answerable], axis=0)

    people = truth.mean(axis=1)
    best = float(np.nanmax(people[:PIPELINES]))
    ceiling, halves_regret = halves(truth)
    full = made.variants["drafted"]
    variants = {variant: mean(its) for variant, its in made.variants.items() if any(d.answerable for d in its)}
    for method in sorted({draft.method for draft in full if draft.answerable}):
        variants[f"without {method}"] = mean([draft for draft in full if draft.method != method])
    for filter_, (share, its) in made.alone.items():
        if its:
            variants[f"without {filter_}"] = (1 - share) * variants["drafted"] + share * mean(its)
    return {
        "set": name,
        "written": len(examples),
        "drafted": sum(draft.answerable for draft in full),
        "ceiling": ceiling,
        "halves regret": halves_regret,
        "bm25": 100 * (best - float(people[PIPELINES])) / best,
        "recommended": 100 * (best - float(people[PIPELINES + 1])) / best,
        "first": label(asked[int(np.nanargmax(variants["drafted"][:PIPELINES]))]),
        "people": people[:PIPELINES].tolist(),
        "means": {v: values[:PIPELINES].tolist() for v, values in variants.items() if not v.startswith("without")},
        "variants": {v: [agreement(people, values), regret(people, values)] for v, values in variants.items()},
        "seconds": time.perf_counter() - began,
    }


def say(rows: Sequence[dict[str, object]]) -> None:
    """Print the tables."""
    print(f"\n{PIPELINES} pipelines, seed {SEED}")
    head = ("set", "written", "drafted", "Spearman", "ceiling", "share", "regret %", "half's %", "recom. %", "BM25 %")
    print(("{:<14}" + "{:>10}" * 9).format(*head))
    for row in rows:
        spearman, lost = row["variants"]["drafted"]  # type: ignore[index]
        numbers = (spearman, row["ceiling"], spearman / row["ceiling"], lost)  # type: ignore[operator]
        rest = (row["halves regret"], row["recommended"], row["bm25"])
        cells = [f"{n:.2f}" for n in (*numbers, *rest)]  # type: ignore[str-bytes-safe]
        print(("{:<14}" + "{:>10}" * 9).format(row["set"], row["written"], row["drafted"], *cells))
    print(f"\n{'variant':<34}{'sets':>6}{'Spearman':>10}{'of ceiling':>12}{'median regret %':>17}")
    for variant in dict.fromkeys(v for row in rows for v in row["variants"]):  # type: ignore[attr-defined]
        its = [row for row in rows if variant in row["variants"]]  # type: ignore[operator]
        pairs = [(*row["variants"][variant], row["ceiling"]) for row in its]  # type: ignore[index]
        base = [(*row["variants"]["drafted"], row["ceiling"]) for row in its]  # type: ignore[index]
        of_ceiling = np.mean([s / c for s, _, c in pairs])
        change = of_ceiling - np.mean([s / c for s, _, c in base])
        print(
            f"{variant:<34}{len(its):>6}{np.mean([s for s, _, _ in pairs]):>10.3f}{of_ceiling:>12.3f}"
            f"{np.median([r for _, r, _ in pairs]):>17.2f}{f'  ({change:+.3f})' if variant != 'drafted' else ''}"
        )


def put_right(rows: Sequence[dict[str, object]]) -> None:
    """Add a variant: what drafted questions make too much of is learned on the other sets, and taken off.

    The difference of both means, of written and of drafted questions, is regressed on the options of the first five
    families (ridge); the set that it is taken off is not among those that it is learned on.
    """
    pipelines = drawn()
    options = sorted({str(gene) for one in pipelines for gene in one[:RETRIEVING]})
    design = np.array([[option in map(str, one[:RETRIEVING]) for option in options] for one in pipelines], dtype=float)
    design -= design.mean(axis=0)
    known = {}
    for row in rows:
        people, drafted = np.array(row["people"]), np.array(row["means"]["drafted"])  # type: ignore[index]
        gap = (people - np.nanmean(people)) - (drafted - np.nanmean(drafted))
        known[row["set"]] = people, drafted, np.nan_to_num(gap)
    for row in rows:
        others = [gap for name, (_, _, gap) in known.items() if name != row["set"]]
        if not others:
            continue
        gram = len(others) * design.T @ design + RIDGE * np.eye(len(options))
        learned = design @ np.linalg.solve(gram, design.T @ np.sum(others, axis=0))
        people, drafted, _ = known[row["set"]]
        found = drafted + learned
        row["variants"]["put right"] = [agreement(people, found), regret(people, found)]  # type: ignore[index]
        centred = [its - np.nanmean(its) for name, (its, _, _) in known.items() if name != row["set"]]
        prior = np.nanmean(centred, axis=0)
        row["variants"]["other sets alone"] = [agreement(people, prior), regret(people, prior)]  # type: ignore[index]


def main() -> int:
    """Judge the sets that are named, or all that are at hand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(SETS))
    parser.add_argument("--cache", type=Path, default=Path("drafts.sqlite"))
    parser.add_argument("--json", type=Path, help="rows are kept here, and what is there is not judged again")
    parser.add_argument("--answers", action="store_true", help="judge F, with the answers, instead of R")
    given = parser.parse_args()
    rows: list[dict[str, object]] = json.loads(given.json.read_text()) if given.json and given.json.exists() else []
    for name in given.sets or SETS:
        if any(row["set"] == name for row in rows):
            continue
        if SETS[name] not in names("datasets") and not Path(SETS[name]).exists():
            print(f"{name}: left out, as {SETS[name]} is not there")
            continue
        rows.append(judged(name, given.cache, "fitness" if given.answers else "retrieval"))
        if given.json:
            given.json.write_text(json.dumps(rows, indent=1))
    put_right(rows)
    say(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
