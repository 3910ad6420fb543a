"""Walk a folder of any depth: the files to read, and reasons for everything else."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.sources import FILE as SOURCES
from ragsmith.datasets.writing import PREFIX

ASIDE = ("__pycache__", "node_modules")
"""Folders written by programs."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """An entry of the folder: its relative path with ``/``, and the reason if it is not a file to read.

    Folders that are ``hidden``, written by programs, or data sets made by ``ragsmith dataset init`` are one entry.
    """

    name: str
    path: Path
    problem: str = ""
    hidden: bool = False


def walk(folder: Path, leaving_out: Path) -> Iterator[FolderEntry]:
    """Yield the files in ``folder`` and what cannot be read, sorted by name; the folder ``leaving_out`` is skipped.

    Symbolic links are not followed.
    """
    within = [("", folder)]
    while within:
        above, at = within.pop()
        try:
            with os.scandir(at) as listed:
                entries = sorted((e for e in listed if not e.name.startswith(PREFIX)), key=lambda entry: entry.name)
        except OSError as error:
            yield FolderEntry(above.rstrip("/"), at, f"cannot be listed ({os.strerror(error.errno or 0)})")
            continue
        inner: list[tuple[str, Path]] = []
        for entry in entries:
            found = _entry(entry, f"{above}{entry.name}", folder)
            if found is not None:
                yield found
            elif Path(entry.path).resolve() == leaving_out:
                continue
            elif all((Path(entry.path) / name).is_file() for name in (SOURCES, MANIFEST)):
                said = "is a data set made by init; give it alone to convert its documents"
                yield FolderEntry(f"{above}{entry.name}", Path(entry.path), said, hidden=True)
            else:
                inner.append((f"{above}{entry.name}/", Path(entry.path)))
        within.extend(reversed(inner))


def _entry(entry: os.DirEntry[str], name: str, folder: Path) -> FolderEntry | None:
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
        return FolderEntry(name, path, "is written by programs", hidden=True) if entry.name in ASIDE else None
    return FolderEntry(name, path, "" if stat.S_ISREG(mode) else "is not a regular file")


def _link_problem(path: Path, folder: Path) -> str:
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return "is a symbolic link to nothing"
    if target.is_relative_to(folder.resolve()):
        return "is a symbolic link to an entry of the folder, which is read at its own path"
    return "is a symbolic link out of the folder, which is not followed; copy its target into the folder"
