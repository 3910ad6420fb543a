"""Span recall, by hand and by counting characters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.measures.rankings import span_recall_at
from ragsmith.types import Span


def test_span_recall_takes_the_union_of_what_was_retrieved():
    gold = [Span("d", 0, 100), Span("e", 0, 10)]
    pieces = [Span("d", 0, 30), Span("d", 20, 50), Span("e", 6, 90)]
    assert span_recall_at(pieces, gold, k=1) == 0
    assert span_recall_at(pieces, gold, k=2) == 0.5  # 30 + 30 characters, 10 of them twice: exactly half
    assert span_recall_at([pieces[0], pieces[0], pieces[1]], gold, k=2) == 0.5
    assert span_recall_at([*pieces, Span("e", 0, 1)], gold, k=4) == 1
    nested = [Span("d", 0, 40), Span("d", 10, 20), Span("d", 30, 49)]  # 49 characters, many of them twice
    assert span_recall_at(nested, gold[:1]) == 0
    with pytest.raises(ValueError, match="without gold evidence"):
        span_recall_at(pieces, [])


SPAN = st.builds(
    lambda doc, start, size: Span(doc, start, start + size),
    st.sampled_from("de"),
    st.integers(0, 20),
    st.integers(1, 15),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(SPAN, max_size=8), st.lists(SPAN, min_size=1, max_size=4), st.integers(1, 6))
def test_span_recall_agrees_with_counting_characters(retrieved, evidence, k):
    seen = {(span.doc, i) for span in list(dict.fromkeys(retrieved))[:k] for i in range(span.start, span.end)}
    gold = set(evidence)
    covered = [
        sum((span.doc, i) in seen for i in range(span.start, span.end)) / (span.end - span.start) for span in gold
    ]
    assert span_recall_at(retrieved, evidence, k) == sum(share >= 0.5 for share in covered) / len(gold)
