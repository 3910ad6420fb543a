"""The application: what it answers, to whom, and what it says where it does not."""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking import PATIENCE, Down, Got, Held, send, sent, until
from fault_kinds import Fault
from prometheus_client.parser import text_string_to_metric_families
from served import Ruled, served

import ragsmith
from ragsmith.errors import MissingExtra, Notice, UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.pipeline import Pipeline
from ragsmith.gateway.budget import Price, Prices
from ragsmith.pipelines.genes import Candidate
from ragsmith.serving.answering import ANSWERS_PER_CLEARING, PipelineService
from ragsmith.serving.app import ServingApp
from ragsmith.serving.middleware import MAX_HEAD_BYTES
from ragsmith.serving.workers import CancellationToken
from ragsmith.store.store import Store
from ragsmith.text.words import terms
from ragsmith.types import Question

Serving = Callable[..., ServingApp]
Written = Callable[[Candidate], Path]
QUESTION = "When does the ferry to Marrow leave?"


def chat(*texts: str, **more: Any) -> dict[str, Any]:
    """A request for a chat completion: what the user and the assistant said in turn."""
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)], **more}


def events(got: Got) -> list[Any]:
    """What a stream of events said, without the end."""
    blocks = got.text.split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-2] if not block.startswith(":")]


# --- answers ---------------------------------------------------------------------------------------------------------


def test_an_answer_is_that_of_ask_with_the_places_that_it_rests_on(serving: Serving, winner: Path) -> None:
    expected = ragsmith.ask(winner, QUESTION)
    got = sent(serving(), "POST", "/ask", {"question": QUESTION})
    assert (got.status, got.json["answer"], got.json["declined"]) == (200, expected.answer, expected.declined)
    places = [(p["doc"], p["start"], p["end"], p["text"], p["cited"]) for p in got.json["passages"]]
    assert places == [(s.doc, s.start, s.end, s.text, s.cited) for s in expected.sources]
    documents = ragsmith.Pipeline.load(winner).setup.corpus.documents
    quotes = [(p, quote) for p in got.json["passages"] for quote in p["quotes"]]
    assert quotes
    for passage, quote in quotes:
        words = documents[passage["doc"]].text[quote["start"] : quote["end"]]
        assert words in passage["text"]
        assert words.split()[0] in expected.answer
    assert all(p["score"] is None or p["scale"] for p in got.json["passages"])


def test_the_stages_of_an_answer_come_where_they_are_asked_for(serving: Serving, winner: Path) -> None:
    app = serving()
    assert sent(app, "POST", "/ask", {"question": QUESTION}).json["stages"] is None
    stages = sent(app, "POST", "/ask", {"question": QUESTION, "stages": True}).json["stages"]["stages"]
    way = ragsmith.explain(winner, "What leaves from the north quay, and when?")
    assert [stage["family"] for stage in stages] == [stage.family for stage in way.stages]
    explained = sent(app, "POST", "/explain", {"question": QUESTION}).json
    assert [stage["family"] for stage in explained["stages"]] == [stage["family"] for stage in stages]
    assert explained["scores"] == {}  # no judge is asked


def test_retrieve_gives_what_passes_the_filter(serving: Serving, winner: Path) -> None:
    loaded = ragsmith.Pipeline.load(winner)
    hits = loaded.run(QUESTION).hits
    found = sent(serving(), "POST", "/retrieve", {"question": QUESTION}).json["passages"]
    assert [(p["doc"], p["start"], p["end"]) for p in found] == [
        (h.chunk.doc, h.chunk.start, h.chunk.end) for h in hits
    ]
    assert [p["score"] for p in found] == pytest.approx([h.score for h in hits], abs=1e-6)
    assert [p["number"] for p in found] == list(range(1, len(hits) + 1))


