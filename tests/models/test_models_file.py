"""A file of models: what it says is taken, and every mistake has its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragsmith.errors import UsageError
from ragsmith.models.file import read_models
from ragsmith.models.names import ModelName

WHOLE = """\
language_model: openai:gpt-4.1
controller: {model: "openai:gpt-4.1-mini", in_flight: 16}
judge:
  model: openai:llama3.1
  base_url: http://localhost:11434/v1
  api_key_env: MY_KEY
  attempts: 3
  deadline: 20
embedder:
  model: sentence-transformers:BAAI/bge-small-en-v1.5
  query_prefix: "query: "
  dtype: float16
cross_encoder: cohere:rerank-v3.5
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "models.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_role_is_a_name_or_a_mapping(tmp_path: Path) -> None:
    assert read_models(written(tmp_path, WHOLE)) == {
        "language_model": ModelName("openai:gpt-4.1"),
        "controller": ModelName("openai:gpt-4.1-mini", in_flight=16),
        "judge": ModelName(
            "openai:llama3.1", base_url="http://localhost:11434/v1", api_key_env="MY_KEY", attempts=3, deadline=20
        ),
        "embedder": ModelName("sentence-transformers:BAAI/bge-small-en-v1.5", query_prefix="query: ", dtype="float16"),
        "cross_encoder": ModelName("cohere:rerank-v3.5"),
    }


WRONG: list[tuple[str, int, str]] = [
    ("", 1, "the file is empty"),
    ("- openai:x\n", 1, "this is not a file of models: it must be 'role: model' pairs"),
    ("language_modle: openai:x\n", 1, "unknown key 'language_modle'; did you mean 'language_model'?"),
    ("embedder: wordllama\nreranker: none\n", 2, "unknown key 'reranker'; known: controller, cross_encoder, "),
    ("language_model: gpt\n", 1, "unknown language model 'gpt'; known: extractive, openai:MODEL"),
    ("judge:\n  model: opnai:x\n", 2, "did you mean 'openai:x'?"),
    ("judge:\n  base_url: http://x\n", 1, "judge must be the name of a model, or have one as 'model', not None"),
    ("judge: 3\n", 1, "judge must be the name of a model"),
    ("judge:\n", 1, "judge must be the name of a model"),
    ("judge: [openai:x]\n", 1, "judge must be the name of a model"),
    ("judge:\n  model: openai:x\n  in_fligth: 3\n", 3, "unknown key 'in_fligth'; did you mean 'in_flight'?"),
    ("judge:\n  model: openai:x\n  in_flight: many\n", 3, "in_flight must be a whole number from 1 on, not 'many'"),
    ("judge:\n  model: openai:x\n  in_flight:\n", 3, "in_flight must be a whole number from 1 on, not None"),
    ("judge:\n  model: openai:x\n  deadline: 0\n", 3, "deadline must be seconds above 0, not 0"),
    ("judge:\n  model: openai:x\n  dimensions: 3\n", 3, "the judge openai:x has no option 'dimensions'"),
    ("judge:\n  model: extractive\n  base_url: http://x\n", 3, "the judge extractive has no option 'base_url'"),
    ("judge:\n  model: openai:x\n  base_url: localhost\n", 3, "the base URL must begin with http://"),
    ("judge:\n  model: openai:x\n  api_key: sk-hush-hush-hush\n", 3, "did you mean 'api_key_env'?"),
    ("judge:\n  model: openai:x\n  api_key_env: sk-hush-hush-hush\n", 3, "and never a key"),
    ("judge: sk-hush-hush-hush-hush\n", 1, "unknown judge"),
    ("judge: openai:x\njudge: openai:y\n", 2, "duplicate key 'judge', first on line 1"),
    ("judge: &a openai:x\ncontroller: *a\n", 1, "the anchor 'a' is not allowed"),
    ("judge: {model: openai:x\n", 2, "not valid YAML"),
]


@pytest.mark.parametrize(("text", "line", "said"), WRONG, ids=[said for _, _, said in WRONG])
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as raised:
        read_models(path)
    message = str(raised.value)
    assert message.startswith(f"{path}:{line}: ")
    assert said in message
    assert "hush" not in message
    assert "\n" not in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"models\.yaml: is missing"):
        read_models(tmp_path / "models.yaml")
