"""What a search costs, in this tree and in another: CPU seconds by subsystem, memory, or the engine's own share.

    python benchmarks/bench_profile.py [--against TREE] [--rounds N] [ARGUMENTS OF SEARCH ...]
    python benchmarks/bench_profile.py --memory [--questions N] [--against TREE] [ARGUMENTS OF SEARCH ...]
    python benchmarks/bench_profile.py --stages [--against TREE] [--rounds N]

CPU seconds are what the operating system counts for the command and all its processes: the median of ``--rounds``,
trees alternating. Each run is a fresh process in a fresh folder, with bytecode and remembered code from a run before.
How they divide comes from one more run of each under py-spy, which takes 200 samples a second of every process. A
sample counts for the innermost part of ragsmith that it is in, or for imports, fingerprints or fits, wherever these
lead. What all parts share, such as splitting text into words, counts for its caller.

``--memory``: N drawn questions about sentences of `law`, one in three of them for the test; peaks of the parent and of
every worker (see watching.py), and digests of the winner's file, the ranking and all rows.

``--stages``: microseconds that the engine itself takes for a stage. A pipeline of stages that do next to nothing
answers 2,000 questions, once when nothing is known and once more when all is; of the rounds the quickest counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

from watching import digest, make_questions, peaks_shown, watched

from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.genes import read_configuration
from ragsmith.techniques import families
from ragsmith.techniques.registry import load_techniques
from ragsmith.types import Hits, Question, Search

HERE = Path(__file__).resolve().parents[1]
USUAL = ("--dataset", "law")
RATE = 200
"""Samples a second."""

LEADING = (
    ("importlib", "imports"),
    ("fingerprint (ragsmith/digest.py", "fingerprints"),
    ("ragsmith/evaluation/fitting.py", "fits"),
)
"""What a sample counts for if any of its frames has this."""

SHARED = ("ragsmith/text/", "ragsmith/digest.py", "ragsmith/errors.py", "ragsmith/types.py", "ragsmith/plugins.py")
"""Counts for whoever called it."""

PARTS = (
    (r"ragsmith/techniques/\w+/(\w+)", r"technique \1"),
    (r"ragsmith/models/(?:embedded|local)/(\w+)", r"model \1"),
    (r"ragsmith/models/", "models"),
    (r"ragsmith/index/", "index"),
    (r"ragsmith/(?:measures/|evaluation/scoring)", "scoring"),
    (r"ragsmith/store/", "store"),
    (r"ragsmith/gateway/", "gateway"),
    (r"ragsmith/evaluation/(?:processes|threads)", "hand-over"),
    (r"ragsmith/pipelines/", "engine"),
    (r"ragsmith/(?:strategies|effects)/", "strategy and prior"),
    (r"ragsmith/reporting/", "report"),
    (r"ragsmith/datasets/", "data set"),
    (r"ragsmith/(?:evaluation|runs)/", "evaluation and run"),
    (r"ragsmith/", "command line"),
)
"""What a frame counts for, by the start of its file."""

SMALL = 0.01
"""Share of the total below which a part is not shown by itself."""


@dataclass
class Tree:
    """A checkout, and the CPU seconds and samples of its runs, cold and repeated."""

    path: Path
    scratch: Path
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"cold": [], "repeated": []})
    shares: dict[str, dict[str, float]] = field(default_factory=dict)

    def run(self, search: Sequence[str], folder: Path, samples: Path | None = None) -> float:
        """CPU seconds of a search in ``folder``; with ``samples``, where py-spy writes its stacks."""
        command = [sys.executable, "-m", "ragsmith", "search", *search, "--quiet"]
        if samples:
            spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or "py-spy"
            command = [spy, "record", "-s", "-r", str(RATE), "-f", "raw", "-o", str(samples), "--", *command]
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        env |= {
            "PYTHONPATH": str(self.path),
            "PYTHONPYCACHEPREFIX": str(self.scratch / "bytecode"),
            "XDG_CACHE_HOME": str(self.scratch / "memory"),
        }
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"{self.path}: {done.stderr or done.stdout}")
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def folder(self, name: str) -> Path:
        """A new folder to search in."""
        place = self.scratch / name
        place.mkdir(parents=True)
        return place

    def median(self, kind: str) -> float:
        """CPU seconds of the runs of a kind."""
        return statistics.median(self.seconds[kind])

    def spent(self, kind: str) -> dict[str, float]:
        """CPU seconds by part."""
        return {part: share * self.median(kind) for part, share in self.shares[kind].items()}


def part_of(stack: Sequence[str]) -> str:
    """What a sample counts for, whose frames are given from the outermost to the innermost."""
    for words, part in LEADING:
        if any(words in frame for frame in stack):
            return part
    for frame in reversed(stack):
        file = frame.rpartition("(")[2]
        if not file.startswith("ragsmith/") or file.startswith(SHARED):
            continue
        for pattern, part in PARTS:
            if found := re.match(pattern, file):
                return found.expand(part)
    return "others"


def shares(samples: Path) -> dict[str, float]:
    """The share of each part in what py-spy has written."""
    counts: Counter[str] = Counter()
    for line in samples.read_text(encoding="utf-8").splitlines():
        stack, _, number = line.rpartition(" ")
        counts[part_of(stack.split(";"))] += int(number)
    total = counts.total()
    return {part: count / total for part, count in counts.items()}


def measure(trees: Sequence[Tree], search: Sequence[str], rounds: int) -> None:
    """Run every tree cold and repeated, in turn, and once more under py-spy."""
    for tree in trees:
        tree.run(search, tree.folder("first"))  # writes bytecode and what is remembered of code
    for number in range(rounds):
        for tree in trees:
            folder = tree.folder(f"round{number}")
            for kind, seconds in tree.seconds.items():
                seconds.append(tree.run(search, folder))
                print(f"{tree.path.name} {kind} {seconds[-1]:.2f} s", file=sys.stderr)
    for tree in trees:
        folder = tree.folder("sampled")
        for kind in tree.seconds:
            samples = tree.scratch / f"{kind}.txt"
            tree.run(search, folder, samples)
            tree.shares[kind] = shares(samples)


def table(trees: Sequence[Tree], kind: str) -> str:
    """CPU seconds by part as a Markdown table; with two trees, and the ratio of the first to the second."""
    columns = [tree.spent(kind) for tree in trees]
    whole = [tree.median(kind) for tree in trees]
    parts = {
        part for column, total in zip(columns, whole, strict=True) for part in column if column[part] >= SMALL * total
    }
    rows = [(part, [column.get(part, 0.0) for column in columns]) for part in parts]
    rows.sort(key=lambda row: -row[1][0])
    rest = [total - sum(row[1][i] for row in rows) for i, total in enumerate(whole)]
    lines = [
        f"| {kind}, CPU s | "
        + " | ".join(tree.path.name for tree in trees)
        + (" | ratio |" if len(trees) > 1 else " |")
    ]
    lines.append("| --- |" + " ---: |" * (len(trees) + (len(trees) > 1)))
    for name, values in [*rows, ("each below 1 %", rest), ("**all**", whole)]:
        ratio = [f"{values[0] / values[1]:.2f}" if values[1] >= SMALL else ""] if len(trees) > 1 else []
        lines.append("| " + " | ".join([name, *(f"{value:.2f}" for value in values), *ratio]) + " |")
    return "\n".join(lines)


QUESTIONS = 2_000
"""QuestionResult of the pipeline whose stages do next to nothing."""


def stage_costs() -> dict[str, float]:
    """Microseconds a stage, by whether its output is computed or known."""
    load_techniques()

    def nothing(question: Question, search: Search) -> Hits:
        """Find nothing."""
        return ()

    families.query_expansion(paper="none")(nothing)
    plain = {"query_expansion": "nothing", "retrieval": "bm25", "passage_filter": "top_k", "prompt_maker": "listing"}
    names = {family.name: plain.get(family.name, "none") for family in families.FAMILIES}
    candidate = read_configuration({family: {"technique": name, "parameters": {}} for family, name in names.items()})
    engine = Experiment(load_dataset("law")).engine()
    vars(candidate[1].technique)["code"] = ""  # the function stands in no file of the tree
    engine.answer(candidate, Question("First, what a collection needs is built."))
    questions = [Question(f"Question {number}?") for number in range(QUESTIONS)]
    found = {}
    for known in ("computed", "known"):
        began = process_time()
        stages = sum(len(engine.answer(candidate, question).outputs) for question in questions)
        found[known] = (process_time() - began) / stages * 1e6
    return found


def compare_stages(trees: Sequence[Path], rounds: int) -> None:
    """Measure each tree in processes of its own, alternating, and print the least of each."""
    least: dict[tuple[Path, str], float] = {}
    for _ in range(rounds):
        for tree in trees:
            env = {**os.environ, "PYTHONPATH": str(tree)}
            command = [sys.executable, __file__, "--stages-here"]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{tree}: {done.stderr}")
            for known, value in json.loads(done.stdout).items():
                least[tree, known] = min(value, least.get((tree, known), value))
    print("| microseconds a stage | " + " | ".join(tree.name for tree in trees) + " |")
    print("| --- |" + " ---: |" * len(trees))
    for known in ("computed", "known"):
        print(f"| {known} | " + " | ".join(f"{least[tree, known]:.1f}" for tree in trees) + " |")


def compare_memory(trees: Sequence[Path], questions: int, search: Sequence[str], scratch: Path) -> None:
    """Run a search of each tree, and print what its processes took and what came out."""
    data = make_questions(scratch, questions)
    for number, tree in enumerate(trees):
        folder = scratch / f"tree{number}"
        ran = watched(tree, ["search", "--dataset", str(data), "--quiet", *search], folder)
        print(f"{tree.name}: exit {ran.code}, {ran.wall:,.0f} s, {ran.cpu:,.0f} CPU s")
        if ran.code:
            sys.exit(ran.said)
        peaks_shown(ran)
        print(f"  {digest(folder)}", flush=True)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="TREE", help="another checkout")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each tree")
    parser.add_argument("--memory", action="store_true", help="peaks of memory of one search of many questions")
    parser.add_argument("--questions", type=int, default=200, help="with --memory: how many")
    parser.add_argument("--stages", action="store_true", help="microseconds of the engine for a stage")
    parser.add_argument("--stages-here", action="store_true", help=argparse.SUPPRESS)
    given, search = parser.parse_known_args()
    paths = [HERE, *([given.against.resolve()] if given.against else [])]
    if given.stages_here:
        print(json.dumps(stage_costs()))
    elif given.stages:
        compare_stages(paths, given.rounds)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            if given.memory:
                compare_memory(paths, given.questions, search, Path(scratch))
                return
            trees = [Tree(path, Path(scratch, str(number))) for number, path in enumerate(paths)]
            measure(trees, search or USUAL, given.rounds)
            for kind in ("cold", "repeated"):
                print(table(trees, kind), end="\n\n")


if __name__ == "__main__":
    main()
