"""Rerankers behind servers: both APIs, how a server's is found, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fault_kinds import Fault
from fault_replies import scores
from fault_server import FaultServer
from rows import rows

from ragsmith.errors import ModelError, ModelUnavailable
from ragsmith.models.served.json_endpoint import JsonEndpoint, read_scores
from ragsmith.models.served.policy import Policy, TransientFailure
from ragsmith.models.served.rerank_endpoint import JINA, TEI, RerankEndpoint, list_candidate_urls

KEY = "jina_0123456789abcdefghij"
QUICK = Policy(attempts=2, pause=0.001, deadline=2.0)
QUERY, TEXTS = "When does the ferry leave?", ("Eel is smoked.", "The ferry leaves at seven.", "The ferry is red.")
EXPECTED = tuple(scores(QUERY, list(TEXTS)))


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def at() -> Iterator[Any]:
    made = []

    def client(base_url: str, key: str = "", **options: Any) -> RerankEndpoint:
        endpoint = JsonEndpoint(base_url, key=key, policy=QUICK)
        made.append(RerankEndpoint("tiny", endpoint=endpoint, **options))
        return made[-1]

    yield client
    for reranker in made:
        reranker.provider.close()


def jina_alone(path: str, body: Any) -> Any:
    if path != "/v1/rerank":
        return None
    found = enumerate(scores(body["query"], body["documents"]))
    return {"results": [{"index": i, "relevance_score": score} for i, score in found]}


def tei_alone(path: str, body: Any) -> Any:
    if path != "/rerank" or "texts" not in body:
        return None
    return [{"index": i, "score": score} for i, score in enumerate(scores(body["query"], body["texts"]))]


def test_a_server_of_jinas_kind(server: FaultServer, at: Any) -> None:
    client = at(server.root, key=KEY)
    assert client.score(QUERY, TEXTS) == pytest.approx(EXPECTED, abs=1e-6)
    [request] = server.log
    assert request.path == "/v1/rerank"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "tiny",
        "query": QUERY,
        "documents": list(TEXTS),
        "top_n": 3,
        "return_documents": False,
    }


@pytest.mark.parametrize("base", ["", "/", "/v1"])
def test_a_server_of_teis_kind_is_found_out_once(server: FaultServer, at: Any, base: str) -> None:
    server.answer = tei_alone
    client = at(server.root + base)
    for _ in range(2):
        assert client.score(QUERY, TEXTS) == pytest.approx(EXPECTED, abs=1e-6)
    assert [request.path for request in server.log] == ["/v1/rerank", "/rerank", "/rerank"]
    assert server.log[-1].body == {
        "query": QUERY,
        "texts": list(TEXTS),
        "raw_scores": False,
        "truncate": False,
        "return_text": False,
    }


def test_jinas_language_at_the_root(server: FaultServer, at: Any) -> None:
    def infinity(path: str, body: Any) -> Any:
        return jina_alone("/v1/rerank", body) if path == "/rerank" and "documents" in body else None

    server.answer = infinity
    assert at(server.root).score(QUERY, TEXTS) == pytest.approx(EXPECTED, abs=1e-6)
    assert [request.path for request in server.log] == ["/v1/rerank", "/rerank", "/rerank"]


def test_a_whole_path_is_asked_as_it_is() -> None:
    assert list_candidate_urls("http://h/rerank") == [("http://h/rerank", TEI), ("http://h/rerank", JINA)]
    assert list_candidate_urls("http://h/api/v1/rerank/")[0] == ("http://h/api/v1/rerank", JINA)
    assert list_candidate_urls("http://h/api/v1")[0] == ("http://h/api/v1/rerank", JINA)


def test_when_nothing_is_there_the_first_answer_says_so(server: FaultServer, at: Any) -> None:
    server.answer = lambda path, body: None
    with pytest.raises(ModelUnavailable, match="rerank:tiny: HTTP 404"):
        at(server.root).score(QUERY, TEXTS)
    assert [request.path for request in server.log] == ["/v1/rerank", "/rerank", "/rerank"]


@pytest.mark.parametrize(("status", "error"), [(401, ModelUnavailable), (500, ModelError), (413, ModelError)])
def test_another_trouble_is_no_reason_to_ask_elsewhere(
    server: FaultServer, at: Any, status: int, error: type[Exception]
) -> None:
    server.always = Fault(status=status)
    with pytest.raises(error, match=f"HTTP {status}"):
        at(server.root).score(QUERY, TEXTS)
    assert {request.path for request in server.log} == {"/v1/rerank"}


@pytest.mark.parametrize("answer", [jina_alone, tei_alone])
def test_many_texts_are_sent_in_parts(server: FaultServer, at: Any, answer: Any) -> None:
    server.answer = answer
    texts = [f"The ferry {i} leaves." for i in range(70)]
    client = at(server.root)
    assert client.score(QUERY, texts) == pytest.approx(scores(QUERY, texts), abs=1e-6)
    good = [request for request in server.log if request.status == 200]
    assert sorted(len(request.body.get("documents", request.body.get("texts"))) for request in good) == [6, 32, 32]
    assert client.score(QUERY, []) == ()


def test_texts_are_cut_only_where_a_window_is_given(server: FaultServer, at: Any) -> None:
    whole, cut = at(server.root), at(server.root, context_window=16)
    for client in (whole, cut):
        client.score(QUERY, ["x" * 49, "y" * 48])
    assert [len(text) for request in server.log for text in request.body["documents"]] == [49, 48, 48, 48]
    assert (whole.truncated, cut.truncated) == (0, 1)
    assert (whole.id, cut.id) == ("rerank:tiny", "rerank:tiny@context_window=16")


def test_the_id_says_what_and_not_where(at: Any) -> None:
    assert at("http://a", kind="jina", key=KEY).id == at("http://b/v1", kind="jina").id == "jina:tiny"


@pytest.mark.parametrize(("found", "said"), rows("wrong rankings"))
def test_a_wrong_ranking_is_refused(found: Any, said: str) -> None:
    with pytest.raises(TransientFailure, match=said):
        read_scores(found, "score", 3)
