"""What words are: file names as titles of contracts, with ``_`` as a letter and as a blank; passages of languages.

Recall@5 of contextual headers and BM25 on 101 made-up contracts; how often a query in another form of a word finds its
passage in Turkish, German, Hindi and Arabic, and one in the same form in these, Chinese, Japanese and Thai; BM25 on
the published law and finance data, where they are there.
"""

import hashlib
import json
import re
import sys
from pathlib import Path
from statistics import fmean

import numpy as np
from contracts import contracts

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.relevance import ChunkMap
from ragsmith.evaluation.testbed import CHUNK_SIZE
from ragsmith.measures.recall import recall_at
from ragsmith.text.bm25 import BM25
from ragsmith.text.languages import stem
from ragsmith.text.words import STOP_WORDS, terms

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))
from passages import EXACT, INFLECTED, PASSAGES  # noqa: E402  the passages that the tests are about


def with_underscores(text: str) -> list[str]:
    """The terms of a text as they were while ``_`` was a letter."""
    return [stem(word) for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]


def headers() -> None:
    data = contracts()
    chunks = chunk_documents(data.documents, size=CHUNK_SIZE)
    gold = ChunkMap(chunks)
    print(f"{len(data.documents)} contracts, {len(chunks)} chunks, {len(data.examples)} questions; Recall@5")
    for title, keys in (
        ("bm25", [chunk.text for chunk in chunks]),
        ("contextual_chunk_headers + bm25", [f"{chunk.title}\n\n{chunk.text}" for chunk in chunks]),
    ):
        for how, tokenise in (("_ a letter", with_underscores), ("_ a blank", terms)):
            index = BM25(keys, tokenise=tokenise)
            found = []
            for example in data.examples:
                best = np.argsort(-np.round(index.scores(example.question), 6), kind="stable")[:5]
                relevant = gold.relevance(example.evidence).relevant
                found.append(recall_at([chunks[at].id for at in best], relevant, 5))
            print(f"  {title:32} {how:10}  {fmean(found):.3f}")


def languages() -> None:
    print("queries whose passage is the only best of four: in its language, and as if it were English")
    for kind, queries in (("other forms", INFLECTED), ("the same forms", EXACT)):
        for language, asked in queries.items():
            texts = PASSAGES[language]
            right = []
            for index in (BM25(texts, languages=[language] * len(texts)), BM25(texts)):
                scores = [index.scores(query) for query, _ in asked]
                best = [(found == found.max()).sum() == 1 and int(found.argmax()) for found in scores]
                right.append(sum(at is not False and at == place for at, (_, place) in zip(best, asked, strict=True)))
            print(f"  {kind:15} {language}  {right[0]} of {len(asked)}, {right[1]} of {len(asked)}")


def published() -> None:
    for domain in ("law", "finance"):
        folder = ROOT.parent / "shared" / "data" / f"ragsmith_{domain}_10"
        if not folder.is_dir():
            print(f"the published data set {folder.name} is not beside this checkout")
            continue
        articles = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
        chunks = [(chunk["id"], chunk["content"]) for article in articles for chunk in article["chunks"]]
        items = [item for article in articles for item in article["questions"]["items"]]
        index, recalls, seal = BM25([text for _, text in chunks]), [], hashlib.sha256()
        for item in items:
            scores = index.scores(item["question"])
            seal.update(scores.tobytes())
            ranking = [chunks[at][0] for at in np.argsort(-scores, kind="stable")[:5]]
            recalls.append(recall_at(ranking, set(item["reranked_relative_chunk_ids"]), 5))
        print(f"published {domain}: Recall@5 of BM25 {fmean(recalls):.6f}, all scores {seal.hexdigest()[:16]}")


if __name__ == "__main__":
    headers()
    languages()
    published()
