"""What rerankers behind servers have in common: texts that are too long, and the check of their scores."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

from ragsmith.models.served.json_endpoint import by_index
from ragsmith.models.served.policy import TransientFailure
from ragsmith.models.usage import FEWEST_CHARACTERS_A_TOKEN


class TextWindow:
    """Cuts texts at their end to ``tokens``, estimated by characters, and counts them; None cuts nothing."""

    def __init__(self, tokens: int | None) -> None:
        self.tokens = tokens
        self.cut = 0
        self._lock = threading.Lock()

    def fit(self, texts: Sequence[str]) -> list[str]:
        """``texts``, each no longer than the window."""
        if self.tokens is None:
            return list(texts)
        most = self.tokens * FEWEST_CHARACTERS_A_TOKEN
        too_long = sum(len(text) > most for text in texts)
        if too_long:
            with self._lock:
                self.cut += too_long
        return [text[:most] for text in texts]


def read_scores(rows: Any, name: str, n: int) -> list[float]:
    """The scores of ``n`` texts, in their order, of a ranking: ``index`` and a score called ``name`` in each row.

    Raises:
        Transient: a text is missing, named twice or unknown, or a score is no finite number.
    """
    scores = by_index(rows, name, n, "scores")
    if not all(type(score) in (int, float) and math.isfinite(score) for score in scores):
        raise TransientFailure("a score is missing, or no finite number")
    return [round(float(score), 6) for score in scores]
