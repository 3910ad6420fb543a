"""Drafting with a chat model on a local server: what is asked, kept, refused, paid, and gone on with."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from drafting_replies import answering, draft_reply
from fault_kinds import Fault, completion
from fault_server import FaultServer

from ragsmith.api.datasets import draft_questions
from ragsmith.errors import ModelUnavailable, UsageError
from ragsmith.gateway.budget import Limits
from ragsmith.labelling.drafting.asking import DraftingPlan, plan_requests
from ragsmith.labelling.drafting.drafting import DraftingResult
from ragsmith.labelling.drafting.links import Links
from ragsmith.labelling.drafting.material import DraftingCorpus
from ragsmith.labelling.drafting.registry import METHODS
from ragsmith.types import Document, Modality

NOUNS = ["harbour", "mill", "lantern", "ferry", "granary", "orchard", "quarry", "bridge", "kiln", "tannery"]
VERBS = ["opens", "closes", "weighs", "carries", "mends", "sells", "stores", "counts", "washes", "paints"]
THINGS = ["barrels", "candles", "ropes", "sails", "bricks", "apples", "hides", "wheels", "ledgers", "anchors"]


def document(number: int, draw: random.Random) -> str:
    """A document of its own words; each sentence stands once, and Marrow Quay in two documents."""
    lines = [
        f"The {draw.choice(NOUNS)} keeper {number}{place} {draw.choice(VERBS)} {draw.choice(THINGS)} before the "
        f"{draw.choice(NOUNS)} {draw.choice(VERBS)} {draw.choice(THINGS)} of rank {draw.randrange(9999)}."
        for place in range(14)
    ]
    named = f"Every year the {draw.choice(THINGS)} of Marrow Quay are numbered {number} by a clerk with great care."
    return f"# House {number}\n\n" + "\n\n".join(" ".join([*lines[i : i + 7], named]) for i in (0, 7)) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "houses"
    (found / "documents").mkdir(parents=True)
    draw = random.Random(4)
    for number in range(4):
        (found / "documents" / f"house{number}.md").write_text(document(number, draw))
    (found / "dataset.yaml").write_text("name: houses\n")
    return found


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    facts = [line for path in sorted((folder / "documents").iterdir()) for line in path.read_text().split(". ")]
    with FaultServer() as found:
        found.answer = answering(facts)
        yield found


def drafted(folder: Path, server: FaultServer, **options: Any) -> DraftingResult:
    options = {"questions": 8, "cache": folder.parent / "cache.sqlite"} | options
    return draft_questions(folder, models={"language_model": "openai:tiny"}, base_url=server.url, **options)


def rows(folder: Path, name: str = "questions.jsonl") -> list[dict[str, Any]]:
    path = folder / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def sent(server: FaultServer) -> Counter[str]:
    return Counter(request.digest for request in server.log if request.path.endswith("/chat/completions"))


def test_every_row_has_exact_spans_and_says_where_it_came_from(folder: Path, server: FaultServer) -> None:
    found = drafted(folder, server)
    assert len(found.added) == 8
    for row in rows(folder):
        assert row["origin"]["model"] == "openai:tiny"
        assert len(row["origin"]["prompt"]) == 32
        assert row["evidence"] or row["answerable"] is False
        for evidence in row["evidence"]:
            text = (folder / "documents" / f"{evidence['doc']}.md").read_text()
            assert text[evidence["start"] : evidence["end"]] == evidence["text"]
    assert {row["filter"] for row in rows(folder, "rejected.jsonl")} == set(found.refused)


def test_the_same_again_sends_nothing_and_changes_nothing(folder: Path, server: FaultServer) -> None:
    first = drafted(folder, server)
    before = (folder / "questions.jsonl").read_bytes()
    requests = sent(server)
    assert set(requests.values()) == {1}
    (folder / "questions.jsonl").unlink()
    (folder / "rejected.jsonl").unlink(missing_ok=True)
    again = drafted(folder, server)
    assert sent(server) == requests
    assert (folder / "questions.jsonl").read_bytes() == before
    assert again.replies.made == 0
    assert again.spent == first.spent


def test_more_questions_go_on_from_the_replies_that_are_there(folder: Path, server: FaultServer) -> None:
    drafted(folder, server, questions=4)
    first = rows(folder)
    drafted(folder, server, questions=12)
    assert rows(folder)[:4] == first
    assert len(rows(folder)) == 12
    assert set(sent(server).values()) == {1}


def test_a_budget_stops_it_and_what_passed_is_written(folder: Path, server: FaultServer) -> None:
    stopped = drafted(folder, server, limits=Limits(calls=30))
    assert "--max-calls 30" in stopped.paused
    assert sent(server).total() == stopped.spent.calls == 30
    written = rows(folder)
    assert 0 < len(written) < 8
    more = drafted(folder, server)
    assert rows(folder)[: len(written)] == written
    assert len(rows(folder)) == 8
    assert not more.paused
    assert set(sent(server).values()) == {1}


def test_an_unreadable_reply_is_a_failure_and_no_question(folder: Path, server: FaultServer) -> None:
    def answer(path: str, body: Any) -> Any:
        prompt = body["messages"][-1]["content"]
        if "interpretation" in prompt or "situation of their" in prompt:
            return completion("What about the harbour?")
        return completion(draft_reply(prompt))

    server.answer = answer
    found = drafted(folder, server, questions=20)
    failed = [failure for failure in found.failures if failure.prompt == "draft_interpretation"]
    assert failed
    assert {failure.kind for failure in failed} == {"unreadable"}
    assert "interpretation" not in {row["type"] for row in rows(folder)}
    asked = sent(server)
    drafted(folder, server, questions=20)
    assert sent(server) == asked
    server.answer = answering([])
    mended = drafted(folder, server, questions=20, retry_failed=True)
    assert not [failure for failure in mended.failures if failure.reason == failed[0].reason]
    assert "interpretation" in {row["type"] for row in rows(folder)}


def test_what_the_model_knows_or_finds_elsewhere_is_refused(folder: Path, server: FaultServer) -> None:
    facts: list[str] = []

    def answer(path: str, body: Any) -> Any:
        prompt = body["messages"][-1]["content"]
        if '"known"' in prompt:
            return completion(json.dumps({"known": True, "answer": " ".join(facts)}))
        reply = draft_reply(prompt)
        if '"questions"' in prompt and reply.startswith("{"):
            facts.extend(one.get("answer", "") for one in json.loads(reply).get("questions", []))
        return completion(reply)

    server.answer = answer
    found = drafted(folder, server, questions=200)
    assert found.refused["closed_book"] > 0
    assert {draft.type for draft in found.added} <= {"unanswerable"}


def test_an_answer_that_is_found_elsewhere_has_to_be_quoted(folder: Path, server: FaultServer) -> None:
    def finding(words: Callable[[str], str]) -> Callable[[str, Any], Any]:
        def answer(path: str, body: Any) -> Any:
            prompt = body["messages"][-1]["content"]
            if '{"text": 0' not in prompt:
                return completion(draft_reply(prompt))
            first = next(line for line in prompt.splitlines() if line.startswith("[1] "))
            return completion(json.dumps({"text": 1, "words": words(first.removeprefix("[1] "))}))

        return answer

    server.answer = finding(lambda text: "a sentence that stands nowhere")
    claimed = drafted(folder, server, questions=4, cache=folder.parent / "one.sqlite")
    assert "round_trip" not in claimed.refused
    server.answer = finding(lambda text: text)
    found = drafted(folder, server, questions=8, cache=folder.parent / "other.sqlite")
    assert found.refused["round_trip"] > 0
    assert len(found.added) == 0


def test_the_plan_holds(folder: Path, server: FaultServer) -> None:
    plans: list[DraftingPlan] = []
    found = drafted(folder, server, on_plan=plans.append)
    [plan] = plans
    assert plan.min_requests <= found.spent.calls <= plan.max_requests


def test_the_next_prompt_is_the_one_asked_least() -> None:
    prose = "A keeper of the house writes down whatever the ferry brings over at night. " * 12
    code = "def weigh(grain):\n    return grain * 2\n\n\n" * 12
    material = DraftingCorpus([Document("a", "A", prose), Document("b", "B", code, Modality.CODE)])
    requests = list(plan_requests(material.passages, Links(material), list(METHODS)))
    pairs = [(one.method.name, one.passages[0].id) for one in requests]
    assert len(set(pairs)) == len(pairs)
    first = pairs[: len(material.passages)]
    assert [id_ for _, id_ in first] == [passage.id for passage in material.passages]
    assert {name for name, id_ in pairs if id_.startswith("a")} >= {"factual", "interpretation", "long_answer"}
    assert not {name for name, id_ in pairs if id_.startswith("a")} & {"code", "tables"}
    assert {id_ for name, id_ in pairs if name == "code"} == {p.id for p in material.passages if p.doc == "b"}


def test_a_server_that_refuses_the_key_stops_it_before_anything_is_written(folder: Path, server: FaultServer) -> None:
    server.always = Fault("status", status=401)
    with pytest.raises(ModelUnavailable):
        drafted(folder, server)
    assert not (folder / "questions.jsonl").exists()


def test_a_limit_on_cost_needs_a_price(folder: Path) -> None:
    with pytest.raises(UsageError, match="price"):
        draft_questions(
            folder, models={"language_model": "openai:tiny"}, base_url="http://127.0.0.1:9/v1", limits=Limits(cost=1.0)
        )


def test_without_a_model_the_way_that_needs_none_is_named(folder: Path, ragsmith: Callable[..., Any]) -> None:
    ended = ragsmith("dataset", "draft", folder)
    assert ended.code == 2
    assert f"ragsmith recommend {folder}" in ended.err
    assert "--llm openai:NAME" in ended.err
    assert not (folder / "questions.jsonl").exists()


def test_the_command_says_what_it_will_take_and_what_came_of_it(
    folder: Path, server: FaultServer, ragsmith: Callable[..., Any]
) -> None:
    command = ("dataset", "draft", folder, "--questions", 8, "--llm", "openai:tiny", "--base-url", server.url)
    command = (*command, "--cache", folder.parent / "cache.sqlite")
    paused = ragsmith(*command, "--max-calls", 30, "--json")
    assert paused.code == 130
    plain = json.loads(paused.out)
    assert plain["spent"]["calls"] == plain["replies"]["made"] == 30
    assert "--max-calls 30" in plain["paused"]
    ended = ragsmith(*command)
    assert ended.code == 0
    assert "drafts are needed" in ended.err.splitlines()[0]
    assert "8 in all" in ended.out
    assert f"{len(sent(server)):,} requests sent so far" in ended.out
    assert set(sent(server).values()) == {1}
    short = ragsmith(*command[:3], "--questions", 100, *command[5:])
    assert "fewer than the 100 requested: no other draft passes" in short.out
    assert f"review it  ragsmith dataset review {folder}" in short.out


def test_a_model_that_never_answers_in_the_form_is_given_up(folder: Path, server: FaultServer) -> None:
    server.answer = lambda path, body: completion("I would rather talk about the weather.")
    with pytest.raises(ModelUnavailable, match="given no usable reply"):
        drafted(folder, server, questions=50)
    assert not (folder / "questions.jsonl").exists()


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_and_resumed_it_comes_to_the_same(
    folder: Path, server: FaultServer, spawn: Callable[..., Any], number: signal.Signals
) -> None:
    drafted(folder, server)
    expected = [(folder / name).read_bytes() for name in ("questions.jsonl", "rejected.jsonl")]
    needed = set(sent(server))
    for name in ("questions.jsonl", "rejected.jsonl"):
        (folder / name).unlink()
    server.log.clear()
    server._attempts.clear()
    server.latency = 0.2
    command = ("dataset", "draft", folder, "--questions", 8, "--llm", "openai:tiny", "--base-url", server.url)
    process = spawn(*command, "--cache", "killed.sqlite", OPENAI_API_KEY="sk-test")
    until = time.monotonic() + 60
    while len(server.log) < 9 and time.monotonic() < until:
        time.sleep(0.01)
    killed = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    if number == signal.SIGINT:
        assert (process.returncode, out) == (130, "")
        assert "Go on with the same command" in err
    assert not (folder / "questions.jsonl").exists()
    again = spawn(*command, "--cache", "killed.sqlite", OPENAI_API_KEY="sk-test")
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert [(folder / name).read_bytes() for name in ("questions.jsonl", "rejected.jsonl")] == expected
    counts = sent(server)
    assert set(counts) == needed
    twice = {digest for digest, count in counts.items() if count > 1}
    if number == signal.SIGINT:
        assert not twice
    in_flight = {r.digest for r in server.log if r.time < killed < (r.replied or killed + 1) + 0.3}
    assert twice <= in_flight
