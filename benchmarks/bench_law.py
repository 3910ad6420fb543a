"""How hard the bundled `law` data set is: Recall@5 of BM25, of static vectors and of shortcuts."""

import statistics

from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.testbed import Setup
from ragsmith.index.index import Index
from ragsmith.measures.recall import recall_at
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.types import IndexEntry

law = Setup(load_dataset("law"))
chunks = law.corpus.chunks
index = Index(tuple(IndexEntry((chunk.text,), chunk) for chunk in chunks))
asked = [e for e in law.dataset.examples if e.evidence]
questions = [e.question for e in asked]
embedder = WordLlamaEmbedder()
rankings = {
    "BM25": [[hit.chunk for hit in hits] for hits in index.by_words(questions, 5)],
    "static vectors": [[hit.chunk for hit in hits] for hits in index.by_vector(questions, 5, embedder)],
    "first chunks of documents": [sorted(chunks, key=lambda c: (c.index, c.id))] * len(questions),
    "longest chunks": [sorted(chunks, key=lambda c: (-len(c.text), c.id))] * len(questions),
}
for name, found in rankings.items():
    values = [
        recall_at([chunk.id for chunk in ranking], law.relevance[e.id].relevant)
        for e, ranking in zip(asked, found, strict=True)
    ]
    print(f"{name:<26} Recall@5 {statistics.fmean(values):.3f}")
