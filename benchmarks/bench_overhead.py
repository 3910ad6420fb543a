"""What the engine itself takes for a stage, in microseconds, in this tree and in another, alternating.

    python benchmarks/bench_overhead.py [--against TREE] [--rounds N]

A pipeline of stages that do next to nothing answers 2,000 questions: once when nothing is known, so that each stage
runs and is remembered, and once more when all are. Seconds are those of the processor; of the rounds the quickest
counts, as others who use the machine only add to it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ragsmith.types import Hits, Question, Search

QUESTIONS = 2_000

NAMES = (
    ("load_dataset", "datasets.dataset", "datasets"),
    ("Setup", "evaluation.testbed", "setup"),
    ("read_configuration", "pipelines.genes", "space"),
    ("load_techniques", "techniques.registry", "registry"),
)
"""What is needed, and the modules in which a tree may have it: the present one, and that of b45998b."""


def _found(name: str, *modules: str) -> Any:
    for module in modules:
        try:
            return getattr(import_module(f"ragsmith.{module}"), name)
        except ModuleNotFoundError:
            continue
    sys.exit(f"{name} is in none of the modules {', '.join(modules)} of ragsmith: name where this tree has it")


def measure() -> dict[str, float]:
    """Microseconds a stage, by what is known."""
    load_dataset, setup, read_configuration, load_techniques = (_found(*names) for names in NAMES)
    families = import_module(f"ragsmith.{'techniques.' if find_spec('ragsmith.techniques.families') else ''}families")

    load_techniques()

    def nothing(question: Question, search: Search) -> Hits:
        """Find nothing."""
        return ()

    families.query_expansion(paper="none")(nothing)
    plain = {"query_expansion": "nothing", "retrieval": "bm25", "passage_filter": "top_k", "prompt_maker": "listing"}
    names = {family.name: plain.get(family.name, "none") for family in families.FAMILIES}
    candidate = read_configuration({family: {"technique": name, "parameters": {}} for family, name in names.items()})
    engine = setup(load_dataset("law")).engine()
    vars(candidate[1].technique)["code"] = ""  # the function stands in no file of the tree
    engine.answer(candidate, Question("First, what a collection needs is built."))
    questions = [Question(f"Question {number}?") for number in range(QUESTIONS)]
    found = {}
    for known in ("new", "known"):
        began = time.process_time()
        stages = sum(len(engine.answer(candidate, question).outputs) for question in questions)
        found[known] = (time.process_time() - began) / stages * 1e6
    return found


def main() -> None:
    """Measure each tree in processes of its own, and print what was least."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="TREE", help="another checkout")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each tree")
    parser.add_argument("--here", action="store_true", help="measure in this process, and print JSON")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure()))
        return
    trees = [Path(__file__).resolve().parents[1], *([given.against.resolve()] if given.against else [])]
    least: dict[tuple[Path, str], float] = {}
    for _ in range(given.rounds):
        for tree in trees:
            command = [sys.executable, __file__, "--here"]
            env = {**os.environ, "PYTHONPATH": str(tree)}
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{tree}: {done.stderr}")
            for known, value in json.loads(done.stdout).items():
                least[tree, known] = min(value, least.get((tree, known), value))
    print("| microseconds a stage | " + " | ".join(tree.name for tree in trees) + " |")
    print("| --- |" + " ---: |" * len(trees))
    for known, said in (("new", "that runs, and is remembered"), ("known", "that is remembered")):
        print(f"| {said} | " + " | ".join(f"{least[tree, known]:.1f}" for tree in trees) + " |")


if __name__ == "__main__":
    main()
