"""Access: of the documents that the token of a request does not admit, nothing is in any reply, whatever is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from asking import Got, send, sent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tenants import TENANTS, make_corpus, make_questions

import ragsmith
from ragsmith.errors import Notice, UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.genes import configuration
from ragsmith.serving.app import ServingApp
from ragsmith.serving.server import read_tokens

TOKENS = {tenant: f"token-of-{tenant.lower()}-0123" for tenant in TENANTS}
CORPUS = make_corpus(60)
QUESTIONS = make_questions(40)
FAMILIES = ("pre_embedding", "query_expansion", "passage_compress", "post_generation")


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tenants")
    (folder / "dataset.yaml").write_text("name: deeds\nfields: {year: number, signed: date, path: list}\n")
    for document in CORPUS.documents.values():
        path = folder / "documents" / f"{document.id}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        front = "".join(f"{name}: {value}\n" for name, value in document.fields.items())
        path.write_text(f"---\n{front}---\n# {document.title}\n\n{document.text}\n")
    return folder


@pytest.fixture(scope="module")
def pipeline(documents: Path, techniques: None) -> Pipeline:
    options = {name: {"technique": "none"} for name in FAMILIES} | {
        "query_expansion": {"technique": "graph_expansion"},
        "retrieval": {"technique": "complete_hybrid"},
        "reranking": {"technique": "cross_encoder"},
        "passage_filter": {"technique": "top_k", "parameters": {"k": 4}},
        "passage_augment": {"technique": "prev_next"},
        "prompt_maker": {"technique": "listing"},
    }
    return Pipeline.of(documents, options)


@pytest.fixture(scope="module")
def app(pipeline: Pipeline) -> Iterator[ServingApp]:
    tokens = {TOKENS[tenant]: f"tenant={tenant}" for tenant in TENANTS}
    app = ragsmith.asgi_app(pipeline, token={**tokens, "token-of-everything-0123": ""})
    yield app
    app.close()


def chat(question: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}], **more}


FORMS: dict[str, Callable[[str], dict[str, Any]]] = {
    "/ask": lambda question: {"question": question, "stages": True},
    "/retrieve": lambda question: {"question": question},
    "/explain": lambda question: {"question": question},
    "/v1/chat/completions": chat,
}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def names_others(got: Got, tenant: str, *said: str) -> list[str]:
    """The other tenants in a reply, besides what the request itself said."""
    text = got.text
    for words in said:
        text = text.replace(json.dumps(words, ensure_ascii=False)[1:-1], "")
    return [other for other in TENANTS if other != tenant and other.lower() in text.lower()]


@given(
    st.sampled_from(TENANTS),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(QUESTIONS) | st.text(min_size=1, max_size=60),
    st.none() | st.sampled_from([*(f"tenant={other}" for other in TENANTS), "year>=2018", "path in brassford|eskerby"]),
)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_reply_has_anything_of_another_tenant(
    app: ServingApp, tenant: str, path: str, question: str, where: str | None
) -> None:
    body = {**FORMS[path](question), **({"filter": where} if where else {})}
    got = sent(app, "POST", path, body, headers=bearer(TOKENS[tenant]))
    assert got.status in (200, 400), got.text  # 400: a blank question, or control characters
    assert not names_others(got, tenant, question, where or "")


def test_clients_with_different_tokens_at_once_share_no_answer(app: ServingApp) -> None:
    question = "Who pays for the sea wall of Velmouth?"

    async def together() -> list[Got]:
        return await asyncio.gather(
            *(
                send(app, "POST", path, form(question), headers=bearer(TOKENS[tenant]))
                for _ in range(4)
                for path, form in FORMS.items()
                for tenant in TENANTS
            )
        )

    replies = asyncio.run(together())
    for number, got in enumerate(replies):
        tenant = TENANTS[number % len(TENANTS)]
        assert got.status == 200
        assert tenant.lower() in got.text.lower()
        assert not names_others(got, tenant, question)


def test_a_filter_that_a_question_proposes_narrows_that_of_the_token(documents: Path, pipeline: Pipeline) -> None:
    options = configuration(pipeline.candidate) | {"query_expansion": {"technique": "self_query", "parameters": {}}}
    other = Pipeline.of(documents, options)
    app = ragsmith.asgi_app(other, token={TOKENS[tenant]: f"tenant={tenant}" for tenant in TENANTS})
    narrowed = 0
    for tenant in TENANTS:
        for named in TENANTS:
            for question in (f"What does {named} keep?", f"Which deeds of {named} were signed before 2019?"):
                for path, form in FORMS.items():
                    got = sent(app, "POST", path, form(question), headers=bearer(TOKENS[tenant]))
                    assert got.status == 200
                    assert not names_others(got, tenant, question)
                got = sent(app, "POST", "/retrieve", {"question": question}, headers=bearer(TOKENS[tenant]))
                found = [CORPUS.documents[passage["doc"]].fields for passage in got.json["passages"]]
                narrowed += "before" in question and all(fields["signed"].year < 2019 for fields in found)
    assert narrowed == len(TENANTS) ** 2
    app.close()


def test_a_filter_of_a_request_narrows_that_of_its_token(app: ServingApp) -> None:
    tenant = TENANTS[0]
    for token, most in ((TOKENS[tenant], {tenant}), ("token-of-everything-0123", set(TENANTS))):
        for where, years in ((None, range(2000, 2030)), ({"year": {">=": 2018, "<": 2021}}, range(2018, 2021))):
            body = {"question": "Who pays for the sea wall?", "filter": where}
            got = sent(app, "POST", "/retrieve", body, headers=bearer(token))
            assert got.json["passages"]
            for passage in got.json["passages"]:
                fields = CORPUS.documents[passage["doc"]].fields
                assert fields["tenant"] in most
                assert fields["year"] in years


def test_an_explanation_shows_no_query_that_the_embedded_model_wrote_from_all_documents(
    documents: Path, pipeline: Pipeline
) -> None:
    options = configuration(pipeline.candidate) | {"query_expansion": {"technique": "hyde", "parameters": {}}}
    tenant = TENANTS[0]
    other = Pipeline.of(documents, options)
    app = ragsmith.asgi_app(other, token={TOKENS[tenant]: f"tenant={tenant}", "token-of-everything-0123": ""})
    seen = []
    for question in QUESTIONS[:5]:
        for path, form in FORMS.items():
            got = sent(app, "POST", path, form(question), headers=bearer(TOKENS[tenant]))
            assert not names_others(got, tenant, question)
        everything = sent(app, "POST", "/explain", {"question": question}, headers=bearer("token-of-everything-0123"))
        seen += [stage["queries"] for stage in everything.json["stages"] if stage["queries"]]
    assert seen  # they are shown to those who may see all documents
    app.close()


@asynccontextmanager
async def running(app: ServingApp) -> AsyncIterator[None]:
    """Start the application, as a server does, and stop it."""
    received: asyncio.Queue[Any] = asyncio.Queue()
    said: asyncio.Queue[Any] = asyncio.Queue()
    serving = asyncio.create_task(app({"type": "lifespan", "asgi": {}, "state": {}}, received.get, said.put))
    for moment in ("startup", "shutdown"):
        await received.put({"type": f"lifespan.{moment}"})
        assert (await said.get())["type"] == f"lifespan.{moment}.complete"
        if moment == "startup":
            yield
    await serving


HEADERS = {"accept": "application/json, text/event-stream"}


def test_tools_over_http_answer_by_the_token_of_each_request(pipeline: Pipeline) -> None:
    """A session of one client that another one takes over shows the documents of the other one."""

    async def call(client: httpx.AsyncClient, tenant: str, session: str, tool: str, where: str | None) -> str:
        arguments = {"question": "Who pays for the sea wall?", **({"filter": where} if where else {})}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        headers = {**HEADERS, **bearer(TOKENS[tenant]), **({"mcp-session-id": session} if session else {})}
        reply = await client.post("/mcp", json=message, headers=headers)
        assert reply.status_code == 200, reply.text
        return reply.text

    app = ragsmith.asgi_app(pipeline, token={TOKENS[tenant]: f"tenant={tenant}" for tenant in TENANTS})

    async def talk() -> None:
        transport = httpx.ASGITransport(app)
        async with (
            running(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": info}
            reply = await client.post("/mcp", json=begin, headers={**HEADERS, **bearer(TOKENS[TENANTS[0]])})
            session = reply.headers.get("mcp-session-id", "")
            for tenant in TENANTS[:3]:
                for tool in ("ask", "retrieve", "explain"):
                    for where in (None, f"tenant={TENANTS[4]}"):
                        said = await call(client, tenant, session, tool, where)
                        assert where or tenant.lower() in said.lower()
                        assert not [other for other in TENANTS if other != tenant and other.lower() in said.lower()]

    asyncio.run(talk())
    app.close()


def test_feedback_cannot_ask_for_the_text_of_others(pipeline: Pipeline, tmp_path: Path) -> None:
    tenant, other = TENANTS[:2]
    app = ragsmith.asgi_app(pipeline, token={TOKENS[tenant]: f"tenant={tenant}"}, feedback=tmp_path / "feedback.jsonl")
    for owner, status in ((tenant, 201), (other, 400)):
        doc = next(id_ for id_, document in CORPUS.documents.items() if document.fields["tenant"] == owner)
        sources = [{"doc": doc, "start": 0, "end": 20}]
        entry = {"question": "Who?", "answer": "I", "thumb": "up", "sources": sources}
        assert sent(app, "POST", "/feedback", entry, headers=bearer(TOKENS[tenant])).status == status
    app.close()


@pytest.mark.parametrize("where", ["tenant", {"tenent": "x"}, "year>=soon", 7, [], ""])
def test_a_filter_that_cannot_be_read_is_refused(app: ServingApp, where: object) -> None:
    got = sent(app, "POST", "/ask", {"question": "Who?", "filter": where}, headers=bearer(TOKENS[TENANTS[0]]))
    assert (got.status, got.json["error"]["param"]) == (400, "filter")


def test_the_filter_of_a_token_must_be_one(pipeline: Pipeline) -> None:
    with pytest.raises(UsageError, match="did you mean 'tenant'"):
        ragsmith.asgi_app(pipeline, token={"token-of-nothing-0123": "tenent=x"})


def test_a_token_file_has_a_token_a_line(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("a-token-of-16-letters: tenant=a and year>=2020\nanother:token-of-16-letters\n")
    assert read_tokens(file, None) == {
        "a-token-of-16-letters": "tenant=a and year>=2020",
        "another:token-of-16-letters": "",
    }
    gap = "a-token-of-16-letters: tenant=a\n\nb-token-of-16-letters: tenant=b\n"
    for content in ("", "short: tenant=a\n", "two words are no token\n", gap):
        file.write_text(content)
        with pytest.raises(UsageError, match="each line of the token file must contain one token"):
            read_tokens(file, None)


def test_ask_answers_from_the_documents_that_a_filter_admits(pipeline: Pipeline) -> None:
    tenant = TENANTS[2]
    for where in (f"tenant={tenant}", {"tenant": tenant}, f"path={tenant.lower()}"):
        reply = ragsmith.ask(pipeline, f"Who pays for the sea wall of {TENANTS[1]}?", filter=where)
        assert reply.sources
        assert {CORPUS.documents[source.doc].fields["tenant"] for source in reply.sources} == {tenant}
    with pytest.raises(UsageError, match="'signed'"):
        pipeline.ask("Who?", filter="signed<soon")


def test_a_filter_that_admits_no_document_is_said(pipeline: Pipeline) -> None:
    admits_none = "^the filter 'tenant=Nobody' admits no document of 60$"
    for ask in (ragsmith.ask, ragsmith.explain):
        with pytest.warns(Notice, match=admits_none):
            ask(pipeline, "Who pays for the sea wall?", filter="tenant=Nobody")


def test_explain_traces_a_question_through_the_documents_that_a_filter_admits(pipeline: Pipeline) -> None:
    traced = ragsmith.explain(pipeline, "Who pays for the sea wall?", filter=f"tenant={TENANTS[2]}")
    found = {CORPUS.documents[hit.doc].fields["tenant"] for stage in traced.stages for hit in stage.hits}
    assert found == {TENANTS[2]}
