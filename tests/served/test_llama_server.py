"""A real language model: SmolLM2 with 135 million parameters behind llama.cpp's server, with one slot.

Needs ``RAGSMITH_REAL=1``, and what ``python benchmarks/real_models.py install`` makes; without either it is skipped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from llama_server import LlamaServer, Missing, find_server
from recording_proxy import RecordingProxy
from role_replies import FAILED, RoleTasks, ask_all

from ragsmith.measures.judge import JUDGE
from ragsmith.models.capabilities import ModelCapabilities
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_chat import OpenAIChat
from ragsmith.models.served.policy import Policy

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def llama() -> LlamaServer:
    if not os.environ.get("RAGSMITH_REAL"):
        pytest.skip("RAGSMITH_REAL is not set: a real model takes minutes")
    try:
        return find_server(None, None, threads=1)  # two would wait for each other on a busy machine
    except Missing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def url(llama: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama.running(tmp_path_factory.mktemp("llama")) as url:
        yield url


@pytest.fixture
def proxy(url: str) -> Iterator[RecordingProxy]:
    with RecordingProxy(url) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def test_a_reply_has_its_tokens_and_its_limit(llama: LlamaServer, proxy: RecordingProxy) -> None:
    chat = OpenAIChat(llama.model, endpoint=JsonEndpoint(proxy.url, policy=Policy(attempts=1, deadline=300)))
    try:
        cut = chat.complete("Tell a long story about a river.", max_tokens=12, sample=0)
        again = chat.complete("Tell a long story about a river.", max_tokens=12, sample=0)
        whole = chat.complete("What is the capital of France?", max_tokens=200, sample=0)
    finally:
        chat.provider.close()
    assert (cut.cut_at, cut.usage.output_tokens, cut.text) == (12, 12, again.text)
    assert cut.text.strip()
    assert (whole.cut_at, "Paris" in whole.text) == (0, True)
    proxy.settle()
    assert [one.tokens for one in proxy.chats] == [12, 12, whole.usage.output_tokens]
    assert [one.finish_reason for one in proxy.chats] == ["length", "length", "stop"]


def test_every_first_reply_arrives_and_is_counted(llama: LlamaServer, proxy: RecordingProxy) -> None:
    roles = RoleTasks("law", "quick")
    roles.tasks = [task for task in roles.tasks if task.max_tokens <= 256]
    replies = list(ask_all(proxy.url, llama.model, roles, roles.draw(1, 0), again=False, until=time.monotonic() + 1200))
    assert {one.task for one in replies} == {task.name for task in roles.tasks} != set()
    assert not any(one.became == FAILED for one in replies)
    proxy.settle()
    assert sum(one.output_tokens for one in replies) == sum(one.tokens for one in proxy.chats) > 0
    answered = [one for one in proxy.chats if one.status == 200]
    assert len(answered) == len(replies)
    assert len(proxy.chats) - len(answered) <= 1  # a type of schema that it does not take


def test_a_schema_leaves_only_readable_scores(llama: LlamaServer, proxy: RecordingProxy) -> None:
    chat = OpenAIChat(llama.model, endpoint=JsonEndpoint(proxy.url, policy=Policy(attempts=1, deadline=300)))
    inputs = {"question": "Who wrote Emma?", "reference": "Jane Austen wrote it.", "answer": "It is by Jane Austen."}
    try:
        replies = [
            chat.complete(JUDGE.render({**inputs}), max_tokens=JUDGE.max_tokens, sample=sample, form=JUDGE.form)
            for sample in range(2)
        ]
    finally:
        chat.provider.close()
    assert all(0 <= JUDGE.read(reply.text) <= 1 for reply in replies)
    assert not any(reply.cut_at for reply in replies)
    assert chat.learner.capabilities == ModelCapabilities(frozenset({"json_schema"}), takes_forms=True)
    proxy.settle()
    assert [one.status for one in proxy.chats] == [500, 200, 200]
