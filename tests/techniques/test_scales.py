"""Techniques that order hits refuse hits of two scales, whose scores cannot be compared."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ragsmith.errors import ScaleError
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.techniques.passage_filter.nr import nr
from ragsmith.techniques.passage_filter.top_k import top_k
from ragsmith.techniques.reranking.none import none
from ragsmith.testing import hits_of
from ragsmith.types import Chunks, Question, Scale


@pytest.mark.parametrize("order", [none, top_k, partial(nr, embedder=WordLlamaEmbedder())])
def test_hits_of_two_scales_are_refused(chunks: Chunks, order: Any) -> None:
    mixed = hits_of(chunks, [0.2], Scale.COSINE) + hits_of(chunks[1:], [7.0], Scale.BM25)
    with pytest.raises(ScaleError, match="bm25 and cosine"):
        order(Question("?"), mixed)
