"""Write a kit whole or not at all; and over an earlier one, leaving what is somebody's own."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from ragsmith.deploying.contents import Contents, read
from ragsmith.deploying.data import DATA
from ragsmith.errors import UsageError

LIST = "kit.json"
"""The file that lists what was written, with digests: by it an earlier kit is known."""
NAMED = 10
"""How many files a refusal names; of more it says how many."""


def refuse_taken(folder: Path, *, force: bool) -> None:
    """Raise `UsageError` where a kit must not be written to ``folder``."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file: name a new folder")
    if not (folder / LIST).is_file():
        raise UsageError(f"{folder} is not empty and is no starter kit: name a new folder")
    if not force:
        raise UsageError(f"{folder} has a starter kit: --force replaces its files, and leaves those of your own")


def write_kit(contents: Contents, folder: Path, check: Callable[[Path], None]) -> None:
    """Write ``contents`` to ``folder``, once ``check`` has found nothing wrong with them where they were prepared.

    Of an earlier kit, the files that it wrote are replaced or removed, and others stay. Files that were edited since,
    files of somebody's at a name that the new kit writes, and documents that the new file would not be about are not
    gone over.

    Raises:
        UsageError: a file of somebody's, or an edit, would be lost; nothing was changed.
        OSError: it cannot be written; what was there before is there still.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".ragsmith-") as temporary:
        draft, aside = Path(temporary, "draft"), Path(temporary, "aside")
        digests = {name: _put(draft / name, read(content)) for name, content in sorted(contents.items())}
        _put(draft / LIST, (json.dumps({"ragsmith": version("ragsmith"), "files": digests}, indent=2) + "\n").encode())
        check(draft)
        earlier = _listed(folder)
        _refuse_strangers(folder, earlier, digests)
        folder.mkdir(exist_ok=True)
        with _undone_on_error() as move:
            for name in sorted({*earlier, *digests, LIST}):
                if (folder / name).exists():
                    move(folder / name, aside / name)
                if (draft / name).exists():
                    move(draft / name, folder / name)
    _remove_empty(folder / DATA)


def _put(path: Path, data: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return sha256(data).hexdigest()


def _listed(folder: Path) -> Mapping[str, str]:
    """The files of an earlier kit and their digests; none where there was no kit."""
    if not (folder / LIST).is_file():
        return {}
    try:
        found = json.loads((folder / LIST).read_text(encoding="utf-8"))["files"]
        within = {name: digest for name, digest in found.items() if not Path(name).is_absolute()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{folder / LIST} does not list the files of a starter kit: name a new folder") from None
    return {name: digest for name, digest in within.items() if ".." not in Path(name).parts}


def _refuse_strangers(folder: Path, earlier: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Refuse to go over what somebody put there, or edited, and that the new kit has not.

    That is looked for at every name that is written or removed, and among documents and questions at any name.
    """
    documents = (path.relative_to(folder).as_posix() for path in (folder / DATA).rglob("*") if path.is_file())
    strange = [
        name
        for name in sorted({*earlier, *new, *documents})
        if os.path.lexists(folder / name) and _digest(folder / name) not in (earlier.get(name), new.get(name))
    ]
    if not strange:
        return
    rest = len(strange) - NAMED
    listed = ", ".join(strange[:NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
    was, them = ("was", "it") if len(strange) == 1 else ("were", "them")
    data = any(name.startswith(f"{DATA}/") for name in strange)
    kept = f", or deploy on these documents (--dataset {folder / DATA})" if data else ""
    raise UsageError(
        f"in {folder}, {listed} {was} put there, or edited, since the kit was made, and would be lost: "
        f"move {them} away, or name a new folder{kept}"
    )


def _digest(path: Path) -> str:
    """The digest of a file; none for a folder or a link, which no kit writes."""
    return sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""


@contextmanager
def _undone_on_error() -> Iterator[Callable[[Path, Path], None]]:
    """Give what renames a file; after an error every one is back where it was."""
    done: list[tuple[Path, Path]] = []

    def move(old: Path, new: Path) -> None:
        new.parent.mkdir(parents=True, exist_ok=True)
        old.rename(new)
        done.append((old, new))

    try:
        yield move
    except BaseException:
        for old, new in reversed(done):
            new.rename(old)
        raise


def _remove_empty(folder: Path) -> None:
    """Remove folders that hold nothing any more."""
    for at, _, _ in os.walk(folder, topdown=False):
        if not any(Path(at).iterdir()):
            Path(at).rmdir()
