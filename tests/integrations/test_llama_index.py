"""LlamaIndex: pipelines as its retrievers and query engines, its documents as data sets, its models as ours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
import yaml

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed: pip install 'ragsmith[llama-index]'")

from llama_index.core import Document
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.response.schema import Response
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata, MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.schema import MetadataMode, QueryBundle
from pydantic import Field, SecretStr

from ragsmith.datasets.dataset import load_dataset, validate_dataset
from ragsmith.errors import (
    DatasetError,
    ModelError,
    ModelUnavailable,
    Notice,
    RefusedContent,
    StageFailed,
    UsageError,
)
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.pipeline import Pipeline
from ragsmith.gateway.gateway import Gateway
from ragsmith.integrations.llama_index import (
    as_query_engine,
    as_retriever,
    dataset_from_documents,
    write_documents,
)
from ragsmith.models.embedded.late_interaction import LateInteractionScorer
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.llama_index import LlamaIndexChat, LlamaIndexEmbedder
from ragsmith.models.roles import Models
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.techniques.families import passage_filter
from ragsmith.types import Hits, Modality, Question

QUESTION = "How high is the lighthouse of Marrow?"
MakePipeline = Callable[..., Candidate]


@pytest.fixture
def exported(tiny_setup: Experiment, pipeline: MakePipeline) -> Pipeline:
    return Pipeline(pipeline(passage_augment="prev_next", passage_filter=("top_k", {"k": 2})), tiny_setup)


# A pipeline in LlamaIndex


def test_a_retriever_finds_what_the_pipeline_finds(exported: Pipeline) -> None:
    nodes = as_retriever(exported).retrieve(QUESTION)
    passages = exported.run(QUESTION).outputs["passage_augment"].value
    spans = list(dict.fromkeys(span for passage in passages for span in passage.sources))
    assert [(n.metadata["doc"], n.metadata["start"], n.metadata["end"]) for n in nodes] == [
        (span.doc, span.start, span.end) for span in spans
    ]
    texts = {document.id: document for document in exported.setup.dataset.documents}
    for found in nodes:
        doc, start, end = (found.metadata[name] for name in ("doc", "start", "end"))
        assert found.text == texts[doc].text[start:end]
        assert found.metadata["title"] == texts[doc].title
        assert (found.node.ref_doc_id, found.node.get_node_info()) == (doc, {"start": start, "end": end})
        assert "cited" not in found.metadata
        assert found.score == max(p.score for p in passages for s in p.sources if (s.doc, s.start) == (doc, start))
    assert "forty metres" in nodes[0].text


def test_a_retriever_does_not_generate(exported: Pipeline) -> None:
    as_retriever(exported).retrieve(QUESTION)
    assert exported.engine.gateway.counts()["language_model"].asked == 0
    as_query_engine(exported).query(QUESTION)
    assert exported.engine.gateway.counts()["language_model"].asked > 0


def test_a_query_engine_answers_as_ask_does(exported: Pipeline) -> None:
    reply = exported.ask(QUESTION)
    response = as_query_engine(exported).query(QUESTION)
    assert isinstance(response, Response)
    assert response.response == str(response) == reply.answer
    assert [
        (*(found.metadata[name] for name in ("doc", "title", "start", "end", "cited")), found.text)
        for found in response.source_nodes
    ] == [(s.doc, s.title, s.start, s.end, s.cited, s.text) for s in reply.sources]
    assert any(found.metadata["cited"] for found in response.source_nodes)
    assert response.metadata == {found.node_id: found.metadata for found in response.source_nodes}


def test_ids_are_those_of_the_place_and_text(tiny_setup: Experiment, pipeline: MakePipeline) -> None:
    def found(k: int, retrieval: str) -> dict[tuple[str, int, int], str]:
        candidate = pipeline(passage_filter=("top_k", {"k": k}), retrieval=retrieval)
        nodes = as_retriever(Pipeline(candidate, tiny_setup)).retrieve(QUESTION)
        return {(n.metadata["doc"], n.metadata["start"], n.metadata["end"]): n.node_id for n in nodes}

    few, many = found(2, "bm25"), found(20, "vector")
    assert few.items() <= many.items()
    assert len(set(many.values())) == len(many) == 20
    assert all(str(UUID(id_)) == id_ for id_ in many.values())


def test_a_model_that_reads_a_node_sees_its_title_alone(exported: Pipeline) -> None:
    found = as_retriever(exported).retrieve(QUESTION)[0]
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert found.node.get_content(mode) == f"title: {found.metadata['title']}\n\n{found.text}"


def test_llama_index_can_answer_with_its_own_model_from_our_passages(exported: Pipeline) -> None:
    engine = RetrieverQueryEngine(as_retriever(exported), CompactAndRefine(llm=MockLLM(max_tokens=3)))
    response = engine.query(QUESTION)
    assert str(response) == "text text text"
    assert len(response.source_nodes) == len(as_query_engine(exported).retrieve(QueryBundle(QUESTION)))


def test_async_methods_agree_and_do_not_hold_up_the_loop(
    tiny_setup: Experiment, pipeline: MakePipeline, registered: Callable[..., Any]
) -> None:
    waiting, released = threading.Barrier(2), threading.Event()

    def patient(question: Question, hits: Hits) -> Hits:
        """Keep three, when it is told to go on."""
        if question.text == QUESTION:
            waiting.wait(10)
            assert released.wait(10)
        return hits[:3]

    registered(passage_filter, patient)
    slow = Pipeline(pipeline(passage_filter="patient"), tiny_setup)

    async def ask() -> tuple[Any, Any]:
        asked = asyncio.create_task(as_query_engine(slow).aquery(QUESTION))
        await asyncio.to_thread(waiting.wait, 10)  # the pipeline has begun and waits; the loop is free
        other = await as_retriever(slow).aretrieve("When does the market open?")
        assert not asked.done()
        released.set()
        return await asked, other

    response, nodes = asyncio.run(ask())
    assert str(response) == slow.ask(QUESTION).answer
    assert [n.node_id for n in nodes] == [n.node_id for n in as_retriever(slow).retrieve("When does the market open?")]


@pytest.mark.parametrize("question", ["", " \n"])
def test_a_blank_question_is_refused(exported: Pipeline, question: str) -> None:
    with pytest.raises(UsageError, match="the question is blank"):
        as_retriever(exported).retrieve(question)
    with pytest.raises(UsageError, match="the question is blank"):
        as_query_engine(exported).query(question)
    with pytest.raises(UsageError, match="the question is blank"):
        asyncio.run(as_query_engine(exported).aquery(question))


def test_a_stage_that_fails_is_named(
    tiny_setup: Experiment, pipeline: MakePipeline, registered: Callable[..., Any]
) -> None:
    def broken(question: Question, hits: Hits) -> Hits:
        """Raise."""
        raise ValueError("no passage is good enough")

    registered(passage_filter, broken)
    failing = Pipeline(pipeline(passage_filter="broken"), tiny_setup)
    with pytest.raises(StageFailed, match=r"passage_filter\.broken: ValueError: no passage is good enough"):
        as_retriever(failing).retrieve(QUESTION)
    with pytest.raises(StageFailed, match=r"passage_filter\.broken"):
        asyncio.run(as_query_engine(failing).aquery(QUESTION))


# Documents of LlamaIndex's readers


def read(name: str, text: str, **metadata: Any) -> Document:
    return Document(text=text, doc_id=name, metadata=metadata)


def test_documents_become_the_documents_of_a_data_set(tmp_path: Path) -> None:
    folder = tmp_path / "my data!"
    written = write_documents(
        [
            read("u1", "# Ferry\n\nAt seven.", file_name="ferry.md"),
            read("u2", "Page one.", file_name="Report 2024.pdf", page_label="1"),
            read("u3", "Page two.", file_name="Report 2024.pdf", page_label="2"),
            read("https://example.org/a/b?c=1", "A page of the web.", title="The\x07 web\n page"),
            read("u5", "def f():\n    return 1\n", file_name="pump.py"),
            read("../../etc/passwd", "Not there."),
            read("u7", "The other ferry.", file_name="FERRY.txt"),
            read("image", "  \n"),
        ],
        folder,
    )
    ids = ["ferry", "Report_2024_p1", "Report_2024_p2", "https_example.org_a_b_c_1", "pump.py", "etc_passwd", "FERRY-2"]
    assert [ours for _, ours in written.ids] == ids
    assert [theirs for theirs, _ in written.ids][:4] == ["u1", "u2", "u3", "https://example.org/a/b?c=1"]
    assert written.skipped == ("image",)
    assert [path.name for path in written.paths] == [id_ if id_ == "pump.py" else f"{id_}.md" for id_ in ids]
    assert sorted(written.paths) == sorted((folder / "documents").iterdir())
    assert sorted(path.name for path in folder.iterdir()) == ["dataset.yaml", "documents"]
    assert yaml.safe_load((folder / "dataset.yaml").read_text())["name"] == "my-data"
    (mistake,) = validate_dataset(folder)
    assert "questions.jsonl" in mistake
    (folder / "questions.jsonl").write_text(
        '{"id": "q", "question": "When?", "answer": "At seven.", "type": "fact", "evidence": '
        '[{"doc": "ferry", "start": 9, "end": 18, "text": "At seven."}]}\n'
    )
    documents = {document.id: document for document in load_dataset(folder).documents}
    assert set(documents) == set(ids)
    assert documents["ferry"].title == "Ferry"
    assert documents["https_example.org_a_b_c_1"].title == "The web page"
    assert documents["pump.py"].modality is Modality.CODE


def test_text_is_kept_but_for_characters_no_document_may_have(tmp_path: Path) -> None:
    text = "\ufeffline one\r\nzero\x00width\ttab \x1b[1m é \u2028 \x85 end"
    written = write_documents([read("d", text)], tmp_path / "data")
    stored = written.paths[0].read_bytes().decode()
    assert stored == "line one\r\nzero width\ttab  [1m é \u2028 \x85 end"
    assert dataset_from_documents([read("d", text)]).documents[0].text == stored


def binary(errors: str) -> str:
    return np.random.default_rng(7).integers(0, 256, 4000, dtype=np.uint8).tobytes().decode(errors=errors)


@pytest.mark.parametrize("text", [binary("ignore"), binary("replace"), "PK\x03\x04 and some words that it stores"])
def test_the_content_of_a_binary_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    documents = [Document(text="Words.", id_="fine"), Document(text=text, metadata={"file_name": "letter.docx"})]
    with pytest.raises(DatasetError, match=r"^document letter\.docx is the content of a binary file") as raised:
        write_documents(documents, tmp_path / "data")
    assert len(raised.value.mistakes) == 1
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="letter"):
        dataset_from_documents(documents)


def test_nothing_is_overwritten_and_nothing_left_behind(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    write_documents([read("d", "One.")], folder)
    with pytest.raises(UsageError, match="is not an empty folder"):
        write_documents([read("d", "Two.")], folder)
    assert (folder / "documents" / "d.md").read_text() == "One."
    with pytest.raises(UsageError, match="none of the 1 documents has text"):
        write_documents([read("d", " ")], tmp_path / "other")
    with pytest.raises(DatasetError, match="'name' must be letters"):
        write_documents([read("d", "One.")], tmp_path / "other", name="no/name")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_equal_ids_are_told_apart(tmp_path: Path) -> None:
    names = ["a" * 80, "a" * 70, "CON:*?", "...", "Ä", "a\u0308".upper()]
    written = write_documents([read(name, f"Text {i}.") for i, name in enumerate(names)], tmp_path / "data")
    assert [ours for _, ours in written.ids] == ["a" * 60, "a" * 60 + "-2", "CON", "document", "Ä", "Ä-2"]


def test_a_pipeline_may_be_asked_about_documents_without_questions(pipeline: MakePipeline) -> None:
    data = dataset_from_documents(
        [read("a", "The tower is nine metres high."), read("b", "The bridge was built in 1900.")], name="towers"
    )
    assert (data.name, data.examples) == ("towers", ())
    response = as_query_engine(Pipeline(pipeline(), Experiment(data))).query("When was the bridge built?")
    assert "1900" in str(response)
    assert response.source_nodes[0].metadata["doc"] == "b"


# Models of LlamaIndex


class Said(CustomLLM):
    """A language model with prepared replies."""

    replies: list[Any]
    model: str = "said-1"
    temperature: float = 0.1
    max_tokens: int | None = None
    api_key: str = "sk-very-secret-0123456789"
    api_base: str = "http://localhost:1"
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    asked: list[tuple[str, int | None]] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name=self.model)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        self.asked.append((prompt, self.max_tokens))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, CompletionResponse) else CompletionResponse(text=reply)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError


class Refusing(Exception):
    status_code = 401


class Rejecting(Exception):
    status_code = 400


def ask(model: Said, max_tokens: int = 8) -> Any:
    return LlamaIndexChat(model).complete("Say it.", max_tokens=max_tokens, sample=0)


def test_a_language_model_completes_within_the_limit_of_the_task() -> None:
    model = Said(replies=["It.", "It.", "It."])
    assert ask(model).text == "It."
    assert ask(model.model_copy(update={"max_tokens": 5})).text == "It."
    assert ask(model.model_copy(update={"max_tokens": 50})).text == "It."
    assert model.asked == [("Say it.", 8), ("Say it.", 5), ("Say it.", 8)]
    assert model.max_tokens is None


def test_a_reply_that_was_cut_at_the_models_own_limit_says_which() -> None:
    cut = CompletionResponse(text="It.", raw={"stop_reason": "max_tokens"})
    assert ask(Said(replies=[cut], max_tokens=5)).cut_at == 5


@pytest.mark.parametrize(
    ("text", "raw", "cut_at"),
    [
        ("<think>Three?</think>It.", {"choices": [{"finish_reason": "stop"}]}, 0),
        ("It.", {"choices": [{"finish_reason": "length"}]}, 8),
        ("It.", {"stop_reason": "max_tokens"}, 8),
        ("It.", {"done_reason": "length"}, 8),
        ("It.<think>Thr", None, 0),
        ("<think>Thr", None, 8),
    ],
)
def test_thoughts_are_taken_off_and_a_reply_that_was_cut_says_so(text: str, raw: Any, cut_at: int) -> None:
    reply = ask(Said(replies=[CompletionResponse(text=text, raw=raw)]))
    assert (reply.text, reply.cut_at) == (
        "" if text == "<think>Thr" else text.removeprefix("<think>Three?</think>"),
        cut_at,
    )


def test_requests_that_are_rejected_alone_do_not_make_a_provider_count_as_down() -> None:
    chat = LlamaIndexChat(Said(replies=[*[Rejecting()] * 9, "It."]))
    for _ in range(9):
        with pytest.raises(RefusedContent, match="HTTP 400"):
            chat.complete("Say it.", max_tokens=8, sample=0)
    assert chat.complete("Say it.", max_tokens=8, sample=0).text == "It."


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        ({}, (0, 0)),
        ({"additional_kwargs": {"prompt_tokens": 12, "completion_tokens": 3}}, (12, 3)),
        ({"raw": {"usage": {"input_tokens": 7, "output_tokens": 2}}}, (7, 2)),
        ({"raw": {"prompt_eval_count": 5, "eval_count": 1}}, (5, 1)),
        ({"raw": {"usage": {"prompt_tokens": -1, "completion_tokens": True}}}, (0, 0)),
    ],
)
def test_tokens_are_counted_where_the_provider_says_them(said: dict[str, Any], tokens: tuple[int, int]) -> None:
    usage = ask(Said(replies=[CompletionResponse(text="It.", **said)])).usage
    assert (usage.input_tokens, usage.output_tokens) == tokens
    assert (usage.calls, usage.seconds >= 0) == (1, True)


def test_an_id_says_what_determines_a_reply_and_nothing_else() -> None:
    model = Said(replies=[], additional_kwargs={"top_p": 0.5, "extra_headers": {"x": "secret"}})
    base = LlamaIndexChat(model).id
    assert base.startswith("llama_index:Said:said-1:")
    assert base.endswith("@temperature=0.1")
    assert "secret" not in base
    same = {"api_key": "other", "api_base": "http://elsewhere", "additional_kwargs": {"top_p": 0.5, "timeout": 3}}
    for name, value in same.items():
        assert LlamaIndexChat(model.model_copy(update={name: value})).id == base
    different = {"model": "said-2", "temperature": 0.7, "system_prompt": "Be brief.", "additional_kwargs": {"top_p": 1}}
    ids = {LlamaIndexChat(model.model_copy(update={name: value})).id for name, value in different.items()}
    assert len(ids | {base}) == 5
    hidden = [LlamaIndexChat(model.model_copy(update={"output_parser": SecretStr(text)})).id for text in "ab"]
    assert hidden[0] == hidden[1]


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        ("  ", ModelError, "the reply has no text"),
        ("half a \ud83d", ModelError, "not valid Unicode"),
        (TimeoutError("sk-very-secret"), ModelError, "TimeoutError$"),
        (Refusing("sk-very-secret"), ModelUnavailable, r"Refusing \(HTTP 401\): the provider refuses the key"),
    ],
)
def test_what_is_no_reply_is_an_error_without_secrets(reply: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        ask(Said(replies=[CompletionResponse.model_construct(text=reply) if isinstance(reply, str) else reply]))
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_provider_that_fails_again_and_again_is_down() -> None:
    chat = LlamaIndexChat(Said(replies=[*[OSError()] * 4, "It.", *[OSError()] * 5]))
    errors: list[type[Exception]] = []
    for _ in range(10):
        try:
            chat.complete("Say it.", max_tokens=8, sample=0)
        except (ModelError, ModelUnavailable) as error:
            errors.append(type(error))
    assert errors == [ModelError] * 8 + [ModelUnavailable]


class Vectors(BaseEmbedding):
    """An embedder with a vector for every text; a function may spoil them."""

    spoil: Any = None
    instruction: str = ""
    asked: list[str] = Field(default_factory=list)

    def _get_text_embedding(self, text: str) -> list[float]:
        self.asked.append(text)
        numbers = np.array([len(text), 3.0, text.count("e")])
        return list(numbers / np.linalg.norm(numbers))

    def _get_text_embeddings(self, texts: list[str]) -> Any:
        found = [self._get_text_embedding(text) for text in texts]
        return self.spoil(found) if self.spoil else found

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(f"query: {query}")

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


def test_an_embedder_gives_unit_vectors_of_texts_and_queries() -> None:
    model = Vectors(model_name="v", embed_batch_size=2)
    embedder = LlamaIndexEmbedder(model)
    texts = ["one", "a sentence", " ", "here"]
    vectors = embedder.embed(texts)
    assert (vectors.shape, vectors.dtype) == ((4, 3), np.float32)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 0, 1])
    raw = np.array([3.0, 3.0, 1.0])
    assert vectors[0] == pytest.approx(raw / np.linalg.norm(raw))
    assert " " not in model.asked
    assert embedder.embed_queries(["one"]) == pytest.approx(embedder.embed(["query: one"]))
    assert embedder.embed(["", "\n"]).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert len(embedder.embed([])) == 0


def test_vectors_of_any_length_become_units_and_that_is_said_once() -> None:
    huge = LlamaIndexEmbedder(Vectors(model_name="huge", spoil=lambda found: [[1e300, 1e300, 0.0] for _ in found]))
    with pytest.warns(Notice, match="llama_index:Vectors:huge:.* gives vectors that do not have length 1") as said:
        assert huge.embed(["a"])[0] == pytest.approx([0.5**0.5, 0.5**0.5, 0])
    assert len(said) == 1
    assert huge.embed(["b"])[0] == pytest.approx([0.5**0.5, 0.5**0.5, 0])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda found: found[:-1], r"an array of shape \(1, 3\) for 2 texts"),
        (lambda found: [], "for 2 texts"),
        (lambda found: [[] for _ in found], "for 2 texts"),
        (lambda found: [found[0][:-1], *found[1:]], "differ in length"),
        (lambda found: [["a", "b"] for _ in found], "values that are not numbers|ValidationError"),
        (lambda found: [[float("nan"), 1.0, 1.0] for _ in found], "NaN or infinity"),
        (lambda found: [[0.0, 0.0, 0.0] for _ in found], "a vector is zero"),
        (lambda found: [[*row, 1.0] for row in found], "the vectors have 4 numbers; expected 3, as before"),
    ],
)
def test_vectors_that_are_none_are_errors(spoil: Callable[[Any], Any], message: str) -> None:
    model = Vectors()
    embedder = LlamaIndexEmbedder(model)
    embedder.embed(["before"])
    model.spoil = spoil
    with pytest.raises(ModelError, match=message):
        embedder.embed(["one", "two"])


def test_an_embedder_is_known_by_what_shapes_its_vectors() -> None:
    ids = [
        LlamaIndexEmbedder(Vectors(**settings)).id
        for settings in ({}, {"embed_batch_size": 3}, {"num_workers": 2}, {"model_name": "w"}, {"instruction": "Find:"})
    ]
    assert ids[0].startswith("llama_index:Vectors:unknown:")
    assert ids[0] == ids[1] == ids[2]
    assert len(set(ids)) == 3


def test_a_pipeline_runs_on_models_of_llama_index(tiny_setup: Experiment, pipeline: MakePipeline) -> None:
    chat = Said(replies=["Forty metres [1]."])
    words = WordLlamaEmbedder()

    class Words(Vectors):
        def _get_text_embeddings(self, texts: Sequence[str]) -> Any:
            return words.embed(texts).tolist()

        def _get_query_embedding(self, query: str) -> Any:
            return words.embed([query])[0].tolist()

    texts = [chunk.text for chunk in tiny_setup.corpus.chunks]
    model = LlamaIndexChat(chat)
    models = Models(model, LlamaIndexEmbedder(Words()), LateInteractionScorer(words, texts), model)
    engine = Engine(tiny_setup.corpus, models, Gateway())
    trace = engine.answer(pipeline(), Question(QUESTION))
    assert trace.answer.text.startswith("Forty metres")
    assert trace.answer.cited == (0,)
    assert "forty metres high" in trace.hits[0].chunk.text
    plain = tiny_setup.engine().answer(pipeline(), Question(QUESTION))
    assert [hit.chunk.id for hit in trace.hits] == [hit.chunk.id for hit in plain.hits]
