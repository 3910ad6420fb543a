"""Fitting the threshold on a controller's judgement of evidence.

Chat models judge with 0 or 1, or a score from 1 to 100, the embedded model with a share. Their meaning differs between
models and corpora, so the threshold is fitted on questions whose evidence is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.techniques.acceptance import fit_threshold

GIVEN, FITTED = "given", "fitted"
"""The source of the threshold: a parameter, or the search questions."""


def fit_least(seen: Sequence[tuple[float, bool]], lowest: float, beyond: float) -> float:
    """Fit the threshold of best balanced accuracy to judgements ``seen`` and whether each should have been high.

    Return ``lowest`` if all should, or no threshold separates them, and ``beyond``, which no judgement reaches, if none
    should.
    """
    if not any(right for _, right in seen):
        return beyond
    found = fit_threshold(seen, "balanced_accuracy")
    return lowest if found is None else round(found, 6)
