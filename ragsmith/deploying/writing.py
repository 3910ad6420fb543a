"""Write a kit atomically, or update an existing one without overwriting the user's edits."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from ragsmith.deploying.contents import DATA_FOLDER, Contents, read_bytes
from ragsmith.errors import UsageError

KIT_LIST = "kit.json"
"""File with the paths and digests of a kit's files, which identifies a kit."""
MAX_LISTED_FILES = 10
"""Maximum number of files in a message."""


def check_target(folder: Path, *, force: bool) -> None:
    """Raise `UsageError` if ``folder`` contains something other than a kit, or a kit without ``force``."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file: name a new folder")
    if not (folder / KIT_LIST).is_file():
        raise UsageError(f"{folder} is not empty and is not a starter kit: name a new folder")
    if not force:
        raise UsageError(f"{folder} has a starter kit: --force replaces its files, and keeps yours")


def write_kit(contents: Contents, folder: Path, check: Callable[[Path], None]) -> None:
    """Write ``contents`` to ``folder`` after ``check`` has accepted a draft of them in a temporary folder.

    The files of an existing kit are replaced or removed; other files are kept.

    Raises:
        UsageError: an edited or an added file would be overwritten; nothing was changed.
        OSError: the kit cannot be written; nothing was changed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".ragsmith-") as temporary:
        draft, backup = Path(temporary, "draft"), Path(temporary, "aside")
        digests = {name: _put(draft / name, read_bytes(content)) for name, content in sorted(contents.items())}
        _put(
            draft / KIT_LIST,
            (json.dumps({"ragsmith": version("ragsmith"), "files": digests}, indent=2) + "\n").encode(),
        )
        check(draft)
        old_digests = _read_list(folder)
        _check_edits(folder, old_digests, digests)
        folder.mkdir(exist_ok=True)
        with ExitStack() as undo:  # after an error, all moves are undone, the last one first
            for name in sorted({*old_digests, *digests, KIT_LIST}):
                if (folder / name).exists():
                    _move(folder / name, backup / name, undo)
                if (draft / name).exists():
                    _move(draft / name, folder / name, undo)
            undo.pop_all()
    _remove_empty(folder / DATA_FOLDER)


def _put(path: Path, data: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return sha256(data).hexdigest()


def _read_list(folder: Path) -> Mapping[str, str]:
    """Return the digests of an existing kit's files by path; empty if there is no kit."""
    if not (folder / KIT_LIST).is_file():
        return {}
    try:
        digests = json.loads((folder / KIT_LIST).read_text(encoding="utf-8"))["files"]
        return {
            name: digest
            for name, digest in digests.items()
            if not Path(name).is_absolute() and ".." not in Path(name).parts
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{folder / KIT_LIST} does not list the files of a starter kit: name a new folder") from None


def _check_edits(folder: Path, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise UsageError if files that the user added or edited would be lost.

    All paths that are written or removed are checked, and all files of the data.
    """
    documents = (path.relative_to(folder).as_posix() for path in (folder / DATA_FOLDER).rglob("*") if path.is_file())
    unknown = [
        name
        for name in sorted({*old, *new, *documents})
        if os.path.lexists(folder / name) and _digest(folder / name) not in (old.get(name), new.get(name))
    ]
    if not unknown:
        return
    rest = len(unknown) - MAX_LISTED_FILES
    listed = ", ".join(unknown[:MAX_LISTED_FILES]) + (f" and {rest:,} more" if rest > 0 else "")
    was, them = ("was", "it") if len(unknown) == 1 else ("were", "them")
    data = any(name.startswith(f"{DATA_FOLDER}/") for name in unknown)
    alternative = f", or deploy on these documents (--dataset {folder / DATA_FOLDER})" if data else ""
    raise UsageError(
        f"in {folder}, {listed} {was} added or edited after the kit was written, and would be lost: "
        f"move {them} away, or name a new folder{alternative}"
    )


def _digest(path: Path) -> str:
    """Return the digest of a file; empty for a folder or a link, which no kit contains."""
    return sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""


def _move(old: Path, new: Path, undo: ExitStack) -> None:
    """Move a file, and let ``undo`` move it back."""
    new.parent.mkdir(parents=True, exist_ok=True)
    old.rename(new)
    undo.callback(new.rename, old)


def _remove_empty(folder: Path) -> None:
    """Remove empty folders."""
    for path, _, _ in os.walk(folder, topdown=False):
        if not any(Path(path).iterdir()):
            Path(path).rmdir()
