"""The server of the tests: what it says can be read, what it spoils is spoilt, and its log tells the truth."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import fault_server
from fault_replies import chat_reply, vector
from fault_server import FaultServer

import ragsmith
from ragsmith.measures.faithfulness import support_task
from ragsmith.models.tasks import Input, Task
from ragsmith.techniques.generation import answer_task
from ragsmith.techniques.post_generation.reflection_revising import make_revision_task
from ragsmith.techniques.reranking.llm import make_ranking_task
from ragsmith.text.blocks import number_blocks

PASSAGES = (
    "The ferry to Marrow leaves from the north quay at seven. It costs three shillings [4].",
    "# Code\n```python\nvalue = load(path)\n```\nCaptain Ilse Varn has steered the ferry since 1987.",
)
INPUTS: dict[str, Input] = {
    "question": "When does the ferry to Marrow leave the quay?",
    "query": "ferry",
    "n": 3,
    "words": 90,
    "reference": "At seven.",
    "answer": "> It leaves from the north quay at seven. [1]",
    "passages": PASSAGES,
    "passage": PASSAGES[0],
    "summary": "",
    "place": "The ferry",
    "framing": "a definition",
    "context": number_blocks(PASSAGES),
    "texts": number_blocks(PASSAGES),
    "fields": ('{"name": "year", "type": "number", "values": ["2019 to 2024"]}',),
    "feedback": "- missing: the quay",
    "conversation": "user: Which ferry goes to Marrow?\nassistant: The one from the north quay.",
    "claims": ("The ferry leaves at seven.", "It is green."),
}


NO_TASKS = ("ragsmith.__main__", "ragsmith.integrations", "ragsmith.models.llama_index")
"""Modules that start something, or need an extra."""


def tasks() -> list[Task[Any]]:
    names = [m.name for m in pkgutil.walk_packages(ragsmith.__path__, "ragsmith.") if not m.name.startswith(NO_TASKS)]
    found = {v for name in names for v in vars(importlib.import_module(name)).values() if isinstance(v, Task)}
    return sorted(
        found | {answer_task(2), make_revision_task(2), make_ranking_task(2), support_task(2)},
        key=lambda task: task.name,
    )


def test_every_task_can_read_what_it_says() -> None:
    for task in tasks():
        inputs = {name: INPUTS.get(name, "Something.") for name in ("claim", *INPUTS)}
        for question in ("When does the ferry to Marrow leave the quay?", "?", "How are Varn and Rell related?"):
            prompt = task.render(inputs | {"question": question})
            task.parse(chat_reply(prompt))
            assert chat_reply(prompt) == chat_reply(prompt)


def ask(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def test_the_apis_it_speaks() -> None:
    texts = ["an eel", "the ferry"]
    with FaultServer() as server:
        jina = ask(f"{server.url}/rerank", {"query": "which ferry", "documents": texts, "top_n": 1})
        assert jina["results"] == [{"index": 1, "relevance_score": 0.5}]
        tei = ask(f"{server.root}/rerank", {"query": "which ferry", "texts": texts})
        assert tei == [{"index": 1, "score": 0.5}, {"index": 0, "score": 0.0}]
        cohere = ask(f"{server.root}/v2/rerank", {"query": "which ferry", "documents": texts})
        assert [row["index"] for row in cohere["results"]] == [1, 0]
        vectors = ask(f"{server.root}/v2/embed", {"texts": texts})["embeddings"]["float"]
        again = ask(f"{server.url}/embeddings", {"model": "m", "input": texts})["data"]
        assert vectors == [row["embedding"] for row in again] == [vector(text) for text in texts]
    assert [request.attempt for request in server.log] == [1] * 5


def faults_of(seed: int) -> list[tuple[str, int, str]]:
    with FaultServer(faults=0.5, seed=seed, kinds=("500", "429"), wait=0.0) as server:
        for n in range(10):
            for _ in range(4):
                try:
                    ask(f"{server.url}/rerank", {"query": str(n), "documents": ["x"]})
                except urllib.error.HTTPError as error:
                    error.close()
        return [(request.digest, request.attempt, request.fault) for request in server.log]


def test_faults_are_drawn_from_seed_content_and_attempt() -> None:
    one = faults_of(1)
    assert one == faults_of(1) != faults_of(2)
    assert {fault for _, _, fault in one} == {"", "500", "429"}
    assert {fault for _, attempt, fault in one if attempt == 4} == {""}


def test_it_runs_by_itself(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(fault_server.__file__)), "--log", str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        ask(f"{url}/rerank", {"query": "q", "documents": ["x"]})
        process.terminate()
    [line] = (tmp_path / "log").read_text().splitlines()
    assert json.loads(line)["path"] == "/v1/rerank"
