"""Collect changes of the folder of a data set and apply them by renaming.

A new folder is created atomically. In an existing folder each file is replaced atomically, and ``sources.jsonl`` is
written last, so that the same command completes the changes after a power failure.
"""

import json
import os
import shutil
from collections.abc import Container, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

from ragsmith.datasets.documents import resolve_document_path
from ragsmith.datasets.evidence import entry_places
from ragsmith.datasets.locking import hold_lock, lock_questions
from ragsmith.datasets.questions import FILE
from ragsmith.datasets.writing import TEMPORARY_PREFIX, draft_folder, publish_folder
from ragsmith.errors import UsageError

REMOVED = "removed"
"""Name of the folder in the data set for documents whose source files no longer exist."""


@dataclass
class FolderChanges:
    """Changes of the folder ``output``: files ``written`` to ``draft``, and ``removed`` files to move to `REMOVED`."""

    output: Path
    draft: Path
    is_new: bool
    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def write(self, name: str, text: str) -> None:
        """Write a file to the draft; ``name`` is its path in the folder."""
        path = self.draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        self.written.append(name)

    def remove(self, name: str) -> None:
        """Move a file to `REMOVED` when the changes are applied."""
        self.removed.append(name)

    def preview(self, name: str) -> Path:
        """Return a temporary folder with the content of the folder ``name`` after the changes."""
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
        for removed in self.removed:
            (view / removed.removeprefix(f"{name}/")).unlink(missing_ok=True)
        return view

    def lock_questions(self) -> AbstractContextManager[None]:
        """Lock the questions against other processes, as their evidence decides which documents are removed."""
        return nullcontext() if self.is_new else lock_questions(self.output)

    def apply(self) -> None:
        """Move all files to their final paths, in the order in which they were written."""
        shutil.rmtree(self.draft / "preview", ignore_errors=True)
        if self.is_new:
            publish_folder(self.draft, self.output)
            return
        moves = [(self.output / name, _find_free_path(self.output / REMOVED / name)) for name in self.removed]
        for path, target in [*moves, *((self.draft / name, self.output / name) for name in self.written)]:
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        for name in self.removed:
            _remove_empty_folders((self.output / name).parent, self.output)


@contextmanager
def folder_changes(output: Path) -> Iterator[FolderChanges]:
    """Yield changes of ``output`` to fill and apply; temporary files are removed on exit, also after an error.

    Raises:
        UsageError: another process changes the same folder.
    """
    is_new = not (output.is_dir() and any(output.iterdir()))
    parent = output.resolve().parent if is_new else output
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with nullcontext() if is_new or os.name == "nt" else _lock(output):
            for stale in () if is_new else parent.glob(f"{TEMPORARY_PREFIX}*"):  # of a process that was killed
                shutil.rmtree(stale, ignore_errors=True)
            with draft_folder(parent) as draft:
                yield FolderChanges(output, draft, is_new)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(output)) from error  # without the name of the draft


@contextmanager
def _lock(output: Path) -> Iterator[None]:
    """Lock an existing folder, at most until the process ends; Windows cannot open folders."""
    handle = os.open(output, os.O_RDONLY)
    with ExitStack() as stack:
        stack.callback(os.close, handle)
        try:
            stack.enter_context(hold_lock(handle, 0))
        except TimeoutError:
            raise UsageError(
                f"{output} is being written by another  ragsmith dataset init ; wait until it ends"
            ) from None
        yield


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def _find_free_path(path: Path) -> Path:
    """Return a path that does not exist: ``a.md``, ``a~2.md``, ..."""
    numbered = (path.with_name(f"{path.stem}~{number}{path.suffix}") for number in count(2))
    return next(free for free in chain([path], numbered) if not free.exists())


def _remove_empty_folders(folder: Path, root: Path) -> None:
    while folder != root and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


EvidenceReference = tuple[int, str | None, str]
"""The line of a question, and the document named by its evidence, else the quoted text."""


def read_evidence_references(dataset: Path, known: Container[str]) -> list[EvidenceReference]:
    """Read the evidence of the questions of a data set with the documents ``known``; skip invalid lines."""
    references: list[EvidenceReference] = []
    path = dataset / FILE
    if not path.is_file():
        return references
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n")):
        try:
            record = json.loads(line) if line.strip() else {}
        except (ValueError, RecursionError):
            continue
        evidence = record.get("evidence") if isinstance(record, dict) else None
        entries = evidence if isinstance(evidence, list) else ()
        for entry in chain.from_iterable(map(entry_places, entries)):
            match entry:
                case {"doc": str(doc)}:
                    references.append((number, resolve_document_path(doc, known), ""))
                case {"text": str(text)}:
                    references.append((number, None, text))
    return references


def count_questions(references: Sequence[EvidenceReference], doc: str, text: str) -> int:
    """Return the number of questions with evidence in document ``doc``, which has this ``text``."""
    return len({line for line, named, quoted in references if named == doc or (named is None and quoted in text)})