@pytest.mark.parametrize(
    "technique", [("raptor", {}), ("cross_document", {"size": 4, "min_cosine": -1.0})], ids=lambda pair: pair[0]
)
def test_a_summary_is_retrieved_as_it_was_written_with_the_places_that_it_sums_up(
    serving: Serving, pipeline: Callable[..., Candidate], written: Written, technique: tuple[str, dict[str, Any]]
) -> None:
    path = written(pipeline(pre_embedding=technique, retrieval="bm25", passage_filter=("top_k", {"k": 10})))
    loaded = ragsmith.Pipeline.load(path)
    documents = loaded.setup.corpus.documents
    questions = [example.question for example in loaded.setup.dataset.examples]
    asked = next(q for q in questions if any(hit.chunk.level for hit in loaded.run(q).hits))
    summaries = {place: hit.chunk for place, hit in enumerate(loaded.run(asked).hits) if hit.chunk.level}
    got = sent(serving(path), "POST", "/retrieve", {"question": asked})
    assert got.status == 200
    for place, passage in enumerate(got.json["passages"]):
        if summary := summaries.get(place):
            assert passage["text"] == summary.text != ""
            assert passage["title"] == (documents[summary.doc].title if summary.doc else "")
            places = [(p["doc"], p["start"], p["end"]) for p in passage["sources"]]
            assert places == [(span.doc, span.start, span.end) for span in summary.sources] != []
        else:
            assert passage["text"] == documents[passage["doc"]].text[passage["start"] : passage["end"]] != ""
            assert passage["sources"] == []


def test_a_chat_completion_has_the_answer_its_sources_and_citations(serving: Serving, winner: Path) -> None:
    app, expected = serving(), ragsmith.ask(winner, QUESTION)
    got = sent(app, "POST", "/v1/chat/completions", chat(QUESTION, model="ragsmith", temperature=0.2)).json
    content = got["choices"][0]["message"]["content"]
    cited = [source for source in expected.sources if source.cited]
    assert cited
    assert content.startswith(f"{expected.answer}\n\nSources:\n[1] {cited[0].title} ({cited[0].doc}, characters ")
    assert [(c["number"], c["doc"], c["text"]) for c in got["citations"]] == [
        (number, source.doc, source.text) for number, source in enumerate(cited, 1)
    ]
    assert got["choices"][0]["finish_reason"] == "stop"
    bare = sent(app, "POST", "/v1/chat/completions", chat(QUESTION, sources=False)).json
    assert bare["choices"][0]["message"]["content"] == expected.answer
    assert bare["citations"] == got["citations"]


def test_a_stream_says_what_the_whole_reply_says(serving: Serving) -> None:
    app = serving()
    whole = sent(app, "POST", "/v1/chat/completions", chat(QUESTION)).json
    got = sent(app, "POST", "/v1/chat/completions", chat(QUESTION, stream=True, stream_options={"include_usage": True}))
    assert got.headers["content-type"].startswith("text/event-stream")
    *chunks, last, usage = events(got)
    assert (
        "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
        == whole["choices"][0]["message"]["content"]
    )
    assert len(chunks) > 2
    assert (last["choices"][0]["finish_reason"], last["citations"]) == ("stop", whole["citations"])
    assert (usage["choices"], usage["usage"]) == ([], whole["usage"])


def test_the_last_of_several_questions_is_written_out(serving: Serving) -> None:
    app = serving()
    first = "How high is the lighthouse of Marrow?"
    answered = sent(app, "POST", "/v1/chat/completions", chat(first)).json["choices"][0]["message"]["content"]
    got = sent(app, "POST", "/v1/chat/completions", chat(first, answered, "And how often does it flash?")).json
    assert got["question"] == f"{first} And how often does it flash?"
    alone = sent(app, "POST", "/v1/chat/completions", chat(first, answered, "Who founded the school library?")).json
    assert alone["question"] == "Who founded the school library?"


