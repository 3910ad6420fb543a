"""A server that is not the tests' own: ``transformers serve``, with a model whose replies are known by heart."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from real_servers import free_port, running

import ragsmith as library
from ragsmith.errors import ModelError
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_chat import OpenAIChat
from ragsmith.models.served.policy import Policy

pytestmark = pytest.mark.processes

WORDS = ("[UNK]", "one", "two", "three", "four", "five", "six", "seven", "[END]")
"""After each of them the model says the next; the first represents all unknown words."""
NEEDED = ("torch", "transformers", "accelerate", "fastapi", "uvicorn")


@dataclass(frozen=True)
class Counting:
    """A server that is running, and the name of its only model."""

    url: str
    model: str

    def chat(self, model: str = "", *, path: str = "/v1", **policy: Any) -> OpenAIChat:
        return OpenAIChat(model or self.model, endpoint=JsonEndpoint(self.url + path, policy=Policy(**policy)))

    def finish_reason(self, prompt: str, most: int) -> str:
        """As the server says it: a completion does not hold it."""
        endpoint = JsonEndpoint(f"{self.url}/v1", policy=Policy(attempts=1))
        messages = [{"role": "user", "content": prompt}]
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": most, "seed": 0}
        try:
            [reply] = endpoint.send("/chat/completions", [body], lambda _, reply, seconds: reply, what=self.model)
        finally:
            endpoint.provider.close()
        return str(reply["choices"][0]["finish_reason"])


def save_counting_model(folder: Path) -> Path:
    """Write a Llama of two layers that add nothing: what comes next depends on the last word alone."""
    import tokenizers  # noqa: PLC0415  it may be missing, as all below
    import torch  # noqa: PLC0415
    import transformers  # noqa: PLC0415

    size = len(WORDS)
    ends = {"eos_token_id": size - 1, "pad_token_id": size - 1, "bos_token_id": None}
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(7)
    network = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=size, **sizes, **ends))
    with torch.no_grad():
        for layer in network.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        network.model.embed_tokens.weight.copy_(torch.eye(size, 16))
        network.lm_head.weight.copy_(torch.eye(size, 16).roll(1, dims=0))  # the row of a word points at the one before
    network.save_pretrained(folder)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[UNK]", eos_token="[END]", pad_token="[END]"
    )
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    """Without the packages the tests are skipped, but on CI they fail."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        why = f"{', '.join(missing)} not installed: pip install 'ragsmith[real]'"
        (pytest.fail if os.environ.get("RAGSMITH_REAL") else pytest.skip)(why)
    home = tmp_path_factory.mktemp("served")
    model, port = str(save_counting_model(home / "counting")), free_port()
    command = [
        *(sys.executable, "-m", "transformers.cli.transformers", "serve", model),
        *("--host", "127.0.0.1", "--port", str(port), "--device", "cpu"),
    ]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1", "HF_HOME": str(home / "hub")}
    with running(command, port, "/health", home, **offline, OMP_NUM_THREADS="1") as url:
        yield Counting(url, model)


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def chat(server: Counting) -> Iterator[OpenAIChat]:
    chat = server.chat(attempts=1)
    yield chat
    chat.provider.close()


@pytest.mark.parametrize(
    ("prompt", "most", "text", "finish", "tokens"),
    [
        ("one two", 16, "three four five six seven", "stop", (2, 6)),  # [END] is a token as well
        ("one two", 3, "three four five", "length", (2, 3)),
        ("twelve five", 16, "six seven", "stop", (2, 3)),
    ],
)
def test_a_reply_says_why_it_ended_and_what_it_cost(
    server: Counting, chat: OpenAIChat, prompt: str, most: int, text: str, finish: str, tokens: tuple[int, int]
) -> None:
    reply = chat.complete(prompt, max_tokens=most, sample=0)
    assert (reply.text, reply.usage.calls) == (text, 1)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == tokens
    assert reply.usage.seconds > 0
    assert server.finish_reason(prompt, most) == finish


def test_models_check_finds_that_it_writes_and_cannot_judge(ragsmith: Callable[..., Any], server: Counting) -> None:
    arguments = ("--llm", f"openai:{server.model}", "--base-url", f"{server.url}/v1", "--space", "quick", "--json")
    shown = ragsmith("models", "check", *arguments)
    assert shown.code == 1
    [checked] = [model for model in json.loads(shown.out) if model["role"] == "language_model"]
    assert (checked["problem"], checked["id"]) == ("", f"openai:{server.model}@temperature=0")
    tasks = {task["task"]: task for task in checked["tasks"]}
    assert tasks["answer"]["problem"] == ""
    assert tasks["answer"]["usage"]["output_tokens"] == 3 * (len(WORDS) - 1)  # of three questions
    assert tasks["judge"]["problem"].startswith("two replies to judge cannot be read; the last: the verdict 'one two")


def test_a_model_that_it_does_not_have_is_rejected_at_once(server: Counting) -> None:
    chat = server.chat("no/such")
    with pytest.raises(ModelError, match=r"HTTP 400 \(.*requested 'no/such'.*the server refuses the request"):
        chat.complete("one", max_tokens=4, sample=0)
    assert chat.provider.activity.attempts == 1
    chat.provider.close()


def test_a_small_search_counts_what_it_used(
    server: Counting, tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    """It cannot judge, and writes the same to every prompt: all its words, and the end."""
    found = library.search(
        tiny_folder,
        space=tiny_space,
        models={"language_model": f"openai:{server.model}", "controller": "extractive", "judge": "extractive"},
        base_url=f"{server.url}/v1",
        cache=tmp_path / "cache.sqlite",
        chunk_size=100,
        max_evaluations=4,
        probes=False,
    )
    assert found.state == "finished"
    assert " ".join(WORDS[1:-1]) in {one.answer for row in found.ranking for one in found.records(row)}
    assert found.spent.calls > 0
    assert found.spent.tokens > (len(WORDS) - 1) * found.spent.calls
