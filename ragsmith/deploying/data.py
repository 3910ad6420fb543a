"""The data of a kit: a copy of the files that the pipeline's documents, and its questions, are read from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ragsmith.datasets.documents import FOLDER
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.sources import FILE as SOURCES
from ragsmith.datasets.sources import read_sources
from ragsmith.deploying.contents import Contents

DATA = "data"
"""The folder of a kit in which they lie."""


def copied(folder: Path, *, questions: bool) -> Contents:
    """The files of the data set, or of the documents, in ``folder``; ``questions`` come along or do not.

    ``folder`` has been loaded, so that nothing in it is a link or of no kind that can be read.
    """
    documents = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    found = {f"{DATA}/{FOLDER}/{name}": path for name, path in _files(documents)}
    wanted = [MANIFEST, *([QUESTIONS] if questions else []), *([SOURCES] if _moves(folder) else [])]
    if documents != folder:
        found |= {f"{DATA}/{name}": folder / name for name in wanted if (folder / name).is_file()}
    return found


def _moves(folder: Path) -> bool:
    """Whether what its documents were made of is named without a place on this machine."""
    named = [PurePosixPath(row.source) for row in read_sources(folder)]
    return not any(path.is_absolute() or ".." in path.parts for path in named)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every file below ``folder`` that is read as a document: nothing hidden, and no compiled module."""
    for path in sorted(folder.rglob("*")):
        within = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in within.parts):
            yield within.as_posix(), path
