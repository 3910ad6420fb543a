"""A file of models: what it says is taken, and every mistake has its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from rows import rows

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


WRONG: list[tuple[str, int, str]] = rows("wrong files of models")


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
