"""Requests that share a provider: one is given up, and the others go on."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from asking import PATIENCE
from fault_kinds import endpoint
from served import Ruled, served

from ragsmith.errors import StageFailed
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.genes import Candidate
from ragsmith.serving.answering import PipelineService
from ragsmith.serving.workers import CancellationToken
from ragsmith.store.store import Store
from ragsmith.types import Question


def test_a_request_that_is_given_up_is_not_retried_and_stops_no_other(
    tiny_setup: Experiment, pipeline: object, store: Store, tmp_path: Path
) -> None:
    candidate: Candidate = pipeline(query_expansion="hyde", retrieval="bm25")  # type: ignore[operator]
    with Ruled(latency=0.2) as server:
        setup = served(tiny_setup, server.url)
        answerer = PipelineService(Pipeline(candidate, setup), store)
        stops = {"Who steers the ferry?": CancellationToken(), "Who wrote a diary of storms?": CancellationToken()}
        found: dict[str, object] = {}

        def ask(question: str, stop: CancellationToken) -> None:
            try:
                found[question] = answerer.ask(Question(question), stop).answer
            except StageFailed as error:
                found[question] = error

        threads = [threading.Thread(target=ask, args=pair) for pair in stops.items()]
        for thread in threads:
            thread.start()
        until = time.monotonic() + PATIENCE
        while len(server.log) < 2 and time.monotonic() < until:
            time.sleep(0.005)
        stops["Who steers the ferry?"].cancel()
        for thread in threads:
            thread.join(PATIENCE)
        asked = [request for request in server.log if endpoint(request.path, request.body or {}) == "chat"]
        assert isinstance(found["Who steers the ferry?"], StageFailed)
        assert isinstance(found["Who wrote a diary of storms?"], str)
        assert len(asked) == 3  # a passage for each, and one answer
        again = answerer.ask(Question("Who steers the ferry?"), CancellationToken())  # the passage is kept
        assert again.answer
        assert len(server.log) == 4
        answerer.close()
