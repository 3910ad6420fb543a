"""What every importer returns."""

from __future__ import annotations

from dataclasses import dataclass

from ragsmith.types import Dataset


@dataclass(frozen=True, slots=True)
class Imported:
    """A data set read from somebody else's layout, and how much of its gold was found in the documents.

    ``located`` of ``total`` pieces of evidence stand exactly, character by character, in a document; the others are
    left out, and ``notes`` names them.
    """

    dataset: Dataset
    located: int
    total: int
    notes: tuple[str, ...] = ()
