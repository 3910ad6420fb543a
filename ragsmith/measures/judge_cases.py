"""Answers whose order is known, to check a judge with: references, paraphrases, and what to change in a copy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

from ragsmith.text.data_files import read_data

DIGEST = "ff29d7be0105318a"


@dataclass(frozen=True, slots=True)
class JudgeCase:
    """A question with its reference of several sentences, the same in other words, and how to make wrong copies of it.

    ``denial`` and ``number`` are what to replace in the reference, and by what.
    """

    question: str
    reference: str
    paraphrase: str
    denial: tuple[str, str]
    number: tuple[str, str]


@cache
def judge_cases() -> tuple[JudgeCase, ...]:
    """The cases of ``judge_cases.json``."""
    rows = json.loads(read_data("ragsmith.measures", "judge_cases.json", DIGEST))
    return tuple(JudgeCase(**{**row, "denial": tuple(row["denial"]), "number": tuple(row["number"])}) for row in rows)
