"""Import of techniques, measures and model providers from Python files, and their record in exported pipelines."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ragsmith.digest import fingerprint
from ragsmith.errors import UsageError
from ragsmith.measures.registry import measures
from ragsmith.models.registry import providers
from ragsmith.plugins import file_of, load_file, loaded_modules
from ragsmith.techniques.registry import load_techniques

FILESYSTEM_ROOT = Path(Path.cwd().anchor)
"""Root of the file system: the base folder of records that stay in place."""

ImportRecord = Mapping[str, str]
"""An imported file of an exported pipeline: its path as ``file``, and the fingerprint of its code as ``digest``."""


def import_files(paths: Iterable[str | Path] | str | Path) -> None:
    """Import Python files, or a single one, which register techniques, measures and providers.

    Raises:
        UsageError: a file is missing, cannot be run, has changed since this process ran it, or registers a name that
            exists already.
    """
    for path in [paths] if isinstance(paths, str | Path) else paths:
        load_techniques()
        measures()
        providers("embedder")
        load_file(path)


def record_imports(functions: Iterable[Callable[..., Any]], folder: Path) -> list[dict[str, str]]:
    """Return the records of the imported files that define ``functions``, with paths relative to ``folder``."""
    modules = {path: fn.__module__ for fn in functions if (path := file_of(fn.__module__)) is not None}
    return [
        {"file": Path(os.path.relpath(path, folder.resolve())).as_posix(), "digest": fingerprint(module)}
        for path, module in sorted(modules.items())
    ]


def import_recorded_files(records: Iterable[ImportRecord], folder: Path) -> None:
    """Import files recorded by `record_imports`, unless a file with the same code has been imported already.

    Raises:
        UsageError: a file is missing or has changed.
    """
    for entry in records:
        if any(fingerprint(module.__name__) == entry["digest"] for module in loaded_modules()):
            continue
        path = folder / entry["file"]
        if not path.is_file():
            raise UsageError(f"the pipeline needs {path}, which is missing: put it back, or name it with --import")
        import_files([path])
        if fingerprint(load_file(path).__name__) != entry["digest"]:
            raise UsageError(f"{path} has changed since the pipeline was found: put it back, or search again")
