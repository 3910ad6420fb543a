"""10,000 chunks of real text for the benchmarks of retrieval: encyclopaedia, abstracts, reports and Wikipedia leads.

On a busy machine set OPENBLAS_NUM_THREADS=1: threads that wait for a core make a product of matrices ten times slower.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import median

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.general_weights import load_shipped_weights
from ragsmith.index.index import Index
from ragsmith.techniques.listwise import solve
from ragsmith.techniques.pre_embedding.none import none
from ragsmith.types import Chunk, Document, Fitted

SIZE = 10_000
DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
_HEADING = re.compile(r"\s*(={2,6}) (.+?) \1\s*")


def large_corpus(size: int = SIZE) -> tuple[tuple[Chunk, ...], tuple[str, ...]]:
    """``size`` chunks of at most 330 characters, and 200 questions about some of them."""
    law = load_dataset("law")
    documents = [*_articles("law"), *_articles("finance"), *_cranfield(), *_reports(), *_leads(), *law.documents]
    chunks: list[Chunk] = []
    for n in count():
        # where the published data are missing, the bundled documents repeat, each time cut at another size
        copies = [replace(document, id=f"{document.id}-{n}") for document in (documents if n == 0 else law.documents)]
        chunks += _with_sections(chunk_documents(copies, size=330 + 7 * n))
        if len(chunks) >= size:
            break
    return tuple(chunks[:size]), _questions() or tuple(example.question for example in law.examples)


def large_index() -> tuple[Index, tuple[str, ...]]:
    """The index of these chunks, and the questions."""
    chunks, questions = large_corpus()
    return Index(none(chunks)), questions


def general_weights(technique: str) -> Fitted:
    """The general weights of a technique, named as ``family.name``."""
    return Fitted(solve([], general=load_shipped_weights().general(technique), without=""))


def timed(
    searches: Mapping[str, Callable[[Sequence[str]], object]], questions: Sequence[str], rounds: int = 5
) -> dict[str, list[float]]:
    """Milliseconds of each search and question, asked by itself.

    The best of ``rounds``, as other load only ever adds, and in turn, so that it adds to all alike. Each time, a blank
    more stands behind the question: an index remembers what it has searched.
    """
    times: dict[str, list[float]] = {name: [] for name in searches}
    for question in questions:
        best = dict.fromkeys(searches, float("inf"))
        asked = question
        for _ in range(rounds):
            for name, search in searches.items():
                asked += " "
                started = time.perf_counter()
                search((asked,))
                best[name] = min(best[name], 1000 * (time.perf_counter() - started))
        for name, least in best.items():
            times[name].append(least)
    return times


def show(times: Mapping[str, Sequence[float]]) -> None:
    """Print the median and the 95th percentile of each search, and what it takes more than the first."""
    first = next(iter(times.values()))
    for name, spent in times.items():
        more = sorted(one - other for one, other in zip(spent, first, strict=True))
        print(f"{name:<16}{_spread(spent)}   added {_spread(more)}   ratio {median(spent) / median(first):.2f}")


def _spread(times: Sequence[float]) -> str:
    return f"median {median(times):5.2f} ms  p95 {sorted(times)[int(0.95 * len(times))]:5.2f} ms"


def _with_sections(chunks: Sequence[Chunk]) -> Iterator[Chunk]:
    """Number the sections by their headings, where the chunks are not numbered."""
    if any(chunk.section for chunk in chunks):
        yield from chunks
        return
    seen: dict[tuple[str, tuple[str, ...]], int] = {}
    of_document: dict[str, int] = {}
    for chunk in chunks:
        key = (chunk.doc, chunk.headings)
        if key not in seen:
            seen[key] = of_document.get(chunk.doc, 0)
            of_document[chunk.doc] = seen[key] + 1
        yield replace(chunk, section=seen[key])


def _articles(domain: str) -> Iterator[Document]:
    for path in sorted((DATA / f"ragsmith_{domain}_10").glob("*.json")):
        article = json.loads(path.read_text(encoding="utf-8"))["article"]
        text = article["content"].split("---\n", 2)[-1]  # below the front matter
        yield Document(path.stem, article["title"], _HEADING.sub(r"\n\n## \2\n\n", text))


def _cranfield() -> Iterator[Document]:
    path = DATA / "cranfield" / "cran.all.1400"
    for n, record in enumerate(path.read_text(encoding="utf-8").split(".I ")[1:] if path.exists() else []):
        title, _, rest = record.partition(".T\n")[2].partition(".A\n")
        yield Document(f"cran{n:04}", title.strip(), rest.partition(".W\n")[2].strip() or title)


def _reports() -> Iterator[Document]:
    path = DATA / "tatqa_dev" / "tatqa_dataset_dev.json"
    for n, record in enumerate(json.loads(path.read_text(encoding="utf-8")) if path.exists() else []):
        table = "\n".join("| " + " | ".join(row) + " |" for row in record["table"]["table"])
        yield Document(f"report{n:03}", "", "\n\n".join([table, *(p["text"] for p in record["paragraphs"])]))


def _leads() -> Iterator[Document]:
    path = DATA / "hotpotqa_100" / "train_corpus.json"
    for n, (title, sentences) in enumerate(
        json.loads(path.read_text(encoding="utf-8")).items() if path.exists() else []
    ):
        yield Document(f"lead{n:03}", title, "".join(sentences))


def _questions() -> tuple[str, ...]:
    asked: list[str] = []
    for domain in ("law", "finance"):
        for path in sorted((DATA / f"ragsmith_{domain}_10").glob("*.json")):
            items = json.loads(path.read_text(encoding="utf-8"))["questions"]["items"]
            asked += [item["question"] for item in items]
    return tuple(asked)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