def test_a_chat_model_writes_the_last_question_out_and_sees_no_list_of_sources(serving: Serving) -> None:
    class Writer(Held):
        def reply(self, prompt: str) -> str:
            return "How high is the lighthouse?" if "<conversation>" in prompt else super().reply(prompt)

    model = Writer(free=True)
    app = serving(models={"language_model": model})
    said = "It is old.\n\nSources:\n[1] The lighthouse (lighthouse, characters 0 to 5)"
    got = sent(app, "POST", "/v1/chat/completions", chat("Tell me of the lighthouse", said, "How high is it?"))
    assert got.json["question"] == "How high is the lighthouse?"
    assert "assistant: It is old." in model.prompts[0]
    assert "Sources:" not in model.prompts[0]
    assert got.json["usage"]["prompt_tokens"] == 12 * len(model.prompts)


def test_models_are_listed_and_others_are_not_known(serving: Serving) -> None:
    app = serving()
    assert [m["id"] for m in sent(app, "GET", "/v1/models").json["data"]] == ["ragsmith"]
    assert sent(app, "GET", "/v1/models/ragsmith").json["id"] == "ragsmith"
    got = sent(app, "POST", "/v1/chat/completions", chat(QUESTION, model="gpt-9"))
    assert (got.status, got.json["error"]["code"]) == (404, "model_not_found")


def test_nothing_of_a_question_is_remembered(serving: Serving, tiny_setup: Any) -> None:
    app = serving()
    base = app.service._base_engine
    for example in tiny_setup.dataset.examples:
        assert sent(app, "POST", "/ask", {"question": example.question}).status == 200
    memos = (base.stages, base.searches, base.gateway._completions.memo, base.gateway._scores.memo)
    assert [len(memo) for memo in memos] == [0] * 4
    assert not app.workers._unfinished


def test_caches_are_emptied_every_so_often_and_answers_stay_the_same(winner: Path) -> None:
    answerer = PipelineService(ragsmith.Pipeline.load(winner))
    answerer.prepare()
    expected = answerer.ask(Question(QUESTION), CancellationToken()).answer
    for n in range(ANSWERS_PER_CLEARING - 10):
        answerer.retrieve(Question(f"{QUESTION} Number {n}"), CancellationToken())
        terms(f"{QUESTION} Number {n}")  # whatever the winner searches with
    before = terms.cache_info().currsize
    assert before > ANSWERS_PER_CLEARING - 10
    for n in range(10):
        answerer.retrieve(Question(f"{QUESTION} Number {n}"), CancellationToken())
    assert terms.cache_info().currsize < 20
    assert answerer.ask(Question(QUESTION), CancellationToken()).answer == expected
    answerer.close()


def test_it_can_be_mounted_under_a_path(serving: Serving) -> None:
    app = serving(hosts=["intranet.example"])
    host = {"host": "intranet.example"}
    assert sent(app, "POST", "/retrieve", {"question": QUESTION}, root="/documents", headers=host).status == 200
    assert sent(app, "GET", "/", root="/documents", headers=host).status == 200
    assert sent(app, "GET", "/", root="/documents").status == 403


def test_other_documents_are_served_and_how_they_differ_is_said(
    serving: Serving, tiny_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_folder / "documents", tmp_path / "documents")
    (folder / "mill.md").write_text("# The mill\n\nThe mill of Marrow grinds barley for the brewer Anders Holm.\n")
    with pytest.warns(Notice, match="by 1 added$"):
        app = serving(documents=folder)
    assert "Anders Holm" in sent(app, "POST", "/ask", {"question": "Who is the brewer of Marrow?"}).json["answer"]


