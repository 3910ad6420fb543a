"""Change a data set's folder by renaming what was written beside it; one at a time.

A new folder is there whole or not at all. In one that is there already each file is the old one or the new one, and
``sources.jsonl`` comes last: after a power cut in between, the same command finds what was written and goes on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from ragsmith.datasets.locking import locked
from ragsmith.errors import UsageError

PREFIX = ".ragsmith-"
REMOVED = "removed"
"""The folder in the data set that documents go to whose files are gone."""


@dataclass
class FolderChanges:
    """What will be different in the folder ``output``: files written to ``draft``, and files that move away."""

    output: Path
    draft: Path
    written: list[str] = field(default_factory=list)
    away: list[str] = field(default_factory=list)

    def write(self, name: str, text: str) -> None:
        """Have a file of this name, which is a path from the folder, with this text."""
        path = self.draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        self.written.append(name)

    def move_away(self, name: str) -> None:
        """Have this file among those that were removed."""
        self.away.append(name)

    def preview(self, name: str) -> Path:
        """Return a folder that has the files of the folder ``name`` as they will be."""
        before = self.output / name
        if not before.is_dir():
            return self.draft / name
        view = self.draft / "preview"
        shutil.copytree(before, view, copy_function=_link_or_copy, ignore=lambda *_: ())
        for written in self.written:
            if written.startswith(f"{name}/"):
                path = view / written.removeprefix(f"{name}/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                _link_or_copy(str(self.draft / written), str(path))
        for away in self.away:
            (view / away.removeprefix(f"{name}/")).unlink(missing_ok=True)
        return view

    @property
    def joins(self) -> bool:
        """Whether the folder was there before."""
        return self.draft.parent == self.output

    def held(self) -> AbstractContextManager[None]:
        """Keep others from writing questions: which documents they point to decides which may move away."""
        return locked(self.output) if self.joins else nullcontext()

    def apply(self) -> None:
        """Put everything in its place, in the order in which it was written."""
        shutil.rmtree(self.draft / "preview", ignore_errors=True)
        if not self.joins:
            _rename_draft(self.draft, self.output)
            return
        for name in self.away:
            self._rename(self.output / name, _free_path(self.output / REMOVED / name))
        for name in self.written:
            self._rename(self.draft / name, self.output / name)
        for name in self.away:
            _remove_empty_folders((self.output / name).parent, self.output)

    def _rename(self, path: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)


@contextmanager
def folder_changes(output: Path) -> Iterator[FolderChanges]:
    """Give what changes ``output``; nothing is left of it after an error or an interruption.

    Raises ``UsageError`` where another process changes the same folder.
    """
    there = output.is_dir() and any(output.iterdir())
    parent = output if there else output.resolve().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with _lock(output, there=there):
            for left in parent.glob(f"{PREFIX}*") if there else ():  # by a process that was killed
                shutil.rmtree(left, ignore_errors=True)
            draft = Path(tempfile.mkdtemp(dir=parent, prefix=PREFIX))
            try:
                yield FolderChanges(output, draft)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(output)) from error  # nobody knows the name of the draft


@contextmanager
def _lock(output: Path, *, there: bool) -> Iterator[None]:
    """Keep others out of a folder that is there; the lock is the folder's own and ends with the process."""
    try:
        import fcntl  # noqa: PLC0415  not on Windows
    except ImportError:
        yield
        return
    if not there:
        yield
        return
    handle = os.open(output, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{output} is being written by another  ragsmith dataset init ; let it end") from None
        yield
    finally:
        os.close(handle)


def _rename_draft(draft: Path, output: Path) -> None:
    """Rename the draft; who comes second finds a folder that is not empty."""
    mask = os.umask(0)
    os.umask(mask)
    draft.chmod(0o777 & ~mask)
    try:
        draft.rename(output)
    except OSError:
        if not output.is_dir() or not any(output.iterdir()):
            raise
        raise UsageError(f"{output} was written by somebody else meanwhile; run the same command again") from None


def _link_or_copy(source: str, target: str) -> str:
    """A second name for a file, where the file system has such, else a copy."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def _free_path(path: Path) -> Path:
    """A name that is not taken: ``a.md``, ``a~2.md``, ..."""
    found, number = path, 1
    while found.exists():
        number += 1
        found = path.with_name(f"{path.stem}~{number}{path.suffix}")
    return found


def _remove_empty_folders(folder: Path, above: Path) -> None:
    """Remove folders that have become empty."""
    while folder != above and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
