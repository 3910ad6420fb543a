"""Which layout published files have, told by their names and by the keys that are in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from ragsmith.datasets.anchoring.asked import recognised
from ragsmith.datasets.anchoring.sheets import read_rows
from ragsmith.datasets.importers.autorag import CORPUS as AUTORAG_CORPUS
from ragsmith.datasets.importers.beir import CORPUS as BEIR_CORPUS
from ragsmith.datasets.importers.beir import qrels_files
from ragsmith.datasets.importers.imported import read_files
from ragsmith.datasets.importers.snippets import QUESTIONS as CHROMA_QUESTIONS
from ragsmith.errors import DatasetError

KEYS: Mapping[str, tuple[frozenset[str], ...]] = MappingProxyType(
    {
        "hotpotqa": (frozenset({"context", "supporting_facts"}),),
        "ragsmith": (frozenset({"article", "chunks", "questions"}),),
        "tatqa": (frozenset({"table", "paragraphs", "questions"}),),
        "squad": (frozenset({"title", "paragraphs"}), frozenset({"context", "question", "answers"})),
        "ragas": (frozenset({"user_input", "reference_contexts"}), frozenset({"contexts", "evolution_type"})),
        "llama-index": (frozenset({"query", "reference_contexts"}),),
        "legalbench-rag": (frozenset({"query", "snippets"}),),
    }
)
"""The keys that the objects of a layout have, by its name."""

LISTS = (".csv", ".tsv", ".jsonl", ".xlsx")

WITHIN = ("data", "examples", "tests")
"""Keys of a file whose list holds the objects."""


def formats(source: Path) -> set[str]:
    """Return the layouts that the files in the folder (or the file) ``source`` are seen to have.

    Files that tell nothing, such as a corpus, are passed over. Raises ``DatasetError`` when a file that might tell
    cannot be read, or when there is none.
    """
    if source.is_dir() and (known := _by_names(source)):
        return {known}
    if source.suffix.lower() == ".parquet" and source.is_file():
        return {"autorag"}
    paths = sorted(source.iterdir()) if source.is_dir() else [source]
    lists = [path for path in paths if path.suffix.lower() in LISTS and path.is_file()]
    found = {name for path in lists for name in _of_list(path)}
    if lists and not any(path.suffix.lower() == ".json" for path in paths):
        return found
    return found | {name for names in read_files(source, _of_json) for name in names}


def _by_names(folder: Path) -> str | None:
    """The layout of a folder whose files have the names of one."""
    seen = {
        "autorag": (folder / AUTORAG_CORPUS).is_file(),
        "beir": (folder / BEIR_CORPUS).is_file() and bool(qrels_files(folder)),
        "chroma": (folder / CHROMA_QUESTIONS).is_file(),
        "legalbench-rag": (folder / "benchmarks").is_dir() and (folder / "corpus").is_dir(),
    }
    return next((name for name, is_so in seen.items() if is_so), None)


def _of_list(path: Path) -> Iterator[str]:
    """The layouts of a list; one with questions and texts that nobody else writes is a list of one's own."""
    _, first = read_rows(path)[0]
    if first.keys() >= {"question", "references", "corpus_id"}:
        yield "chroma"
        return
    yield from list(_of_keys(first)) or _of_own(first, path)


def _of_own(keys: Iterable[str], path: Path) -> Iterator[str]:
    try:
        if "evidence" in recognised(list(keys), {}, path):
            yield "list"
    except DatasetError:
        return


def _of_json(content: object) -> list[str]:
    first = content[0] if isinstance(content, list) and content else content
    if not isinstance(first, dict):
        return []
    inner = [item[0] for key in WITHIN if isinstance(item := first.get(key), list) and item]
    found = [name for keys in [first, *inner] if isinstance(keys, dict) for name in _of_keys(keys)]
    return found or (list(_of_own(first, Path())) if isinstance(content, list) else [])


def _of_keys(keys: Iterable[str]) -> Iterator[str]:
    held = frozenset(keys)
    yield from (name for name, wanted in KEYS.items() if any(some <= held for some in wanted))
