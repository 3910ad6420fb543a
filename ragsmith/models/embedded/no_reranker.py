"""The reranker of a run that does without one."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.errors import ModelUnavailable
from ragsmith.models.registry import provider


@provider("cross_encoder", "none")
class NoReranker:
    """Stands where a reranker would; `ragsmith.exported.requirements` sees to it that nothing asks it."""

    id = "none"

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Raise: there is none."""
        raise ModelUnavailable("this run has no reranker: name one with --reranker")
