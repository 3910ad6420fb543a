"""Walk a folder recursively: list the files to read, and the reasons for skipping other entries."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.sources import FILE as SOURCES
from ragsmith.datasets.writing import TEMPORARY_PREFIX

GENERATED_FOLDERS = ("__pycache__", "node_modules")
"""Names of folders written by programs, which are skipped."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """An entry of the folder: its relative path with ``/``, and the problem if it is not a file to read.

    A ``hidden`` entry is skipped as a whole: a hidden file or folder, a folder written by programs, or a data set
    created by ``ragsmith dataset init``.
    """

    name: str
    path: Path
    problem: str = ""
    hidden: bool = False


def walk(folder: Path, excluded: Path) -> Iterator[FolderEntry]:
    """Yield the files in ``folder`` and the skipped entries, sorted by name; the folder ``excluded`` is ignored.

    Symbolic links are not followed.
    """
    pending = [("", folder)]
    while pending:
        prefix, current = pending.pop()
        try:
            with os.scandir(current) as listed:
                visible = [entry for entry in listed if not entry.name.startswith(TEMPORARY_PREFIX)]
                entries = sorted(visible, key=lambda entry: entry.name)
        except OSError as error:
            yield FolderEntry(prefix.rstrip("/"), current, f"cannot be listed ({os.strerror(error.errno or 0)})")
            continue
        subfolders: list[tuple[str, Path]] = []
        for entry in entries:
            classified = _classify_entry(entry, f"{prefix}{entry.name}", folder)
            if classified is not None:
                yield classified
            elif Path(entry.path).resolve() == excluded:
                continue
            elif all((Path(entry.path) / name).is_file() for name in (SOURCES, MANIFEST)):
                problem = "is a data set made by init; give it alone to convert its documents"
                yield FolderEntry(f"{prefix}{entry.name}", Path(entry.path), problem, hidden=True)
            else:
                subfolders.append((f"{prefix}{entry.name}/", Path(entry.path)))
        pending.extend(reversed(subfolders))


def _classify_entry(entry: os.DirEntry[str], name: str, folder: Path) -> FolderEntry | None:
    """Return an entry, or None for a folder to walk."""
    path = Path(entry.path)
    if entry.name.startswith("."):
        return FolderEntry(name, path, "is hidden", hidden=True)
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError as error:
        return FolderEntry(name, path, f"cannot be read ({os.strerror(error.errno or 0)})")
    if stat.S_ISLNK(mode):
        return FolderEntry(name, path, _link_problem(path, folder))
    if stat.S_ISDIR(mode):
        is_generated = entry.name in GENERATED_FOLDERS
        return FolderEntry(name, path, "is written by programs", hidden=True) if is_generated else None
    return FolderEntry(name, path, "" if stat.S_ISREG(mode) else "is not a regular file")


def _link_problem(path: Path, folder: Path) -> str:
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return "is a symbolic link to nothing"
    if target.is_relative_to(folder.resolve()):
        return "is a symbolic link to an entry of the folder, which is read at its own path"
    return "is a symbolic link out of the folder, which is not followed; copy its target into the folder"
