"""The chunk graph beside hybrid search on 10,000 chunks: build time, milliseconds a question, error of short walks."""

import sys
import time
from functools import partial
from statistics import fmean

import numpy as np
from large_corpus import large_index, show, timed

from ragsmith.index.chunk_graph import ChunkGraph, Kind, chunk_graph
from ragsmith.index.top import best_positions
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.techniques.retrieval.graph_ppr import MOST, graph_ppr
from ragsmith.techniques.retrieval.hybrid import hybrid

embedder = WordLlamaEmbedder()
index, questions = large_index()
questions = questions[: int(sys.argv[1])] if len(sys.argv) > 1 else questions


def confined(graph: ChunkGraph) -> tuple[float, float, float]:
    """Share of questions whose walk was confined; L1 error of PageRank; share of the additions that are the same."""
    changed, errors, same = [], [], []
    for hits in hybrid(index, questions, embedder=embedder):
        places = [index.positions[hit.chunk.id] for hit in hits]
        seeds = np.zeros(len(graph))
        seeds[places[:5]] = [hit.score for hit in hits[:5]]
        near, whole = graph.pagerank(seeds, most=MOST), graph.pagerank(seeds)
        changed.append(not np.array_equal(near, whole))
        errors.append(float(np.abs(near - whole).sum()))
        near[places] = whole[places] = 0.0
        one, other = ({*best_positions(ranks, 10, positive=True).tolist()} for ranks in (near, whole))
        same.append(len(one & other) / max(1, len(other)))
    return fmean(changed), fmean(errors), fmean(same)


started = time.perf_counter()
hybrid(index, questions[:1], embedder=embedder)
print(
    f"{len(index.entries)} chunks, {len(questions)} questions; BM25 and vectors: {time.perf_counter() - started:.2f} s"
)
for threshold in (0.7, 0.5):
    started = time.perf_counter()
    graph = chunk_graph(index, embedder, threshold=threshold)
    seconds = time.perf_counter() - started
    kinds = {str(kind.name): int((graph.kinds & kind > 0).sum()) // 2 for kind in Kind}
    print(f"\nthreshold {threshold}: {len(graph.ends) // 2} edges {dict(sorted(kinds.items()))} in {seconds:.2f} s")
    show(
        timed(
            {
                "hybrid": partial(hybrid, index, embedder=embedder),
                "graph_ppr": partial(graph_ppr, index, embedder=embedder, threshold=threshold),
            },
            questions,
        )
    )
    share, error, same = confined(graph)
    print(f"walks confined: {share:.1%}; error of PageRank (L1) {error:.4f}; additions the same {same:.1%}")
