"""LiteLLM's proxy, in front of a server of the tests: what it makes of requests, refusals and names of models.

It is not among the extras, as it brings 700 MB and versions of its own: ``RAGSMITH_LITELLM`` names its command.
Tested with 1.106.2.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fault_kinds import Fault
from fault_server import Request
from real_servers import free_port, running
from served import Ruled

import ragsmith as library

COMMAND = os.environ.get("RAGSMITH_LITELLM", "")
KEY = "sk-proxy-0123456789"
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not COMMAND, reason="RAGSMITH_LITELLM does not name the command of LiteLLM"),
]


def refuse(request: Request) -> Fault | None:
    """As OpenAI's models that think do."""
    if request.body.get("model") == "picky":
        for name in ("temperature", "max_tokens"):
            if name in request.body:
                return Fault(status=400, said=f"Unsupported parameter: '{name}' is not supported with this model.")
    return None


@pytest.fixture(scope="module")
def behind() -> Iterator[Ruled]:
    with Ruled(refuse) as server:
        yield server


@pytest.fixture(scope="module")
def proxy(behind: Ruled, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL; ``known`` is by a name of which LiteLLM knows what the model refuses."""
    home, port = tmp_path_factory.mktemp("litellm"), free_port()
    upstream = {"api_base": behind.url, "api_key": "sk-behind"}
    names = {"tiny": "tiny", "picky": "picky", "known": "o3-mini", "alias": "another-name"}
    models = [
        {"model_name": name, "litellm_params": {"model": f"openai/{model}", **upstream}}
        for name, model in names.items()
    ]
    (home / "config.yaml").write_text(yaml.safe_dump({"model_list": models, "litellm_settings": {"num_retries": 0}}))
    command = [COMMAND, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)]
    settings = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with running(command, port, "/health/liveliness", home, **settings) as url:
        yield f"{url}/v1"


@pytest.fixture(autouse=True)
def fresh(behind: Ruled, monkeypatch: pytest.MonkeyPatch) -> None:
    behind.log.clear()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def checked(ragsmith: Callable[..., Any], proxy: str, model: str) -> dict[str, Any]:
    """What ``models check`` says of a language model."""
    shown = ragsmith("models", "check", "--llm", f"openai:{model}", "--base-url", proxy, "--space", "quick", "--json")
    [found] = [one for one in json.loads(shown.out) if one["role"] == "language_model"]
    return dict(found)


def test_a_small_search_counts_what_the_server_behind_it_counted(
    behind: Ruled, proxy: str, tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    found = library.search(
        tiny_folder,
        space=tiny_space,
        models={"language_model": "openai:alias"},  # the reply says that name, whatever the server behind is asked for
        base_url=proxy,
        cache=tmp_path / "cache.sqlite",
        chunk_size=100,
        max_evaluations=4,
        probes=False,
    )
    assert found.state == "finished"
    assert found.spent.calls == len(behind.given) == len(behind.log) > 0
    assert found.spent.tokens == 15 * len(behind.given)
    assert {request.body["model"] for request in behind.log} == {"another-name"}


def test_what_the_server_behind_it_refuses_is_learnt(ragsmith: Callable[..., Any], behind: Ruled, proxy: str) -> None:
    found = checked(ragsmith, proxy, "picky")
    assert (found["ok"], found["refuses"]) == (True, ["max_tokens", "temperature"])
    refused = [request for request in behind.log if request.status == 400]
    assert len(refused) == 2
    assert "max_completion_tokens" in behind.given[-1].body


def test_what_it_refuses_itself_is_learnt(ragsmith: Callable[..., Any], behind: Ruled, proxy: str) -> None:
    found = checked(ragsmith, proxy, "known")
    assert (found["ok"], found["refuses"]) == (True, ["temperature"])
    assert not any("temperature" in request.body for request in behind.log)


def test_a_model_that_it_has_not_is_one_sentence(ragsmith: Callable[..., Any], behind: Ruled, proxy: str) -> None:
    found = checked(ragsmith, proxy, "nosuch")
    assert (found["ok"], found["tasks"]) == (False, [])
    assert "Invalid model name passed in model=nosuch" in found["problem"]
    assert behind.log == []
