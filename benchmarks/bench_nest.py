"""NEST beside hybrid search on 10,000 chunks: building its scopes, milliseconds a question, and what its pool holds."""

import sys
import time
from functools import partial
from statistics import fmean

from large_corpus import large_index, show, timed

from ragsmith.index.scopes import scopes
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.techniques.retrieval.hybrid import hybrid
from ragsmith.techniques.retrieval.nest import nest

embedder = WordLlamaEmbedder()
index, questions = large_index()
questions = questions[: int(sys.argv[1])] if len(sys.argv) > 1 else questions

started = time.perf_counter()
hybrid(index, questions[:1], embedder=embedder)
print(
    f"{len(index.entries)} chunks, {len(questions)} questions; BM25 and vectors: {time.perf_counter() - started:.2f} s"
)
started = time.perf_counter()
nest(index, (), embedder=embedder)
sizes = ", ".join(f"{len(scope)} {scope.name}s" for scope in scopes(index))
nest(index, questions[:1], embedder=embedder)
print(f"scopes ({sizes}): {time.perf_counter() - started:.2f} s")

show(
    timed(
        {
            "hybrid": partial(hybrid, index, embedder=embedder),
            "nest": partial(nest, index, embedder=embedder),
            "nest, inherit": partial(nest, index, embedder=embedder, projection="inherit"),
            "nest, nested": partial(nest, index, embedder=embedder, nested=True),
        },
        questions,
    )
)
wholes = nest(index, questions, embedder=embedder, k=len(index.entries))
print(f"pool: {fmean(map(len, wholes)):.0f} chunks on average")
