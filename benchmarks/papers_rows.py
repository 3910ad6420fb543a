"""What is compared in `bench_papers`: pairs of pipelines, as data. The text of each row is derived from the pair."""

from dataclasses import dataclass, field

Options = dict[str, "str | tuple[str, dict[str, object]]"]
"""Family to technique, or to technique and parameters; families that are not there are as in naive RAG."""

NAIVE: Options = {"retrieval": "vector", "passage_filter": "top_k", "prompt_maker": "listing"}

FLAT: Options = {"retrieval": ("hybrid", {"weight": 0.6, "pool": 300})}
"""The papers' first stage: BM25 has the share 0.4, both sides min-max scaled, as NEST's scopes score."""

RERANKED: Options = {"reranking": "cross_encoder"}
NEST: Options = {"retrieval": "nest"}
PUBLISHED_NEST: Options = {"retrieval": ("nest", {"aggregate": "mean_present"})}
PUBLISHED_SRR: Options = {
    "query_expansion": ("srr", {"candidates": "decompose", "stop_rule": "as_printed", "keep": "last"})
}
REPLACING_CRAG: Options = {"query_expansion": ("crag", {"on_low": "replace"})}


@dataclass(frozen=True)
class Row:
    """``change`` on top of ``reference``, compared by ``metric``; ``topic`` says whose claim it bears on.

    ``claim`` is what a paper says of just this comparison, and ``expects`` the sign that it implies: 1, -1, or 0 for a
    claim that there is nothing to gain.
    """

    topic: str
    change: Options
    reference: Options = field(default_factory=dict)
    metric: str = "recall"
    claim: str = ""
    expects: int = 1


def expansion(name: str, **parameters: object) -> Options:
    return {"query_expansion": (name, parameters)}


ROWS = (
    # what the parts of naive RAG are worth here, for scale
    Row("baseline", {"retrieval": "bm25"}),
    Row("baseline", FLAT),
    Row("reranker", RERANKED),
    Row("reranker", RERANKED, FLAT),
    # NEST: nested scopes raise recall over flat retrieval
    Row("NEST", PUBLISHED_NEST, FLAT, claim="nested scopes raise recall over flat hybrid retrieval"),
    Row("NEST", NEST, FLAT),
    Row("NEST", NEST, PUBLISHED_NEST),
    Row("NEST", {"retrieval": ("nest", {"aggregate": "rrf60"})}, NEST),
    Row("NEST", {"retrieval": ("nest", {"nested": True})}, NEST),
    Row("NEST", {"retrieval": ("nest", {"projection": "inherit"})}, NEST),
    Row("NEST", NEST | RERANKED, FLAT | RERANKED),
    # noise removal: fewer, less redundant passages without loss
    Row("NR", {"passage_filter": ("nr", {"mode": "count"})}, FLAT),
    Row(
        "NR",
        {"passage_filter": ("nr", {"mode": "count"})},
        FLAT,
        "token_f1",
        "dropping the passages that stand out least improves answers",
    ),
    Row("NR", {"passage_filter": ("nr", {"mode": "greedy"})}, FLAT),
    Row("NR", {"passage_filter": ("nr", {"mode": "greedy"})}, FLAT, "token_f1"),
    Row("NR", {"passage_filter": "nr_survival"}, NEST),
    # calibrated acceptance, and the corrective retrieval it was measured against
    Row("SSCC", {"passage_filter": "sscc"}, RERANKED, "ndcg_10", "calibrated acceptance improves the ranking"),
    Row(
        "SSCC",
        {"passage_filter": "sscc", "query_expansion": "none"},
        REPLACING_CRAG | RERANKED,
        "ndcg_10",
        "calibrated acceptance does better than CRAG",
    ),
    Row("SSCC", {"passage_filter": "sscc"}, RERANKED, "token_f1"),
    Row("SSCC", {"passage_filter": ("sscc", {"objective": "recall"})}, RERANKED, "ndcg_10"),
    Row("SSCC", {"passage_filter": ("sscc", {"per_scale": False})}, RERANKED, "ndcg_10"),
    Row("SSCC", {"passage_filter": "sscc"}, FLAT, "ndcg_10"),
    Row("SSCC", {"retrieval": "sscc_pool"}, {"retrieval": "complete_hybrid"}, "ndcg_10"),
    Row("SSCC", {"retrieval": ("sscc_pool", {"thresholds": "published"})}, {"retrieval": "complete_hybrid"}, "ndcg_10"),
    Row("CRAG", REPLACING_CRAG, RERANKED, "ndcg_10", "CRAG that replaces the list harms (the released results)", -1),
    Row("CRAG", expansion("crag"), RERANKED, "ndcg_10"),
    Row("CRAG", expansion("crag"), REPLACING_CRAG | RERANKED, "ndcg_10"),
    # HyDE helps less, or harms, once a reranker reads the question
    Row("HyDE", expansion("hyde"), {}, "ndcg_10", "without a reranker, HyDE improves the ranking"),
    Row("HyDE", expansion("hyde"), RERANKED, "ndcg_10", "behind a reranker, HyDE has nothing to add", 0),
    Row("HyDE", RERANKED, expansion("hyde"), "ndcg_10"),
    Row("HyDE", expansion("dual_path"), metric="ndcg_10"),
    Row("HyDE", expansion("dual_path"), RERANKED, "ndcg_10"),
    Row("HyDE", expansion("modality_hyde"), metric="ndcg_10"),
    Row("HyDE", expansion("multi_prose"), metric="ndcg_10"),
    Row(
        "HyDE",
        expansion("modality_hyde"),
        expansion("multi_prose"),
        "ndcg_10",
        "one hypothesis for each modality is no better than as many of prose (the released results)",
        0,
    ),
    # self-reflective retrieval, and the same number of rounds without a controller
    Row("SRR", PUBLISHED_SRR, FLAT, claim="self-reflective retrieval raises recall"),
    Row("SRR", expansion("srr"), FLAT),
    Row("SRR", expansion("iterative"), FLAT),
    Row("SRR", expansion("srr"), FLAT | expansion("iterative")),
    # what is added to the index or found over graphs
    Row("RAPTOR", {"pre_embedding": "raptor"}),
    Row("RAPTOR", {"pre_embedding": "raptor"}, RERANKED, claim="a tree of summaries raises recall"),
    Row(
        "cross-document",
        {"pre_embedding": "cross_document"},
        claim="summaries over documents add next to nothing",
        expects=0,
    ),
    Row("graph PPR", {"retrieval": "graph_ppr"}, FLAT, claim="walks on the chunk graph raise recall"),
    Row("graph PPR", {"retrieval": ("graph_ppr", {"scoring": "reserved"})} | RERANKED, FLAT | RERANKED),
    # routers
    Row("routers", expansion("keyword_router"), expansion("dual_path"), "ndcg_10"),
    Row("routers", expansion("entropy_router"), expansion("dual_path"), "ndcg_10"),
    Row("routers", expansion("entropy_router", thresholds="ndcg"), expansion("dual_path"), "ndcg_10"),
    Row(
        "routers",
        expansion("compositional_router"),
        expansion("dual_path"),
        "ndcg_10",
        "a fitted router has nothing to gain over always fusing both paths",
        0,
    ),
)
