"""Models by name and as objects: what may play a role, what is recorded, and what is refused."""

from __future__ import annotations

import os
import pickle
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from rows import rows

from ragsmith import check_models
from ragsmith.errors import UsageError
from ragsmith.models.embedded.late_interaction import LateInteractionScorer
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.loading import load_models
from ragsmith.models.names import ModelName, ModelNames, partition_models
from ragsmith.models.registry import find_option, option_names


@pytest.mark.parametrize(("role", "name"), rows("known names"))
def test_every_form_of_a_name(role: str, name: str) -> None:
    names = ModelNames().override({role: name})
    names.check()
    assert names.for_role(role) == ModelName(name)


@pytest.mark.parametrize(("role", "name", "said"), rows("unknown names"))
def test_an_unknown_name_is_answered_with_the_known_ones(role: str, name: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        ModelNames().override({role: name}).check()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_key_in_the_place_of_a_name_is_not_repeated() -> None:
    with pytest.raises(UsageError) as raised:
        ModelNames("sk-abcdefghijklmnopqrstuvwxyz0123456789").check()
    assert "abcdefghijkl" not in str(raised.value)


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("option", "value", "said"), rows("wrong values of options"))
def test_a_wrong_value_is_refused_and_no_secret_repeated(option: str, value: object, said: str) -> None:
    known = find_option(option, "")
    assert known is not None
    problem = known.problem(option, value)
    assert problem is not None
    assert said in problem
    assert "hush" not in problem.lower()
    with pytest.raises(UsageError):
        ModelName("x", **{option: value})


@pytest.mark.parametrize(("option", "value"), rows("right values of options"))
def test_a_right_value_is_taken(option: str, value: object) -> None:
    known = find_option(option, "")
    assert known is not None
    assert known.problem(option, value) is None
    assert ModelName("x", **{option: value}).options == {option: value}


