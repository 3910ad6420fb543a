"""Questions that wait for a model: actors of a Ray cluster against threads of one process, and what bounds each.

One batch of pipelines is evaluated on the search questions of `law`, without a cache; each answer is one request to a
server with a latency. Times are from the moment at which all actors are ready.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from served_runs import serving

from ragsmith.evaluation.actor_runner import ActorRunner
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.cluster import Cluster
from ragsmith.evaluation.experiment import CHUNK_SIZE, prepare_experiment
from ragsmith.evaluation.threads import ThreadRunner
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.techniques.registry import load_techniques

IN_FLIGHT = 32
"""Requests in flight of each process that answers questions."""


@dataclass(frozen=True)
class ServedRun:
    """Wall seconds, CPU seconds by process, requests, and the most and the mean of requests in flight."""

    wall: float
    cpu: dict[str, float]
    requests: int
    most: int
    mean: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.wall


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


def run_served(latency: float, number: int, actors: int = 0, slots: int = IN_FLIGHT) -> ServedRun:
    """Evaluate pipelines in ``actors`` or, without any, in threads of this process, with ``slots`` requests in all."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder, "log"), latency) as url:
        names = ModelNames(language_model=ModelName("openai:tiny", base_url=url, in_flight=slots))
        setup = prepare_experiment("law", names, CHUNK_SIZE, faithfulness=False)
        jobs = [(place, question) for place in range(number) for question in setup.order]
        engine = setup.engine()
        with Cluster("", actors) if actors else nullcontext() as cluster:
            runner = ActorRunner(setup, engine, cluster) if cluster else ThreadRunner(setup, engine, names.workers())
            with runner:
                runner.settle()
                for _ in runner.run(pipelines(1), jobs[: 2 * max(actors, 1)]):  # the indexes are built and sent
                    pass
                before, began = cpu_by_process(), time.perf_counter()
                ended = [one for batch in runner.run(pipelines(number), jobs) for one in batch]
                wall, after = time.perf_counter() - began, cpu_by_process()
        assert len(ended) == len(jobs)
        assert all(one.ok for one in ended), next(one for one in ended if not one.ok)
        lines = [json.loads(line) for line in Path(folder, "log").read_text().splitlines()]
    lines = [line for line in lines if line["time"] >= lines[-1]["replied"] - wall]
    cpu = {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}
    return ServedRun(wall, cpu, len(lines), *in_flight([(line["time"], line["replied"]) for line in lines]))


def in_flight(requests: Sequence[tuple[float, float]]) -> tuple[int, float]:
    """Return the most and the mean of requests in flight, by when each came and was replied to."""
    changes = sorted([(came, 1) for came, _ in requests] + [(left, -1) for _, left in requests])
    now, most, waited = 0, 0, 0.0
    for (at, change), (after, _) in pairwise(changes):
        now += change
        most = max(most, now)
        waited += now * (after - at)
    return most, waited / (changes[-1][0] - changes[0][0])


def print_served(latency: float, number: int, actors: int) -> None:
    """Print one process against ``actors`` with 32 requests in flight each, and against one with as many as all."""
    slots = IN_FLIGHT * actors
    one, wide, cluster = (
        run_served(latency, number),
        run_served(latency, number, slots=slots),
        run_served(latency, number, actors, slots),
    )
    for name, run in (("one process", one), (f"one process with {slots}", wide), (f"{actors} actors", cluster)):
        cpu = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in sorted(run.cpu.items(), key=lambda i: -i[1]))
        print(
            f"{name}, {latency:g} s a reply: {run.requests:,} requests in {run.wall:.1f} s, {run.rate:.0f} a second, "
            f"{run.mean:.0f} in flight ({run.most} at most); CPU: {cpu}; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    print(f"{cluster.rate / one.rate:.2f} times as many requests a second as one process", flush=True)
