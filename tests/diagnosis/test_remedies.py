"""What to try next, by cause."""

from __future__ import annotations

from ragsmith.diagnosis.causes import Cause, name_remedy
from ragsmith.pipelines.genes import make_gene


def test_what_to_try_leaves_out_what_the_pipeline_has() -> None:
    listnet = (make_gene("retrieval", "listnet"), make_gene("reranking", "listnet"))
    hybrid, graph, others = (
        "retrieval hybrid",
        "retrieval graph_ppr",
        "query_expansion multi_query, or another --embedder",
    )
    assert name_remedy(Cause.NOT_RETRIEVED) == f"{hybrid}, {graph}, retrieval listnet, {others}"
    assert name_remedy(Cause.NOT_RETRIEVED, listnet) == f"{hybrid}, {graph}, {others}"
    assert name_remedy(Cause.CUT_BY_FILTER, listnet) == "passage_filter top_k with a larger k"
    assert name_remedy(Cause.NOT_TRACED, listnet) == ""