@pytest.mark.parametrize(
    ("role", "model", "said"),
    [
        ("language_model", ModelName("extractive", in_flight=2), "the language model extractive has no option"),
        (
            "judge",
            ModelName("openai:x", dimensions=2),
            "the judge openai:x has no option 'dimensions': it has accept_model, answer_tokens, api_key_",
        ),
        ("embedder", ModelName("cohere:x", query_prefix="q"), "the embedder cohere:x has no option 'query_prefix'"),
        ("cross_encoder", ModelName("none", device="cpu"), "the reranker none has no option 'device': it has no opt"),
        ("embedder", ModelName("sentence-transformers:x", base_url="http://x"), "has no option 'base_url'"),
    ],
)
def test_an_option_that_a_model_has_not_is_refused(role: str, model: ModelName, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        ModelNames().override({role: model}).check()
    assert said in str(raised.value)


# --- roles -----------------------------------------------------------------------------------------------------------


def test_judge_and_controller_are_the_language_model_unless_named() -> None:
    names = ModelNames("openai:big", controller="openai:small")
    assert [names.for_role(role).name for role in ("language_model", "controller", "judge")] == [
        "openai:big",
        "openai:small",
        "openai:big",
    ]
    assert names.named_roles == ("language_model", "embedder", "cross_encoder", "controller")


def test_a_base_url_is_for_servers_of_ones_own_that_have_none() -> None:
    there, here = "http://there/v1", "http://here/v1"
    names = ModelNames(
        "openai:a", "cohere:b", ModelName("rerank:c", base_url=there), ModelName("openai:d", base_url=there), here
    )
    found = {role: names.for_role(role).options.get("base_url") for role in names.named_roles}
    assert found == {"language_model": here, "embedder": None, "cross_encoder": there, "judge": there}


def test_the_vector_store_is_that_of_the_flag_then_of_the_embedder_and_is_not_recorded() -> None:
    filed = ModelNames(embedder=ModelName("wordllama", vector_store="qdrant:here"))
    filed.check()
    assert [names.vector_store_address for names in (ModelNames(), filed)] == ["auto", "qdrant:here"]
    assert filed.override({}, vector_store="exact").vector_store_address == "exact"
    assert filed.override({"embedder": "wordllama"}).vector_store_address == "qdrant:here"
    assert filed.override({}, "http://there/v1", "exact").to_dict() == ModelNames().to_dict()
    with pytest.raises(UsageError, match="has no option 'vector_store'"):
        ModelNames(cross_encoder=ModelName("cohere:x", vector_store="exact")).check()
    with pytest.raises(UsageError, match="unknown vector store"):
        ModelNames(vector_store="chroma")


def test_a_base_url_that_overrides_is_for_every_openai_model() -> None:
    there, here = "http://there/v1", "http://here/v1"
    judge = ModelName("openai:d", base_url=there, in_flight=3)
    names = ModelNames(cross_encoder=ModelName("rerank:c", base_url=there), judge=judge).override({}, here)
    assert names.for_role("judge").options == {"base_url": here, "in_flight": 3}
    assert names.for_role("cross_encoder").options["base_url"] == there


def test_a_model_named_again_keeps_its_options_and_another_takes_none_over() -> None:
    names = ModelNames(embedder=ModelName("openai:e", dimensions=256))
    again = names.override({"embedder": ModelName("openai:e", base_url="http://here")}).for_role("embedder")
    assert again == ModelName("openai:e", dimensions=256, base_url="http://here")
    assert names.override({"embedder": "openai:e"}) == names
    assert names.override({"embedder": "openai:f"}).for_role("embedder") == ModelName("openai:f")


@pytest.mark.parametrize(
    ("names", "embedded", "heavy", "workers"),
    [
        (ModelNames(), True, False, os.cpu_count()),
        (ModelNames(cross_encoder="none"), True, False, os.cpu_count()),
        (ModelNames(judge="openai:x"), False, False, 64),
        (ModelNames(controller="openai:x"), False, False, 64),
        (ModelNames(controller=ModelName("openai:x", in_flight=4)), False, False, 64),
        (ModelNames(controller=ModelName("openai:x", in_flight=128)), False, False, 256),
        (ModelNames(embedder="cohere:x"), False, False, 64),
        (ModelNames(cross_encoder="rerank:x"), False, False, 64),
        (ModelNames(embedder="sentence-transformers:x"), True, True, 64),
    ],
)
def test_processes_are_for_models_that_are_here_and_light(
    names: ModelNames, embedded: bool, heavy: bool, workers: int
) -> None:
    assert (names.embedded, names.heavy, names.workers()) == (embedded, heavy, workers)
    assert names.prefers_threads == (heavy or not embedded)


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_a_record_says_what_determines_results_and_not_where_it_is_asked() -> None:
    names = ModelNames(
        ModelName("openai:a", base_url="http://here", api_key_env="MY_KEY", in_flight=2, attempts=2, deadline=3.0),
        ModelName("sentence-transformers:b", device="cuda", batch_size=8, revision="main", query_prefix="q: "),
        judge=ModelName("openai:c", context_window=4096),
    )
    assert names.to_dict() == {
        "language_model": "openai:a",
        "embedder": {"model": "sentence-transformers:b", "query_prefix": "q: ", "revision": "main"},
        "cross_encoder": "late_interaction",
        "judge": {"model": "openai:c", "context_window": 4096},
    }


VALUES = {
    "dimensions": st.integers(1, 4096),
    "context_window": st.integers(16, 10**6),
    "query_prefix": st.text(max_size=5),
    "document_prefix": st.text(max_size=5),
    "revision": st.text(max_size=5),
    "dtype": st.sampled_from(("float32", "float16", "bfloat16")),
    "in_flight": st.integers(1, 99),
    "base_url": st.just("http://localhost"),
    "device": st.just("cpu"),
}


@examples(max_examples=50)
@given(st.fixed_dictionaries({}, optional=VALUES))
def test_a_record_is_read_as_it_was_written_and_a_name_travels(options: dict[str, object]) -> None:
    names = ModelNames(embedder=ModelName("openai:e", **options))
    shaping = {option: value for option, value in options.items() if option in option_names(affecting_results=True)}
    kept = ModelNames.from_dict(names.to_dict())
    assert kept == ModelNames(embedder=ModelName("openai:e", **shaping))
    assert kept.to_dict() == names.to_dict()
    assert pickle.loads(pickle.dumps(names)) == names
    assert hash(names) == hash(pickle.loads(pickle.dumps(names)))


def test_every_option_that_shapes_results_is_one() -> None:
    assert set(option_names(affecting_results=True)) < set(option_names())


def test_a_name_without_options_is_the_same_however_it_is_written() -> None:
    assert ModelNames(ModelName("openai:x")) == ModelNames("openai:x")


def nothing(*_: Any, **__: Any) -> None:
    raise AssertionError("no model is asked here")


CHAT = SimpleNamespace(id="my chat", complete=nothing)
TASKS = SimpleNamespace(id="my tasks", run=nothing, run_all=nothing)


def test_some_models_are_names_and_others_objects(embedder: WordLlamaEmbedder) -> None:
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
    models = load_models(ModelNames().override(names), ["a text"], objects)
    assert (models.language_model, models.judge, models.technique_model) == (CHAT, CHAT, TASKS)
    assert (models.embedder, models.cross_encoder) == (embedder, scorer)
    assert models.ids()["language_model"] == "my chat"


def test_a_model_object_may_be_remote() -> None:
    names = ModelNames().override(partition_models({"judge": TASKS})[0])
    assert (names.embedded, names.prefers_threads) == (False, True)
    assert ModelNames.from_dict(names.to_dict()) == names


def test_a_record_of_an_object_cannot_be_taken_for_another_model() -> None:
    names, _ = partition_models({"language_model": SimpleNamespace(id="openai:tiny", complete=nothing)})
    with pytest.raises(
        UsageError, match=r"language model openai:tiny was a Python object.*models=\{'language_model': ...\}"
    ):
        load_models(ModelNames().override(names), [])


def test_an_absent_object_does_not_answer() -> None:
    [checked] = [c for c in check_models(ModelNames(embedder="given:mine")) if c.role == "embedder"]
    assert "the embedder mine was a Python object" in checked.problem


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
