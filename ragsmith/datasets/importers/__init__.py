"""An importer reads a data set that was published in another layout and turns its gold into character spans.

One file a format; `registry` says how one is declared, and `recognition` how formats are told apart.
"""

from __future__ import annotations

from pathlib import Path

from ragsmith.datasets.importers.imported import Imported
from ragsmith.datasets.importers.recognition import recognise_format
from ragsmith.datasets.importers.registry import IMPORTERS, importer
from ragsmith.errors import UsageError
from ragsmith.types import Dataset

__all__ = ["IMPORTERS", "Imported", "import_dataset", "importer", "recognised"]


def import_dataset(source: Path, layout: str | None = None, documents: Dataset | None = None) -> Imported:
    """Read the published data set in the folder (or file) ``source``, in ``layout`` or in the one it is seen to have.

    ``layout`` is ``NAME`` or ``NAME(option=value)``. ``documents`` are looked through for the texts that answer the
    questions, in those formats that have these alone.

    Raises:
        UsageError: there is nothing, or the format is unknown, cannot be told or brings its own documents.
        DatasetError: a file is not in that format.
    """
    known = IMPORTERS.parse(layout) if layout is not None else None
    if not source.exists():
        raise UsageError(f"{source}: there is no such folder or file; give the folder or the file that was published")
    return (known or recognise_format(source)).read(source, documents)
