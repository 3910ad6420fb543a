"""What lies in a folder of any depth: the files to read, and a sentence for everything else."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragsmith.datasets.ingest.writing import PREFIX
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.sources import FILE as SOURCES

ASIDE = ("__pycache__", "node_modules")
"""Folders that programs fill."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """Something in the folder: its path from there with ``/``, and why it is no file to read, if it is none.

    What is ``hidden``, was filled by a program, or is a data set that an intake made, is one entry, however
    much is in it, and is not looked into.
    """

    name: str
    path: Path
    problem: str = ""
    hidden: bool = False


def walk(folder: Path, leaving_out: Path) -> Iterator[FolderEntry]:
    """Yield everything in ``folder`` but folders that are looked into, by names; ``leaving_out`` is not looked into.

    No symbolic link is followed: what it points to is read where it lies, if that is in ``folder``.
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
                said = "is a data set that init made; give it alone to take its documents in"
                yield FolderEntry(f"{above}{entry.name}", Path(entry.path), said, hidden=True)
            else:
                inner.append((f"{above}{entry.name}/", Path(entry.path)))
        within.extend(reversed(inner))


def _entry(entry: os.DirEntry[str], name: str, folder: Path) -> FolderEntry | None:
    """What is found, or None for a folder to look into."""
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
        return FolderEntry(name, path, "is filled by programs", hidden=True) if entry.name in ASIDE else None
    return FolderEntry(name, path, "" if stat.S_ISREG(mode) else "is not a regular file")


def _link_problem(path: Path, folder: Path) -> str:
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return "is a symbolic link to nothing"
    if target.is_relative_to(folder.resolve()):
        return "is a symbolic link to something in the folder, which is read where it lies"
    return "is a symbolic link out of the folder, which is not followed; copy what it points to into the folder"
