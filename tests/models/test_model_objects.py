"""Models as objects: what may play a role, how it is named, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragsmith import check_models
from ragsmith.errors import UsageError
from ragsmith.models.embedded.late_interaction import LateInteractionScorer
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.loading import ModelName, ModelNames, load_models
from ragsmith.models.model_objects import partition_models


def nothing(*_: Any, **__: Any) -> None:
    raise AssertionError("no model is asked here")


CHAT = SimpleNamespace(id="my chat", complete=nothing)
TASKS = SimpleNamespace(id="my tasks", run=nothing, run_all=nothing)


def test_names_and_objects_stand_side_by_side(embedder: WordLlamaEmbedder) -> None:
    named = ModelName("openai:tiny", in_flight=4)
    names, objects = partition_models(
        {"language_model": CHAT, "judge": named, "embedder": embedder, "cross_encoder": "none"}
    )
    assert names == {
        "language_model": "given:my chat",
        "judge": named,
        "embedder": f"given:{embedder.id}",
        "cross_encoder": "none",
    }
    assert objects == {"language_model": CHAT, "embedder": embedder}


def test_objects_play_their_roles_and_those_that_follow(embedder: WordLlamaEmbedder) -> None:
    scorer = LateInteractionScorer(embedder, ["a text"])
    names, objects = partition_models(
        {"language_model": CHAT, "controller": TASKS, "embedder": embedder, "cross_encoder": scorer}
    )
    models = load_models(ModelNames().overridden(names), ["a text"], objects)
    assert (models.language_model, models.judge, models.asked) == (CHAT, CHAT, TASKS)
    assert (models.embedder, models.cross_encoder) == (embedder, scorer)
    assert models.ids()["language_model"] == "my chat"


def test_where_an_object_is_nobody_knows() -> None:
    names = ModelNames().overridden(partition_models({"judge": TASKS})[0])
    assert (names.embedded, names.waits) == (False, True)
    assert ModelNames.from_dict(names.to_dict()) == names


def test_a_record_of_an_object_cannot_be_taken_for_another_model() -> None:
    names, _ = partition_models({"language_model": SimpleNamespace(id="openai:tiny", complete=nothing)})
    with pytest.raises(UsageError, match=r"language model openai:tiny was an object.*models=\{'language_model': ...\}"):
        load_models(ModelNames().overridden(names), [])


def test_an_absent_object_does_not_answer() -> None:
    [checked] = [c for c in check_models(ModelNames(embedder="given:mine")) if c.role == "embedder"]
    assert "the embedder mine was an object in Python" in checked.problem


@pytest.mark.parametrize(
    ("role", "model", "message"),
    [
        ("llm", CHAT, "there is no role 'llm' for a model; .*language_model"),
        ("language_model", {"model": "openai:x"}, r"is a dict, which lacks complete\(\) or run\(\) and run_all\(\)"),
        ("judge", SimpleNamespace(id="x", run=nothing), r"the judge is a SimpleNamespace, which lacks"),
        ("embedder", CHAT, r"the embedder is a SimpleNamespace, which lacks embed\(\)"),
        ("cross_encoder", CHAT, r"the reranker is a SimpleNamespace, which lacks score\(\)"),
        ("embedder", SimpleNamespace(embed=nothing), "without an 'id'"),
        ("embedder", SimpleNamespace(embed=nothing, id=" "), "without an 'id'"),
        ("embedder", SimpleNamespace(embed=nothing, id="two\nlines"), "without an 'id'"),
    ],
)
def test_what_cannot_play_a_role_is_refused(role: str, model: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        partition_models({role: model})


def test_models_of_llama_index_are_wrapped_once() -> None:
    core = pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    chat, vectors = core.llms.MockLLM(max_tokens=8), core.MockEmbedding(embed_dim=4)
    names, objects = partition_models({"language_model": chat, "judge": chat, "embedder": vectors})
    assert objects["language_model"] is objects["judge"]
    assert str(names["language_model"]).startswith("given:llama_index:MockLLM:")
    assert objects["embedder"].embed(["a text"]).shape == (1, 4)
    for role, model in (("embedder", chat), ("language_model", vectors), ("cross_encoder", chat)):
        with pytest.raises(UsageError, match="which lacks"):
            partition_models({role: model})
