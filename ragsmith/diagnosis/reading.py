"""What a generator was shown, with the gold in it marked, and no longer than a reader needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text; ``gold`` says that it belongs to a gold passage. "…" stands where text was left out."""

    text: str
    gold: bool = False


@dataclass(frozen=True, slots=True)
class ReadPassage:
    """A passage as the generator was shown it.

    ``place`` is its number in the prompt, from 1. It comes from the characters ``[start, end)`` of the document
    ``doc``, called ``title``; one that was condensed from several has the first of them, and ``sources`` counts all.
    ``cited`` says whether the answer refers to it. ``pieces`` are its text in order, shortened around the gold.
    """

    place: int
    doc: str
    title: str
    start: int
    end: int
    pieces: tuple[Piece, ...]
    cited: bool = False
    sources: int = 1

    @property
    def has_gold(self) -> bool:
        """Whether any of its text is gold."""
        return any(piece.gold for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class GoldPassage:
    """A gold passage of a question: its place, its text, shortened where it is long, and what became of it.

    ``lost`` is the value of the `Cause` that kept the generator from reading it, or "" where it was read.
    """

    doc: str
    title: str
    start: int
    end: int
    text: str
    lost: str = ""
