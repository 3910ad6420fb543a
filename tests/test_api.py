"""Search and report from Python, on models that are objects of the caller's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
import yaml
from fault_replies import chat_reply
from fault_server import FaultServer
from stored import Locked

import ragsmith
from ragsmith.errors import BudgetExhausted, Notice, StageFailed, StoreError, UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.gateway.budget import Limits
from ragsmith.models.calls import Completion
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.protocols import Vectors
from ragsmith.models.usage import Usage
from ragsmith.records.record import RunRecord
from ragsmith.store.store import Store

SETTINGS = ragsmith.RunSettings(
    genetic=ragsmith.GeneticSettings(population=4, generations=1, elitism=1), max_evaluations=4, probes=False, test=True
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
def command(request: pytest.FixtureRequest) -> Any:
    """The command line, whose fixture has the name of the package."""
    return request.getfixturevalue("ragsmith")


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
        record = RunRecord.from_dict(run.value)
        assert record.model_names["language_model"] == f"given:{Chat.id}"
        assert record.models["embedder"] == Words.id


class Stretched(Words):
    """The same vectors, but for their lengths."""

    id = "my stretched vectors"
    slow = False

    def embed(self, texts: Sequence[str]) -> Vectors:
        return super().embed(texts) * np.float32(32)


def test_vectors_of_another_length_lead_to_the_same_results(here: dict[str, Any]) -> None:
    found = ragsmith.search(**here, models={"embedder": Words()}, workers=1)
    with pytest.warns(Notice, match="my stretched vectors gives vectors that do not have length 1") as said:
        scaled = ragsmith.search(**here, models={"embedder": Stretched()}, workers=1)
    assert len(said) == 1
    assert [(row.label, row.scores) for row in found.ranking] == [(row.label, row.scores) for row in scaled.ranking]
    assert [one.measures for one in found.records()] == [one.measures for one in scaled.records()]


def test_a_repeated_search_writes_the_same_files(here: dict[str, Any], tmp_path: Path) -> None:
    for name in ("computed", "from the cache"):
        ragsmith.search(**here, workers=1, reports=tmp_path / name)
    ragsmith.report(here["cache"], tmp_path / "read alone")
    first, *others = ((tmp_path / name / "island") for name in ("computed", "from the cache", "read alone"))
    names = {path.name for path in first.iterdir()} - {"winner.yaml"}
    csv = {"ranking.csv", "activity.csv", "groups.csv", "questions.csv", "effects.csv", "parts.csv", "interactions.csv"}
    assert {"report.md", "index.html", *csv} == names
    for other in others:
        assert {name for name in names if (first / name).read_bytes() != (other / name).read_bytes()} == set()


def test_objects_are_handed_over_again_to_the_pipeline(here: dict[str, Any], tmp_path: Path) -> None:
    ragsmith.search(**here, models={"language_model": Chat()})
    said = yaml.safe_load(here["winner"].read_text())["models"]
    assert said["language_model"] == f"given:{Chat.id}"
    assert said["ids"]["judge"] == Chat.id
    with pytest.raises(UsageError, match=r"version 3 was a Python object.*models=\{'language_model': ...\}"):
        ragsmith.Pipeline.load(here["winner"])
    chat = Chat()
    pipeline = ragsmith.Pipeline.load(here["winner"], models={"language_model": chat})
    assert pipeline.ask("Who founded the library?").sources
    assert pipeline.verify() == []
    assert chat.asked > 0
    other = ragsmith.Pipeline.load(here["winner"], models={"language_model": "extractive"})
    assert "Oda Lenz" in other.ask("Who founded the library?").answer
    assert set(other.changed_models()) == {"language_model", "judge"}


def test_a_loaded_pipeline_that_was_asked_through_a_cache_goes_on_with_what_it_has_built(here: dict[str, Any]) -> None:
    ragsmith.search(**here, models={"language_model": Chat(), "embedder": Words()})
    chat, words = Chat(), Words()
    pipeline = ragsmith.Pipeline.load(here["winner"], models={"language_model": chat, "embedder": words})
    cache = here["cache"].with_name("another.sqlite")
    first = ragsmith.ask(pipeline, "Who founded the library?", cache=cache)
    asked = chat.asked
    assert ragsmith.ask(pipeline, "Who founded the library?", cache=cache) == first
    assert chat.asked == asked, "the second answer is from the cache"
    built = pipeline.engine.index(pipeline.candidate[0])
    assert pipeline.ask("Who founded the library?") == first
    assert chat.asked > asked
    assert pipeline.engine.index(pipeline.candidate[0]) is built
    with Store.open(cache) as store, pipeline.remembering(store) as remembering:
        assert remembering.engine.index(pipeline.candidate[0]) is built


def test_what_could_not_be_written_is_written_when_a_pipeline_has_answered(here: dict[str, Any]) -> None:
    ragsmith.search(**here, models={"language_model": Chat()})
    pipeline = ragsmith.Pipeline.load(here["winner"], models={"language_model": Chat()})
    with Store.open(here["cache"].with_name("another.sqlite")) as store:
        locked: Any = Locked(store)
        with pytest.raises(StoreError, match="1 paid replies could not be"), pipeline.remembering(locked) as asked:
            asked.ask("Who founded the library?")
        with pipeline.remembering(locked) as asked:
            with pytest.raises(StageFailed, match="locked"):
                asked.ask("Who founded the library?")
            locked.locked = False
        assert store.statistics()["tables"]["model_call"]["rows"] > 0


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


def winner_of(folder: Path) -> bytes:
    return (folder / "reports" / "island" / "winner.yaml").read_bytes()


def test_flags_a_call_files_and_objects_find_the_same_winner_byte_for_byte(
    tmp_path: Path, tiny_folder: Path, tiny_space: Path, command: Any
) -> None:
    def places(name: str) -> dict[str, Any]:
        return {"cache": tmp_path / f"{name}.sqlite", "reports": tmp_path / name / "reports"}

    flags = {"--space": tiny_space, "--seed": 7, "--strategy": "random", "--max-evaluations": 6, "--chunk-size": 100}
    models = {"--llm": "extractive", "--embedder": "wordllama", "--reranker": "late_interaction"}
    there = {f"--{name}": place for name, place in places("flags").items()}
    given = [item for pair in (flags | models | there).items() for item in pair]
    ended = command("search", "--dataset", tiny_folder, *given, "--no-probes", "--workers", 1)
    assert ended.code == 0, ended.err

    same: dict[str, Any] = {"seed": 7, "strategy": "random", "max_evaluations": 6, "probes": False}
    same |= {"chunk_size": 100, "workers": 1}
    named = {"language_model": "extractive", "embedder": "wordllama", "cross_encoder": "late_interaction"}
    ragsmith.search(tiny_folder, space=tiny_space, models=named, **same, **places("call"))

    (tmp_path / "models.yaml").write_text("".join(f"{role}: {name}\n" for role, name in named.items()))
    (tmp_path / "space.yaml").write_text(tiny_space.read_text())
    files = {"space": tmp_path / "space.yaml", "models": tmp_path / "models.yaml"}
    ragsmith.search(str(tiny_folder), **files, **same, **places("files"))

    settings = ragsmith.RunSettings("random", seed=7, max_evaluations=6, probes=False)
    with Store.open(tmp_path / "objects.sqlite") as store:
        ragsmith.search(
            ragsmith.load_dataset(tiny_folder),
            space=ragsmith.load_space(tiny_space),
            models=ragsmith.ModelNames(),
            settings=settings,
            chunk_size=100,
            workers=1,
            cache=store,
            reports=tmp_path / "objects" / "reports",
        )
    assert {winner_of(tmp_path / name) for name in ("call", "files", "objects")} == {winner_of(tmp_path / "flags")}


def test_a_data_set_that_was_made_in_python_is_handed_over_again(here: dict[str, Any]) -> None:
    data = replace(ragsmith.load_dataset(here["dataset"]), source="")
    found = ragsmith.search(**here | {"dataset": data})
    assert set(yaml.safe_load(here["winner"].read_text())["dataset"]) == {"name", "digest"}
    with pytest.raises(UsageError, match=r"data set 'island' was an object in Python.*dataset=\.\.\., or write it"):
        ragsmith.Pipeline.load(here["winner"])
    loaded = ragsmith.Pipeline.load(here["winner"], dataset=data)
    assert loaded.expected == found.winner.expected
    assert loaded.verify() == []


def test_a_budget_holds_over_resumes(here: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with FaultServer() as server:
        models = {"language_model": "openai:tiny"}
        asked: dict[str, Any] = {"models": models, "base_url": server.url, "faithfulness": False, "workers": 8}
        for _ in range(2):
            with pytest.raises(BudgetExhausted, match="--max-calls 20"):
                ragsmith.search(**here, **asked, limits=ragsmith.Limits(calls=20))
            assert len(server.log) == 20
        with pytest.raises(UsageError, match=r"a limit on cost .* needs the price of openai:tiny"):
            ragsmith.search(**here, **asked, limits=ragsmith.Limits(cost=1.0))
        prices = {"openai:tiny": {"input": 1.0, "output": 2.0, "requests": 1000.0}}
        with pytest.raises(BudgetExhausted, match="--max-cost 30"):
            ragsmith.search(**here, **asked, limits=ragsmith.Limits(cost=30.0), prices=prices)
        assert 20 < len(server.log) <= 20 + 30  # the first twenty were sent when they had no price
        found = ragsmith.search(**here, **asked)
        assert found.state == "finished"
        assert found.spent.calls == len(server.log)


def test_a_search_tells_what_it_does(here: dict[str, Any]) -> None:
    started: list[Any] = []
    steps: list[Any] = []
    counts: list[tuple[int, ...]] = []
    ragsmith.search(**here, on_start=started.append, on_step=steps.append, on_progress=lambda *of: counts.append(of))
    assert [start.setup.dataset.name for start in started] == ["island"]
    assert steps[-1].phase == "test questions"
    assert counts[-1][0] == counts[-1][1]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"workers": 0}, "workers is 0: give at least 1"),
    ({"preset": "quick"}, "preset was given together with settings"),
    ({"settings": None, "preset": "quik"}, "unknown preset 'quik': did you mean 'quick'"),
    ({"strategy": "genetics"}, "unknown strategy 'genetics': did you mean 'genetic'"),
    ({"poulation": 4}, "search has no argument 'poulation': did you mean 'population'"),
    ({"max_evaluations": 0}, "max_evaluations is 0: give at least 1"),
    ({"time_limit": 0.0}, "time_limit is 0.0: give seconds above 0"),
    ({"prices": {"openai:x": {"inptu": 1}}}, "prices:1: unknown key 'inptu'; did you mean 'input'"),
    ({"models": "nowhere.yaml"}, "nowhere.yaml"),
    ({"models": {"llm": Chat()}}, "there is no role 'llm'"),
    ({"base_url": "http://127.0.0.1:9/v1"}, "there is none: name one"),
    ({"fitness": "nowhere.py:f"}, "the fitness 'nowhere.py:f' names the file nowhere.py, which is missing"),
]


@pytest.mark.parametrize(("wrong", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_cannot_be_is_refused_before_anything_is_done(
    here: dict[str, Any], wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        ragsmith.search(**here | wrong)
    assert not Path(here["cache"]).exists()


def test_a_report_an_export_scores_and_an_audit_are_calls_as_well(here: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no cache"):
        ragsmith.report(here["cache"], tmp_path)
    ragsmith.search(**here)
    written = ragsmith.report(here["cache"], tmp_path / "reports", here["dataset"])
    assert written.datasets == ("island",)
    winner = ragsmith.export(here["dataset"], cache=here["cache"], output=tmp_path / "again.yaml").path
    assert winner.read_bytes() == here["winner"].read_bytes()
    scores = ragsmith.evaluate(winner, cache=here["cache"], latency=True)
    assert {part: scored.failed for part, scored in scores.parts.items()} == {"search": 0, "test": 0}
    assert scores.latency[0].n == 24
    assert {found.state for found in scores.latency} == {"warm", "cold"}
    (timed,) = [
        its for its in ragsmith.report(here["cache"], tmp_path / "timed").reports[0].timed if its.name == "winner"
    ]
    assert timed.machine == scores.machine
    assert timed.latencies == tuple(found for found in scores.latency if found.questions == "all")
    assert "How long an answer takes" in (tmp_path / "timed" / "island" / "report.md").read_text()
    assert "How long an answer takes" not in (tmp_path / "reports" / "island" / "report.md").read_text()
    assert set(ragsmith.evaluate(winner, dataset=here["dataset"], cache=here["cache"]).parts) == {"all"}
    common = {name: here[name] for name in ("space", "chunk_size", "cache")}
    audited = ragsmith.audit(here["dataset"], **common, sample=6, workers=1, output=tmp_path / "audit.md")
    assert audited.questions == 6
    assert f"Audit of `{audited.space}` on `island`" in (tmp_path / "audit.md").read_text()
    with pytest.raises(UsageError, match=r"give others to Pipeline\.load"):
        ragsmith.ask(ragsmith.Pipeline.load(winner), "Who?", dataset="law")


def test_limits_without_a_model_that_is_asked_at_a_server_are_named(
    tiny_setup: Experiment, tiny_space: Path, tmp_path: Path
) -> None:
    with pytest.warns(Notice, match="limits apply to requests to servers"):
        ragsmith.search(
            tiny_setup.dataset,
            space=tiny_space,
            limits=Limits(calls=5),
            max_evaluations=1,
            probes=False,
            chunk_size=100,
            cache=tmp_path / "cache.sqlite",
        )
