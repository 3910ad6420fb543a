"""RAPTOR trees over 2,000 chunks, as one document and as ten: seconds, nodes by level, model calls."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.importers.ragsmith_layout import import_ragsmith_layout
from ragsmith.gateway.gateway import Gateway
from ragsmith.index.clustering import COVARIANCES
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.usage import Meter
from ragsmith.techniques.pre_embedding.raptor import raptor
from ragsmith.types import Chunk, Document

CHUNKS = 2000
SIZES = (900, 600, 450, 300, 200)
FOLDERS = ("ragsmith_law_10", "ragsmith_finance_10")
SHARED = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"


def main() -> None:
    texts, described = material()
    print(f"{len(texts):,} chunks {described}, {sum(map(len, texts)) / len(texts) / 4:.0f} tokens on average")
    for documents in (1, 10):
        for covariance in COVARIANCES:
            build(texts, documents, covariance)


def build(texts: list[str], documents: int, covariance: str) -> None:
    chunks = tuple(laid_out(texts, documents))
    gateway = Gateway()
    embedder = WordLlamaEmbedder()
    model = ExtractiveModel(texts, embedder)
    started = time.perf_counter()
    entries = raptor(
        chunks,
        language_model=gateway.language_model(model, Meter()),
        embedder=gateway.embedder(embedder, Meter()),
        covariance=covariance,
    )
    seconds = time.perf_counter() - started
    levels = Counter(entry.chunk.level for entry in entries)
    nodes = ", ".join(f"level {level}: {count:,}" for level, count in sorted(levels.items()))
    calls = gateway.counts()["language_model"].made
    case = f"{documents:>2} document{'s' if documents > 1 else ' '}  {covariance:<8}"
    print(f"{case}  {seconds:5.1f} s  {calls:,} calls  {nodes}")


def material() -> tuple[list[str], str]:
    """Texts of 2,000 chunks: of the published articles, or of the bundled law with every edition numbered."""
    found = [SHARED / name for name in FOLDERS if (SHARED / name).is_dir()]
    documents: list[Document] = [d for folder in found for d in import_ragsmith_layout(folder).dataset.documents]
    for size in SIZES:
        chunks = chunk_documents(documents, size=size)
        if len(chunks) >= CHUNKS:
            return [chunk.text for chunk in chunks[:CHUNKS]], f"of at most {size} characters of the published articles"
    law = chunk_documents(load_dataset("law").documents)
    editions = [f"Edition {n // len(law) + 1}. {law[n % len(law)].text}" for n in range(CHUNKS)]
    return editions, "of the bundled law, repeated"


def laid_out(texts: list[str], documents: int) -> Iterator[Chunk]:
    """The texts one after the other, in so many documents of equally many."""
    length = -(-len(texts) // documents)
    place = 0
    for n, text in enumerate(texts):
        number, index = divmod(n, length)
        place = 0 if index == 0 else place
        doc = f"document-{number}"
        yield Chunk(f"{doc}#{index:04d}", doc, index, place, place + len(text), text, title=doc)
        place += len(text) + 2


if __name__ == "__main__":
    main()
