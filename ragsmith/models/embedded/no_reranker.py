"""The reranker of runs without a reranker."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.errors import ModelUnavailable
from ragsmith.models.registry import provider


@provider("cross_encoder", "none")
class NoReranker:
    """A placeholder that is never called: see `ragsmith.exported.requirements`."""

    id = "none"

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Raise `ModelUnavailable`."""
        raise ModelUnavailable("this run has no reranker: name one with --reranker")
