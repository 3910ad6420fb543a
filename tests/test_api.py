"""Search and report from Python, on models that are objects of the caller's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import yaml
from fault_replies import chat_reply

import ragsmith
from ragsmith.errors import UsageError
from ragsmith.models.calls import Completion
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.protocols import Vectors
from ragsmith.models.usage import Usage
from ragsmith.runs.record import RunRecord
from ragsmith.store.store import Store

SETTINGS = ragsmith.RunSettings(
    genetic=ragsmith.GeneticSettings(population=4, generations=1, elitism=1), max_evaluations=4, compare=False
)


class Chat:
    """Somebody's own client: it cannot be copied to another process."""

    id = "my company's model, version 3"

    def __init__(self) -> None:
        self.lock = Lock()
        self.asked = 0

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        with self.lock:
            self.asked += 1
        return Completion(chat_reply(prompt), Usage(1, 0, 0, 12, 3))


class Words:
    id = "my vectors"
    slow = True

    def __init__(self) -> None:
        self.lock = Lock()
        self.asked = 0
        self._words = WordLlamaEmbedder()

    def embed(self, texts: Sequence[str]) -> Vectors:
        with self.lock:
            self.asked += len(texts)
            return self._words.embed(texts)


@pytest.fixture
def here(tmp_path: Path, tiny_folder: Path, tiny_space: Path) -> dict[str, Any]:
    """Arguments of a small search."""
    places = {"cache": tmp_path / "cache.sqlite", "winner": tmp_path / "winner.yaml"}
    return {"dataset": tiny_folder, "space": tiny_space, "settings": SETTINGS, "chunk_size": 100, **places}


def test_a_search_on_objects_asks_them_and_nothing_twice(here: dict[str, Any]) -> None:
    chat, words = Chat(), Words()
    first = ragsmith.search(**here, models={"language_model": chat, "embedder": words}, workers=4)
    assert first.state == "finished"
    assert chat.asked > 0
    assert words.asked > 0
    again, same = Chat(), Words()
    second = ragsmith.search(**here, models={"language_model": again, "embedder": same})
    assert (second.key, second.computed, again.asked, same.asked) == (first.key, 0, 0, 0)
    with Store.open(here["cache"]) as store:
        [run] = store.runs()
        record = RunRecord.read(run.value)
        assert record.model_names["language_model"] == f"given:{Chat.id}"
        assert record.models["embedder"] == Words.id


def test_a_repeated_search_writes_the_same_files(here: dict[str, Any], tmp_path: Path) -> None:
    for name in ("computed", "from the cache"):
        ragsmith.search(**here, workers=1, reports=tmp_path / name)
    ragsmith.report(here["cache"], tmp_path / "read alone")
    first, *others = ((tmp_path / name / "island") for name in ("computed", "from the cache", "read alone"))
    names = {path.name for path in first.iterdir()} - {"winner.yaml"}
    assert {"report.md", "index.html", "ranking.csv", "activity.csv", "groups.csv", "questions.csv"} == names
    for other in others:
        assert {name for name in names if (first / name).read_bytes() != (other / name).read_bytes()} == set()


def test_objects_are_handed_over_again_to_the_pipeline(here: dict[str, Any], tmp_path: Path) -> None:
    ragsmith.search(**here, models={"language_model": Chat()})
    said = yaml.safe_load(here["winner"].read_text())["models"]
    assert said["language_model"] == f"given:{Chat.id}"
    assert said["ids"]["judge"] == Chat.id
    with pytest.raises(UsageError, match=r"version 3 was an object in Python.*models=\{'language_model': ...\}"):
        ragsmith.Pipeline.load(here["winner"])
    chat = Chat()
    pipeline = ragsmith.Pipeline.load(here["winner"], models={"language_model": chat})
    assert pipeline.ask("Who founded the library?").sources
    assert pipeline.verify() == []
    assert chat.asked > 0
    other = ragsmith.Pipeline.load(here["winner"], models={"language_model": "extractive"})
    assert "Oda Lenz" in other.ask("Who founded the library?").answer
    assert set(other.changed_models()) == {"language_model", "judge"}


def test_objects_that_compute_stay_in_this_process(here: dict[str, Any]) -> None:
    class Here(WordLlamaEmbedder):
        """No worker process could import it."""

    outcome = ragsmith.search(**here, models={"embedder": Here()}, workers=2)
    assert outcome.state == "finished"


def test_a_search_on_models_of_llama_index(here: dict[str, Any]) -> None:
    llms = pytest.importorskip("llama_index.core.llms", reason="llama-index-core is not installed")

    class Said(llms.CustomLLM):  # type: ignore[misc,name-defined]
        @property
        def metadata(self) -> Any:
            return llms.LLMMetadata(model_name="said")

        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            return llms.CompletionResponse(text=chat_reply(prompt))

        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            raise NotImplementedError

    ragsmith.search(**here, models={"language_model": Said()})
    assert yaml.safe_load(here["winner"].read_text())["models"]["language_model"].startswith("given:llama_index:Said:")
    pipeline = ragsmith.Pipeline.load(here["winner"], models={"language_model": Said()})
    assert pipeline.verify() == []


def test_a_wrong_role_is_refused_before_anything_is_done(here: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="there is no role 'llm'"):
        ragsmith.search(**here, models={"llm": Chat()})
    assert not Path(here["cache"]).exists()
