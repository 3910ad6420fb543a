"""What may be set of a check: the limits that depend on what a data set is for."""

from __future__ import annotations

from dataclasses import dataclass

from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE
from ragsmith.errors import WrongOption

SMALLEST_CHUNK = 100


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """How a data set is checked.

    BM25's Recall@5 should lie between ``bm25_low`` and ``bm25_high``. ``difference`` of R, from 0 to 1, is what a test
    should be able to show. Documents are cut into chunks of at most ``chunk_size`` characters.
    """

    bm25_low: float = 0.5
    bm25_high: float = 0.8
    difference: float = 0.03
    chunk_size: int = DEFAULT_SIZE

    def __post_init__(self) -> None:
        for name in ("bm25_low", "bm25_high"):
            if not 0 <= getattr(self, name) <= 1:
                raise WrongOption(name, f"is {getattr(self, name)}: give a share from 0 to 1")
        if self.bm25_low > self.bm25_high:
            raise WrongOption("bm25_low", f"is {self.bm25_low}, above bm25_high, {self.bm25_high}: swap them")
        if not 0 < self.difference < 1:
            raise WrongOption("difference", f"is {self.difference}: give a difference between 0 and 1, such as 0.03")
        if self.chunk_size < SMALLEST_CHUNK:
            raise WrongOption("chunk_size", f"is {self.chunk_size}: give at least {SMALLEST_CHUNK} characters")
