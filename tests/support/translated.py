"""Pipelines to translate, and a chat model that answers from the passages of its prompt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from fault_kinds import completion, reply_to

from ragsmith.pipelines.genes import Candidate, configuration

CHAT = "openai:gpt-4.1-mini"


def write_pipeline(path: Path, dataset: Mapping[str, str], candidate: Candidate, **more: Any) -> Path:
    """Write the file of a pipeline whose answers are those of a chat model, unless ``more`` says otherwise."""
    content = {"dataset": dict(dataset), "models": {"language_model": CHAT}, "pipeline": configuration(candidate)}
    path.write_text(yaml.safe_dump({**content, **more}))
    return path


def answer_from_passages(path: str, body: Any) -> Any:
    """Quote the second passage, or the first if there is no other, and cite it in two ways."""
    if not path.endswith("/chat/completions"):
        return reply_to("POST", path, body)
    passages = re.findall(r"^\[(\d+)\] (.{5,60})", body["messages"][0]["content"], re.MULTILINE)
    number, quoted = passages[:2][-1]
    return completion(f"{quoted} [{number}]. So it is [1, {number}].")
