"""Cohere's API over loopback: what is sent, what is taken, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fault_replies import scores, vector
from fault_server import FaultServer

from ragsmith.errors import ModelError
from ragsmith.models.served.cohere import CohereEmbedder, CohereReranker
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.policy import Policy

KEY = "co-0123456789-secret"
QUICK = Policy(attempts=3, pause=0.001, deadline=2.0)
QUERY, TEXTS = "When does the ferry leave?", ("The ferry leaves at seven.", "Eel is smoked.", "The ferry is red.")


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def reranker(server: FaultServer) -> Iterator[CohereReranker]:
    client = CohereReranker("rerank-v3.5", endpoint=JsonEndpoint(server.root, key=KEY, policy=QUICK))
    yield client
    client.provider.close()


@pytest.fixture
def embedder(server: FaultServer) -> Iterator[CohereEmbedder]:
    client = CohereEmbedder("embed-v4.0", endpoint=JsonEndpoint(server.root, key=KEY, policy=QUICK))
    yield client
    client.provider.close()


# --- rerank ----------------------------------------------------------------------------------------------------------


def test_scores_are_in_the_order_of_the_texts(server: FaultServer, reranker: CohereReranker) -> None:
    assert reranker.score(QUERY, TEXTS) == pytest.approx(scores(QUERY, list(TEXTS)), abs=1e-6)
    [request] = server.log
    assert (request.method, request.path) == ("POST", "/v2/rerank")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "rerank-v3.5",
        "query": QUERY,
        "documents": list(TEXTS),
        "top_n": 3,
        "max_tokens_per_doc": 4096,
    }


def test_many_texts_are_sent_in_parts_of_what_is_one_search(server: FaultServer, reranker: CohereReranker) -> None:
    texts = [f"The ferry {i} leaves." for i in range(205)]
    assert reranker.score(QUERY, texts) == pytest.approx(scores(QUERY, texts), abs=1e-6)
    assert sorted(len(request.body["documents"]) for request in server.log) == [5, 100, 100]


def test_texts_beyond_the_window_are_cut_at_the_end_and_counted(server: FaultServer) -> None:
    client = CohereReranker("r", endpoint=JsonEndpoint(server.root, key=KEY), context_window=20)
    client.score(QUERY, ["a" * 61, "b" * 60, "c"])
    assert server.log[0].body["documents"] == ["a" * 60, "b" * 60, "c"]
    assert server.log[0].body["max_tokens_per_doc"] == 20
    assert client.truncated == 1
    client.provider.close()


# --- embed -----------------------------------------------------------------------------------------------------------


def test_documents_and_queries_are_embedded_differently(server: FaultServer, embedder: CohereEmbedder) -> None:
    documents, queries = embedder.embed(TEXTS), embedder.embed_queries([QUERY])
    expected = np.array([vector(text) for text in TEXTS])
    assert documents == pytest.approx(expected / np.linalg.norm(expected, axis=1, keepdims=True), abs=1e-6)
    assert queries.shape == (1, 64)
    assert [request.path for request in server.log] == ["/v2/embed", "/v2/embed"]
    assert [request.body["input_type"] for request in server.log] == ["search_document", "search_query"]
    assert server.log[0].body == {
        "model": "embed-v4.0",
        "texts": list(TEXTS),
        "input_type": "search_document",
        "embedding_types": ["float"],
        "truncate": "NONE",
    }


def test_blank_texts_are_not_sent_and_batches_are_small(server: FaultServer, embedder: CohereEmbedder) -> None:
    texts = [f"text {i}" for i in range(100)] + [" ", ""]
    found = embedder.embed(texts)
    assert found.shape == (102, 64)
    assert not found[100:].any()
    assert np.allclose(np.linalg.norm(found[:100], axis=1), 1, atol=1e-6)
    assert sorted(len(request.body["texts"]) for request in server.log) == [4, 96]
    assert embedder.embed(["", " "]).shape == (2, 64)
    assert embedder.embed([]).shape == (0, 64)


def test_dimensions_are_asked_for_and_checked(server: FaultServer) -> None:
    client = CohereEmbedder("embed-v4.0", endpoint=JsonEndpoint(server.root, key=KEY, policy=QUICK), dimensions=256)
    with pytest.raises(ModelError, match="the vectors have 64 numbers; expected 256"):
        client.embed(TEXTS)
    assert server.log[0].body["output_dimension"] == 256
    client.provider.close()


# --- both ------------------------------------------------------------------------------------------------------------


def test_what_determines_a_result_is_in_the_id_and_nothing_else() -> None:
    here, there = JsonEndpoint("http://here", key="one-key-0123"), JsonEndpoint("http://elsewhere", key="k")

    def embedder(endpoint: JsonEndpoint = here, **options: Any) -> str:
        return CohereEmbedder("embed-v4.0", endpoint=endpoint, **options).id

    def reranker(endpoint: JsonEndpoint = here, **options: Any) -> str:
        return CohereReranker("r", endpoint=endpoint, **options).id

    assert embedder() == "cohere:embed-v4.0@context_window=128000"
    assert embedder(dimensions=256) == "cohere:embed-v4.0@context_window=128000@dimensions=256"
    assert embedder(there, batch_size=3) == embedder()
    assert CohereEmbedder("embed-english-v3.0", endpoint=here).id == "cohere:embed-english-v3.0@context_window=512"
    assert reranker() == reranker(there, batch_size=2) != reranker(context_window=512)


@pytest.mark.parametrize("base", ["", "/", "/v2", "/v2/", "/v1"])
def test_the_base_url_may_contain_the_version(server: FaultServer, base: str) -> None:
    client = CohereReranker("r", endpoint=JsonEndpoint(server.root + base, key=KEY))
    client.score(QUERY, TEXTS)
    assert server.log[0].path == "/v2/rerank"
    client.provider.close()
