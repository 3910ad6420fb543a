"""What a Ray cluster of many cores would do: its queues, simulated from the costs of messages that were measured here.

A question occupies an actor, and then the main process. The actors start when their node has the index, which the node
of the main process sends to each other node.
"""

from __future__ import annotations

import heapq
import os
import pickle
import time
from dataclasses import dataclass
from pathlib import Path

from ragsmith.evaluation.actor_runner import ActorRunner
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.cluster import Cluster
from ragsmith.evaluation.experiment import CHUNK_SIZE, prepare_experiment
from ragsmith.index.parts import list_parts, pack_part
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.techniques.registry import load_techniques

BANDWIDTH = 125e6
"""Bytes a second between two nodes, assumed: 1 Gbit/s."""
CLUSTERS = ((1, 4), (1, 16), (2, 16), (100, 16))
"""Nodes, and cores of each."""
QUESTIONS = 100_000


@dataclass(frozen=True)
class Costs:
    """CPU seconds a question of an actor and of the main process; bytes of a result and of an index."""

    actor: float
    main: float
    result: float
    index: float
    index_seconds: float


def pipelines(number: int) -> list[Candidate]:
    """Return pipelines that search for words, and keep different numbers of passages."""
    load_techniques()
    found = []
    for kept in range(1, number + 1):
        gene = make_gene("passage_filter", "top_k", {"k": kept})
        found.append(tuple(gene if one.technique.name == "top_k" else one for one in baseline("bm25")))
    return found


def cpu_by_process() -> dict[str, float]:
    """Return CPU seconds of this process, and of those of Ray that it has started, summed by name."""
    parents: dict[int, tuple[int, float, str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            name = (path.parent / "cmdline").read_text().partition("\0")[0].rpartition("/")[2]
        except OSError:  # it has ended
            continue
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        parents[int(path.parent.name)] = int(fields[1]), seconds, name.partition(".")[0].partition(" ")[0]
    mine, new = {os.getpid()}, {os.getpid()}
    while new := {pid for pid, (parent, *_) in parents.items() if parent in new} - mine:
        mine |= new
    found = {"main process": parents[os.getpid()][1]}
    for pid in mine - {os.getpid()}:
        _, seconds, name = parents[pid]
        if "ray" in name or "gcs" in name:
            found[name] = found.get(name, 0.0) + seconds
    return found


def measure_costs(number: int) -> Costs:
    """Measure the costs of a question of pipelines with embedded models, on one actor."""
    setup = prepare_experiment("law", ModelNames(), CHUNK_SIZE, faithfulness=False)
    engine = setup.engine()
    jobs = [(place, question) for place in range(number) for question in setup.order]
    with Cluster("", 1) as cluster, ActorRunner(setup, engine, cluster) as runner:
        runner.settle()
        ended = [one for batch in runner.run(pipelines(1), jobs[:1]) for one in batch]
        before = cpu_by_process()
        ended = [one for batch in runner.run(pipelines(number), jobs) for one in batch]
        after = cpu_by_process()
        index, _ = runner.engines.get(pipelines(1)[0])[0].prepare(pipelines(1)[0])
        began = time.perf_counter()
        parts = [pack_part(index, part) for part in list_parts(index)]
        seconds = time.perf_counter() - began
    cpu = {name: (after[name] - before.get(name, 0.0)) / len(jobs) for name in after}
    sent = sum(len(written) + sum(map(len, arrays)) for written, arrays in parts)
    return Costs(cpu["ray::EvaluationActor"], cpu["main process"], len(pickle.dumps(ended)) / len(jobs), sent, seconds)


def simulate(costs: Costs, nodes: int, cores: int, questions: int = QUESTIONS) -> tuple[float, dict[str, float]]:
    """Return the seconds that a cluster needs for ``questions``, and the share of them in which each part is busy."""
    actors = max(1, nodes * cores - 1)  # a core for the main process
    ready = costs.index_seconds + costs.index * (nodes - 1) / BANDWIDTH
    free = [ready] * min(actors, questions)  # when each actor is
    main_free = 0.0
    for _ in range(questions):
        main_free = max(main_free, free[0] + costs.actor) + costs.main
        heapq.heapreplace(free, free[0] + costs.actor)
    busy = {
        "actors": questions * costs.actor / actors,
        "main process": questions * costs.main,
        "network": (costs.index * (nodes - 1) + questions * costs.result) / BANDWIDTH,
    }
    return main_free, {part: seconds / main_free for part, seconds in busy.items()}


def print_simulation(number: int) -> None:
    """Measure the costs here, and print what clusters of many cores would do with them."""
    costs = measure_costs(number)
    print(
        f"a question costs {1000 * costs.actor:.2f} ms of an actor, {1000 * costs.main:.2f} ms of the main process and "
        f"{costs.result:,.0f} bytes; an index {costs.index:,.0f} bytes, packed in {1000 * costs.index_seconds:.1f} ms",
        flush=True,
    )
    for nodes, cores in CLUSTERS:
        seconds, busy = simulate(costs, nodes, cores)
        part = max(busy, key=lambda part: busy[part])
        print(
            f"  {nodes} x {cores} cores: {QUESTIONS / seconds:,.0f} questions a second; bottleneck: {part}, busy "
            f"{busy[part]:.0%} of the time",
            flush=True,
        )
