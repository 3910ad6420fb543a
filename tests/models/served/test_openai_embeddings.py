"""The embeddings client of OpenAI-compatible servers, against a server that fails on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from fault_replies import vector
from fault_server import Fault, FaultServer
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows

from ragsmith.errors import ModelError, Notice
from ragsmith.models.served.json_endpoint import JsonEndpoint, batches
from ragsmith.models.served.openai_embeddings import OpenAIEmbeddings, read_vectors
from ragsmith.models.served.policy import Policy, TransientFailure
from ragsmith.models.unit_vectors import UnitVectors

KEY = "sk-very-secret-0123456789"
QUICK = Policy(in_flight=32, attempts=3, pause=0.0, deadline=5.0, failures_in_a_row=1000)
TEXTS = ["the ferry", "an eel", "the copper roof", "the yellow flag", "a net"]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


@pytest.fixture
def client(server: FaultServer) -> Iterator[Callable[..., OpenAIEmbeddings]]:
    made: list[OpenAIEmbeddings] = []

    def make(**changes: Any) -> OpenAIEmbeddings:
        made.append(OpenAIEmbeddings("tiny", endpoint=JsonEndpoint(server.url, key=KEY, policy=QUICK), **changes))
        return made[-1]

    yield make
    for embedder in made:
        embedder.provider.close()


def expected(texts: list[str], dimensions: int = 64) -> Any:
    rows = np.array([vector(text, dimensions) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def sizes(server: FaultServer) -> list[int]:
    return sorted(len(request.body["input"]) for request in server.log)


def test_vectors_are_of_length_1_and_in_order(client: Callable[..., OpenAIEmbeddings], server: FaultServer) -> None:
    server.always = Fault("reversed")  # the index says which is which
    vectors = client().embed(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected(TEXTS), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    [request] = server.log
    assert request.path == "/v1/embeddings"
    assert request.body == {"model": "tiny", "input": TEXTS, "encoding_format": "float"}


def test_batches_are_in_flight_together(client: Callable[..., OpenAIEmbeddings], server: FaultServer) -> None:
    server.latency = 0.1
    vectors = client(batch_size=2).embed(TEXTS)
    np.testing.assert_allclose(vectors, expected(TEXTS), atol=1e-6)
    assert sizes(server) == [1, 2, 2]
    assert server.most_in_flight == 3


def test_a_blank_text_is_not_sent_and_has_no_direction(
    client: Callable[..., OpenAIEmbeddings], server: FaultServer
) -> None:
    vectors = client().embed(["", "the ferry", " \n"])
    assert vectors.shape == (3, 64)
    assert not vectors[[0, 2]].any()
    assert vectors[1].any()
    assert server.log[0].body["input"] == ["the ferry"]


def test_blank_texts_alone_have_the_length_of_all_others(
    client: Callable[..., OpenAIEmbeddings], server: FaultServer
) -> None:
    embedder = client()
    assert embedder.embed([]).shape == (0, 0)
    assert server.log == []
    assert embedder.embed(["", " "]).shape == (2, 64)
    assert embedder.embed([""]).shape == (1, 64)
    assert embedder.embed([]).shape == (0, 64)
    assert len(server.log) == 1


def test_dimensions_are_asked_for_and_checked(client: Callable[..., OpenAIEmbeddings], server: FaultServer) -> None:
    assert client(dimensions=16).embed(["a net"]).shape == (1, 16)
    assert server.log[0].body["dimensions"] == 16
    server.answer = lambda path, body: {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}
    with pytest.raises(ModelError, match="the vectors have 2 numbers; expected 16"):
        client(dimensions=16).embed(["a net"])


def test_prefixes_are_put_before_texts_and_queries(
    client: Callable[..., OpenAIEmbeddings], server: FaultServer
) -> None:
    embedder = client(document_prefix="passage: ", query_prefix="query: ")
    embedder.embed(["a net", ""])
    embedder.embed_queries(["a net"])
    assert [request.body["input"] for request in server.log] == [["passage: a net"], ["query: a net"]]


def test_all_that_determines_a_vector_is_in_the_id(server: FaultServer) -> None:
    def named(**changes: Any) -> str:
        return OpenAIEmbeddings("tiny", endpoint=JsonEndpoint(server.url, key=KEY), **changes).id

    ids = [named(), named(dimensions=8), named(query_prefix="a"), named(document_prefix="a"), named(query_prefix="b")]
    assert len(set(ids)) == 5
    assert named() == OpenAIEmbeddings("tiny", endpoint=JsonEndpoint("http://elsewhere")).id == "openai:tiny"
    assert named(batch_size=1) == named()


def numbered(*vectors: Any) -> list[dict[str, Any]]:
    return [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]


@pytest.mark.parametrize(("data", "said"), rows("wrong vectors"))
def test_vectors_that_make_no_sense_are_an_error_that_names_the_cause(data: Any, said: str) -> None:
    with pytest.raises(TransientFailure, match=said):
        UnitVectors().normalize(read_vectors(data, 2), TransientFailure, "tiny")


def test_large_numbers_are_scaled(client: Callable[..., OpenAIEmbeddings], server: FaultServer) -> None:
    server.answer = lambda path, body: {"data": numbered([3e200, 4e200], [3, 4])}
    with pytest.warns(Notice, match="openai:.* gives vectors that do not have length 1: they were scaled to it"):
        np.testing.assert_allclose(client().embed(["one", "two"]), [[0.6, 0.8]] * 2, rtol=1e-6)


def test_all_vectors_are_of_one_length(client: Callable[..., OpenAIEmbeddings], server: FaultServer) -> None:
    embedder = client()
    embedder.embed(["a net"])
    server.answer = lambda path, body: {"data": numbered([1.0, 2.0])}
    with pytest.raises(ModelError, match="the vectors have 2 numbers; expected 64"):
        embedder.embed(["an eel"])


@given(texts=st.lists(st.text(max_size=9), max_size=20), most=st.integers(1, 5), characters=st.integers(1, 20))
@settings(max_examples=50)
def test_batches_keep_order_and_limits(texts: list[str], most: int, characters: int) -> None:
    cut = list(batches(texts, most, characters))
    assert [text for batch in cut for text in batch] == texts
    for batch in cut:
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or sum(map(len, batch)) <= characters
