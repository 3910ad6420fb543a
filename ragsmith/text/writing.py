"""Write files atomically."""

import os
from pathlib import Path
from uuid import uuid4

from ragsmith.errors import UsageError, warn_caller


def write_file(text: str, path: Path, *, warn: bool = False) -> Path:
    """Write a file atomically, with the line endings of ``text``; create its folder if needed.

    With ``warn``, a `Notice` is issued if a file with different content is replaced.

    Raises:
        UsageError: ``path`` is a folder, or its folder is a file.
        OSError: the file cannot be written; ``filename`` is ``path``, and an existing file is unchanged.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it")
    try:
        replaces = warn and path.exists() and path.read_bytes() != text.encode()
        data = text.encode()
        make_folder(path.parent)
        replace_file(data, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # not the name of the temporary file
    if replaces:
        warn_caller(f"{path} replaced a file with different content.")
    return path


def make_folder(folder: Path) -> None:
    """Create a folder and those that it is in, unless they exist.

    Raises:
        UsageError: one of them is a file.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        file = next(part for part in (folder, *folder.parents) if part.exists())
        raise UsageError(f"{file} is a file, so that nothing can be written in it: name a folder") from None


def replace_file(data: bytes, path: Path) -> None:
    """Write a file atomically and flush it to the disk; a replaced file keeps its permissions.

    Raises:
        OSError: the file cannot be written; an earlier file is unchanged.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file)
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk, on POSIX systems only."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
