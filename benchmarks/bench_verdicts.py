"""How often a verdict claims what is not so, and how often it shows what is.

    python benchmarks/bench_verdicts.py                  # level, power, null, looks; about four minutes on one core
    python benchmarks/bench_verdicts.py null looks       # some of: level power null looks detectable

level   the share of comparisons of two equal pipelines that are called better or worse, with 8, 16 and 30 groups
power   the share in which a true difference of 0.05 is shown, beside what is predicted from the spread that is seen
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

The tables stand in the place of what pipelines are made to do, and of nothing else: search, races, choice, simplifying,
test, ledger and verdict are those of `ragsmith search`.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean, median

import ragsmith
from ragsmith.api.result import Result
from ragsmith.comparison.difference import POWER, compute_difference, compute_power, smallest_detectable
from ragsmith.comparison.questions import ALPHA, Clusters
from ragsmith.comparison.verdicts import Comparison, compare_two
from ragsmith.datasets.bundled import bundled_domains
from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.evaluation import Evaluation, Record
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.statistics import Verdict
from ragsmith.evaluation.threads import RANKING
from ragsmith.pipelines.genes import Candidate, label, make_gene
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.reporting.facts import compare_finalists, drop_duplicates
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.runs.run import Run
from ragsmith.store.store import ResultRow, Store
from ragsmith.techniques.registry import load_techniques
from ragsmith.types import Dataset, Document, Example, Span

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


def pairs(groups: int, kind: str, effect: float, world: int) -> tuple[Evaluation, Evaluation, Clusters]:
    """Two pipelines on one to six questions a group, the first better by ``effect`` on each."""
    draw = stable(groups, kind, world)
    sizes = [draw.choice([1, 1, 2, 2, 3, 6]) for _ in range(groups)]
    names = tuple(tuple(f"{group}-{place}" for place in range(size)) for group, size in enumerate(sizes))
    scores: list[dict[str, float]] = [{}, {}]
    for group in names:
        for which in scores:
            lift = draw.gauss(0, 0.04 if effect else 0.12)
            for question in group:
                if kind == "normal":
                    which[question] = 0.5 + lift + draw.gauss(0, 0.08)
                elif kind == "skewed":
                    which[question] = 0.5 + lift - draw.expovariate(6)
                elif kind == "sparse":
                    which[question] = 0.5 + (draw.choice([-0.4, 0.4]) if draw.random() < 0.3 else 0.0)
                else:  # groups of many questions vary more
                    which[question] = 0.5 + len(group) * lift + draw.gauss(0, 0.1)
    scores[0] = {question: value + effect for question, value in scores[0].items()}
    questions = tuple(question for group in names for question in group)
    gene = (make_gene("retrieval", "vector"),)

    def made(which: dict[str, float], name: str) -> Evaluation:
        measures = (*RANKED, *ANSWERED)
        records = {
            question: {"measures": dict.fromkeys(measures, which[question]), "retrieved": [], "usage": {"calls": 1}}
            for question in questions
        }
        return Evaluation(name, gene, questions, records, {})

    return made(scores[0], "first"), made(scores[1], "second"), Clusters(names, "document", groups)


def level(worlds: int = 300) -> None:
    """How often equal pipelines are told apart."""
    for groups in (8, 16, 30):
        shares = {}
        for kind in ("normal", "skewed", "sparse", "uneven"):
            claimed = 0
            for world in range(worlds):
                found = compare_two(*pairs(groups, kind, 0.0, world))
                claimed += found.verdict in (Verdict.BETTER, Verdict.WORSE)
            shares[kind] = claimed / worlds
        said = ", ".join(f"{kind} {share:.3f}" for kind, share in shares.items())
        print(f"level with {groups} groups: {fmean(shares.values()):.3f} ({said}), {worlds} worlds each", flush=True)


def power(worlds: int = 300) -> None:
    """How often +0.05 is shown, and how often that was to be expected by the spread."""
    for groups in (8, 16, 30):
        shown, expected = 0, []
        for world in range(worlds):
            found = compare_two(*pairs(groups, "normal", 0.05, world))
            shown += found.verdict is Verdict.BETTER
            assert found.difference is not None
            expected.append(
                compute_power(0.05, found.difference.error, groups, ALPHA, effective=found.difference.effective)
            )
        print(
            f"power with {groups} groups: +0.05 shown in {shown / worlds:.3f}, predicted {fmean(expected):.3f}",
            flush=True,
        )


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
                settings = replace(_searching(search, 6), probes=False, racing=None, simplify=False)
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
    result = ragsmith.search(name, cache=cache)
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
        predicted = smallest_detectable(seen.error, seen.groups, ALPHA, effective=seen.effective)
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


def main() -> None:
    """Run the parts that are named."""
    known = {"level": level, "power": power, "null": null, "looks": looks, "detectable": detectable}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=list(known)[:4], metavar="PART", help=", ".join(known))
    given = parser.parse_args()
    if unknown := [name for name in given.parts if name not in known]:
        parser.error(f"{', '.join(unknown)}: give {', '.join(known)}")
    load_techniques()
    for name in given.parts:
        began = time.process_time()
        known[name]()
        print(f"  {name}: {time.process_time() - began:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()
