"""Whole searches on servers that fail: what may pass changes nothing, and what does not is never a score."""

from __future__ import annotations

import math
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_kinds import Fault, endpoint
from fault_server import Request
from served import Ruled, is_judging, left, passing, said, searched, served, small

from ragsmith.errors import ModelUnavailable, RagsmithError
from ragsmith.evaluate import stored_evaluation
from ragsmith.setup import Setup
from ragsmith.space import Space, label, load_space
from ragsmith.splits import split
from ragsmith.store import Store

NOWHERE = "http://127.0.0.1:9/v1"
"""A port that nobody listens at."""


@pytest.fixture
def server() -> Iterator[Ruled]:
    with Ruled() as server:
        yield server


@pytest.fixture
def judge() -> Iterator[Ruled]:
    with Ruled() as judge:
        yield judge


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[str], Store]]:
    """Open a cache by its name."""
    stores: list[Store] = []

    def open_store(name: str) -> Store:
        stores.append(Store.open(tmp_path / f"{name}.sqlite"))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> Space:
    """A space of one pipeline that asks an embedder, a reranker and a language model."""
    path = tmp_path_factory.mktemp("space") / "one.yaml"
    path.write_text(
        "families:\n  pre_embedding: [none]\n  query_expansion: [none]\n  retrieval: [vector]\n"
        "  reranking: [cross_encoder]\n  passage_filter: [top_k]\n  passage_augment: [none]\n"
        "  passage_compress: [none]\n  prompt_maker: [listing]\n  post_generation: [none]\n"
    )
    return load_space(path)


def asked(setup: Setup) -> dict[str, str]:
    """The search questions, which every candidate is asked: id to text."""
    return {example.id: example.question for example in sorted(split(setup.dataset).search, key=lambda e: e.id)}


# --- what may pass ---------------------------------------------------------------------------------------------------


def test_faults_that_pass_change_nothing(
    server: Ruled, tiny_setup: Setup, space: Space, opened: Callable[[str], Store]
) -> None:
    setup = served(tiny_setup, server.url, embedder=server.url, reranker=server.url)
    clean = searched(setup, space, opened("clean"))
    drawn, dated = passing(0.2), Counter[str]()

    def rule(request: Request) -> Fault | None:
        if request.number % 120 == 40 and request.attempt == 1 and dated.total() < 2:
            dated[request.digest] += 1
            return Fault("429_date", wait=0.1)
        return drawn(request)

    with Ruled(rule) as troubled:
        setup = served(tiny_setup, troubled.url, embedder=troubled.url, reranker=troubled.url)
        outcome = searched(setup, space, opened("troubled"))
    assert outcome.winner.key == clean.winner.key
    assert left(opened("troubled")) == left(opened("clean"))

    faults = Counter(request.fault for request in troubled.log)
    assert {"429", "429_ms", "429_date", "500", "502", "reset", "cut", "cut_stream"} < faults.keys()
    assert faults.total() - faults[""] > 0.15 * faults.total()
    assert troubled.most_given() == 1
    for told in [request for request in troubled.log if request.told is not None]:
        again = next(r for r in troubled.log if r.digest == told.digest and r.attempt == told.attempt + 1)
        assert again.time >= told.replied + told.told


def test_a_pause_that_one_request_is_told_holds_for_all(
    server: Ruled, tiny_setup: Setup, one: Space, store: Store
) -> None:
    server.rule = lambda request: Fault("429", wait=0.8) if request.number == 10 else None
    searched(served(tiny_setup, server.url), one, store)
    [told] = [request for request in server.log if request.told is not None]
    under_way = 0.3  # what was sent before the client could know
    assert [r for r in server.log if told.replied + under_way < r.time < told.replied + 0.8] == []


# --- what does not ---------------------------------------------------------------------------------------------------


