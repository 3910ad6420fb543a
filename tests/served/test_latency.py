"""Latency on models that are paid for: no reply is asked for twice, and what is asked anew counts in the budget."""

from __future__ import annotations

from collections import Counter

import pytest
from batch_server import BatchServer
from fault_server import FaultServer

from ragsmith.errors import RagsmithError
from ragsmith.evaluation.testbed import Setup
from ragsmith.gateway.budget import Limits
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.timing import Timing
from ragsmith.models.names import ModelName, ModelNames
from ragsmith.models.served.chat_batches import ChatBatches
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_chat import OpenAIChat
from ragsmith.models.usage import Meter
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunSettings
from ragsmith.reporting.domain import load_domain
from ragsmith.runs.run import Allowance, Execution, Run
from ragsmith.store.store import Store
from ragsmith.techniques.query_expansion.hyde import IMAGINE

SETTINGS = RunSettings(
    strategy="random",
    objectives=("quality", "latency"),
    racing=None,
    max_evaluations=6,
    probes=False,
    simplify=False,
    begin_with_known=False,
)


def test_questions_are_embedded_and_passages_scored_anew_within_the_budget(
    tiny_setup: Setup, space: Space, store: Store
) -> None:
    with FaultServer(latency=0.01) as server:
        served = (
            ("language_model", "openai:tiny"),
            ("embedder", "openai:tiny-embeddings"),
            ("cross_encoder", "rerank:r"),
        )
        names = ModelNames(**{role: ModelName(name, base_url=server.url) for role, name in served})
        setup = Setup(tiny_setup.dataset, names, tiny_setup.chunk_size)
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
    timed = [row.latency_seconds for row in load_domain(store, "island").ranking]
    assert all(seconds is not None and seconds > 0.01 for seconds in timed)


def test_how_long_a_batch_takes_is_never_the_latency_of_a_reply(store: Store) -> None:
    meter = Meter()
    with BatchServer() as server:
        endpoint = JsonEndpoint(server.url)
        batched = OpenAIChat("tiny", endpoint=endpoint, batch=True)
        batched.batches = ChatBatches(endpoint, quiet=0.1, first_look=0.05)
        Gateway(store).language_model(batched, meter).run(IMAGINE, question="When?")
        batched.provider.close()
        alone = OpenAIChat("tiny", endpoint=JsonEndpoint(server.url))
        warm = Gateway(store)
        warm.language_model(alone, meter).run(IMAGINE, question="When?")
        assert meter.total().calls == 2
        assert meter.total().seconds == 0
        view = Timing(warm, frozenset()).language_model(alone, Meter())
        for ask in (
            lambda: view.run(IMAGINE, question="When?"),
            lambda: view.run_all(IMAGINE, [{"question": "When?"}]),
        ):
            with pytest.raises(
                RagsmithError, match=r"of openai:tiny\S* to imagine_passage is kept without the seconds"
            ):
                ask()
        assert server.direct == 0
        timed = Meter()
        warm.language_model(alone, meter).run(IMAGINE, question="Where?")
        Timing(warm, frozenset()).language_model(alone, timed).run(IMAGINE, question="Where?")
        assert timed.total().seconds > 0
        assert server.direct == 1
        alone.provider.close()
