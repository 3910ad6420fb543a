"""An importer reads a data set that was published in another layout and turns its gold into character spans.

Each takes a folder and returns what it made of it, with a count of the gold it found exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from ragsmith.datasets.importers.autorag import import_autorag
from ragsmith.datasets.importers.beir import import_beir
from ragsmith.datasets.importers.contexts import import_list, import_llama_index, import_ragas
from ragsmith.datasets.importers.hotpotqa import import_hotpotqa
from ragsmith.datasets.importers.imported import Imported
from ragsmith.datasets.importers.ragsmith_layout import import_ragsmith_layout
from ragsmith.datasets.importers.recognition import formats
from ragsmith.datasets.importers.snippets import import_chroma, import_legalbench_rag
from ragsmith.datasets.importers.squad import import_squad
from ragsmith.datasets.importers.tatqa import import_tatqa
from ragsmith.errors import UsageError
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Dataset

Importer = Callable[[Path], Imported]

IMPORTERS: Mapping[str, Importer] = MappingProxyType(
    {
        "autorag": import_autorag,
        "beir": import_beir,
        "chroma": import_chroma,
        "hotpotqa": import_hotpotqa,
        "legalbench-rag": import_legalbench_rag,
        "list": import_list,
        "llama-index": import_llama_index,
        "ragas": import_ragas,
        "ragsmith": import_ragsmith_layout,
        "squad": import_squad,
        "tatqa": import_tatqa,
    }
)

OF_CONTEXTS: Mapping[str, Callable[[Path, Dataset | None], Imported]] = MappingProxyType(
    {"list": import_list, "llama-index": import_llama_index, "ragas": import_ragas}
)
"""Those whose gold are texts, which may be looked for in documents of one's own."""

__all__ = [
    "IMPORTERS",
    "OF_CONTEXTS",
    "Imported",
    "Importer",
    "import_autorag",
    "import_beir",
    "import_chroma",
    "import_dataset",
    "import_hotpotqa",
    "import_legalbench_rag",
    "import_list",
    "import_llama_index",
    "import_ragas",
    "import_ragsmith_layout",
    "import_squad",
    "import_tatqa",
    "recognised",
]


def import_dataset(source: Path, layout: str | None = None, documents: Dataset | None = None) -> Imported:
    """Read the published data set in the folder (or file) ``source``, in ``layout`` or in the one it is seen to have.

    ``documents`` are looked through for the texts that answer the questions, in those formats that have these alone.
    Raises ``UsageError`` when there is nothing, or the format is unknown, cannot be told or brings its own documents;
    ``DatasetError`` when a file is not in that format.
    """
    if layout is not None and layout not in IMPORTERS:
        raise UsageError(f"unknown format {layout!r}: {did_you_mean(layout, IMPORTERS)}")
    if not source.exists():
        raise UsageError(f"{source}: there is no such folder or file; give the folder or the file that was published")
    layout = layout or recognised(source)
    if documents is None:
        return IMPORTERS[layout](source)
    if layout not in OF_CONTEXTS:
        raise UsageError(f"the format {layout!r} brings its own documents; leave --documents out")
    return OF_CONTEXTS[layout](source, documents)


def recognised(source: Path) -> str:
    """Return the format of the files in ``source``; files that tell nothing, such as a corpus, are passed over.

    Raises ``UsageError`` when none or several are seen, ``DatasetError`` when a file cannot be read.
    """
    found = formats(source)
    if len(found) == 1:
        return found.pop()
    seen = f"has files in several formats ({', '.join(sorted(found))})" if found else "is in no format that is known"
    raise UsageError(f"{source}: {seen}; name one with --format ({', '.join(sorted(IMPORTERS))})")