def test_the_documents_of_an_index_are_served(serving: Serving, winner: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache.sqlite"
    ragsmith.build_index(winner, cache=cache)
    more = tmp_path / "more"
    more.mkdir()
    (more / "mill.md").write_text("# The mill\n\nThe mill of Marrow grinds barley for the brewer Anders Holm.\n")
    ragsmith.add_to_index(winner, [more / "mill.md"], cache=cache)
    with pytest.warns(Notice, match="by 1 added$"):
        app = serving(indexed=True, cache=cache)
    assert "Anders Holm" in sent(app, "POST", "/ask", {"question": "Who is the brewer of Marrow?"}).json["answer"]


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "prometheus_client", "mcp"])
def test_without_the_extra_the_command_that_installs_it_is_named(
    winner: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for begin in (ragsmith.asgi_app, ragsmith.serve):
        with pytest.raises(MissingExtra, match=r"pip install 'ragsmith\[serve\]'"):
            begin(winner)


# --- who is answered -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:9"])
def test_names_of_this_machine_are_answered(serving: Serving, host: str) -> None:
    assert sent(serving(), "GET", "/v1/models", headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example", "[", "0.0.0.0"]
)
def test_other_names_are_not(serving: Serving, host: str) -> None:
    app = serving()
    got = sent(app, "POST", "/ask", {"question": QUESTION}, headers={"host": host})
    assert (got.status, got.json["error"]["code"]) == (403, "unknown_host")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://[", ""])
def test_pages_of_others_are_not_answered(serving: Serving, origin: str) -> None:
    headers = {"host": "localhost:8000", "origin": origin}
    got = sent(serving(), "POST", "/ask", {"question": QUESTION}, headers=headers)
    assert (got.status, got.json["error"]["code"]) == (403, "cross_origin")
    assert "access-control-allow-origin" not in got.headers


@pytest.mark.parametrize("host", ["[", "", "[::1"])
@pytest.mark.parametrize("origin", ["http://localhost:8000", "null", ""])
def test_a_page_that_asks_for_no_name_is_told_so(serving: Serving, host: str, origin: str) -> None:
    headers = {"host": host, "origin": origin, "authorization": f"Bearer {TOKEN}"}
    got = sent(serving(token=TOKEN), "POST", "/ask", {"question": QUESTION}, headers=headers)
    assert (got.status, got.json["error"]["code"]) == (400, "invalid_host")


def test_the_page_itself_is_answered(serving: Serving) -> None:
    headers = {"host": "localhost:8000", "origin": "http://localhost:8000"}
    assert sent(serving(), "POST", "/ask", {"question": QUESTION}, headers=headers).status == 200


TOKEN = "correct-horse-battery-staple"


def test_the_right_token_is_answered_under_any_name(serving: Serving) -> None:
    headers = {"host": "any.example", "authorization": f"bearer {TOKEN}"}
    assert sent(serving(token=TOKEN), "POST", "/ask", {"question": QUESTION}, headers=headers).status == 200


@pytest.mark.parametrize("token", ["", "short", "two words are no token at all", "x" * 15])
def test_a_token_that_is_none_is_refused_before_anything_is_loaded(token: str) -> None:
    with pytest.raises(UsageError, match="token must contain one token of at least 16"):
        ragsmith.asgi_app("no-such-winner.yaml", token=token)


def test_one_name_in_the_place_of_a_list_of_hosts_is_refused() -> None:
    with pytest.raises(UsageError, match="give a list, each item a string"):
        ragsmith.asgi_app("no-such-winner.yaml", hosts="intranet.example")


@pytest.mark.parametrize("id_", ["abc-1.2_3", "a" * 64])
def test_a_request_id_is_kept_and_logged(serving: Serving, id_: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="ragsmith.serving"):
        got = sent(serving(), "POST", "/ask", {"question": QUESTION}, headers={"x-request-id": id_})
    assert (got.headers["x-request-id"], got.json["id"]) == (id_, id_)
    assert caplog.records[-1].fields["id"] == id_


def test_another_method_is_refused(serving: Serving) -> None:
    got = sent(serving(), "DELETE", "/ask")
    assert (got.status, got.json["error"]["code"], got.headers["allow"]) == (405, "wrong_method", "POST")


# --- how much is taken -----------------------------------------------------------------------------------------------


def test_bodies_and_questions_have_their_limits(serving: Serving) -> None:
    app = serving(limits={"body": 2000, "question": 100, "body_seconds": 0.2})
    assert sent(app, "POST", "/ask", {"question": "x" * 101}).json["error"]["param"] == "question"
    assert sent(app, "POST", "/ask", {"question": "x" * 2000}).status == 413
    lying = {"content-length": "10"}
    assert sent(app, "POST", "/ask", {"question": "x" * 2000}, headers=lying).status == 413
    for wrong in ("9" * 5000, "-1", "1e3", "99999999999", "٣"):
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", wrong.encode())]
        got = sent(app, "POST", "/ask", {"question": QUESTION}, headers=headers)
        assert (got.status, got.headers["connection"]) == (413, "close")
    assert sent(app, "POST", "/ask", {"question": QUESTION}, headers={"content-type": "text/plain"}).status == 415


def test_the_head_of_a_request_has_its_limit_and_says_once_where_the_body_ends(serving: Serving) -> None:
    app = serving()
    for more in ({"headers": {"x": "y" * MAX_HEAD_BYTES}}, {"query": b"y" * MAX_HEAD_BYTES}):
        got = sent(app, "GET", "/health", **more)
        assert (got.status, got.headers["connection"]) == (431, "close")
    assert sent(app, "GET", "/health", headers={"x": "y" * (MAX_HEAD_BYTES - 200)}).status == 200
    got = sent(app, "POST", "/ask", {"question": QUESTION}, headers={"transfer-encoding": "chunked"})
    assert (got.status, got.json["error"]["code"], got.headers["connection"]) == (400, "invalid_length", "close")


def test_requests_beyond_the_queue_limit_are_refused(serving: Serving) -> None:
    model = Held()
    app = serving(models={"language_model": model}, limits={"concurrency": 1, "queue": 1})

    async def go() -> None:
        first, second = (asyncio.create_task(send(app, "POST", "/ask", {"question": q})) for q in ("One?", "Two?"))
        await until(lambda: app.workers.busy == 1 and app.workers.waiting == 1)
        for path, body in (("/ask", {"question": "Three?"}), ("/v1/chat/completions", chat("Three?", stream=True))):
            third = await send(app, "POST", path, body)
            assert (third.status, third.json["error"]["code"]) == (503, "busy")
            assert int(third.headers["retry-after"]) > 0
            assert "x-should-retry" not in third.headers
        assert (await send(app, "GET", "/ready")).status == 503
        assert (await send(app, "GET", "/health")).status == 200
        model.free.set()
        assert [(await one).status for one in (first, second)] == [200, 200]
        assert (await send(app, "GET", "/ready")).status == 200

    asyncio.run(go())


def test_a_model_that_hangs_costs_its_request_alone(serving: Serving) -> None:
    model = Held()
    app = serving(models={"language_model": model}, limits={"concurrency": 2, "queue": 4, "seconds": 0.3})

    async def go() -> None:
        hung = await send(app, "POST", "/ask", {"question": "Who hangs?"})
        assert (hung.status, hung.json["error"]["code"]) == (504, "timeout")
        assert hung.headers["x-should-retry"] == "false"  # it may have been paid
        streamed = await send(app, "POST", "/v1/chat/completions", chat("Who hangs on?", stream=True))
        assert events(streamed)[-1]["error"]["code"] == "timeout"
        model.free.set()
        await until(lambda: app.workers.busy == 0)
        assert (await send(app, "POST", "/ask", {"question": "Who is free?"})).status == 200

    asyncio.run(go())


def test_a_stream_that_waits_says_so(serving: Serving) -> None:
    model = Held()
    app = serving(models={"language_model": model}, limits={"heartbeat_seconds": 0.02})

    async def go() -> Got:
        asked = asyncio.create_task(send(app, "POST", "/v1/chat/completions", chat(QUESTION, stream=True)))
        await until(lambda: bool(model.prompts))
        await asyncio.sleep(0.1)
        model.free.set()
        return await asked

    got = asyncio.run(go())
    assert got.text.count(": the answer is on its way\n\n") >= 2
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in events(got))


def test_many_at_the_same_time_get_what_each_would_get_alone(serving: Serving, winner: Path, tiny_setup: Any) -> None:
    alone = ragsmith.Pipeline.load(winner)
    wanted = [example.question for example in tiny_setup.dataset.examples]
    expected = {question: alone.ask(question).answer for question in wanted}
    app = serving(limits={"concurrency": 4, "queue": 200})

    async def go() -> None:
        orders = [random.Random(n).sample(wanted, len(wanted)) for n in range(4)]
        asked = [question for order in orders for question in order]
        got = await asyncio.gather(*(send(app, "POST", "/ask", {"question": question}) for question in asked))
        assert [one.json["answer"] for one in got] == [expected[question] for question in asked]

    asyncio.run(go())


# --- what is paid ----------------------------------------------------------------------------------------------------


def calls_twice(pipeline: Callable[..., Candidate], written: Written) -> Path:
    """A pipeline that asks the model for a passage to search with, and then for an answer."""
    return written(pipeline(query_expansion="hyde", retrieval="bm25"))


def test_a_client_that_goes_away_pays_for_no_further_call(
    serving: Serving, pipeline: Callable[..., Candidate], written: Written
) -> None:
    model = Held()
    app = serving(calls_twice(pipeline, written), models={"language_model": model})

    async def go() -> None:
        async def leaves() -> None:
            await until(lambda: len(model.prompts) == 1)

        for body in (chat("Who steers the ferry?"), chat("When does the ferry sail?", stream=True)):
            model.prompts.clear()
            model.free.clear()
            given_up = app.workers.cancelled
            await send(app, "POST", "/v1/chat/completions", body, leaves=leaves)
            assert app.workers.cancelled == given_up + 1
            model.free.set()
            await until(lambda: app.workers.busy == 0)
            assert len(model.prompts) == 1
        model.prompts.clear()
        assert (await send(app, "POST", "/ask", {"question": QUESTION})).status == 200
        assert len(model.prompts) == 2

    asyncio.run(go())


@pytest.mark.parametrize("taken", [0, 1, 2])
@pytest.mark.parametrize("leaves", [True, False], ids=["goes", "stays"])
def test_a_stream_whose_client_takes_nothing_more_pays_for_no_further_call(
    serving: Serving, pipeline: Callable[..., Candidate], written: Written, taken: int, *, leaves: bool
) -> None:
    """It takes so many messages, the head first; then it goes, or stays without reading."""
    model = Held()
    limits = {"seconds": PATIENCE if leaves else 0.3, "heartbeat_seconds": 0.02}
    app = serving(calls_twice(pipeline, written), models={"language_model": model}, limits=limits)

    async def go() -> None:
        async def stops_taking() -> None:
            await until(lambda: len(model.prompts) == 1)
            if not leaves:
                await asyncio.sleep(PATIENCE)

        asked = asyncio.create_task(
            send(
                app,
                *("POST", "/v1/chat/completions", chat("Who steers the ferry?", stream=True)),
                leaves=stops_taking,
                takes=taken,
            )
        )
        await until(lambda: app.workers.cancelled == 1)
        model.free.set()
        await until(lambda: app.workers.busy == 0)
        assert len(model.prompts) == 1
        assert asked.done() == leaves
        asked.cancel()

    asyncio.run(go())


def test_the_same_question_at_the_same_time_is_asked_once_and_one_may_leave(
    serving: Serving, pipeline: Callable[..., Candidate], written: Written
) -> None:
    model = Held()
    app = serving(calls_twice(pipeline, written), models={"language_model": model})

    async def go() -> None:
        async def leaves() -> None:
            await until(lambda: len(model.prompts) == 1)

        gone = asyncio.create_task(send(app, "POST", "/ask", {"question": QUESTION}, leaves=leaves))
        stay = [asyncio.create_task(send(app, "POST", "/ask", {"question": QUESTION})) for _ in range(3)]
        await gone
        model.free.set()
        assert {(await one).status for one in stay} == {200}
        assert len({one.result().json["answer"] for one in stay}) == 1

    asyncio.run(go())
    assert len(model.prompts) == 2


def test_paid_replies_are_kept_as_ask_keeps_them(
    serving: Serving, pipeline: Callable[..., Candidate], written: Written, tmp_path: Path
) -> None:
    path, cache = calls_twice(pipeline, written), tmp_path / "kept.sqlite"
    before = ragsmith.ask(path, QUESTION, models={"language_model": Held(free=True)}, cache=cache)
    model = Held(free=True)
    got = sent(serving(path, models={"language_model": model}, cache=cache), "POST", "/ask", {"question": QUESTION})
    assert (got.json["answer"], model.prompts) == (before.answer, [])


def test_error_messages_of_models_are_not_sent_to_clients(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    app = serving(models={"language_model": Down()})
    with caplog.at_level("INFO", logger="ragsmith.serving"):
        got = sent(app, "POST", "/ask", {"question": QUESTION})
        streamed = sent(app, "POST", "/v1/chat/completions", chat(QUESTION, stream=True))
    assert (got.status, got.json["error"]["code"]) == (503, "model_unavailable")
    assert events(streamed)[-1]["error"]["code"] == "model_unavailable"
    for told in (got.text, streamed.text):
        assert not {"secret-path", "sk-abc", "Answer the question", "Traceback"} & set(re.findall(r"[\w -]+", told))
        assert "sk-abcdefghijklmnop1234" not in told
    failure = next(r for r in caplog.records if r.getMessage() == "answer_failed")
    assert (failure.fields["stage"], failure.fields["error"]) == ("generation.generate", "ModelUnavailable")
    assert "sk-abcdefghijklmnop1234" not in str(failure.fields)


def test_an_unexpected_exception_has_the_form_of_other_errors(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    app = serving()

    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret-path")

    app.service.retrieve = app.metrics.text = fails  # type: ignore[assignment,method-assign]
    with caplog.at_level("INFO", logger="ragsmith.serving"):
        got = [sent(app, "GET", "/metrics"), sent(app, "POST", "/retrieve", {"question": QUESTION})]
    for one in got:
        assert (one.status, one.headers["content-type"]) == (500, "application/json")
        assert (one.json["error"]["type"], one.json["error"]["code"]) == ("server_error", "internal_error")
        assert one.headers["x-request-id"] in {getattr(r, "fields", {}).get("id") for r in caplog.records if r.exc_info}
        assert "secret-path" not in one.text


def test_what_was_wrong_is_named_as_openai_names_it(serving: Serving) -> None:
    app = serving(limits={"question": 10})
    for path, body, code in (
        ("/ask", {}, "missing_required_parameter"),
        ("/ask", {"question": 1}, "invalid_type"),
        ("/ask", {"question": "x" * 11}, "string_above_max_length"),
        ("/ask", {"question": "x", "stage": True}, "unknown_parameter"),
        ("/v1/chat/completions", chat("x", tools=[{}]), "unsupported_parameter"),
        ("/v1/chat/completions", chat("x", n=2), "unsupported_value"),
        ("/v1/chat/completions", chat("x", model="other"), "model_not_found"),
    ):
        error = sent(app, "POST", path, body).json["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", code)
    assert sent(serving(token=TOKEN), "GET", "/v1/models").json["error"]["type"] == "invalid_request_error"


# --- what is measured ------------------------------------------------------------------------------------------------


def test_the_metrics_are_prometheus_and_count_requests(serving: Serving) -> None:
    app = serving()
    for path in ("/ask", "/ask", "/never/heard/of/1", "/never/heard/of/2"):
        sent(app, "POST", path, {"question": QUESTION})
    got = sent(app, "GET", "/metrics")
    assert got.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(got.text)}
    counts = {
        (s.labels["route"], s.labels["status"]): s.value
        for s in families["ragsmith_requests"].samples
        if s.name.endswith("_total")
    }
    assert counts == {("/ask", "200"): 2, ("other", "404"): 2}
    assert families["ragsmith_answering"].samples[0].value == 0


def measured(app: ServingApp) -> Callable[..., float]:
    """The values of the metrics, by the name of the sample and its labels; 0 of those that are not there."""
    families = text_string_to_metric_families(sent(app, "GET", "/metrics").text)
    values = {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}
    return lambda name, **labels: values.get((name, tuple(sorted(labels.items()))), 0.0)


def test_the_metrics_have_stages_errors_memory_and_the_build(serving: Serving, winner: Path) -> None:
    app = serving()
    sent(app, "POST", "/ask", {"question": QUESTION})
    sent(app, "POST", "/retrieve", {"question": QUESTION})
    sent(app, "POST", "/ask", {"question": " "})
    sent(app, "POST", "/ask", {})
    sent(app, "POST", "/ask", {})
    value = measured(app)
    assert value("ragsmith_stage_seconds_count", stage="retrieval") == 2
    assert value("ragsmith_stage_seconds_count", stage="generation") == 1
    assert 0 < value("ragsmith_stage_seconds_sum", stage="retrieval") < PATIENCE
    assert value("ragsmith_errors_total", code="missing_required_parameter") == 2
    assert value("ragsmith_errors_total", code="invalid_value") == 1
    assert value("process_resident_memory_bytes") > 0 or not sys.platform.startswith("linux")
    build = app.service.pipeline_id
    assert value("ragsmith_build_info", version=ragsmith.__version__, pipeline=build) == 1
    assert serving().service.pipeline_id == build


def test_the_metrics_have_the_calls_and_the_money_of_answers_that_failed(
    tiny_setup: Experiment, pipeline: Callable[..., Candidate], store: Store
) -> None:
    """Two chat calls: a passage for the expansion, and an answer, which fails after it was paid for."""
    prices = Prices({"openai:tiny": Price(input=1.0, output=2.0, requests=1000.0)})

    with Ruled() as model:
        setup = served(tiny_setup, model.url, attempts=1)
        app = ServingApp(PipelineService(Pipeline(pipeline(query_expansion="hyde"), setup), store, prices))
        assert sent(app, "POST", "/ask", {"question": QUESTION}).status == 200
        first = measured(app)
        calls = first("ragsmith_model_requests_total", model="openai:tiny")
        assert calls == len(model.log) == 2
        tokens = [first("ragsmith_model_tokens_total", model="openai:tiny", kind=kind) for kind in ("input", "output")]
        assert first("ragsmith_cost_total", model="openai:tiny") == pytest.approx(
            calls + (tokens[0] + 2 * tokens[1]) / 1e6
        )
        sent(app, "POST", "/ask", {"question": QUESTION})
        again = measured(app)
        assert again("ragsmith_model_calls_total", kind="language_model", source="store") == 2
        assert again("ragsmith_model_requests_total", model="openai:tiny") == 2
        answered = len(model.log)
        model.rule = lambda request: Fault(status=400) if len(model.log) > answered + 1 else None
        assert sent(app, "POST", "/ask", {"question": "Who steers the ferry?"}).status == 502
        after = measured(app)
        assert len(model.log) == 4
        assert after("ragsmith_model_requests_total", model="openai:tiny") == 4
        assert after("ragsmith_cost_total", model="openai:tiny") > again("ragsmith_cost_total", model="openai:tiny") + 1
        assert after("ragsmith_errors_total", code="pipeline_failed") == 1
        app.close()


@pytest.mark.parametrize(
    ("status", "expected", "advice"), [(503, 503, "retry later"), (500, 503, "retry later"), (400, 502, "reword it")]
)
def test_what_the_server_of_a_model_answers_decides_what_the_client_is_told(
    tiny_setup: Experiment, pipeline: Callable[..., Candidate], status: int, expected: int, advice: str
) -> None:
    with Ruled(lambda request: Fault(status=status)) as model:
        setup = served(tiny_setup, model.url, attempts=1)
        app = ServingApp(PipelineService(Pipeline(pipeline(retrieval="bm25"), setup)))
        got = sent(app, "POST", "/ask", {"question": QUESTION})
        assert got.status == expected
        assert advice in got.json["error"]["message"]
        assert ("retry-after" in got.headers) == (expected == 503)
        app.close()


def test_the_page_fetches_nothing_from_elsewhere(serving: Serving) -> None:
    got = sent(serving(), "GET", "/")
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)|url\(|@import|https?://", got.text)
    policy = got.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
