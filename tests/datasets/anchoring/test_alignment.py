"""The alignment of a quotation has the least edit distance of all parts of the text."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.datasets.anchoring.quotations import align


def distance(one, other):
    """Levenshtein's distance, cell by cell."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        last, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (a != b))
    return row[-1]


words = st.lists(st.integers(0, 3), min_size=1, max_size=8)


@given(wanted=words, text=words)
def test_no_stretch_needs_fewer_edits(wanted, text):
    found = align(np.array(wanted), np.array(text))
    best = min(distance(wanted, text[a:b]) for a in range(len(text) + 1) for b in range(a, len(text) + 1))
    if found is None:
        assert best == len(wanted)  # nothing is like it
        return
    assert found.edits == distance(wanted, text[found.start : found.end]) == best
