"""A simulated chat model whose answers depend on the wording of the prompt, and a search over two wordings."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import ragsmith
from ragsmith.api.result import Result
from ragsmith.models.calls import Completion
from ragsmith.models.usage import Usage
from ragsmith.techniques.generation import answer_task
from ragsmith.types import Dataset

MARK = "Take care."
"""What only the other wording says."""

OTHER = f"{{context}}\n\n{MARK} Answer from these passages.\n\nQuestion: {{question}}\n"

SPACE = """
families:
  pre_embedding: [none]
  query_expansion: [none]
  retrieval: [vector]
  reranking: [none]
  passage_filter: [top_k]
  passage_augment: [none]
  passage_compress: [none]
  prompt_maker: [listing]
  post_generation: [none]
prompts: {answer: [default, other.txt]}
"""


class WordedModel:
    """Gives the reference answer to a share of the questions, which depends on the wording; draws are independent."""

    def __init__(self, dataset: Dataset, shares: Mapping[bool, float], seed: int) -> None:
        self.id = f"worded {sorted(shares.items())} {seed}"
        self._references = {example.question: example.answer for example in dataset.examples}
        self._shares, self._seed = shares, seed

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        question = prompt.rpartition("Question: ")[2].partition("\n")[0]
        is_other = MARK in prompt
        right = random.Random(f"{self._seed} {is_other} {question}").random() < self._shares[is_other]
        text = self._references[question] if right else "That is another matter."
        return Completion(text, Usage(1, 0, 0, len(prompt) // 4, len(text) // 4, 0.1))


def race(dataset: Dataset, default: float, other: float, seed: int, folder: Path) -> Result:
    """Search over the built-in prompt and another one, which get ``default`` and ``other`` of the answers right."""
    assert MARK not in answer_task(1).prompt
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "other.txt").write_text(OTHER, encoding="utf-8")
    (folder / "space.yaml").write_text(SPACE, encoding="utf-8")
    model = WordedModel(dataset, {False: default, True: other}, seed)
    return ragsmith.search(
        dataset,
        space=folder / "space.yaml",
        models={"language_model": model, "judge": "extractive"},
        cache=folder / "cache.sqlite",
        strategy="exhaustive",
        warm_start=False,
        probes=False,
        seed=seed,
    )


def winning_wording(result: Result) -> str:
    """The wording of the winner."""
    [maker] = [gene for gene in result.winner.candidate if gene.technique.family == "prompt_maker"]
    return maker.prompts["answer"].name if maker.prompts else "default"


def claimed(result: Result) -> bool:
    """Whether the winner is called better than naive RAG, which has the built-in prompt and is otherwise the same."""
    return "Better than naive RAG" in result.verdict.words
