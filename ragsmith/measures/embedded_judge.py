"""How often the embedded judge errs on the bundled cases, worked out once a process: it costs nothing."""

from __future__ import annotations

from functools import cache

from ragsmith.measures.judge_cases import judge_cases
from ragsmith.measures.judge_check import JudgeChecked, check_judge
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder


@cache
def check_embedded_judge() -> JudgeChecked:
    """Let the embedded model mark the bundled cases."""
    return check_judge(ExtractiveModel([case.reference for case in judge_cases()], WordLlamaEmbedder()))
