"""A typed graph over the chunks of an index, and personalised PageRank on it (after Singh et al.).

Edges join chunks that are consecutive, semantically similar, refer to the same section, figure or source, or, in code,
use a definition of the other. The graph is in compressed sparse row format and cached per index and embedder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.chunk_edges import Edges, EdgeType, find_edges
from ragsmith.index.index import Index
from ragsmith.index.scopes import compute_chunk_vectors
from ragsmith.models.protocols import Embedder
from ragsmith.types import Chunk

__all__ = ["ChunkGraph", "EdgeType", "build_chunk_graph", "get_chunk_graph"]


@dataclass(frozen=True, eq=False)
class ChunkGraph:
    """An undirected weighted graph over ``len(starts) - 1`` nodes, every edge stored at both its ends.

    The neighbours of node ``i`` are ``ends[starts[i]:starts[i + 1]]``, ascending; ``weights`` and ``kinds`` are
    parallel to ``ends``. ``degrees`` holds the sum of the weights at each node.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    weights: NDArray[np.float64]
    kinds: NDArray[np.uint8]
    degrees: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.degrees)

    def near(self, nodes: NDArray[np.int64], hops: int, most: int | None = None) -> NDArray[np.int64]:
        """Return the nodes within ``hops`` steps of ``nodes``, ascending.

        With ``most``, a step after the first is only taken while the nodes reached have at most ``most`` edges.
        """
        seen = np.zeros(len(self), dtype=np.bool_)
        seen[nodes] = True
        frontier = np.flatnonzero(seen)
        rings, size = [frontier], 0
        for hop in range(hops):
            size += int(self._counts(frontier).sum())
            reached = self.ends[self._positions(frontier)]
            frontier = np.unique(reached[~seen[reached]])
            if hop and most is not None and size + int(self._counts(frontier).sum()) > most:
                break
            seen[frontier] = True
            rings.append(frontier)
            if not len(frontier):
                break
        return np.sort(np.concatenate(rings))

    def pagerank(
        self, seeds: NDArray[np.float64], *, restart: float = 0.15, steps: int = 20, most: int | None = None
    ) -> NDArray[np.float64]:
        """Return personalised PageRank after ``steps`` iterations, to 9 decimals: shape ``(nodes,)``, sum 1.

        The random walk starts at a node drawn by the non-negative weights ``seeds`` and restarts with probability
        ``restart``, or at a node without edges; otherwise it follows an edge drawn by weight. With ``most``, the walk
        is confined to the nodes `near` the seeds and restarts when it would leave them, which bounds the time; if
        ``near`` is not truncated, the result is the same. All ranks are 0 if all seeds are.
        """
        seeded = np.flatnonzero(seeds)
        ranks = np.zeros(len(self))
        if not len(seeded):
            return ranks
        if most is None or len(self.ends) <= most:  # `near` would not be truncated
            nodes, (sources, ends, shares) = np.arange(len(self)), self._all_edges
        else:
            nodes = self.near(seeded, steps, most)
            sources, ends, shares = self._within(nodes)
        r = seeds[nodes] / seeds[seeded].sum()
        p = r
        for _ in range(steps):
            moved = np.bincount(ends, weights=shares * p[sources], minlength=len(nodes))  # M p
            # p <- (1 - a) M p + a r, where the mass lost at nodes without edges is added to r
            p = (1 - restart) * (moved + (1 - moved.sum()) * r) + restart * r
        ranks[nodes] = np.round(p, 9)
        return ranks

    @cached_property
    def _all_edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        return self._within(np.arange(len(self)))

    def _within(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return the edges among ``nodes`` as positions in it, and their transition probabilities."""
        positions = self._positions(nodes)
        local = np.full(len(self), -1)
        local[nodes] = np.arange(len(nodes))
        sources = np.repeat(np.arange(len(nodes)), self._counts(nodes))
        ends = local[self.ends[positions]]
        inside = ends >= 0
        shares = self.weights[positions] / self.degrees[nodes][sources]
        return sources[inside], ends[inside], shares[inside]

    def _counts(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.starts[nodes + 1] - self.starts[nodes]

    def _positions(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions in ``ends`` of all neighbours of ``nodes``, node by node."""
        counts = self._counts(nodes)
        shifts = np.repeat(self.starts[nodes] - np.cumsum(counts) + counts, counts)
        return shifts + np.arange(len(shifts))


def get_chunk_graph(index: Index, embedder: Embedder, *, threshold: float = 0.7, neighbours: int = 16) -> ChunkGraph:
    """Return the graph over the entries of ``index``, whose positions are the nodes; summaries have no edges."""

    def build() -> ChunkGraph:
        chunks = [entry.chunk for entry in index.entries]
        vectors = compute_chunk_vectors(index, embedder).astype(np.float64, copy=False) if chunks else np.zeros((0, 1))
        return build_chunk_graph(chunks, vectors, threshold=threshold, neighbours=neighbours)

    return index.derived(f"chunk graph {threshold} {neighbours} {embedder.id}", build)


def build_chunk_graph(
    chunks: Sequence[Chunk], vectors: NDArray[np.float64], *, threshold: float = 0.7, neighbours: int = 16
) -> ChunkGraph:
    """Build the graph of ``chunks`` with their normalised ``vectors``; see `chunk_edges` for the edges."""
    return _compress_edges(find_edges(chunks, vectors, threshold, neighbours), len(chunks))


def _compress_edges(edges: Edges, nodes: int) -> ChunkGraph:
    """Store every edge at both its ends, in the order of nodes and neighbours."""
    low, high, weights, kinds = edges
    sources, ends = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((ends, sources))
    weights = np.concatenate([weights, weights])[order]
    return ChunkGraph(
        starts=np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=nodes))]),
        ends=ends[order],
        weights=weights,
        kinds=np.concatenate([kinds, kinds])[order],
        degrees=np.bincount(sources[order], weights=weights, minlength=nodes).astype(np.float64),
    )