def test_a_rejected_request_is_sent_once(server: Ruled, tiny_setup: Setup, one: Space, store: Store) -> None:
    question, text = next(iter(asked(tiny_setup).items()))
    server.rule = lambda request: Fault(status=400, said="too odd") if text in said(request) else None
    with pytest.raises(RagsmithError, match=r"no candidate .* every question \(1 failures; .* HTTP 400 \(too odd\)"):
        searched(served(tiny_setup, server.url), one, store)
    assert {request.attempt for request in server.log} == {1}
    assert [place[1] for place in left(store).failed()] == [question]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_or_model_stops_the_run(
    server: Ruled, tiny_setup: Setup, one: Space, store: Store, status: int
) -> None:
    server.rule = lambda request: Fault(status=status) if request.number >= 10 else None
    with pytest.raises(ModelUnavailable, match=f"openai:tiny.*HTTP {status}"):
        searched(served(tiny_setup, server.url), one, store)
    assert {request.attempt for request in server.log} == {1}
    assert len(server.log) <= 10 + 8  # the others in flight
    server.rule = lambda request: None
    assert searched(served(tiny_setup, server.url), one, store).state == "finished"
    assert server.most_given() == 1


SPOILT: dict[str, dict[str, str]] = {
    "chat": {
        "malformed": "not a valid JSON object",
        "not_utf8": "not a valid JSON object",
        "deep": "not a valid JSON object",
        "large": "larger than 10,485,760 bytes",
        "gzip_bomb": "larger than 10,485,760 bytes",
        "no_choices": "the reply has no choices",
        "null_content": "the reply has no text",
        "empty_content": "the reply has no text",
        "no_finish": "finish_reason 'None'",
    },
    "embeddings": {
        "wrong_length": "the vectors have 63 numbers; expected 64",
        "too_few": "the reply has 0 vectors for 1 texts",
        "too_many": "the reply has 2 vectors for 1 texts",
        "duplicate_index": "the indices of the vectors are not those of the texts",
        "nan": "a vector holds NaN or infinity",
        "zero": "a vector is zero",
        "malformed": "not a valid JSON object",
    },
    "rerank": {
        "too_few": r"the reply ranks \d+ texts of \d+",
        "duplicate_index": "the indices of the ranking are not those of the texts",
        "out_of_range": "the indices of the ranking are not those of the texts",
        "nan": "a score is missing, or no finite number",
        "not_utf8": "not valid JSON|not a valid JSON",
    },
}
"""By API: what is wrong with a reply of status 200, and what the failure says."""


@pytest.mark.parametrize("api", SPOILT)
def test_a_reply_that_is_no_answer_is_never_scored_or_kept(
    server: Ruled, tiny_setup: Setup, one: Space, opened: Callable[[str], Store], api: str
) -> None:
    setup = served(tiny_setup, server.url, embedder=server.url, reranker=server.url, attempts=2)
    searched(setup, one, opened("clean"), workers=1)
    clean = left(opened("clean"))
    questions = asked(tiny_setup)
    kinds = dict(zip(questions, SPOILT[api], strict=False))

    def rule(request: Request) -> Fault | None:
        if endpoint(request.path, request.body) != api or is_judging(request):
            return None
        return next((Fault(kind) for q, kind in kinds.items() if questions[q] in said(request)), None)

    with Ruled(rule) as troubled:
        url = troubled.url
        setup = served(tiny_setup, url, embedder=url, reranker=url, attempts=2)
        with pytest.raises(RagsmithError, match=rf"no candidate .* \({len(SPOILT[api])} failures"):
            searched(setup, one, opened("troubled"), workers=1)
        store = opened("troubled")
        found = left(store)
        [key] = {key for key, _ in found.results}
        failures = stored_evaluation(store, key, tuple(questions)).failures
        assert {question for question in questions if question in failures} == set(kinds)
        for question, kind in kinds.items():
            error = failures[question]["error"]
            assert error.startswith("ModelError: ")
            pytest.raises(RagsmithError, match=SPOILT[api][kind]).__class__  # noqa: B018
