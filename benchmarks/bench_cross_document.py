"""The cross-document tier over 200 documents when one more is added: nodes, nodes reused, model calls made."""

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from statistics import mean

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.dataset import load_dataset
from ragsmith.gateway.gateway import Gateway
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.usage import Meter
from ragsmith.techniques.pre_embedding.cross_document import cross_document
from ragsmith.types import Chunk, Chunks, Document, Entries

DOCUMENTS = 200
ADDITIONS = 20
PARTITIONS = ("anchors", "mixture")
CORPUS = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "hotpotqa_100" / "train_corpus.json"


def main() -> None:
    everything = list(material())[: DOCUMENTS + ADDITIONS]
    every = len(everything) // ADDITIONS  # neighbours belong to one question, so those added come from all over
    added = everything[::every][:ADDITIONS]
    documents = [document for document in everything if document not in added]
    before = chunk_documents(documents)
    print(f"{len(documents)} documents, {len(before)} chunks; {len(added)} times one document more")
    embedder = WordLlamaEmbedder()
    # one model that has read everything stands for a chat model, whose id does not depend on the corpus either
    model = ExtractiveModel([chunk.text for chunk in chunk_documents([*documents, *added])], embedder)
    for partition in PARTITIONS:
        rows = [addition(before, document, partition, model, embedder) for document in added]
        nodes, reused, made, same, whole = (mean(column) for column in zip(*rows, strict=True))
        worst = min(row[1] / max(1, row[0]) for row in rows)
        equal = same / reused if reused else 1
        print(
            f"{partition:<8}  nodes {nodes:5.1f}  reused {reused:5.1f} ({reused / nodes:6.1%}, at worst {worst:6.1%})"
            f"  calls made {made:5.1f}"
        )
        print(f"          as in a rebuild: {equal:.0%} of the nodes reused, {whole:.0%} of the tiers")


def addition(
    before: Chunks, document: Document, partition: str, model: ExtractiveModel, embedder: WordLlamaEmbedder
) -> tuple[int, int, int, int, int]:
    """After the addition: nodes, those there before, calls made, those of them and tiers that a rebuild has too."""
    after = (*before, *chunk_documents([document]))
    gateway = Gateway()

    def tier(chunks: Chunks, through: Gateway) -> dict[str, Chunk]:
        entries: Entries = cross_document(
            chunks,
            language_model=through.language_model(model, Meter()),
            embedder=through.embedder(embedder, Meter()),
            partition=partition,
        )
        return {entry.chunk.id: entry.chunk for entry in entries if entry.chunk.level}

    old = tier(before, gateway)
    made_before = gateway.counts()["language_model"].made
    new = tier(after, gateway)
    made = gateway.counts()["language_model"].made - made_before
    rebuilt = tier(after, Gateway())
    reused = old.keys() & new.keys()
    same = sum(new[node] == rebuilt.get(node) for node in reused)
    return len(new), len(reused), made, same, int(new == rebuilt)


def material() -> Iterator[Document]:
    """Paragraphs of HotpotQA, or sections of the bundled law, as documents."""
    if CORPUS.is_file():
        for number, (title, sentences) in enumerate(json.loads(CORPUS.read_text(encoding="utf-8")).items()):
            yield Document(f"paragraph-{number:03d}", title, "".join(sentences))
        return
    law = load_dataset("law")
    for section, chunks in groupby(chunk_documents(law.documents), key=lambda chunk: (chunk.doc, chunk.section)):
        parts = list(chunks)
        text = "\n\n".join(chunk.text for chunk in parts)
        yield Document(f"{section[0]}-{section[1]:03d}", " > ".join(parts[0].headings), text)


if __name__ == "__main__":
    main()
