"""A simulated chat model that flatters with one of two prompts, a judge that is pleased by it, and one that is not."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wordings import MARK, OTHER, SPACE

import ragsmith
from ragsmith.api.result import Result
from ragsmith.models.calls import Completion
from ragsmith.models.usage import Usage
from ragsmith.types import Dataset

FLATTERY = "What an excellent question."
"""What answers begin with if the prompt has `MARK`."""
WRONG = "That is another matter."


def completed(prompt: str, text: str) -> Completion:
    return Completion(text, Usage(1, 0, 0, len(prompt) // 4, len(text) // 4, 0.1))


class Flatterer:
    """Gives the reference answer to a share of the questions, whatever the prompt, and flatters with one of two.

    Draws are independent for each prompt, and for each sample with a probability of ``moody``.
    """

    def __init__(self, dataset: Dataset, share: float, seed: int, moody: float = 0.0) -> None:
        self.id = f"flatterer {share} {seed} {moody}"
        self._references = {example.question: example.answer for example in dataset.examples}
        self._share, self._seed, self._moody = share, seed, moody
        self.samples: list[int] = []

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        self.samples.append(sample)
        question = prompt.rpartition("Question: ")[2].partition("\n")[0]
        flatters = MARK in prompt
        draw = random.Random(f"{self._seed} {flatters} {question} {sample}")
        if draw.random() >= self._moody:
            draw = random.Random(f"{self._seed} {flatters} {question}")
        text = self._references[question] if draw.random() < self._share else WRONG
        return completed(prompt, f"{FLATTERY} {text}" if flatters else text)


class Judge:
    """A judge that scores wrong answers 1, others 5, or, if it is ``vain``, 4 and flattering ones 5.

    An answer of a `Flatterer` is wrong if it says so; any other one is wrong if it is not the reference.
    """

    def __init__(self, name: str, *, vain: bool = False) -> None:
        self.id = name
        self._vain = vain
        self.judged: list[str] = []

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        [question] = re.findall(r"^Question: (.*)$", prompt, re.MULTILINE)
        self.judged.append(question)
        reference, answer = (
            re.findall(rf"^<{name}>\n(.*?)\n</{name}>$", prompt, re.DOTALL | re.MULTILINE)[0]
            for name in ("reference", "answer")
        )
        score = 1 if WRONG in prompt or reference not in answer else 5
        if self._vain:
            score = 5 if FLATTERY in prompt else min(score, 4)
        return completed(prompt, f"Score: {score}")


def search_flattered(
    dataset: Dataset | Path, folder: Path, models: Mapping[str, Any], seed: int, **more: Any
) -> Result:
    """Search over the built-in prompt and the one that makes a `Flatterer` flatter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "other.txt").write_text(OTHER, encoding="utf-8")
    (folder / "space.yaml").write_text(SPACE, encoding="utf-8")
    return ragsmith.search(
        dataset,
        space=folder / "space.yaml",
        models=models,
        cache=folder / "cache.sqlite",
        strategy="exhaustive",
        warm_start=False,
        probes=False,
        rankings_first=False,
        seed=seed,
        **more,
    )
