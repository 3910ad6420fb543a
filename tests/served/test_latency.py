"""Latency on models that are paid for: no reply is asked for twice, and what is asked anew counts in the budget."""

from __future__ import annotations

from collections import Counter

from fault_server import FaultServer

from ragsmith.evaluation.experiment import Experiment
from ragsmith.gateway.budget import Limits
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunSettings
from ragsmith.reporting.building import load_report
from ragsmith.runs.run import Allowance, Execution, Run
from ragsmith.store.store import Store

SETTINGS = RunSettings(
    strategy="random",
    objectives=("quality", "latency"),
    racing=None,
    max_evaluations=6,
    probes=False,
    simplify=False,
    warm_start=False,
)


def test_questions_are_embedded_and_passages_scored_anew_within_the_budget(
    tiny_setup: Experiment, space: Space, store: Store
) -> None:
    with FaultServer(latency=0.01) as server:
        served = (
            ("language_model", "openai:tiny"),
            ("embedder", "openai:tiny-embeddings"),
            ("cross_encoder", "rerank:r"),
        )
        names = ModelNames(**{role: ModelName(name, base_url=server.url) for role, name in served})
        setup = Experiment(tiny_setup.dataset, names, tiny_setup.chunk_size)
        outcome = Run(
            setup,
            space,
            store,
            SETTINGS,
            execution=Execution(workers=4),
            allowance=Allowance(limits=Limits(calls=10_000)),
        ).go()
        sent = Counter((request.path.rpartition("/")[2], request.digest) for request in server.log)
    assert outcome.spent.calls == sent.total()
    repeated = {path for (path, _), times in sent.items() if times > 1}
    assert repeated == {"embeddings", "rerank"}
    timed = [row.latency_seconds for row in load_report(store, "island").ranking]
    assert all(seconds is not None and seconds > 0.01 for seconds in timed)
