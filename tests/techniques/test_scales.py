"""Techniques that order hits refuse hits of two scales, whose scores cannot be compared."""

from functools import partial

import pytest

from ragsmith.errors import ScaleError
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.techniques.passage_filter.nr import nr
from ragsmith.techniques.passage_filter.top_k import top_k
from ragsmith.techniques.reranking.cross_encoder import cross_encoder
from ragsmith.techniques.reranking.listnet import SIGNALS, listnet
from ragsmith.techniques.reranking.none import none
from ragsmith.testing import hits_of
from ragsmith.types import Fitted, Question, Scale


class Scorer:
    """A cross-encoder that prefers short texts."""

    id = "short"

    def score(self, query, texts):
        return tuple(1 / len(text) for text in texts)


LEARNED = Fitted({"weights": dict.fromkeys(SIGNALS, 1.0)})
ORDERS = (
    *(none, top_k, partial(nr, embedder=WordLlamaEmbedder())),
    *(partial(cross_encoder, cross_encoder=Scorer()), partial(listnet, cross_encoder=Scorer(), fitted=LEARNED)),
)


@pytest.mark.parametrize("order", ORDERS)
def test_hits_of_two_scales_are_refused(chunks, order):
    mixed = hits_of(chunks, [0.2], Scale.COSINE) + hits_of(chunks[1:], [7.0], Scale.BM25)
    with pytest.raises(ScaleError, match="bm25 and cosine"):
        order(Question("?"), mixed)
