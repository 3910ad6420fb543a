"""A pipeline finds the same in every framework: the same parts of documents, in one order, with the same metadata."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from ragsmith.errors import StageFailed, UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.genes import Candidate, configuration
from ragsmith.techniques.families import passage_filter
from ragsmith.types import Hits, Question

QUESTION = "How high is the lighthouse of Marrow?"
PLACE = ("doc", "title", "start", "end")
One = tuple[str, str, tuple[Any, ...], float]
"""Id, text, place and score of a part of a document."""


@dataclass(frozen=True)
class Framework:
    """How a framework asks a retriever, and reads what it gives."""

    package: str
    ask: Callable[[Any, str], Any]
    ask_later: Callable[[Any, str], Any]
    read: Callable[[Any], list[One]]


def place(metadata: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(metadata[name] for name in PLACE)


FRAMEWORKS = {
    "llama_index": Framework(
        "llama_index.core",
        lambda retriever, question: retriever.retrieve(question),
        lambda retriever, question: retriever.aretrieve(question),
        lambda nodes: [(one.node_id, one.text, place(one.metadata), one.score) for one in nodes],
    ),
    "langchain": Framework(
        "langchain_core",
        lambda retriever, question: retriever.invoke(question),
        lambda retriever, question: retriever.ainvoke(question),
        lambda found: [(one.id, one.page_content, place(one.metadata), one.metadata["score"]) for one in found],
    ),
    "haystack": Framework(
        "haystack",
        lambda retriever, question: retriever.run(question),
        lambda retriever, question: retriever.run_async(question),
        lambda found: [(one.id, one.content, place(one.meta), one.score) for one in found["documents"]],
    ),
}


@pytest.fixture(params=FRAMEWORKS)
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    chosen = str(request.param)
    pytest.importorskip(FRAMEWORKS[chosen].package, reason=f"needs the extra {chosen.replace('_', '-')}")
    return chosen


@pytest.fixture
def framework(name: str) -> Framework:
    return FRAMEWORKS[name]


@pytest.fixture
def retriever_of(name: str) -> Callable[[Pipeline], Any]:
    made: Callable[[Pipeline], Any] = importlib.import_module(f"ragsmith.integrations.{name}").as_retriever
    return made


@pytest.fixture
def exported(tiny_setup: Experiment, pipeline: Callable[..., Candidate]) -> Pipeline:
    return Pipeline(pipeline(passage_augment="prev_next", passage_filter=("top_k", {"k": 2})), tiny_setup)


def test_the_parts_are_those_of_the_pipeline_in_its_order(
    exported: Pipeline, framework: Framework, retriever_of: Callable[[Pipeline], Any]
) -> None:
    passages = exported.run(QUESTION).outputs["passage_augment"].value
    titles = {document.id: document.title for document in exported.setup.dataset.documents}
    texts = {document.id: document.text for document in exported.setup.dataset.documents}
    spans = list(dict.fromkeys(span for passage in passages for span in passage.sources))
    found = framework.read(framework.ask(retriever_of(exported), QUESTION))
    assert [(text, where, score) for _, text, where, score in found] == [
        (
            texts[span.doc][span.start : span.end],
            (span.doc, titles[span.doc], span.start, span.end),
            max(passage.score for passage in passages if span in passage.sources),
        )
        for span in spans
    ]
    assert len(found) > 1
    ids = [one[0] for one in found]
    assert [str(UUID(id_)) for id_ in ids] == ids
    assert len(set(ids)) == len(ids)


def test_nothing_is_generated(
    exported: Pipeline, framework: Framework, retriever_of: Callable[[Pipeline], Any]
) -> None:
    framework.ask(retriever_of(exported), QUESTION)
    assert exported.engine.gateway.counts()["language_model"].asked == 0


def test_asked_without_waiting_it_finds_the_same(
    exported: Pipeline, framework: Framework, retriever_of: Callable[[Pipeline], Any]
) -> None:
    retriever = retriever_of(exported)

    async def both() -> list[Any]:
        return await asyncio.gather(framework.ask_later(retriever, QUESTION), framework.ask_later(retriever, "eel"))

    lighthouse, eel = asyncio.run(both())
    assert framework.read(lighthouse) == framework.read(framework.ask(retriever, QUESTION))
    assert framework.read(eel) == framework.read(framework.ask(retriever, "eel"))
    assert lighthouse != eel


@pytest.mark.parametrize("question", ["", " \n"])
def test_a_blank_question_is_refused(
    exported: Pipeline, framework: Framework, retriever_of: Callable[[Pipeline], Any], question: str
) -> None:
    with pytest.raises(UsageError, match="the question is blank"):
        framework.ask(retriever_of(exported), question)


def test_a_stage_that_fails_is_named(
    tiny_setup: Experiment,
    pipeline: Callable[..., Candidate],
    registered: Callable[..., Any],
    framework: Framework,
    retriever_of: Callable[[Pipeline], Any],
) -> None:
    def broken(question: Question, hits: Hits) -> Hits:
        """Raise."""
        raise ValueError("no luck")

    registered(passage_filter, broken)
    with pytest.raises(StageFailed, match="passage_filter"):
        framework.ask(retriever_of(Pipeline(pipeline(passage_filter="broken"), tiny_setup)), QUESTION)


def test_langchain_chains_it(exported: Pipeline) -> None:
    pytest.importorskip("langchain_core", reason="needs the extra langchain")
    from langchain_core.runnables import RunnableLambda  # noqa: PLC0415

    from ragsmith.integrations.langchain import as_retriever  # noqa: PLC0415

    chain = as_retriever(exported) | RunnableLambda(lambda found: [one.metadata["doc"] for one in found])
    assert chain.batch([QUESTION, "eel"]) == [chain.invoke(QUESTION), chain.invoke("eel")]


def test_haystack_runs_it_in_a_pipeline_that_is_written_and_read(
    exported: Pipeline, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    haystack = pytest.importorskip("haystack", reason="needs the extra haystack")
    from ragsmith.integrations.haystack import HaystackRetriever, as_retriever  # noqa: PLC0415

    with pytest.raises(UsageError, match="has no file to serialise"):
        as_retriever(exported).to_dict()
    content = {
        "dataset": {"name": "island", "path": str(tiny_folder)},
        "chunk_size": exported.setup.chunk_size,
        "pipeline": configuration(exported.candidate),
    }
    (tmp_path / "winner.yaml").write_text(yaml.safe_dump(content))
    made = haystack.Pipeline()
    made.add_component("retriever", HaystackRetriever(tmp_path / "winner.yaml"))
    again = haystack.Pipeline.loads(made.dumps(), allowed_modules=["ragsmith.integrations.haystack"])
    asked = {"retriever": {"query": QUESTION}}
    assert again.run(asked) == made.run(asked)
    [first, *_] = again.run(asked)["retriever"]["documents"]
    assert "forty metres" in first.content
