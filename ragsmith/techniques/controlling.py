"""Learning to control: from which number on a controller's word is best believed.

A controller that judges evidence gives a number: a chat model 0 or 1, or a score from 1 to 100; the embedded model a
share. What a number means differs between models and corpora, so the least that suffices is fitted on questions whose
evidence is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.techniques.acceptance import threshold

GIVEN, FITTED = "given", "fitted"
"""Where the least that suffices comes from: from a parameter, or from search questions."""


def least(seen: Sequence[tuple[float, bool]], lowest: float, beyond: float) -> float:
    """The number from which on ``seen``, numbers and whether they were right to be high, is told apart best.

    That is by balanced accuracy, as both mistakes cost: a search too many, and one too few. It is ``lowest`` where all
    were right, or numbers tell nothing, and ``beyond``, which no number reaches, where none was right.
    """
    if not any(right for _, right in seen):
        return beyond
    found = threshold(seen, "balanced_accuracy")
    return lowest if found is None else round(found, 6)
