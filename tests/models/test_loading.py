"""From names to models: clients, servers and keys; nothing is sent, and no secret is said."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from fault_server import FaultServer

from ragsmith.errors import MissingExtra, ModelUnavailable, UsageError
from ragsmith.models.calls import is_chat_model
from ragsmith.models.loading import Loader, Server, SharedModels, load_models, server_for
from ragsmith.models.names import ModelName, ModelNames

KEY = "secret-0123456789"
TEXTS = ("The ferry leaves at seven.", "Smoked eel is sold by weight.")
VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "CO_API_KEY", "COHERE_API_KEY", "JINA_API_KEY", "MY_KEY", "OTHER_KEY")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def test_the_embedded_models() -> None:
    models = load_models(ModelNames(), TEXTS)
    assert [model_id.partition(":")[0] for model_id in models.ids().values()] == [
        "extractive",
        "wordllama",
        "late-interaction",
        "extractive",
    ]
    assert models.judge is models.language_model
    assert models.controller is None
    assert not models.prefers_threads


def test_word_vectors_are_read_once_a_process_however_many_corpora_it_has() -> None:
    one, other = load_models(ModelNames(), TEXTS), load_models(ModelNames(), ["Another corpus."])
    assert one.embedder is other.embedder
    assert one.language_model is not other.language_model


def test_every_role_gets_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "CO_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    names = ModelNames("openai:big", "cohere:embed-v4.0", "cohere:rerank-v3.5", "extractive", controller="openai:small")
    models = load_models(names, TEXTS)
    assert {role: model_id.partition("@")[0].partition(":")[::2] for role, model_id in models.ids().items()} == {
        "language_model": ("openai", "big"),
        "embedder": ("cohere", "embed-v4.0"),
        "cross_encoder": ("cohere", "rerank-v3.5"),
        "judge": ("extractive", models.ids()["judge"].partition(":")[2]),
        "controller": ("openai", "small"),
    }
    assert is_chat_model(models.language_model)
    assert not is_chat_model(models.judge)
    assert models.prefers_threads
    assert KEY not in str(models.ids())


def test_models_at_one_server_with_one_key_share_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    here = "http://127.0.0.1:1/v1"
    names = ModelNames(
        ModelName("openai:big", base_url=here, in_flight=3),
        ModelName("openai:e", base_url=here + "/"),
        ModelName("rerank:r", base_url=here),
        ModelName("openai:big", base_url="http://127.0.0.1:2/v1"),
        controller=ModelName("openai:small", base_url=here, in_flight=3, deadline=9.0),
    )
    models: Any = load_models(names, TEXTS)
    assert models.language_model.provider is models.embedder.provider is models.controller.provider
    assert models.cross_encoder.provider is not models.embedder.provider  # it has no key
    assert models.judge.provider is not models.language_model.provider
    policy = models.embedder.provider.policy
    assert (policy.in_flight, policy.deadline, policy.attempts) == (3, 9.0, 5)
    assert models.judge.provider.policy.in_flight is None


def test_different_limits_of_one_server_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    names = ModelNames(ModelName("openai:a", in_flight=3), judge=ModelName("openai:b", in_flight=4))
    with pytest.raises(UsageError, match=r"^in_flight is 3 for the language model and 4 for the judge, which share"):
        load_models(names, TEXTS)


def test_roles_at_two_servers_send_each_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "mine-0123456789")
    monkeypatch.setenv("OTHER_KEY", "other-0123456789")
    with FaultServer() as one, FaultServer() as two:
        models: Any = load_models(
            ModelNames(
                ModelName("openai:a", base_url=one.url, api_key_env="MY_KEY", context_window=4096),
                ModelName("openai:e", base_url=two.url, api_key_env="OTHER_KEY"),
            ),
            TEXTS,
        )
        models.language_model.complete("Hello", max_tokens=8, sample=0)
        models.embedder.embed(["Hello"])
        assert one.log[0].headers["authorization"] == "Bearer mine-0123456789"
        assert two.log[0].headers["authorization"] == "Bearer other-0123456789"
        assert models.language_model.id == "openai:a@temperature=0@context_window=4096"
        for model in (models.language_model, models.embedder):
            model.provider.close()


# --- servers ---------------------------------------------------------------------------------------------------------


def test_where_servers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.setenv(variable, f"{variable.lower()}-value")
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert server_for(ModelName("openai:x"), "judge") == Server("https://api.openai.com/v1", "openai_api_key-value")
    assert server_for(ModelName("cohere:x"), "embedder") == Server("https://api.cohere.com", "co_api_key-value")
    assert server_for(ModelName("jina:x"), "cross_encoder") == Server("https://api.jina.ai/v1", "jina_api_key-value")
    own = ModelName("rerank:x", base_url="http://127.0.0.1:8080/")
    assert server_for(own, "cross_encoder") == Server("http://127.0.0.1:8080")
    keyed = ModelName("rerank:x", base_url="http://127.0.0.1:8080", api_key_env="MY_KEY")
    assert server_for(keyed, "cross_encoder") == Server("http://127.0.0.1:8080", "my_key-value")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1")
    assert server_for(ModelName("openai:x"), "judge").base_url == "http://127.0.0.1:11434/v1"
    monkeypatch.delenv("CO_API_KEY")
    assert server_for(ModelName("cohere:x"), "embedder").key == "cohere_api_key-value"


@pytest.mark.parametrize(
    ("role", "model", "said"),
    [
        ("language_model", ModelName("openai:x"), "OPENAI_API_KEY is not set: export it, or give --base-url of a"),
        ("embedder", ModelName("cohere:x"), "CO_API_KEY or COHERE_API_KEY is not set: export it"),
        ("cross_encoder", ModelName("jina:x"), "JINA_API_KEY is not set: export it"),
        ("cross_encoder", ModelName("rerank:x"), "the reranker rerank:x has no address: give its base_url"),
        ("judge", ModelName("openai:x", api_key_env="MY_KEY"), "MY_KEY, the key of the judge openai:x, is not set"),
        (
            "judge",
            ModelName("openai:x", base_url="http://x", api_key_env="MY_KEY"),
            "MY_KEY, the key of the judge openai:x, is not set",
        ),
    ],
)
def test_what_is_missing_is_said_before_anything_is_sent(role: str, model: ModelName, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        load_models(ModelNames().override({role: model}), TEXTS)
    assert said in str(raised.value)


@pytest.mark.parametrize("value", ["two words of secret", "schlüssel-secret", "line\nsecret", "  "])
def test_what_cannot_be_a_key_is_refused_without_repeating_it(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CO_API_KEY", value)
    with pytest.raises(UsageError, match="the value of CO_API_KEY is not a valid key") as raised:
        server_for(ModelName("cohere:x"), "embedder")
    assert "secret" not in str(raised.value)


def test_a_wrong_address_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:11434")
    with pytest.raises(UsageError, match=r"^OPENAI_BASE_URL: the base URL must begin with http"):
        server_for(ModelName("openai:x"), "judge")


def test_a_key_is_not_shown() -> None:
    assert KEY not in repr(Server("http://x", KEY))


def test_closed_servers_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {"cross_encoder": ModelName("rerank:x", base_url="http://127.0.0.1:1")}
    loader = Loader(chosen, (), attempts=1)
    provider = loader.model("cross_encoder").provider
    assert provider.policy.attempts == 1
    loader.close()
    with pytest.raises(ModelUnavailable, match="was closed"):
        provider.send(lambda: None, what="x")  # type: ignore[arg-type, return-value]


# --- models that are not there ---------------------------------------------------------------------------------------


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    try:
        import sentence_transformers  # type: ignore[import-not-found]  # noqa: F401, PLC0415
    except ImportError:
        for role in ("embedder", "cross_encoder"):
            with pytest.raises(MissingExtra, match=r"pip install 'ragsmith\[sentence-transformers\]'"):
                load_models(ModelNames().override({role: "sentence-transformers:some/model"}), TEXTS)
    else:
        pytest.skip("sentence-transformers is installed")


def test_a_run_without_a_reranker_cannot_ask_one() -> None:
    models = load_models(ModelNames(cross_encoder="none"), TEXTS)
    assert models.cross_encoder.id == "none"
    with pytest.raises(ModelUnavailable, match="--reranker"):
        models.cross_encoder.score("q", ["t"])


def test_the_place_of_vectors_is_known_before_anything_is_computed() -> None:
    assert load_models(ModelNames(), TEXTS).vector_store_address == "auto"
    assert load_models(ModelNames(vector_store="exact"), TEXTS).ids() == load_models(ModelNames(), TEXTS).ids()
    stored = ModelNames(vector_store="qdrant:nowhere")
    if find_spec("qdrant_client"):
        assert load_models(stored, TEXTS).vector_store_address == "qdrant:nowhere"
        assert not Path("nowhere").exists()
    else:
        with pytest.raises(MissingExtra, match=r"pip install 'ragsmith\[qdrant\]'"):
            load_models(stored, TEXTS)


def test_sets_of_models_share_the_provider_of_a_server() -> None:
    shared = SharedModels()
    at = {"base_url": "http://127.0.0.1:1"}
    chosen = [
        ModelNames("openai:one", **at),
        ModelNames("openai:other", **at),
        ModelNames("openai:one", base_url="http://127.0.0.1:2"),
        ModelNames(ModelName("openai:one", in_flight=2), **at),
    ]
    models = [load_models(names, TEXTS, None, shared).language_model for names in chosen]
    one, other, elsewhere, fewer = (model.provider for model in models)
    assert one is other
    assert len({id(one), id(elsewhere), id(fewer)}) == 3
    assert fewer.policy.in_flight == 2
