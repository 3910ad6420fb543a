"""Retrieval in German, in Turkish and in a folder of three languages, with the default and the multilingual embedder.

    python benchmarks/bench_languages.py [german turkish mixed]

Each file of `benchmarks/languages` has ten short documents and twenty questions with the sentence that answers them. R
is the retrieval score of vector search (`naive`), BM25 and the recommended pipeline. Needs the extra
``multilingual``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import yaml
from commands import ragsmith

LANGUAGES = Path(__file__).parent / "languages"
EMBEDDERS = ("wordllama", "multilingual-e5-small")


def write_documents(collection: str, folder: Path) -> list[dict[str, str]]:
    """Write the documents of a collection to ``folder``, and return its questions, quoting the passage of each."""
    content = yaml.safe_load((LANGUAGES / f"{collection}.yaml").read_text(encoding="utf-8"))
    folder.mkdir()
    for name, text in content["documents"].items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    keys = ("question", "answer", "doc", "evidence")
    return [dict(zip(keys, line.split(" | "), strict=True)) for line in content["questions"].splitlines()]


def run(folder: Path, *arguments: str) -> str:
    """Return what a command of ragsmith prints; end with its error if it fails."""
    ran = ragsmith(*arguments, folder=folder)
    if ran.code:
        raise SystemExit(f"ragsmith {' '.join(arguments)}: {ran.err}")
    return ran.out


def retrieval(folder: Path, collection: str) -> dict[str, dict[str, float]]:
    """Return R by embedder and pipeline."""
    questions = write_documents(collection, folder / "documents")
    lines = "".join(json.dumps(question, ensure_ascii=False) + "\n" for question in questions)
    (folder / "questions.jsonl").write_text(lines, encoding="utf-8")
    run(folder, "dataset", "init", "documents", "-o", "data")
    run(folder, "dataset", "anchor", "questions.jsonl", "--documents", "data", "-o", "asked")
    scores: dict[str, dict[str, float]] = {}
    for embedder in EMBEDDERS:
        run(folder, "recommend", "asked", "--embedder", embedder, "-o", "recommended.yaml")
        scores[embedder] = {}
        for other in ("naive", "bm25"):
            compared = run(folder, "compare", "recommended.yaml", other, "--split", "all", "--json")
            measured = {row["measure"]: row for row in json.loads(compared)["measures"]}["retrieval"]
            scores[embedder] |= {other: measured["second"], "recommended": measured["first"]}
    return scores


def main() -> None:
    """Print a row for each collection and embedder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("collections", nargs="*", default=["german", "turkish", "mixed"])
    for collection in parser.parse_args().collections:
        with tempfile.TemporaryDirectory() as folder:
            for embedder, scored in retrieval(Path(folder), collection).items():
                listed = "  ".join(f"{pipeline} {score:.3f}" for pipeline, score in scored.items())
                print(f"{collection:8} {embedder:22} {listed}", flush=True)


if __name__ == "__main__":
    main()
