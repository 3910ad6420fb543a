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
    """Quote the second passage, or the only one, and cite it in two ways; without passages, reply with a query."""
    if not path.endswith("/chat/completions"):
        return reply_to("POST", path, body)
    prompt = body["messages"][0]["content"]
    if "<context>" not in prompt:
        words = re.findall(r"\w+", prompt.partition("\n")[0])
        return completion(" ".join(sorted(words[1:], key=len)[-4:]))
    passages = re.findall(r"^\[(\d+)\] (.{5,60})", prompt, re.MULTILINE)
    number, quoted = passages[:2][-1]
    return completion(f"{quoted} [{number}]. So it is [1, {number}].")
