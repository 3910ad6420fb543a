"""What a Ray cluster of many cores would do: its queues, simulated from the costs of messages that were measured here.

A question occupies an actor, then the main process, and then waits for the reply of its model, if that is served. The
actors start when their node has the index, which the node of the main process sends to each other node.
"""

from __future__ import annotations

import heapq
import pickle
import time
from dataclasses import dataclass

from ray_served import IN_FLIGHT, ServedRun, cpu_by_process, pipelines, run_served

from ragsmith.evaluation.actor_runner import ActorRunner
from ragsmith.evaluation.cluster import Cluster
from ragsmith.evaluation.experiment import CHUNK_SIZE, prepare_experiment
from ragsmith.index.parts import list_parts, pack_part
from ragsmith.models.names import ModelNames

BANDWIDTH = 125e6
"""Bytes a second between two nodes, assumed: 1 Gbit/s."""
CLUSTERS = ((1, 4), (1, 16), (2, 16), (100, 16))
"""Nodes, and cores of each."""
QUESTIONS = 100_000


@dataclass(frozen=True)
class Costs:
    """CPU seconds a question of an actor, of the main process and of the mailbox; bytes of a result and an index.

    ``latency`` is the seconds for which a question waits, and ``in_flight`` the questions of an actor at a time.
    """

    actor: float
    main: float
    mailbox: float
    result: float
    index: float
    index_seconds: float
    latency: float = 0.0
    in_flight: int = 1


def measure_embedded(number: int) -> Costs:
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
    return Costs(
        cpu["ray::EvaluationActor"], cpu["main process"], 0.0, len(pickle.dumps(ended)) / len(jobs), sent, seconds
    )


def served_costs(run: ServedRun, embedded: Costs, latency: float) -> Costs:
    """Return the costs of a question with a served model, from a run on a cluster."""
    actor, main, mailbox = (
        run.cpu[name] / run.requests for name in ("ray::EvaluationActor", "main process", "ray::Mailbox")
    )
    return Costs(actor, main, mailbox, embedded.result, embedded.index, embedded.index_seconds, latency, 2 * IN_FLIGHT)


def simulate(costs: Costs, nodes: int, cores: int, questions: int = QUESTIONS) -> tuple[float, dict[str, float]]:
    """Return the seconds that a cluster needs for ``questions``, and the share of them in which each part is busy."""
    actors = max(1, nodes * cores - 1 - (costs.mailbox > 0))  # a core each for the main process and the mailbox
    ready = costs.index_seconds + costs.index * (nodes - 1) / BANDWIDTH
    actor_free, main_free, mailbox_free, ended = [0.0] * actors, 0.0, 0.0, 0.0
    slots = min(questions, actors * costs.in_flight)
    events = [(ready, slot % actors, "actor") for slot in range(slots)]
    heapq.heapify(events)
    begun = slots
    while events:
        now, actor, at = heapq.heappop(events)
        if at == "actor":
            actor_free[actor] = max(now, actor_free[actor]) + costs.actor
            heapq.heappush(events, (actor_free[actor], actor, "main"))
        elif at == "main":
            mailbox_free = max(now, mailbox_free) + costs.mailbox
            main_free = max(mailbox_free, main_free) + costs.main
            heapq.heappush(events, (main_free + costs.latency, actor, "reply"))
        else:
            ended = max(ended, now)
            if begun < questions:
                begun += 1
                heapq.heappush(events, (now, actor, "actor"))
    busy = {
        "actors": questions * costs.actor / actors,
        "main process": questions * costs.main,
        "mailbox": questions * costs.mailbox,
        "network": (costs.index * (nodes - 1) + questions * costs.result) / BANDWIDTH,
        "replies": questions * costs.latency / (actors * costs.in_flight),
    }
    return ended, {part: seconds / ended for part, seconds in busy.items()}


def print_simulation(latency: float, number: int) -> None:
    """Measure the costs here, and print what clusters of many cores would do with them."""
    embedded = measure_embedded(number)
    served = served_costs(run_served(latency, number, 4, 4 * IN_FLIGHT), embedded, latency)
    for name, costs in (("embedded models", embedded), (f"a model that takes {latency:g} s", served)):
        print(
            f"{name}: a question costs {1000 * costs.actor:.2f} ms of an actor, {1000 * costs.main:.2f} ms of the main "
            f"process, {1000 * costs.mailbox:.2f} ms of the mailbox, and {costs.result:,.0f} bytes; an index "
            f"{costs.index:,.0f} bytes, packed in {1000 * costs.index_seconds:.1f} ms",
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
